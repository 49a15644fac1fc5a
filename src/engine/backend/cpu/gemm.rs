//! Products of packed weights with activation rows.
//!
//! For a row the sum runs over the blocks of 32 in order, in F32, whatever the number of rows and whoever computes it:
//! this is what makes a verify pass give the same logits as plain decoding.
#![allow(clippy::inline_always, clippy::needless_range_loop)]

use half::f16;

use super::lanes::BLOCK;
use super::level::{Level, fma, multiversion};
use super::pack::{Format, Matrix, Q4_BYTES, Q8_BYTES, TILE};

/// Room for activation rows, kept between products.
#[derive(Debug, Default)]
pub struct Acts {
    /// Rows as floats (F32 weights).
    pub floats: Vec<f32>,
    /// Rows in 8 bits.
    pub q: Vec<i8>,
    /// Scale a block.
    pub scale: Vec<f32>,
    /// Scale times sum a block.
    pub sum: Vec<f32>,
}

/// Activation rows, ready for a product.
#[derive(Debug, Clone, Copy)]
pub struct ActsView<'a> {
    /// Rows as floats (F32 weights).
    pub floats: &'a [f32],
    /// Rows in 8 bits.
    pub q: &'a [i8],
    /// Scale a block.
    pub scale: &'a [f32],
    /// Scale times sum a block.
    pub sum: &'a [f32],
}

impl Acts {
    /// Makes room for rows of `k` features in the form that `format` needs.
    pub fn shape(&mut self, rows: usize, k: usize, format: Format) {
        if format == Format::F32 {
            self.floats.resize((rows * k).max(self.floats.len()), 0.0);
        } else {
            self.q.resize((rows * k).max(self.q.len()), 0);
            self.scale.resize((rows * k / BLOCK).max(self.scale.len()), 0.0);
            self.sum.resize((rows * k / BLOCK).max(self.sum.len()), 0.0);
        }
    }

    /// What products read.
    #[cfg(test)]
    pub fn view(&self) -> ActsView<'_> {
        ActsView { floats: &self.floats, q: &self.q, scale: &self.scale, sum: &self.sum }
    }
}

/// Rows computed together: as many accumulators as stay in registers beside the weights.
pub const GROUP: usize = 8;

/// Sink for 16 results: row, first out feature, values (fewer than 16 count in the last tile).
pub trait Sink {
    /// Takes the results.
    fn put(&self, row: usize, column: usize, values: &[f32; TILE]);
}

/// `sink(row, tile) = acts[row] · w[tile]ᵀ` for a range of tiles and all rows.
pub fn product(
    level: Level,
    w: &Matrix,
    tiles: std::ops::Range<usize>,
    acts: ActsView<'_>,
    rows: usize,
    sink: &impl Sink,
) {
    if rows <= GROUP {
        group(level, w, tiles, acts, 0, rows, sink);
        return;
    }
    // A tile's weights are used for all rows while they are in the nearest cache.
    for tile in tiles {
        let mut first = 0;
        while first < rows {
            let count = (rows - first).min(GROUP);
            group(level, w, tile..tile + 1, acts, first, count, sink);
            first += count;
        }
    }
}

fn group(
    level: Level,
    w: &Matrix,
    tiles: std::ops::Range<usize>,
    acts: ActsView<'_>,
    first: usize,
    count: usize,
    sink: &impl Sink,
) {
    macro_rules! by_count {
        ($f:ident) => {
            match count {
                1 => $f::<1>(level, w, tiles, acts, first, sink),
                2 => $f::<2>(level, w, tiles, acts, first, sink),
                3 => $f::<3>(level, w, tiles, acts, first, sink),
                4 => $f::<4>(level, w, tiles, acts, first, sink),
                5 => $f::<5>(level, w, tiles, acts, first, sink),
                6 => $f::<6>(level, w, tiles, acts, first, sink),
                7 => $f::<7>(level, w, tiles, acts, first, sink),
                _ => $f::<8>(level, w, tiles, acts, first, sink),
            }
        };
    }
    by_count!(dispatch);
}

fn dispatch<const R: usize>(
    level: Level,
    w: &Matrix,
    tiles: std::ops::Range<usize>,
    acts: ActsView<'_>,
    first: usize,
    sink: &impl Sink,
) {
    for tile in tiles {
        let mut out = [[0.0; TILE]; R];
        match w.format {
            Format::F32 => floats::<R>(level, w, tile, acts, first, &mut out),
            Format::Q4 | Format::Q8 => quantised::<R>(level, w, tile, acts, first, &mut out),
        }
        for (i, values) in out.iter().enumerate() {
            sink.put(first + i, tile * TILE, values);
        }
    }
}

