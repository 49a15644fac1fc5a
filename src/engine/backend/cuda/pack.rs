//! Weights in the order in which the kernels' tensor instructions take them (see `kernels/prelude.cu`).

use half::f16;

use crate::engine::backend::Store;
use crate::engine::weights::{DType, TensorView, WeightsError};

/// Columns of a block.
const BLOCK: usize = 32;
/// Rows of a tile.
const TILE: usize = 16;

/// How a matrix is held. The numbers are those of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Row-major.
    F32 = 0,
    /// As stored.
    F16 = 1,
    /// As stored.
    BF16 = 2,
    /// 8 bits, an F16 scale a block.
    Q8 = 3,
    /// 4 bits, F16 scale and minimum a block.
    Q4 = 4,
}

/// Shape and format of a packed matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Format.
    pub format: Format,
    /// Name of the format, for display.
    pub label: &'static str,
    /// Out features.
    pub n: usize,
    /// In features.
    pub k: usize,
}

impl Layout {
    /// How tensors of these formats, stacked, are held. Formats that have kernels stay as they are; other quantised
    /// ones, and tensors of different ones stacked, become 8 bits, which is finer than any of them.
    pub fn of(dtypes: &[DType], n: usize, k: usize, store: Store) -> Self {
        let blocks = k > 0 && k.is_multiple_of(BLOCK);
        let all = |dtype: DType| dtypes.iter().all(|&d| d == dtype);
        let (format, label) = match store {
            Store::AsStored if blocks && all(DType::Q4_1) => (Format::Q4, "Q4_1"),
            Store::AsStored if blocks && all(DType::Q4_0) => (Format::Q4, "Q4_0"),
            Store::AsStored if blocks && dtypes.iter().all(|d| d.is_quantised()) => (Format::Q8, "Q8_0"),
            Store::AsStored if all(DType::BF16) => (Format::BF16, "BF16"),
            Store::AsStored if all(DType::F16) => (Format::F16, "F16"),
            Store::Q8 if blocks => (Format::Q8, "Q8_0"),
            _ => (Format::F32, "F32"),
        };
        Self { format, label, n, k }
    }

    /// Blocks of a row.
    pub fn blocks(&self) -> usize {
        self.k.div_ceil(BLOCK)
    }

    /// Tiles of 16 rows.
    pub fn tiles(&self) -> usize {
        self.n.div_ceil(TILE)
    }

    /// Bytes of one of a lane's two shares of a block: eight weights.
    fn share(&self) -> usize {
        match self.format {
            Format::F32 => 32,
            Format::F16 | Format::BF16 => 16,
            Format::Q8 => 8,
            Format::Q4 => 4,
        }
    }

    /// Bytes of all scales.
    fn scales(&self) -> usize {
        let rows = self.tiles() * self.blocks() * TILE;
        match self.format {
            Format::Q8 => rows * 2,
            Format::Q4 => rows * 4,
            _ => 0,
        }
    }

    /// Bytes on the device.
    pub fn size(&self) -> usize {
        if self.format == Format::F32 {
            return self.n * self.k * 4;
        }
        self.tiles() * self.blocks() * 64 * self.share() + self.scales()
    }

