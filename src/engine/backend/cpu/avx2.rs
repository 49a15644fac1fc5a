//! AVX2 product of one tile with up to four rows: half a tile at a time, so that eight weight registers and the sums of
//! four rows are all the registers there are.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::needless_range_loop, clippy::cast_ptr_alignment)]

use std::arch::x86_64::{
    __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32,
    _mm256_and_si256, _mm256_cvtepi32_ps, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_setzero_si256, _mm256_sign_epi8, _mm256_srli_epi16, _mm256_storeu_ps,
};

use super::acts::ActsView;
use super::lanes::BLOCK;
use super::level::each;
use super::pack::{Format, Matrix, Q4_BYTES, Q8_BYTES, Q8_SCALES, TILE};

/// Rows of one call at most.
pub const ROWS: usize = 4;
/// Bytes ahead of the current block that are asked for.
const AHEAD: usize = 2048;

/// Computes `out.len()` rows (at most [`ROWS`]) from `first` against one tile.
pub fn tile(w: &Matrix, tile: usize, acts: ActsView<'_>, first: usize, out: &mut [[f32; TILE]]) {
    let blocks = w.k / BLOCK;
    let weights = w.tile(tile);
    acts.check(first, out.len(), blocks);
    macro_rules! by_rows {
        ($f:ident) => {
            match out.len() {
                1 => $f::<1>(weights, blocks, acts, first, out),
                2 => $f::<2>(weights, blocks, acts, first, out),
                3 => $f::<3>(weights, blocks, acts, first, out),
                _ => $f::<4>(weights, blocks, acts, first, out),
            }
        };
    }
    // SAFETY: callers are at `Level::Avx2`; the tile has `blocks` blocks, the rows were just checked.
    unsafe {
        match w.format {
            Format::Q4 => by_rows!(q4),
            _ => by_rows!(q8),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q4<const R: usize>(weights: &[u8], blocks: usize, acts: ActsView<'_>, first: usize, out: &mut [[f32; TILE]]) {
    let low = _mm256_set1_epi8(15);
    let ones = _mm256_set1_epi16(1);
    for half in 0..2 {
        let mut acc = [_mm256_setzero_ps(); R];
        for j in 0..blocks {
            // SAFETY: block j lies inside `weights`; rows `first..first + R` of it are in the store; prefetching never
            // faults.
            unsafe {
                let p = weights.as_ptr().add(j * Q4_BYTES);
                let mut w = [_mm256_setzero_si256(); 8];
                for g in 0..4 {
                    _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD + g * 64).cast());
                    let pair = _mm256_loadu_si256(p.add(g * 64 + half * 32).cast());
                    w[g] = _mm256_and_si256(pair, low);
                    w[g + 4] = _mm256_and_si256(_mm256_srli_epi16::<4>(pair), low);
                }
                let d = _mm256_cvtph_ps(_mm_loadu_si128(p.add(256 + half * 16).cast::<__m128i>()));
                let m = _mm256_cvtph_ps(_mm_loadu_si128(p.add(288 + half * 16).cast::<__m128i>()));
                let at = j * acts.rows + first;
                each!(R, i, {
                    let q = acts.q.as_ptr().add((at + i) * BLOCK);
                    // Sixteen products of at most 15 · 127 fit into 16 bits.
                    let mut dots = _mm256_setzero_si256();
                    for g in 0..8 {
                        dots = _mm256_add_epi16(dots, _mm256_maddubs_epi16(w[g], four(q.add(4 * g))));
                    }
                    let f = _mm256_cvtepi32_ps(_mm256_madd_epi16(dots, ones));
                    let scale = _mm256_mul_ps(d, _mm256_set1_ps(*acts.scale.as_ptr().add(at + i)));
                    acc[i] = _mm256_fmadd_ps(scale, f, acc[i]);
                    acc[i] = _mm256_fmadd_ps(m, _mm256_set1_ps(*acts.sum.as_ptr().add(at + i)), acc[i]);
                });
            }
        }
        for i in 0..R {
            // SAFETY: `out[i]` is 16 floats.
            unsafe { _mm256_storeu_ps(out[i].as_mut_ptr().add(half * 8), acc[i]) };
        }
    }
}

/// As [`q4`], for 8-bit tiles.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q8<const R: usize>(weights: &[u8], blocks: usize, acts: ActsView<'_>, first: usize, out: &mut [[f32; TILE]]) {
    let ones = _mm256_set1_epi16(1);
    for half in 0..2 {
        let mut acc = [_mm256_setzero_ps(); R];
        for j in 0..blocks {
            // SAFETY: as in `q4`.
            unsafe {
                let p = weights.as_ptr().add(j * Q8_BYTES);
                let mut w = [_mm256_setzero_si256(); 8];
                for g in 0..8 {
                    _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD + g * 64).cast());
                    w[g] = _mm256_loadu_si256(p.add(g * 64 + half * 32).cast());
                }
                let scales = weights.as_ptr().add(blocks * Q8_BYTES + j * Q8_SCALES + half * 16);
                let d = _mm256_cvtph_ps(_mm_loadu_si128(scales.cast::<__m128i>()));
                let at = j * acts.rows + first;
                each!(R, i, {
                    let q = acts.q.as_ptr().add((at + i) * BLOCK);
                    let mut dots = _mm256_setzero_si256();
                    for g in 0..8 {
                        // The instruction takes one unsigned side: |w| · (x with the sign of w). Two products of at
                        // most 128 · 127 fit into 16 bits.
                        let x = _mm256_sign_epi8(four(q.add(4 * g)), w[g]);
                        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w[g]), x);
                        dots = _mm256_add_epi32(dots, _mm256_madd_epi16(pairs, ones));
                    }
                    let scale = _mm256_mul_ps(d, _mm256_set1_ps(*acts.scale.as_ptr().add(at + i)));
                    acc[i] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(dots), acc[i]);
                });
            }
        }
        for i in 0..R {
            // SAFETY: `out[i]` is 16 floats.
            unsafe { _mm256_storeu_ps(out[i].as_mut_ptr().add(half * 8), acc[i]) };
        }
    }
}

/// Four bytes, to all places.
///
/// SAFETY: four bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four(p: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    _mm256_set1_epi32(unsafe { p.cast::<i32>().read_unaligned() })
}