fn floats<const R: usize>(
    level: Level,
    w: &Matrix,
    tile: usize,
    acts: ActsView<'_>,
    first: usize,
    out: &mut [[f32; TILE]; R],
) {
    let weights = &w.floats[tile * TILE * w.k..(tile + 1) * TILE * w.k];
    let x = &acts.floats[first * w.k..(first + R) * w.k];
    // One function a level and row count, so that the accumulators are registers.
    macro_rules! run {
        ($n:literal) => {{
            multiversion! { fn kernel = floats_body_n(w: &[f32], x: &[f32], k: usize, out: &mut [[f32; TILE]]) }
            #[inline(always)]
            fn floats_body_n<const FMA: bool>(w: &[f32], x: &[f32], k: usize, out: &mut [[f32; TILE]]) {
                floats_body::<FMA, $n>(w, x, k, out);
            }
            kernel(level, weights, x, w.k, out)
        }};
    }
    match R {
        1 => run!(1),
        2 => run!(2),
        3 => run!(3),
        4 => run!(4),
        5 => run!(5),
        6 => run!(6),
        7 => run!(7),
        _ => run!(8),
    }
}

#[inline(always)]
fn floats_body<const FMA: bool, const R: usize>(w: &[f32], x: &[f32], k: usize, out: &mut [[f32; TILE]]) {
    let rows: [&[f32]; R] = std::array::from_fn(|i| &x[i * k..(i + 1) * k]);
    let mut acc = [[0.0f32; TILE]; R];
    for (j, w) in w.as_chunks::<TILE>().0.iter().enumerate().take(k) {
        for i in 0..R {
            let v = rows[i][j];
            for l in 0..TILE {
                acc[i][l] = fma::<FMA>(v, w[l], acc[i][l]);
            }
        }
    }
    out[..R].copy_from_slice(&acc);
}

fn quantised<const R: usize>(
    level: Level,
    w: &Matrix,
    tile: usize,
    acts: ActsView<'_>,
    first: usize,
    out: &mut [[f32; TILE]; R],
) {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Vnni {
        super::vnni::tile::<R>(w, tile, acts, first, out);
        return;
    }
    for (i, out) in out.iter_mut().enumerate() {
        quantised_row(level, w, tile, acts, first + i, out);
    }
}

