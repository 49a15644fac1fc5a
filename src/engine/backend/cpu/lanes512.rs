//! AVX-512 forms of the row loops that compilers leave scalar. Sums have the lanes and the order of `lanes.rs`.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::cast_ptr_alignment)]

use std::arch::x86_64::{
    __m512, _mm_storeu_si128, _mm512_abs_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_castsi512_ps,
    _mm512_cvtepi32_epi8, _mm512_cvtps_epi32, _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_add_ps,
    _mm512_mask_loadu_ps, _mm512_mask_max_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_reduce_add_epi32, _mm512_reduce_add_ps, _mm512_reduce_max_ps,
    _mm512_roundscale_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps,
    _mm512_sub_ps,
};

use super::lanes::{BLOCK, LANES, Places};

/// A mask of the first `count` lanes.
fn first(count: usize) -> u16 {
    if count >= LANES { u16::MAX } else { (1 << count) - 1 }
}

/// `e^x`, as [`super::lanes::exp`].
#[inline]
#[target_feature(enable = "avx512f")]
fn exp(x: __m512) -> __m512 {
    let x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-87.0)), _mm512_set1_ps(88.0));
    let n = _mm512_roundscale_ps::<0>(_mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E)));
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693_359_4), x);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.121_944_4e-4), r);
    let mut p = _mm512_set1_ps(1.987_569_1e-4);
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
    }
    let y = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r), _mm512_set1_ps(1.0));
    let power = _mm512_slli_epi32::<23>(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)));
    _mm512_mul_ps(y, _mm512_castsi512_ps(power))
}

/// As [`super::lanes::softmax`].
#[target_feature(enable = "avx512f")]
pub fn softmax(x: &mut [f32]) -> f32 {
    let mut top = _mm512_set1_ps(f32::NEG_INFINITY);
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mask = first(rest.len());
    // SAFETY: chunks are 16 floats; masked lanes are not touched.
    unsafe {
        for c in chunks {
            top = _mm512_max_ps(top, _mm512_loadu_ps(c.as_ptr()));
        }
        if mask != 0 {
            let last = _mm512_mask_loadu_ps(top, mask, rest.as_ptr());
            top = _mm512_mask_max_ps(top, mask, top, last);
        }
    }
    let max = _mm512_set1_ps(_mm512_reduce_max_ps(top));
    let mut sum = _mm512_setzero_ps();
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    // SAFETY: as above.
    unsafe {
        for c in chunks {
            let e = exp(_mm512_sub_ps(_mm512_loadu_ps(c.as_ptr()), max));
            _mm512_storeu_ps(c.as_mut_ptr(), e);
            sum = _mm512_add_ps(sum, e);
        }
        if mask != 0 {
            let e = exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, rest.as_ptr()), max));
            _mm512_mask_storeu_ps(rest.as_mut_ptr(), mask, e);
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, rest.as_ptr()));
        }
    }
    _mm512_reduce_add_ps(sum)
}

/// As [`super::lanes::log_sum_exp`].
#[target_feature(enable = "avx512f")]
pub fn log_sum_exp(x: &[f32]) -> f32 {
    let max = maximum(x);
    let mut sum = _mm512_setzero_ps();
    for at in (0..x.len()).step_by(LANES) {
        let mask = first(x.len() - at);
        // SAFETY: `at` plus the lanes of the mask is inside the slice.
        let v = unsafe { _mm512_maskz_loadu_ps(mask, x.as_ptr().add(at)) };
        sum = _mm512_mask_add_ps(sum, mask, sum, exp(_mm512_sub_ps(v, _mm512_set1_ps(max))));
    }
    max + _mm512_reduce_add_ps(sum).ln()
}

#[target_feature(enable = "avx512f")]
fn maximum(x: &[f32]) -> f32 {
    let mut top = _mm512_set1_ps(f32::NEG_INFINITY);
    for at in (0..x.len()).step_by(LANES) {
        // SAFETY: as above.
        let v = unsafe { _mm512_mask_loadu_ps(top, first(x.len() - at), x.as_ptr().add(at)) };
        top = _mm512_max_ps(v, top);
    }
    _mm512_reduce_max_ps(top)
}

/// As [`super::lanes::gated`].
#[target_feature(enable = "avx512f")]
pub fn gated(gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert!(gate.len() >= out.len() && up.len() >= out.len());
    let one = _mm512_set1_ps(1.0);
    for at in (0..out.len()).step_by(LANES) {
        let mask = first(out.len() - at);
        // SAFETY: `at` plus the lanes of the mask is inside all three.
        unsafe {
            let g = _mm512_maskz_loadu_ps(mask, gate.as_ptr().add(at));
            let u = _mm512_maskz_loadu_ps(mask, up.as_ptr().add(at));
            let below = _mm512_add_ps(one, exp(_mm512_sub_ps(_mm512_setzero_ps(), g)));
            _mm512_mask_storeu_ps(out.as_mut_ptr().add(at), mask, _mm512_mul_ps(_mm512_div_ps(g, below), u));
        }
    }
}

/// As [`super::lanes::quantise`].
#[target_feature(enable = "avx512f")]
pub fn quantise(x: &[f32], to: &Places<'_>) {
    for (j, block) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
        let at = (to.block + j) * to.rows + to.row;
        // SAFETY: a block is 32 floats; each row is one thread's, and so are its places, which `slice` checks.
        unsafe {
            let a = _mm512_loadu_ps(block.as_ptr());
            let b = _mm512_loadu_ps(block.as_ptr().add(LANES));
            let d = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b))) / 127.0;
            let inverse = _mm512_set1_ps(if d > 0.0 { 1.0 / d } else { 0.0 });
            let a = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse));
            let b = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
            let q = to.q.slice(at * BLOCK, BLOCK).as_mut_ptr();
            _mm_storeu_si128(q.cast(), _mm512_cvtepi32_epi8(a));
            _mm_storeu_si128(q.add(LANES).cast(), _mm512_cvtepi32_epi8(b));
            let total = _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
            to.scale.set(at, d);
            to.total.set(at, total);
            to.sum.set(at, d * total as f32);
        }
    }
}
