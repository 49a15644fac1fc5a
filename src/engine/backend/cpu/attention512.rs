//! AVX-512 kernels of attention: the loops of `attention.rs` with up to six queries in registers.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::needless_range_loop, clippy::cast_ptr_alignment)]

use std::arch::x86_64::{
    __m256i, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_add_ps, _mm512_cvtph_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use half::f16;

use super::attention::{Mix, Query, Scores, by_count};
use super::cache::Element;
use super::lanes::LANES;
use super::level::each;

/// Slots ahead of the current one whose values are asked for.
const AHEAD: usize = 16;

/// An element that loads as 16 floats.
pub trait Load: Element {
    /// SAFETY: 16 elements can be read at `p`; the processor has AVX-512.
    unsafe fn load(p: *const Self) -> __m512;
}

impl Load for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,fma,f16c")]
    unsafe fn load(p: *const f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(p) }
    }
}

impl Load for f16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,fma,f16c")]
    unsafe fn load(p: *const f16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast::<__m256i>())) }
    }
}

/// See [`super::attention::Wide::scores`].
pub fn scores<E: Load>(queries: &[Query<'_>], product: &Scores<'_, E>, out: &mut [f32]) {
    let dim = product.check(queries, out);
    // SAFETY: lengths as just checked; callers are at a level with AVX-512.
    unsafe { by_count!(queries.len(), scores_of::<E>(queries, dim, product, out)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,fma,f16c")]
unsafe fn scores_of<E: Load, const Q: usize>(
    queries: &[Query<'_>],
    dim: usize,
    product: &Scores<'_, E>,
    out: &mut [f32],
) {
    let scale = _mm512_set1_ps(product.scale);
    let q: [*const f32; Q] = std::array::from_fn(|i| queries[i].q.as_ptr());
    for b in 0..product.room / LANES {
        // SAFETY: every index is inside what `Scores::check` saw: d < dim, b < room / 16, i < Q = queries.len().
        unsafe {
            let keys = product.keys.as_ptr().add(b * product.stride);
            let mut even = [_mm512_setzero_ps(); Q];
            let mut odd = [_mm512_setzero_ps(); Q];
            let mut d = 0;
            while d + 1 < dim {
                // The next block of keys is a stride away, which the hardware does not guess.
                let next = keys.wrapping_add(product.stride + d * LANES);
                _mm_prefetch::<_MM_HINT_T0>(next.cast());
                if size_of::<E>() == 4 {
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(LANES).cast());
                }
                let k0 = E::load(keys.add(d * LANES));
                let k1 = E::load(keys.add((d + 1) * LANES));
                each!(Q, i, {
                    even[i] = _mm512_fmadd_ps(_mm512_set1_ps(*q[i].add(d)), k0, even[i]);
                    odd[i] = _mm512_fmadd_ps(_mm512_set1_ps(*q[i].add(d + 1)), k1, odd[i]);
                });
                d += 2;
            }
            if d < dim {
                let k0 = E::load(keys.add(d * LANES));
                each!(Q, i, {
                    even[i] = _mm512_fmadd_ps(_mm512_set1_ps(*q[i].add(d)), k0, even[i]);
                });
            }
            each!(Q, i, {
                let sum = _mm512_mul_ps(_mm512_add_ps(even[i], odd[i]), scale);
                _mm512_storeu_ps(out.as_mut_ptr().add(i * product.room + b * LANES), sum);
            });
        }
    }
}

/// See [`super::attention::Wide::mix`]; heads are a multiple of 16 wide.
pub fn mix<E: Load>(queries: &mut [Query<'_>], mix: &Mix<'_, E>) {
    let dim = mix.check(queries);
    let count = queries.len();
    let mut column = 0;
    while column < dim {
        // SAFETY: lengths as just checked (picks rise); callers are at a level with AVX-512.
        unsafe {
            if column + 4 * LANES <= dim {
                by_count!(count, mix_four::<E>(queries, mix, column));
                column += 4 * LANES;
            } else {
                by_count!(count, mix_one::<E>(queries, mix, column));
                column += LANES;
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,fma,f16c")]
unsafe fn mix_four<E: Load, const Q: usize>(queries: &mut [Query<'_>], mix: &Mix<'_, E>, column: usize) {
    // SAFETY: passed on.
    unsafe { mix_columns::<E, Q, 4>(queries, mix, column) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,fma,f16c")]
unsafe fn mix_one<E: Load, const Q: usize>(queries: &mut [Query<'_>], mix: &Mix<'_, E>, column: usize) {
    // SAFETY: passed on.
    unsafe { mix_columns::<E, Q, 1>(queries, mix, column) };
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,fma,f16c")]
unsafe fn mix_columns<E: Load, const Q: usize, const C: usize>(
    queries: &mut [Query<'_>],
    mix: &Mix<'_, E>,
    column: usize,
) {
    let prefix = mix.prefix.len();
    let mut acc = [[_mm512_setzero_ps(); C]; Q];
    // SAFETY: every index is inside what `Mix::check` saw.
    unsafe {
        let p: [*const f32; Q] = std::array::from_fn(|i| mix.scores.as_ptr().add(i * mix.room));
        let mut value = mix.values.as_ptr().add(mix.prefix.start * mix.width + column);
        for j in 0..prefix {
            let next = value.wrapping_add(AHEAD * mix.width);
            for line in 0..(C * LANES * size_of::<E>()).div_ceil(64) {
                _mm_prefetch::<_MM_HINT_T0>(next.cast::<i8>().wrapping_add(line * 64));
            }
            let mut v = [_mm512_setzero_ps(); C];
            each!(C, c, {
                v[c] = E::load(value.add(c * LANES));
            });
            each!(Q, i, {
                let factor = _mm512_set1_ps(*p[i].add(j));
                each!(C, c, {
                    acc[i][c] = _mm512_fmadd_ps(factor, v[c], acc[i][c]);
                });
            });
            value = value.wrapping_add(mix.width);
        }
        each!(Q, i, {
            for (j, &slot) in mix.picks[i].iter().enumerate() {
                let value = mix.values.as_ptr().add(slot as usize * mix.width + column);
                let factor = _mm512_set1_ps(*p[i].add(prefix + j));
                each!(C, c, {
                    acc[i][c] = _mm512_fmadd_ps(factor, E::load(value.add(c * LANES)), acc[i][c]);
                });
            }
            let factor = _mm512_set1_ps(mix.factors[i]);
            each!(C, c, {
                let to = queries[i].out.as_mut_ptr().add(column + c * LANES);
                _mm512_storeu_ps(to, _mm512_mul_ps(acc[i][c], factor));
            });
        });
    }
}
