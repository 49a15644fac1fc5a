//! Element formats: how many elements a block has, and how many bytes.

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

impl DType {
    /// Elements and bytes of one block: rows are always whole blocks.
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::F32 | Self::I32 => (1, 4),
            Self::F16 | Self::BF16 => (1, 2),
            Self::I64 => (1, 8),
            Self::Bool => (1, 1),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }

    /// Bytes of a row of `cols` elements; `None` when it is not a whole number of blocks or overflows.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        let (elements, bytes) = self.block();
        if cols.is_multiple_of(elements) { (cols / elements).checked_mul(bytes) } else { None }
    }

    /// True for ggml block formats.
    pub fn is_quantised(self) -> bool {
        self.block().0 > 1
    }

    /// Bytes of a tensor of this shape (outermost first), or why there is no such tensor.
    pub(crate) fn tensor_bytes(self, shape: &[usize]) -> Result<usize, String> {
        let cols = shape.last().copied().unwrap_or(1);
        let row = self.row_bytes(cols).ok_or_else(|| {
            format!("rows of {cols} elements are not a whole number of {self:?} blocks of {} elements", self.block().0)
        })?;
        let rows = shape.iter().rev().skip(1).try_fold(1usize, |n, &d| n.checked_mul(d));
        rows.and_then(|rows| rows.checked_mul(row)).ok_or_else(|| format!("shape {shape:?} is absurdly large"))
    }
}
