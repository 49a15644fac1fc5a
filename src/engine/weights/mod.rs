//! Reading checkpoints: one view on GGUF files, safetensors folders and embedded files.

mod alias;
pub mod bundle;
mod dequantize;
mod dtype;
mod error;
pub mod gguf;
pub mod hub;
mod mmap;
mod safetensors;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::engine::api::{Embedded, ModelSource};

pub use dequantize::dequantize_row;
pub use dtype::DType;
pub use error::WeightsError;
use mmap::Bytes;

/// Largest side file (tokenizer, configuration, template) that is read into memory.
const MAX_SIDE_FILE: u64 = 256 << 20;

/// A tensor as it lies in the file.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    /// Name in the file.
    pub name: String,
    /// Element format.
    pub dtype: DType,
    /// Shape, outermost first: a weight matrix is `[out_features, in_features]`.
    pub shape: Vec<usize>,
    /// Raw little-endian bytes, row by row. They need not be aligned for the element type.
    pub data: &'a [u8],
}

impl TensorView<'_> {
    /// Out features (1 for a vector).
    pub fn rows(&self) -> usize {
        if self.shape.len() < 2 { 1 } else { self.shape[0] }
    }
    /// Number of elements in a row.
    pub fn cols(&self) -> usize {
        self.shape.last().copied().unwrap_or(0)
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        let (elements, bytes) = self.dtype.block();
        self.data.len() / bytes * elements
    }
    /// True when there is no element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
    /// All elements as F32.
    pub fn to_f32(&self) -> Result<Vec<f32>, WeightsError> {
        let mut out = vec![0.0; self.len()];
        self.numeric(dequantize_row(self.dtype, self.data, &mut out))?;
        Ok(out)
    }
    /// One row as F32, into a slice of [`TensorView::cols`] elements.
    pub fn row_f32(&self, row: usize, out: &mut [f32]) -> Result<(), WeightsError> {
        let data = self.dtype.row_bytes(self.cols()).and_then(|n| self.data.get(row.checked_mul(n)?..)?.get(..n));
        let data = data.ok_or_else(|| format!("has no row {row}"));
        self.numeric(data.and_then(|data| dequantize_row(self.dtype, data, out)))
    }
    /// All elements as token ids (integer tensors only).
    pub fn to_ids(&self) -> Result<Vec<u32>, WeightsError> {
        let id = |n: i64| u32::try_from(n).map_err(|_| format!("{n} is not a token id"));
        let ids = match self.dtype {
            DType::I32 => self
                .data
                .chunks_exact(4)
                .map(|b| id(i32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()))
                .collect::<Result<_, _>>(),
            DType::I64 => self
                .data
                .chunks_exact(8)
                .map(|b| id(i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])))
                .collect(),
            other => Err(format!("is stored as {other:?}, but integers are needed")),
        };
        self.numeric(ids)
    }

    fn numeric<T>(&self, result: Result<T, String>) -> Result<T, WeightsError> {
        result.map_err(|problem| WeightsError::tensor("the checkpoint", &self.name, problem))
    }
}

/// Where a tensor lies.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) part: usize,
    pub(crate) range: Range<usize>,
}

/// Where side files are looked for.
#[derive(Debug, Clone)]
enum Siblings {
    /// A GGUF file carries everything itself.
    None,
    Folder(PathBuf),
    Embedded(&'static Embedded),
}

/// A checkpoint opened for reading (memory-mapped).
#[derive(Debug)]
pub struct Checkpoint {
    name: String,
    location: String,
    parts: Vec<Bytes>,
    tensors: HashMap<String, Entry>,
    metadata: Option<gguf::Metadata>,
    siblings: Siblings,
}

impl Checkpoint {
    /// Opens a GGUF file, a safetensors folder or embedded files. Checks sizes and offsets of every tensor.
    pub fn open(source: &ModelSource) -> Result<Self, WeightsError> {
        match source {
            ModelSource::Embedded(files) => Self::open_embedded(files),
            ModelSource::Path(path) if path.is_dir() => Self::open_folder(path),
            ModelSource::Path(path) => Self::open_file(path),
        }
    }

