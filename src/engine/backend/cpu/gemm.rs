//! Products of packed weights with activation rows.
//!
//! For a row the sum runs over the blocks of 32 in order, in F32, whatever the number of rows and whoever computes it:
//! this is what makes a verify pass give the same logits as plain decoding.
#![allow(clippy::inline_always, clippy::needless_range_loop)]

use half::f16;

use super::acts::ActsView;
use super::lanes::BLOCK;
use super::level::{Level, fma, multiversion};
use super::pack::{Format, Matrix, Q4_BYTES, Q8_BYTES, Q8_SCALES, TILE};

/// Rows computed together: as many accumulators as stay in registers beside the weights.
pub const GROUP: usize = 8;

/// Rows from which on AMX is faster than VNNI.
#[cfg(target_arch = "x86_64")]
const AMX_FROM: usize = 7;

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
    #[cfg(target_arch = "x86_64")]
    if level == Level::Amx && w.format != Format::F32 && rows >= AMX_FROM {
        by_amx(w, tiles, acts, rows, sink);
        return;
    }
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

#[cfg(target_arch = "x86_64")]
fn by_amx(w: &Matrix, tiles: std::ops::Range<usize>, acts: ActsView<'_>, rows: usize, sink: &impl Sink) {
    use super::amx;
    // Even groups: padding costs as much as rows.
    let size = rows.div_ceil(rows.div_ceil(amx::ROWS));
    let registers = amx::Tiles::shape(size);
    for tile in tiles {
        amx::tile(&registers, w, tile, acts, (0..rows).step_by(size), |first, out| {
            for (i, values) in out.iter().enumerate().take(size.min(rows - first)) {
                sink.put(first + i, tile * TILE, values);
            }
        });
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
    let weights = w.tile_floats(tile);
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
    if level.avx512() {
        super::vnni::tile::<R>(w, tile, acts, first, out);
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx2 {
        for (i, out) in out.chunks_mut(super::avx2::ROWS).enumerate() {
            super::avx2::tile(w, tile, acts, first + i * super::avx2::ROWS, out);
        }
        return;
    }
    for (i, out) in out.iter_mut().enumerate() {
        quantised_row(level, w, tile, acts, first + i, out);
    }
}

#[inline(always)]
fn quantised_row_body<const FMA: bool>(w: &Matrix, tile: usize, acts: ActsView<'_>, row: usize, out: &mut [f32; TILE]) {
    let blocks = w.k / BLOCK;
    let tile = w.tile(tile);
    let four = w.format == Format::Q4;
    let half = |at: usize| f16::from_le_bytes([tile[at], tile[at + 1]]).to_f32();
    let mut acc = [0.0f32; TILE];
    for j in 0..blocks {
        let at = j * acts.rows + row;
        let q = &acts.q[at * BLOCK..(at + 1) * BLOCK];
        let scale = acts.scale[at];
        let mut dot = [0i32; TILE];
        if four {
            let block = &tile[j * Q4_BYTES..];
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
            let block = &tile[j * Q8_BYTES..];
            for g in 0..8 {
                let weights = &block[g * 64..(g + 1) * 64];
                for l in 0..TILE {
                    for b in 0..4 {
                        dot[l] += i32::from(weights[l * 4 + b] as i8) * i32::from(q[g * 4 + b]);
                    }
                }
            }
        }
        let scales = if four { j * Q4_BYTES + 256 } else { blocks * Q8_BYTES + j * Q8_SCALES };
        for l in 0..TILE {
            acc[l] = fma::<FMA>(half(scales + l * 2) * scale, dot[l] as f32, acc[l]);
            if four {
                acc[l] = fma::<FMA>(half(scales + 32 + l * 2), acts.sum[at], acc[l]);
            }
        }
    }
    *out = acc;
}
multiversion! {
    fn quantised_row = quantised_row_body(w: &Matrix, tile: usize, acts: ActsView<'_>, row: usize, out: &mut [f32; TILE])
}

#[cfg(test)]
#[path = "gemm_tests.rs"]
mod tests;
