//! Weights repacked once at load: tiles of 16 output rows, so that one load feeds 16 sums.
//!
//! | format | tile |
//! |---|---|
//! | Q4 | 320 B a block of 32 inputs: byte `g·64 + r·4 + b` holds inputs `4g+b` (low nibble) and `4(g+4)+b` (high) of row `r`; then 16 F16 scales, 16 F16 minima |
//! | Q8 | 512 B a block of 32 inputs: byte `g·64 + r·4 + b` holds input `4g+b` of row `r`, signed; behind all blocks 16 F16 scales a block; then to a multiple of 64 B |
//! | F32 | 16 values an input |
//!
//! A 4-bit weight is `d·q + m`, an 8-bit one `d·q`.

use half::f16;

use crate::engine::backend::Store;
use crate::engine::weights::{DType, TensorView, WeightsError};

use super::lanes::BLOCK;
use super::slab::{Packed, Slab};

/// Rows of a tile.
pub const TILE: usize = 16;
/// Bytes of a 4-bit tile block.
pub const Q4_BYTES: usize = 256 + 64;
/// Bytes of the weights of an 8-bit tile block.
pub const Q8_BYTES: usize = 512;
/// Bytes of the scales of an 8-bit tile block.
pub const Q8_SCALES: usize = 32;

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
    data: Packed,
}

/// A matrix being packed.
struct Builder {
    format: Format,
    k: usize,
    tile_bytes: usize,
    bytes: Vec<u8>,
}

fn tile_bytes(format: Format, k: usize) -> usize {
    match format {
        Format::F32 => TILE * k * 4,
        Format::Q4 => k / BLOCK * Q4_BYTES,
        Format::Q8 => (k / BLOCK * (Q8_BYTES + Q8_SCALES)).next_multiple_of(64),
    }
}

fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// How tensors of these formats with rows of `k` elements are held when they are stacked.
fn choose(dtypes: &[DType], k: usize, store: Store) -> (Format, &'static str) {
    let blocks = k > 0 && k.is_multiple_of(BLOCK);
    let all = |dtype: DType| dtypes.iter().all(|&d| d == dtype);
    match store {
        Store::AsStored if blocks && all(DType::Q4_1) => (Format::Q4, "Q4_1"),
        Store::AsStored if blocks && all(DType::Q4_0) => (Format::Q4, "Q4_0"),
        Store::AsStored if blocks && dtypes.iter().all(|d| d.is_quantised()) => (Format::Q8, "Q8_0"),
        Store::Q8 if blocks => (Format::Q8, "Q8_0"),
        _ => (Format::F32, "F32"),
    }
}

/// Bytes and format of `[n, k]` in memory, stacked from tensors of these formats, without packing it.
pub fn planned(dtypes: &[DType], n: usize, k: usize, store: Store) -> (u64, &'static str) {
    let (format, label) = choose(dtypes, k, store);
    (n.div_ceil(TILE) as u64 * tile_bytes(format, k) as u64, label)
}

impl Matrix {
    /// Tiles of 16 rows; the last one may be padded with zeros.
    pub fn tiles(&self) -> usize {
        self.n.div_ceil(TILE)
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        self.data.bytes().len()
    }

    /// One tile.
    pub fn tile(&self, tile: usize) -> &[u8] {
        let bytes = tile_bytes(self.format, self.k);
        &self.data.bytes()[tile * bytes..(tile + 1) * bytes]
    }

    /// One tile of an F32 matrix.
    pub fn tile_floats(&self, tile: usize) -> &[f32] {
        &self.data.floats()[tile * TILE * self.k..(tile + 1) * TILE * self.k]
    }

