//! AVX-512 VNNI product of one tile with up to eight rows.
#![cfg(target_arch = "x86_64")]
// Every load is an unaligned one, whatever the type of its pointer.
#![allow(unsafe_code, clippy::needless_range_loop, clippy::cast_ptr_alignment)]

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_add_epi32, _mm512_and_si512, _mm512_cvtepi32_ps,
    _mm512_cvtph_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_reduce_add_epi32,
    _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_srli_epi16,
    _mm512_storeu_ps, _mm512_xor_si512,
};

use super::acts::ActsView;
use super::lanes::BLOCK;
use super::level::each;
use super::pack::{Format, Matrix, Q4_BYTES, Q8_BYTES, Q8_SCALES, TILE};

/// Bytes ahead of the current block that are asked for: weights stream from the last cache level or from memory, and
/// the hardware does not guess the stride. 4 kB was best of 1 to 16 kB here.
pub const AHEAD: usize = 4096;

/// Computes `R` rows from `first` against one tile.
pub fn tile<const R: usize>(w: &Matrix, tile: usize, acts: ActsView<'_>, first: usize, out: &mut [[f32; TILE]; R]) {
    let blocks = w.k / BLOCK;
    acts.check(first, R, blocks);
    let weights = w.tile(tile);
    // SAFETY: callers reach this only at a level with VNNI, which was detected; the tile has `blocks` blocks, and the
    // rows were just checked.
    unsafe {
        match w.format {
            Format::Q4 => q4::<R>(weights, blocks, acts, first, out),
            _ => q8::<R>(weights, blocks, acts, first, out),
        }
    }
}

/// Dot of eight weight registers (unsigned) with a block of 32 activations at `$p`, plus `$start`, as floats. A macro,
/// because a call a row and block is what costs here, and the compiler does not always inline it.
macro_rules! dot {
    ($w:ident, $p:expr, $start:expr) => {{
        let p: *const i8 = $p;
        // Two chains of four: the latency of one dot is five cycles.
        let mut a = $start;
        let mut b = _mm512_setzero_si512();
        for g in 0..4 {
            let even = p.add(8 * g).cast::<i32>().read_unaligned();
            let odd = p.add(8 * g + 4).cast::<i32>().read_unaligned();
            a = _mm512_dpbusd_epi32(a, $w[2 * g], _mm512_set1_epi32(even));
            b = _mm512_dpbusd_epi32(b, $w[2 * g + 1], _mm512_set1_epi32(odd));
        }
        _mm512_cvtepi32_ps(_mm512_add_epi32(a, b))
    }};
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,f16c")]
unsafe fn q4<const R: usize>(
    weights: &[u8],
    blocks: usize,
    acts: ActsView<'_>,
    first: usize,
    out: &mut [[f32; TILE]; R],
) {
    let low = _mm512_set1_epi8(15);
    let mut acc = [_mm512_setzero_ps(); R];
    for j in 0..blocks {
        // SAFETY: block j lies inside `weights`; prefetching past its end is allowed, it never faults; row pointers stay
        // inside the store because i < R and j < blocks.
        unsafe {
            let p = weights.as_ptr().add(j * Q4_BYTES);
            for line in 0..5 {
                _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD + line * 64).cast());
            }
            let mut w = [_mm512_setzero_si512(); 8];
            for g in 0..4 {
                let pair = _mm512_loadu_si512(p.add(g * 64).cast());
                w[g] = _mm512_and_si512(pair, low);
                w[g + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(pair), low);
            }
            let d = _mm512_cvtph_ps(_mm256_loadu_si256(p.add(256).cast::<__m256i>()));
            let m = _mm512_cvtph_ps(_mm256_loadu_si256(p.add(288).cast::<__m256i>()));
            let at = j * acts.rows + first;
            let (q, scale, sum) =
                (acts.q.as_ptr().add(at * BLOCK), acts.scale.as_ptr().add(at), acts.sum.as_ptr().add(at));
            each!(R, i, {
                let f = dot!(w, q.add(i * BLOCK), _mm512_setzero_si512());
                acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(*scale.add(i))), f, acc[i]);
                acc[i] = _mm512_fmadd_ps(m, _mm512_set1_ps(*sum.add(i)), acc[i]);
            });
        }
    }
    for i in 0..R {
        // SAFETY: `out[i]` is 16 floats.
        unsafe { _mm512_storeu_ps(out[i].as_mut_ptr(), acc[i]) };
    }
}

/// As [`q4`], for 8-bit tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,f16c")]
unsafe fn q8<const R: usize>(
    weights: &[u8],
    blocks: usize,
    acts: ActsView<'_>,
    first: usize,
    out: &mut [[f32; TILE]; R],
) {
    // The instruction takes unsigned weights: w + 128 by flipping the top bit, and 128 · Σq is taken off again.
    let flip = _mm512_set1_epi8(-128);
    let mut acc = [_mm512_setzero_ps(); R];
    for j in 0..blocks {
        // SAFETY: as in `q4`.
        unsafe {
            let p = weights.as_ptr().add(j * Q8_BYTES);
            for line in 0..8 {
                _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD + line * 64).cast());
            }
            let scales = weights.as_ptr().add(blocks * Q8_BYTES + j * Q8_SCALES);
            _mm_prefetch::<_MM_HINT_T0>(scales.wrapping_add(512).cast());
            let mut w = [_mm512_setzero_si512(); 8];
            for g in 0..8 {
                w[g] = _mm512_xor_si512(_mm512_loadu_si512(p.add(g * 64).cast()), flip);
            }
            let d = _mm512_cvtph_ps(_mm256_loadu_si256(scales.cast::<__m256i>()));
            let at = j * acts.rows + first;
            let (q, scale, total) =
                (acts.q.as_ptr().add(at * BLOCK), acts.scale.as_ptr().add(at), acts.total.as_ptr().add(at));
            each!(R, i, {
                let f = dot!(w, q.add(i * BLOCK), _mm512_set1_epi32(-128 * *total.add(i)));
                acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(*scale.add(i))), f, acc[i]);
            });
        }
    }
    for i in 0..R {
        // SAFETY: `out[i]` is 16 floats.
        unsafe { _mm512_storeu_ps(out[i].as_mut_ptr(), acc[i]) };
    }
}

/// Operations of one step of [`peak`].
pub const PEAK_STEP_OPS: usize = 16 * 64 * 2;

/// As many dots as this processor can do, out of registers.
pub fn peak(steps: usize) -> i32 {
    #[target_feature(enable = "avx512f,avx512vnni")]
    fn body(steps: usize) -> i32 {
        let mut acc = [_mm512_setzero_si512(); 16];
        let mut w = _mm512_set1_epi8(3);
        for _ in 0..steps {
            for a in &mut acc {
                *a = _mm512_dpbusd_epi32(*a, w, w);
            }
            // Unknown to the compiler, or it would sum the series.
            w = std::hint::black_box(w);
        }
        acc.iter().map(|&a| _mm512_reduce_add_epi32(a)).fold(0, i32::wrapping_add)
    }
    // SAFETY: callers are at a level with VNNI, which was detected.
    unsafe { body(steps) }
}
