//! Weights repacked once at load: tiles of 16 output rows, so that one load feeds 16 sums.
//!
//! | format | tile of one block of 32 inputs (F32: of one input) |
//! |---|---|
//! | Q4 | 256 B: byte `g·64 + r·4 + b` holds inputs `4g+b` (low nibble) and `4(g+4)+b` (high) of row `r`; then 16 F16 scales, 16 F16 minima |
//! | Q8 | 512 B: byte `g·64 + r·4 + b` holds input `4g+b` of row `r`, offset by 128; then 16 F16 scales |
//! | F32 | 16 values |
//!
//! A 4-bit weight is `d·q + m`, an 8-bit one `d·(q − 128)`.

use half::f16;

use crate::engine::backend::Store;
use crate::engine::weights::{DType, TensorView, WeightsError};

use super::lanes::BLOCK;

/// Rows of a tile.
pub const TILE: usize = 16;
/// Bytes of a 4-bit tile block.
pub const Q4_BYTES: usize = 256 + 64;
/// Bytes of an 8-bit tile block.
pub const Q8_BYTES: usize = 512 + 32;

/// Format of a packed matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Not quantised.
    F32,
    /// 4 bits, scale and minimum a block of 32.
    Q4,
    /// 8 bits, scale a block of 32.
    Q8,
}

/// Packed weights `[n, k]`.
#[derive(Debug)]
pub struct Matrix {
    /// Format.
    pub format: Format,
    /// Name of the stored format, for display.
    pub label: &'static str,
    /// Out features.
    pub n: usize,
    /// In features.
    pub k: usize,
    /// Tiles (Q4, Q8).
    pub bytes: Vec<u8>,
    /// Tiles (F32).
    pub floats: Vec<f32>,
}

impl Matrix {
    /// Tiles of 16 rows; the last one may be padded with zeros.
    pub fn tiles(&self) -> usize {
        self.n.div_ceil(TILE)
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.floats.len() * 4
    }

    fn new(format: Format, label: &'static str, n: usize, k: usize) -> Self {
        let tiles = n.div_ceil(TILE);
        let (bytes, floats) = match format {
            Format::F32 => (0, tiles * TILE * k),
            Format::Q4 => (tiles * (k / BLOCK) * Q4_BYTES, 0),
            Format::Q8 => (tiles * (k / BLOCK) * Q8_BYTES, 0),
        };
        Self { format, label, n, k, bytes: vec![0; bytes], floats: vec![0.0; floats] }
    }