    fn open_file(path: &Path) -> Result<Self, WeightsError> {
        let location = path.display().to_string();
        let bytes = Bytes::open(path)?;
        let mut checkpoint = Self {
            name: file_title(path),
            location,
            parts: vec![],
            tensors: HashMap::new(),
            metadata: None,
            siblings: Siblings::None,
        };
        if bytes.as_slice().starts_with(b"GGUF") || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) {
            let contents = gguf::parse(bytes.as_slice(), &checkpoint.location)?;
            checkpoint.tensors = contents.tensors;
            checkpoint.metadata = Some(contents.metadata);
        } else {
            safetensors::parse(bytes.as_slice(), &checkpoint.location, 0, &mut checkpoint.tensors)?;
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            checkpoint.siblings = Siblings::Folder(folder.to_owned());
        }
        checkpoint.parts.push(bytes);
        Ok(checkpoint)
    }

    fn open_folder(folder: &Path) -> Result<Self, WeightsError> {
        let index = folder.join(safetensors::INDEX);
        let files = if index.is_file() {
            let shown = index.display().to_string();
            let text = std::fs::read(&index).map_err(|e| WeightsError::io(&shown, &e))?;
            safetensors::shards(&text, &shown)?
        } else if folder.join(safetensors::SINGLE).is_file() {
            vec![safetensors::SINGLE.to_owned()]
        } else {
            // A folder around exactly one model file is as good as the file.
            let found = model_files(folder)?;
            match found.as_slice() {
                [one] => return Self::open_file(one),
                [] => {
                    return Err(WeightsError::format(
                        folder.display().to_string(),
                        format!(
                            "there is no {}, no {} and no GGUF file in it",
                            safetensors::SINGLE,
                            safetensors::INDEX
                        ),
                    ));
                }
                many => {
                    return Err(WeightsError::format(
                        folder.display().to_string(),
                        format!("there are {} model files in it; name one of them", many.len()),
                    ));
                }
            }
        };
        let mut checkpoint = Self {
            name: file_title(folder),
            location: folder.display().to_string(),
            parts: vec![],
            tensors: HashMap::new(),
            metadata: None,
            siblings: Siblings::Folder(folder.to_owned()),
        };
        for (part, file) in files.iter().enumerate() {
            let path = folder.join(file);
            let bytes = Bytes::open(&path)?;
            safetensors::parse(bytes.as_slice(), &path.display().to_string(), part, &mut checkpoint.tensors)?;
            checkpoint.parts.push(bytes);
        }
        Ok(checkpoint)
    }

    fn open_embedded(files: &'static Embedded) -> Result<Self, WeightsError> {
        let location = format!("embedded {}", files.name);
        let mut tensors = HashMap::new();
        let mut parts = vec![];
        for (name, bytes) in files.files.iter().filter(|(name, _)| name.ends_with(".safetensors")) {
            safetensors::parse(bytes, &format!("{location}/{name}"), parts.len(), &mut tensors)?;
            parts.push(Bytes::Static(bytes));
        }
        let siblings = Siblings::Embedded(files);
        Ok(Self { name: files.name.to_owned(), location, parts, tensors, metadata: None, siblings })
    }

