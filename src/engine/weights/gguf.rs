//! GGUF files, versions 2 and 3: a header, metadata (key, type, value), tensor descriptions, then the tensors.
//!
//! Nothing in the file is believed: every count is compared with the bytes that are left before anything is
//! allocated, and every tensor's range is checked when the file is opened.

use std::collections::HashMap;

use super::{DType, Entry, WeightsError};

/// Elements that a metadata array may have. The largest real ones are vocabularies and merge lists.
const MAX_ARRAY: u64 = 1 << 24;
/// Dimensions that a tensor may have.
const MAX_DIMS: u32 = 8;
/// Arrays inside arrays.
const MAX_NESTING: usize = 4;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// A 32- or 64-bit float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text; bytes that are not UTF-8 are replaced.
    Text(String),
    /// Texts: vocabularies, merges.
    Texts(Vec<String>),
    /// Integers of any width.
    Integers(Vec<i64>),
    /// Floats of any width.
    Floats(Vec<f64>),
    /// Arrays of arrays.
    Nested(Vec<Value>),
}

/// Metadata of a GGUF file.
#[derive(Debug, Clone, Default)]
pub struct Metadata(HashMap<String, Value>);

impl Metadata {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }
    /// A text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    /// A non-negative integer.
    pub fn unsigned(&self, key: &str) -> Option<u64> {
        match *self.get(key)? {
            Value::Unsigned(n) => Some(n),
            Value::Signed(n) => u64::try_from(n).ok(),
            _ => None,
        }
    }
    /// A number.
    pub fn float(&self, key: &str) -> Option<f64> {
        match *self.get(key)? {
            Value::Float(x) => Some(x),
            Value::Unsigned(n) => Some(n as f64),
            Value::Signed(n) => Some(n as f64),
            _ => None,
        }
    }
    /// A truth value.
    pub fn bool(&self, key: &str) -> Option<bool> {
        match *self.get(key)? {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }
    /// An array of texts.
    pub fn texts(&self, key: &str) -> Option<&[String]> {
        match self.get(key)? {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }
    /// An array of integers.
    pub fn integers(&self, key: &str) -> Option<&[i64]> {
        match self.get(key)? {
            Value::Integers(numbers) => Some(numbers),
            _ => None,
        }
    }
}

/// What a GGUF file holds.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) metadata: Metadata,
    pub(crate) tensors: HashMap<String, Entry>,
}

/// Reads everything but the tensors' elements. `file` is only used in errors.
pub(crate) fn parse(bytes: &[u8], file: &str) -> Result<Contents, WeightsError> {
    let mut reader = Reader { bytes, at: 0 };
    let (metadata, infos) = header(&mut reader).map_err(|problem| WeightsError::format(file, problem))?;
    let alignment = match metadata.unsigned("general.alignment") {
        None => 32,
        Some(n) if n.is_power_of_two() && n <= 1 << 20 => n as usize,
        Some(n) => {
            return Err(WeightsError::format(file, format!("general.alignment is {n}, not a sensible power of two")));
        }
    };
    if metadata.unsigned("split.count").is_some_and(|n| n > 1) {
        return Err(WeightsError::format(
            file,
            "it is one part of a model split over several files; join them with `llama-gguf-split --merge` first",
        ));
    }
    let start = reader.at.next_multiple_of(alignment);
    let mut tensors = HashMap::with_capacity(infos.len());
    for info in infos {
        let dtype = dtype_of(info.kind).map_err(|p| WeightsError::tensor(file, &info.name, p))?;
        let size = dtype.tensor_bytes(&info.shape).map_err(|p| WeightsError::tensor(file, &info.name, p))?;
        let range = usize::try_from(info.offset)
            .ok()
            .and_then(|o| start.checked_add(o))
            .and_then(|s| Some(s..s.checked_add(size)?))
            .filter(|r| r.end <= bytes.len())
            .ok_or_else(|| {
                let problem = format!(
                    "{size} bytes are expected at offset {}, but the file ends after {} bytes of tensor data; it is cut short or damaged: fetch it again",
                    info.offset,
                    bytes.len().saturating_sub(start)
                );
                WeightsError::tensor(file, &info.name, problem)
            })?;
        let entry = Entry { dtype, shape: info.shape, part: 0, range };
        if tensors.insert(info.name.clone(), entry).is_some() {
            return Err(WeightsError::tensor(file, info.name, "is described twice"));
        }
    }
    Ok(Contents { metadata, tensors })
}