    /// Stacks tensors along the out dimension. All must have the same number of columns.
    ///
    /// Formats that have kernels stay as they are; other quantised ones, and tensors of different ones stacked, become
    /// 8 bits, which is finer than any of them; what is not quantised becomes F32.
    pub fn pack(
        slab: &Slab,
        parts: &[TensorView<'_>],
        select: Option<&[u32]>,
        store: Store,
    ) -> Result<Self, WeightsError> {
        let k = parts.first().map_or(0, TensorView::cols);
        let n: usize = match select {
            Some(ids) => ids.len(),
            None => parts.iter().map(TensorView::rows).sum(),
        };
        let dtypes: Vec<DType> = parts.iter().map(|p| p.dtype).collect();
        let (format, label) = choose(&dtypes, k, store);
        let mut builder = Builder::new(format, n, k);
        let mut row = 0;
        let mut floats = vec![0.0; k];
        for part in parts {
            let ids: Box<dyn Iterator<Item = usize>> = match select {
                Some(ids) => Box::new(ids.iter().map(|&i| i as usize)),
                None => Box::new(0..part.rows()),
            };
            let as_is = match part.dtype {
                DType::Q8_0 => format == Format::Q8,
                DType::Q4_0 | DType::Q4_1 => format == Format::Q4,
                _ => false,
            };
            for from in ids {
                if as_is {
                    let width = part.data.len() / part.rows();
                    builder.put_stored(row, part.dtype, &part.data[from * width..(from + 1) * width]);
                } else {
                    part.row_f32(from, &mut floats)?;
                    builder.put_floats(row, &floats);
                }
                row += 1;
            }
        }
        Ok(Self { format, label, n, k, data: slab.store(&builder.bytes) })
    }

    /// One row, dequantised.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let lane = row % TILE;
        match self.format {
            Format::F32 => {
                let tile = self.tile_floats(row / TILE);
                for (i, o) in out.iter_mut().enumerate() {
                    *o = tile[i * TILE + lane];
                }
            }
            Format::Q4 => {
                let tile = self.tile(row / TILE).as_chunks::<Q4_BYTES>().0;
                for (block, out) in tile.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
                    let (d, m) = (half_at(block, 256 + lane * 2), half_at(block, 288 + lane * 2));
                    for i in 0..BLOCK / 2 {
                        let q = block[(i / 4) * 64 + lane * 4 + i % 4];
                        out[i] = d * f32::from(q & 15) + m;
                        out[i + 16] = d * f32::from(q >> 4) + m;
                    }
                }
            }
            Format::Q8 => {
                let blocks = self.k / BLOCK;
                let (weights, scales) = self.tile(row / TILE).split_at(blocks * Q8_BYTES);
                for (j, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
                    let d = half_at(scales, j * Q8_SCALES + lane * 2);
                    for (i, o) in out.iter_mut().enumerate() {
                        *o = d * f32::from(weights[j * Q8_BYTES + (i / 4) * 64 + lane * 4 + i % 4] as i8);
                    }
                }
            }
        }
    }
}

impl Builder {
    fn new(format: Format, n: usize, k: usize) -> Self {
        let tile_bytes = tile_bytes(format, k);
        Self { format, k, tile_bytes, bytes: vec![0; n.div_ceil(TILE) * tile_bytes] }
    }

    fn put_stored(&mut self, row: usize, dtype: DType, data: &[u8]) {
        let blocks = self.k / BLOCK;
        let lane = row % TILE;
        let tile = &mut self.bytes[row / TILE * self.tile_bytes..][..self.tile_bytes];
        if dtype == DType::Q8_0 {
            let (weights, scales) = tile.split_at_mut(blocks * Q8_BYTES);
            for (j, block) in data.as_chunks::<34>().0.iter().enumerate() {
                for (i, &q) in block[2..].iter().enumerate() {
                    weights[j * Q8_BYTES + (i / 4) * 64 + lane * 4 + i % 4] = q;
                }
                scales[j * Q8_SCALES + lane * 2..][..2].copy_from_slice(&block[..2]);
            }
            return;
        }
        let (head, width) = if dtype == DType::Q4_1 { (4, 20) } else { (2, 18) };
        for (block, tile) in data.chunks_exact(width).zip(tile.as_chunks_mut::<Q4_BYTES>().0) {
            // ggml keeps input i in the low nibble of byte i and input i + 16 in its high nibble: the very pairing of
            // the tile, so bytes move as they are.
            for (i, &q) in block[head..].iter().enumerate() {
                tile[(i / 4) * 64 + lane * 4 + i % 4] = q;
            }
            tile[256 + lane * 2..258 + lane * 2].copy_from_slice(&block[..2]);
            let minimum = if dtype == DType::Q4_1 {
                [block[2], block[3]]
            } else {
                // d·(q − 8) = d·q + (−8·d): a power of two, so the product is exact in F16.
                f16::from_f32(-8.0 * half_at(block, 0)).to_le_bytes()
            };
            tile[288 + lane * 2..290 + lane * 2].copy_from_slice(&minimum);
        }
    }

    fn put_floats(&mut self, row: usize, x: &[f32]) {
        let lane = row % TILE;
        let tile = &mut self.bytes[row / TILE * self.tile_bytes..][..self.tile_bytes];
        if self.format == Format::F32 {
            for (v, to) in x.iter().zip(tile.chunks_exact_mut(TILE * 4)) {
                to[lane * 4..lane * 4 + 4].copy_from_slice(&v.to_ne_bytes());
            }
            return;
        }
        let (weights, scales) = tile.split_at_mut(self.k / BLOCK * Q8_BYTES);
        for (j, block) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
            let d = f16::from_f32(block.iter().fold(0.0f32, |a, v| a.max(v.abs())) / 127.0);
            let inverse = if d.to_f32() > 0.0 { 1.0 / d.to_f32() } else { 0.0 };
            for (i, &v) in block.iter().enumerate() {
                let q = (v * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
                weights[j * Q8_BYTES + (i / 4) * 64 + lane * 4 + i % 4] = q as u8;
            }
            scales[j * Q8_SCALES + lane * 2..][..2].copy_from_slice(&d.to_le_bytes());
        }
    }
}