    /// True for GGUF: tensor names are `blk.0.attn_q.weight`, rows of q and k are permuted for interleaved RoPE in
    /// the llama architecture.
    pub fn is_gguf(&self) -> bool {
        self.metadata.is_some()
    }
    /// Metadata of a GGUF file.
    pub fn metadata(&self) -> Option<&gguf::Metadata> {
        self.metadata.as_ref()
    }
    /// A tensor, or an error that names it.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        self.find(name)
            .ok_or_else(|| WeightsError::MissingTensor { file: self.location.clone(), tensor: name.to_owned() })
    }
    /// The tensor, if it is there; also under the other names that published checkpoints use for it.
    pub fn find(&self, name: &str) -> Option<TensorView<'_>> {
        let entry = self.tensors.get(name).or_else(|| {
            if self.is_gguf() { None } else { alias::other_names(name).iter().find_map(|n| self.tensors.get(n)) }
        })?;
        let data = self.parts.get(entry.part)?.as_slice().get(entry.range.clone())?;
        Some(TensorView { name: name.to_owned(), dtype: entry.dtype, shape: entry.shape.clone(), data })
    }
    /// A tensor of exactly this shape, or an error that names it, its shape and the expected one.
    pub fn tensor_shaped(&self, name: &str, shape: &[usize]) -> Result<TensorView<'_>, WeightsError> {
        let tensor = self.tensor(name)?;
        if tensor.shape == shape {
            return Ok(tensor);
        }
        Err(WeightsError::tensor(
            &self.location,
            name,
            format!("its shape is {:?}, but the configuration asks for {shape:?}", tensor.shape),
        ))
    }
    /// Name, element format, shape (outermost first) and size in bytes of every tensor, in no order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, DType, &[usize], usize)> {
        self.tensors.iter().map(|(name, e)| (name.as_str(), e.dtype, e.shape.as_slice(), e.range.len()))
    }
    /// Names of all tensors.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.tensors.keys().cloned().collect();
        names.sort_unstable();
        names
    }
    /// Display name: the file's or folder's, or `general.name` where the file is only called `model`.
    pub fn name(&self) -> String {
        let generic = matches!(self.name.to_ascii_lowercase().as_str(), "model" | "ggml-model" | "");
        let title = self.metadata.as_ref().and_then(|m| m.text("general.name")).filter(|_| generic);
        title.unwrap_or(&self.name).to_owned()
    }
    /// Where it came from: a path or `embedded`.
    pub fn location(&self) -> String {
        if matches!(self.siblings, Siblings::Embedded(_)) { "embedded".to_owned() } else { self.location.clone() }
    }
    /// Another file of the folder (`tokenizer.json`, …), or of the embedded set.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        match &self.siblings {
            Siblings::None => None,
            Siblings::Embedded(set) => {
                set.files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| bytes.to_vec())
            }
            Siblings::Folder(folder) => {
                let path = folder.join(name);
                let meta = path.metadata().ok()?;
                // Reading a pipe would wait for ever.
                if meta.is_file() && meta.len() <= MAX_SIDE_FILE { std::fs::read(path).ok() } else { None }
            }
        }
    }
    /// Whether such a file is there; it is not read.
    pub fn has_file(&self, name: &str) -> bool {
        match &self.siblings {
            Siblings::None => false,
            Siblings::Embedded(set) => set.files.iter().any(|(file, _)| *file == name),
            Siblings::Folder(folder) => folder.join(name).is_file(),
        }
    }
    /// A JSON file of the folder: `Ok(None)` when there is none, an error when it cannot be understood.
    pub fn json(&self, name: &str) -> Result<Option<serde_json::Value>, WeightsError> {
        let Some(bytes) = self.file(name) else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            WeightsError::config(format!("{}/{name}", self.location), format!("it is not valid JSON: {e}"))
        })
    }
}

/// Files and folders have names that people know them by; the quantisation suffix is told elsewhere.
fn file_title(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Some(name) = hub::cached_name(&absolute) {
        return name;
    }
    let named = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    let mut title = named.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(at) = title.rfind(['.', '-']) {
        let suffix = title[at + 1..].to_ascii_uppercase();
        let quantised = suffix.starts_with('Q') && suffix[1..].starts_with(|c: char| c.is_ascii_digit());
        if at > 0 && (quantised || matches!(suffix.as_str(), "F16" | "BF16" | "F32")) {
            title.truncate(at);
        }
    }
    title
}

/// Model files lying in a folder.
fn model_files(folder: &Path) -> Result<Vec<PathBuf>, WeightsError> {
    let entries = std::fs::read_dir(folder).map_err(|e| WeightsError::io(folder.display().to_string(), &e))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "gguf" || e == "safetensors"))
        .collect();
    files.sort_unstable();
    Ok(files)
}