struct TensorInfo {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

fn header(r: &mut Reader<'_>) -> Result<(Metadata, Vec<TensorInfo>), String> {
    if r.take(4)? != b"GGUF" {
        return Err("it does not begin with \"GGUF\", so it is not a GGUF file".into());
    }
    match r.u32()? {
        2 | 3 => {}
        1 => return Err("it is GGUF version 1; convert it anew (versions 2 and 3 are read)".into()),
        n if n.swap_bytes() <= 3 => return Err("it is a big-endian GGUF file; only little-endian ones are read".into()),
        n => return Err(format!("it is GGUF version {n}; versions 2 and 3 are read")),
    }
    // Least sizes: a key has a length, a value a type and one byte; a tensor has a length, dimensions, type, offset.
    let tensor_count = r.count(24, "tensors")?;
    let pair_count = r.count(13, "metadata entries")?;
    let mut metadata = HashMap::with_capacity(pair_count.min(1024));
    for _ in 0..pair_count {
        let key = r.text().map_err(|p| format!("in the metadata: {p}"))?;
        let value = r.u32().and_then(|kind| r.value(kind, 0)).map_err(|p| format!("in metadata {key}: {p}"))?;
        metadata.insert(key, value);
    }
    let mut infos = Vec::with_capacity(tensor_count.min(4096));
    for _ in 0..tensor_count {
        infos.push(r.tensor_info()?);
    }
    Ok((Metadata(metadata), infos))
}

fn dtype_of(kind: u32) -> Result<DType, String> {
    Ok(match kind {
        0 => DType::F32,
        1 => DType::F16,
        2 => DType::Q4_0,
        3 => DType::Q4_1,
        6 => DType::Q5_0,
        7 => DType::Q5_1,
        8 => DType::Q8_0,
        10 => DType::Q2K,
        11 => DType::Q3K,
        12 => DType::Q4K,
        13 => DType::Q5K,
        14 => DType::Q6K,
        26 => DType::I32,
        27 => DType::I64,
        30 => DType::BF16,
        other => {
            let name = match other {
                9 => "Q8_1",
                15 => "Q8_K",
                16..=19 | 21..=23 | 29 => "an IQ format",
                20 => "IQ4_NL",
                24 => "I8",
                25 => "I16",
                28 => "F64",
                34 | 35 => "a ternary format",
                39 => "MXFP4",
                _ => "an unknown format",
            };
            return Err(format!(
                "is stored as ggml type {other} ({name}), which is not read; use a file in F16, BF16, F32, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or a Q2_K to Q6_K format"
            ));
        }
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let rest = &self.bytes[self.at..];
        let part = rest.get(..n).ok_or_else(|| {
            format!("{n} bytes are expected at byte {}, but the file ends after {}; it is cut short or damaged: fetch it again", self.at, self.bytes.len())
        })?;
        self.at += n;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of things that take at least `least` bytes each.
    fn count(&mut self, least: u64, what: &str) -> Result<usize, String> {
        let n = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if n.checked_mul(least).is_none_or(|bytes| bytes > left) {
            return Err(format!("it claims {n} {what}, more than its {left} remaining bytes can hold; it is damaged"));
        }
        usize::try_from(n).map_err(|_| format!("it claims {n} {what}"))
    }

    fn text(&mut self) -> Result<String, String> {
        let n = self.count(1, "bytes of text")?;
        Ok(String::from_utf8_lossy(self.take(n)?).into_owned())
    }

    fn value(&mut self, kind: u32, nesting: usize) -> Result<Value, String> {
        Ok(match kind {
            0 => Value::Unsigned(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Signed(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Unsigned(self.u32()?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(self.take(1)?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.array_value(nesting)?,
            10 => Value::Unsigned(self.u64()?),
            11 => Value::Signed(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => {
                return Err(format!("value type {other} is not known; the file is damaged or newer than this program"));
            }
        })
    }

    fn array_value(&mut self, nesting: usize) -> Result<Value, String> {
        let kind = self.u32()?;
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => 12,
            other => return Err(format!("array element type {other} is not known")),
        };
        let n = self.count(least, "array elements")?;
        if n as u64 > MAX_ARRAY {
            return Err(format!("an array has {n} elements; at most {MAX_ARRAY} are read"));
        }
        Ok(match kind {
            8 => Value::Texts((0..n).map(|_| self.text()).collect::<Result<_, _>>()?),
            6 => Value::Floats(
                (0..n).map(|_| self.array().map(|b| f32::from_le_bytes(b).into())).collect::<Result<_, _>>()?,
            ),
            12 => Value::Floats((0..n).map(|_| self.array().map(f64::from_le_bytes)).collect::<Result<_, _>>()?),
            9 if nesting < MAX_NESTING => {
                Value::Nested((0..n).map(|_| self.array_value(nesting + 1)).collect::<Result<_, _>>()?)
            }
            9 => return Err("arrays are nested too deeply".into()),
            _ => Value::Integers((0..n).map(|_| self.integer(kind)).collect::<Result<_, _>>()?),
        })
    }

    fn integer(&mut self, kind: u32) -> Result<i64, String> {
        Ok(match self.value(kind, 0)? {
            Value::Unsigned(n) => n.cast_signed(),
            Value::Signed(n) => n,
            Value::Bool(b) => b.into(),
            _ => 0, // unreachable: only integer kinds get here
        })
    }

    fn tensor_info(&mut self) -> Result<TensorInfo, String> {
        let name = self.text().map_err(|p| format!("in the tensor list: {p}"))?;
        let at = |p: String| format!("in the description of tensor {name}: {p}");
        let dims = self.u32().map_err(at)?;
        if dims > MAX_DIMS {
            return Err(at(format!("{dims} dimensions are claimed; the file is damaged")));
        }
        let mut shape = Vec::with_capacity(dims as usize);
        for _ in 0..dims {
            let d = self.u64().map_err(at)?;
            shape.push(usize::try_from(d).map_err(|_| at(format!("dimension {d} is too large")))?);
        }
        shape.reverse(); // the file has the innermost dimension first
        let kind = self.u32().map_err(at)?;
        let offset = self.u64().map_err(at)?;
        Ok(TensorInfo { name, shape, kind, offset })
    }
}
