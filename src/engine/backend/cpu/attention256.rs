//! AVX2 kernels of attention: the loops of `attention.rs` with up to six queries in registers. Sixteen lanes are two
//! registers here, taken one after the other, so that the sums of six queries still fit.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::needless_range_loop, clippy::cast_ptr_alignment)]

use std::arch::x86_64::{
    __m128i, __m256, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_ps, _mm256_cvtph_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use half::f16;

use super::attention::{Mix, Query, Scores, by_count};
use super::cache::Element;
use super::lanes::LANES;
use super::level::each;

/// Floats of a register.
const HALF: usize = LANES / 2;
/// Slots ahead of the current one whose values are asked for.
const AHEAD: usize = 16;

/// An element that loads as eight floats.
pub trait Load: Element {
    /// SAFETY: eight elements can be read at `p`; the processor has AVX2 and F16C.
    unsafe fn load(p: *const Self) -> __m256;
}

impl Load for f32 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(p: *const f32) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(p) }
    }
}

impl Load for f16 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(p: *const f16) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast::<__m128i>())) }
    }
}

/// See [`super::attention::Wide::scores`].
pub fn scores<E: Load>(queries: &[Query<'_>], product: &Scores<'_, E>, out: &mut [f32]) {
    let dim = product.check(queries, out);
    // SAFETY: lengths as just checked; callers are at a level with AVX2.
    unsafe { by_count!(queries.len(), scores_of::<E>(queries, dim, product, out)) }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scores_of<E: Load, const Q: usize>(
    queries: &[Query<'_>],
    dim: usize,
    product: &Scores<'_, E>,
    out: &mut [f32],
) {
    let scale = _mm256_set1_ps(product.scale);
    let q: [*const f32; Q] = std::array::from_fn(|i| queries[i].q.as_ptr());
    for b in 0..product.room / LANES {
        for half in 0..2 {
            // SAFETY: every index is inside what `Scores::check` saw: d < dim, b < room / 16, i < Q = queries.len().
            unsafe {
                let keys = product.keys.as_ptr().add(b * product.stride + half * HALF);
                let mut even = [_mm256_setzero_ps(); Q];
                let mut odd = [_mm256_setzero_ps(); Q];
                let mut d = 0;
                while d + 1 < dim {
                    if half == 0 {
                        // The next block of keys is a stride away, which the hardware does not guess.
                        let next = keys.wrapping_add(product.stride + d * LANES);
                        _mm_prefetch::<_MM_HINT_T0>(next.cast());
                        if size_of::<E>() == 4 {
                            _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(LANES).cast());
                        }
                    }
                    let k0 = E::load(keys.add(d * LANES));
                    let k1 = E::load(keys.add((d + 1) * LANES));
                    each!(Q, i, {
                        even[i] = _mm256_fmadd_ps(_mm256_set1_ps(*q[i].add(d)), k0, even[i]);
                        odd[i] = _mm256_fmadd_ps(_mm256_set1_ps(*q[i].add(d + 1)), k1, odd[i]);
                    });
                    d += 2;
                }
                if d < dim {
                    let k0 = E::load(keys.add(d * LANES));
                    each!(Q, i, {
                        even[i] = _mm256_fmadd_ps(_mm256_set1_ps(*q[i].add(d)), k0, even[i]);
                    });
                }
                each!(Q, i, {
                    let sum = _mm256_mul_ps(_mm256_add_ps(even[i], odd[i]), scale);
                    _mm256_storeu_ps(out.as_mut_ptr().add(i * product.room + b * LANES + half * HALF), sum);
                });
            }
        }
    }
}

/// See [`super::attention::Wide::mix`]; heads are a multiple of 16 wide.
pub fn mix<E: Load>(queries: &mut [Query<'_>], mix: &Mix<'_, E>) {
    let dim = mix.check(queries);
    let count = queries.len();
    let mut column = 0;
    while column < dim {
        // SAFETY: lengths as just checked (picks rise); callers are at a level with AVX2.
        unsafe {
            if count <= 3 && column + 4 * HALF <= dim {
                by_count!(count, mix_four::<E>(queries, mix, column));
                column += 4 * HALF;
            } else {
                by_count!(count, mix_two::<E>(queries, mix, column));
                column += 2 * HALF;
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn mix_four<E: Load, const Q: usize>(queries: &mut [Query<'_>], mix: &Mix<'_, E>, column: usize) {
    // SAFETY: passed on.
    unsafe { mix_columns::<E, Q, 4>(queries, mix, column) };
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn mix_two<E: Load, const Q: usize>(queries: &mut [Query<'_>], mix: &Mix<'_, E>, column: usize) {
    // SAFETY: passed on.
    unsafe { mix_columns::<E, Q, 2>(queries, mix, column) };
}

/// `C` registers of columns from `column` on.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn mix_columns<E: Load, const Q: usize, const C: usize>(
    queries: &mut [Query<'_>],
    mix: &Mix<'_, E>,
    column: usize,
) {
    let prefix = mix.prefix.len();
    let mut acc = [[_mm256_setzero_ps(); C]; Q];
    // SAFETY: every index is inside what `Mix::check` saw.
    unsafe {
        let p: [*const f32; Q] = std::array::from_fn(|i| mix.scores.as_ptr().add(i * mix.room));
        let mut value = mix.values.as_ptr().add(mix.prefix.start * mix.width + column);
        for j in 0..prefix {
            let next = value.wrapping_add(AHEAD * mix.width);
            for line in 0..(C * HALF * size_of::<E>()).div_ceil(64) {
                _mm_prefetch::<_MM_HINT_T0>(next.cast::<i8>().wrapping_add(line * 64));
            }
            let mut v = [_mm256_setzero_ps(); C];
            each!(C, c, {
                v[c] = E::load(value.add(c * HALF));
            });
            each!(Q, i, {
                let factor = _mm256_set1_ps(*p[i].add(j));
                each!(C, c, {
                    acc[i][c] = _mm256_fmadd_ps(factor, v[c], acc[i][c]);
                });
            });
            value = value.wrapping_add(mix.width);
        }
        each!(Q, i, {
            for (j, &slot) in mix.picks[i].iter().enumerate() {
                let value = mix.values.as_ptr().add(slot as usize * mix.width + column);
                let factor = _mm256_set1_ps(*p[i].add(prefix + j));
                each!(C, c, {
                    acc[i][c] = _mm256_fmadd_ps(factor, E::load(value.add(c * HALF)), acc[i][c]);
                });
            }
            let factor = _mm256_set1_ps(mix.factors[i]);
            each!(C, c, {
                let to = queries[i].out.as_mut_ptr().add(column + c * HALF);
                _mm256_storeu_ps(to, _mm256_mul_ps(acc[i][c], factor));
            });
        });
    }
}