#[inline(always)]
fn quantised_row_body<const FMA: bool>(w: &Matrix, tile: usize, acts: ActsView<'_>, row: usize, out: &mut [f32; TILE]) {
    let blocks = w.k / BLOCK;
    let four = w.format == Format::Q4;
    let bytes = if four { Q4_BYTES } else { Q8_BYTES };
    let mut acc = [0.0f32; TILE];
    for j in 0..blocks {
        let block = &w.bytes[(tile * blocks + j) * bytes..][..bytes];
        let q = &acts.q[row * w.k + j * BLOCK..][..BLOCK];
        let (scale, sum) = (acts.scale[row * blocks + j], acts.sum[row * blocks + j]);
        let mut dot = [0i32; TILE];
        if four {
            for g in 0..4 {
                let weights = &block[g * 64..(g + 1) * 64];
                for l in 0..TILE {
                    for b in 0..4 {
                        let v = weights[l * 4 + b];
                        dot[l] += i32::from(v & 15) * i32::from(q[g * 4 + b])
                            + i32::from(v >> 4) * i32::from(q[g * 4 + b + 16]);
                    }
                }
            }
        } else {
            for g in 0..8 {
                let weights = &block[g * 64..(g + 1) * 64];
                for l in 0..TILE {
                    for b in 0..4 {
                        dot[l] += i32::from(weights[l * 4 + b]) * i32::from(q[g * 4 + b]);
                    }
                }
            }
        }
        let at = if four { 256 } else { 512 };
        for l in 0..TILE {
            let half = |at: usize| f16::from_le_bytes([block[at + l * 2], block[at + l * 2 + 1]]).to_f32();
            let d = half(at);
            let offset = if four { half(288) } else { d * -128.0 };
            acc[l] = fma::<FMA>(d * scale, dot[l] as f32, acc[l]);
            acc[l] = fma::<FMA>(offset, sum, acc[l]);
        }
    }
    *out = acc;
}
multiversion! {
    fn quantised_row = quantised_row_body(w: &Matrix, tile: usize, acts: ActsView<'_>, row: usize, out: &mut [f32; TILE])
}

#[cfg(test)]
mod tests {
    use super::super::lanes::quantise;
    use super::*;
    use crate::engine::backend::Store;
    use crate::engine::weights::{DType, TensorView};
    use std::cell::RefCell;

    struct Collect(RefCell<Vec<f32>>, usize);
    impl Sink for Collect {
        fn put(&self, row: usize, column: usize, values: &[f32; TILE]) {
            let n = self.1;
            for (i, v) in values.iter().enumerate().take(n - column) {
                self.0.borrow_mut()[row * n + column + i] = *v;
            }
        }
    }

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..n)
            .map(|_| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0
            })
            .collect()
    }

    fn levels() -> Vec<Level> {
        [Level::Portable, Level::Avx2, Level::Vnni].into_iter().filter(|&l| l <= Level::detect()).collect()
    }

    fn matrix(n: usize, k: usize, store: Store) -> Matrix {
        let values = noise(n * k, 3);
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let view = TensorView { name: "w".into(), dtype: DType::F32, shape: vec![n, k], data: &data };
        Matrix::pack(&[view], None, store).unwrap()
    }

    fn q4_matrix(n: usize, k: usize) -> Matrix {
        let mut data = Vec::new();
        for (i, v) in noise(n * k / 32, 5).iter().enumerate() {
            data.extend(f16::from_f32(0.01 + v.abs()).to_le_bytes());
            data.extend(f16::from_f32(-v.abs() * 7.0).to_le_bytes());
            data.extend((0..16).map(|b| ((i * 31 + b * 17) % 256) as u8));
        }
        let view = TensorView { name: "w".into(), dtype: DType::Q4_1, shape: vec![n, k], data: &data };
        Matrix::pack(&[view], None, Store::AsStored).unwrap()
    }

    fn run(level: Level, w: &Matrix, x: &[f32], rows: usize) -> Vec<f32> {
        let mut acts = Acts::default();
        acts.shape(rows, w.k, w.format);
        if w.format == Format::F32 {
            acts.floats[..x.len()].copy_from_slice(x);
        } else {
            let b = w.k / BLOCK;
            for r in 0..rows {
                let (q, d, s) = (
                    &mut acts.q[r * w.k..(r + 1) * w.k],
                    &mut acts.scale[r * b..(r + 1) * b],
                    &mut acts.sum[r * b..(r + 1) * b],
                );
                quantise(level, &x[r * w.k..(r + 1) * w.k], q, d, s);
            }
        }
        let out = Collect(RefCell::new(vec![0.0; rows * w.n]), w.n);
        product(level, w, 0..w.tiles(), acts.view(), rows, &out);
        out.0.into_inner()
    }

    /// Every format at every level against a product in f64 of the dequantised weights; and a row's result is the same
    /// bits whatever rows stand beside it.
    #[test]
    fn products_match_and_rows_do_not_depend_on_their_neighbours() {
        let (n, k) = (40, 96);
        for w in [matrix(n, k, Store::F32), matrix(n, k, Store::Q8), q4_matrix(n, k)] {
            let rows = 19;
            let x = noise(rows * k, 9);
            let mut by_level = Vec::new();
            for level in levels() {
                let got = run(level, &w, &x, rows);
                let mut row = vec![0.0; k];
                for o in 0..n {
                    w.row(o, &mut row);
                    for r in 0..rows {
                        let want: f64 = row.iter().zip(&x[r * k..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                        let size: f64 = row.iter().zip(&x[r * k..]).map(|(a, b)| f64::from(a * b).abs()).sum::<f64>();
                        let bound = if w.format == Format::F32 { 1e-6 } else { 6e-3 } * size + 1e-5;
                        let got = f64::from(got[r * n + o]);
                        assert!((got - want).abs() < bound, "{:?} {level}: {got} against {want}", w.format);
                    }
                }
                for count in 1..=9 {
                    for first in [0, 5] {
                        let part = run(level, &w, &x[first * k..(first + count) * k], count);
                        assert_eq!(part, got[first * n..(first + count) * n], "{:?} {level} {count}", w.format);
                    }
                }
                by_level.push(got);
            }
            // Integer dots are exact and the float steps the same, so AVX2 and VNNI agree to the bit.
            if w.format != Format::F32 && by_level.len() == 3 {
                assert_eq!(by_level[1], by_level[2]);
            }
        }
    }
}
