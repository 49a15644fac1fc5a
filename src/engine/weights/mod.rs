//! Reading checkpoints: one view on GGUF files, safetensors folders and embedded files.

use crate::engine::api::ModelSource;

/// Element formats that are read. Block formats are ggml's.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    I32,
    I64,
    Bool,
}

/// A tensor as it lies in the file.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    /// Name in the file.
    pub name: String,
    /// Element format.
    pub dtype: DType,
    /// Shape, outermost first: a weight matrix is `[out_features, in_features]`.
    pub shape: Vec<usize>,
    /// Raw little-endian bytes, row by row.
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
    /// All elements as F32.
    pub fn to_f32(&self) -> Result<Vec<f32>, WeightsError> {
        todo!()
    }
}

/// A checkpoint opened for reading (memory-mapped).
#[derive(Debug)]
pub struct Checkpoint {}

/// What can be wrong with a checkpoint: names file, tensor and what was expected.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WeightsError {}

impl Checkpoint {
    /// Opens a GGUF file, a safetensors folder or embedded files. Checks sizes and offsets of every tensor.
    pub fn open(source: &ModelSource) -> Result<Self, WeightsError> {
        let _ = source;
        todo!()
    }
    /// True for GGUF: tensor names are `blk.0.attn_q.weight`, rows of q and k are permuted for interleaved RoPE in
    /// the llama architecture.
    pub fn is_gguf(&self) -> bool {
        todo!()
    }
    /// A tensor, or an error that names it.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>, WeightsError> {
        let _ = name;
        todo!()
    }
    /// The tensor, if it is there.
    pub fn find(&self, name: &str) -> Option<TensorView<'_>> {
        let _ = name;
        todo!()
    }
    /// Names of all tensors.
    pub fn names(&self) -> Vec<String> {
        todo!()
    }
    /// Display name: `general.name` or the file's or folder's.
    pub fn name(&self) -> String {
        todo!()
    }
    /// Where it came from: a path or `embedded`.
    pub fn location(&self) -> String {
        todo!()
    }
    /// Another file of the folder (`tokenizer.json`, …), or of the embedded set.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        let _ = name;
        todo!()
    }
}