    /// Stacks tensors along the out dimension. All must have the same number of columns, and for a quantised result
    /// the same stored format; otherwise the result is F32.
    pub fn pack(parts: &[TensorView<'_>], select: Option<&[u32]>, store: Store) -> Result<Self, WeightsError> {
        let k = parts.first().map_or(0, TensorView::cols);
        let total: usize = match select {
            Some(ids) => ids.len(),
            None => parts.iter().map(TensorView::rows).sum(),
        };
        let blocks = k.is_multiple_of(BLOCK);
        let all = |dtype: DType| parts.iter().all(|p| p.dtype == dtype);
        let (format, label) = match store {
            Store::AsStored if blocks && all(DType::Q4_1) => (Format::Q4, "Q4_1"),
            Store::AsStored if blocks && all(DType::Q4_0) => (Format::Q4, "Q4_0"),
            Store::AsStored if blocks && all(DType::Q8_0) => (Format::Q8, "Q8_0"),
            Store::Q8 if blocks => (Format::Q8, "Q8_0"),
            _ => (Format::F32, "F32"),
        };
        let mut matrix = Self::new(format, label, total, k);
        let mut row = 0;
        let mut floats = vec![0.0; k];
        for part in parts {
            let ids: Box<dyn Iterator<Item = usize>> = match select {
                Some(ids) => Box::new(ids.iter().map(|&i| i as usize)),
                None => Box::new(0..part.rows()),
            };
            for from in ids {
                match (format, part.dtype) {
                    (Format::Q4 | Format::Q8, DType::Q4_0 | DType::Q4_1 | DType::Q8_0) if store == Store::AsStored => {
                        let width = part.data.len() / part.rows();
                        matrix.put_stored(row, part.dtype, &part.data[from * width..(from + 1) * width]);
                    }
                    _ => {
                        part.row_f32(from, &mut floats)?;
                        matrix.put_floats(row, &floats);
                    }
                }
                row += 1;
            }
        }
        Ok(matrix)
    }

    fn put_stored(&mut self, row: usize, dtype: DType, data: &[u8]) {
        let blocks = self.k / BLOCK;
        let lane = row % TILE;
        for j in 0..blocks {
            let at = (row / TILE) * blocks + j;
            if dtype == DType::Q8_0 {
                let block = &data[j * 34..(j + 1) * 34];
                let tile = &mut self.bytes[at * Q8_BYTES..(at + 1) * Q8_BYTES];
                for (i, &q) in block[2..].iter().enumerate() {
                    tile[(i / 4) * 64 + lane * 4 + i % 4] = q.wrapping_add(128);
                }
                tile[512 + lane * 2..514 + lane * 2].copy_from_slice(&block[..2]);
            } else {
                let (head, width) = if dtype == DType::Q4_1 { (4, 20) } else { (2, 18) };
                let block = &data[j * width..(j + 1) * width];
                let tile = &mut self.bytes[at * Q4_BYTES..(at + 1) * Q4_BYTES];
                // ggml keeps input i in the low nibble of byte i and input i + 16 in its high nibble: the very
                // pairing of the tile, so bytes move as they are.
                for (i, &q) in block[head..].iter().enumerate() {
                    tile[(i / 4) * 64 + lane * 4 + i % 4] = q;
                }
                tile[256 + lane * 2..258 + lane * 2].copy_from_slice(&block[..2]);
                let minimum = if dtype == DType::Q4_1 {
                    [block[2], block[3]]
                } else {
                    // d·(q − 8) = d·q + (−8·d): a power of two, so the product is exact in F16.
                    let d = f16::from_le_bytes([block[0], block[1]]);
                    f16::from_f32(-8.0 * d.to_f32()).to_le_bytes()
                };
                tile[288 + lane * 2..290 + lane * 2].copy_from_slice(&minimum);
            }
        }
    }

    fn put_floats(&mut self, row: usize, x: &[f32]) {
        let lane = row % TILE;
        if self.format == Format::F32 {
            let tile = &mut self.floats[(row / TILE) * TILE * self.k..];
            for (i, &v) in x.iter().enumerate() {
                tile[i * TILE + lane] = v;
            }
            return;
        }
        let blocks = self.k / BLOCK;
        for (j, block) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
            let at = (row / TILE) * blocks + j;
            let tile = &mut self.bytes[at * Q8_BYTES..(at + 1) * Q8_BYTES];
            let d = f16::from_f32(block.iter().fold(0.0f32, |a, v| a.max(v.abs())) / 127.0);
            let inverse = if d.to_f32() > 0.0 { 1.0 / d.to_f32() } else { 0.0 };
            for (i, &v) in block.iter().enumerate() {
                let q = (v * inverse).round_ties_even().clamp(-127.0, 127.0) as i32;
                tile[(i / 4) * 64 + lane * 4 + i % 4] = (q + 128) as u8;
            }
            tile[512 + lane * 2..514 + lane * 2].copy_from_slice(&d.to_le_bytes());
        }
    }

    /// One row, dequantised.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let lane = row % TILE;
        let blocks = self.k / BLOCK;
        let half = |tile: &[u8], at: usize| f16::from_le_bytes([tile[at + lane * 2], tile[at + lane * 2 + 1]]).to_f32();
        match self.format {
            Format::F32 => {
                let tile = &self.floats[(row / TILE) * TILE * self.k..];
                for (i, o) in out.iter_mut().enumerate() {
                    *o = tile[i * TILE + lane];
                }
            }
            Format::Q4 => {
                for (j, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                    let tile = &self.bytes[((row / TILE) * blocks + j) * Q4_BYTES..][..Q4_BYTES];
                    let (d, m) = (half(tile, 256), half(tile, 288));
                    for i in 0..BLOCK / 2 {
                        let q = tile[(i / 4) * 64 + lane * 4 + i % 4];
                        out[i] = d * f32::from(q & 15) + m;
                        out[i + 16] = d * f32::from(q >> 4) + m;
                    }
                }
            }
            Format::Q8 => {
                for (j, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                    let tile = &self.bytes[((row / TILE) * blocks + j) * Q8_BYTES..][..Q8_BYTES];
                    let d = half(tile, 512);
                    for (i, o) in out.iter_mut().enumerate() {
                        *o = d * (f32::from(tile[(i / 4) * 64 + lane * 4 + i % 4]) - 128.0);
                    }
                }
            }
        }
    }
}