    /// Packs tensors stacked along the out dimension; `select` keeps only these rows of the (single) tensor.
    pub fn pack(&self, parts: &[TensorView<'_>], select: Option<&[u32]>) -> Result<Vec<u8>, WeightsError> {
        let mut bytes = vec![0u8; self.size()];
        let rows: Vec<(usize, usize)> = match select {
            Some(ids) => ids.iter().map(|&id| (0, id as usize)).collect(),
            None => parts.iter().enumerate().flat_map(|(p, part)| (0..part.rows()).map(move |r| (p, r))).collect(),
        };
        let mut floats = vec![0.0; self.k];
        for (to, &(part, from)) in rows.iter().enumerate() {
            let part = &parts[part];
            let width = part.data.len() / part.rows();
            let stored = &part.data[from * width..(from + 1) * width];
            let as_is = matches!(
                (self.format, part.dtype),
                (Format::BF16, DType::BF16)
                    | (Format::F16, DType::F16)
                    | (Format::Q8, DType::Q8_0)
                    | (Format::Q4, DType::Q4_0 | DType::Q4_1)
            );
            if as_is {
                self.put_stored(&mut bytes, to, part.dtype, stored);
            } else {
                part.row_f32(from, &mut floats)?;
                self.put_floats(&mut bytes, to, &floats);
            }
        }
        Ok(bytes)
    }

    /// First byte of the share with this weight.
    fn at(&self, row: usize, column: usize) -> usize {
        let block = row / TILE * self.blocks() + column / BLOCK;
        let lane = row % 8 * 4 + column % BLOCK / 8;
        ((block * 32 + lane) * 2 + row % TILE / 8) * self.share()
    }

    /// First byte of the scale of a row's block.
    fn scale_at(&self, row: usize, block: usize) -> usize {
        let place = (row / TILE * self.blocks() + block) * TILE + row % TILE;
        self.size() - self.scales() + place * if self.format == Format::Q4 { 4 } else { 2 }
    }

    fn put_stored(&self, bytes: &mut [u8], row: usize, dtype: DType, stored: &[u8]) {
        match dtype {
            DType::Q8_0 => {
                for (b, block) in stored.as_chunks::<34>().0.iter().enumerate() {
                    for (t, eight) in block[2..].as_chunks::<8>().0.iter().enumerate() {
                        let at = self.at(row, b * BLOCK + t * 8);
                        bytes[at..at + 8].copy_from_slice(eight);
                    }
                    bytes[self.scale_at(row, b)..][..2].copy_from_slice(&block[..2]);
                }
            }
            DType::Q4_0 | DType::Q4_1 => {
                let (head, width) = if dtype == DType::Q4_1 { (4, 20) } else { (2, 18) };
                for (b, block) in stored.chunks_exact(width).enumerate() {
                    let nibbles = &block[head..];
                    // ggml keeps input i in the low half of byte i and input i + 16 in its high half.
                    let quant = |i: usize| if i < 16 { nibbles[i] & 15 } else { nibbles[i - 16] >> 4 };
                    for t in 0..4 {
                        let word = (0..8).fold(0u32, |word, j| word | u32::from(quant(t * 8 + j)) << (4 * j));
                        let at = self.at(row, b * BLOCK + t * 8);
                        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                    }
                    let minimum = if dtype == DType::Q4_1 {
                        [block[2], block[3]]
                    } else {
                        // d·(q − 8) = d·q + (−8·d): a power of two, so the product is exact in F16.
                        f16::from_f32(-8.0 * f16::from_le_bytes([block[0], block[1]]).to_f32()).to_le_bytes()
                    };
                    let at = self.scale_at(row, b);
                    bytes[at..at + 2].copy_from_slice(&block[..2]);
                    bytes[at + 2..at + 4].copy_from_slice(&minimum);
                }
            }
            _ => {
                for (t, eight) in stored.chunks(16).enumerate() {
                    bytes[self.at(row, t * 8)..][..eight.len()].copy_from_slice(eight);
                }
            }
        }
    }

    fn put_floats(&self, bytes: &mut [u8], row: usize, x: &[f32]) {
        if self.format == Format::F32 {
            for (v, to) in x.iter().zip(bytes[row * self.k * 4..].as_chunks_mut::<4>().0) {
                *to = v.to_le_bytes();
            }
            return;
        }
        for (b, block) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
            let d = f16::from_f32(block.iter().fold(0.0f32, |a, v| a.max(v.abs())) / 127.0);
            let inverse = if d.to_f32() > 0.0 { 1.0 / d.to_f32() } else { 0.0 };
            for (t, eight) in block.as_chunks::<8>().0.iter().enumerate() {
                let at = self.at(row, b * BLOCK + t * 8);
                for (to, v) in bytes[at..].iter_mut().zip(eight) {
                    *to = ((v * inverse).round_ties_even().clamp(-127.0, 127.0) as i8).cast_unsigned();
                }
            }
            bytes[self.scale_at(row, b)..][..2].copy_from_slice(&d.to_le_bytes());
        }
    }
}
