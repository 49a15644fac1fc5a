//! Row-wise loops in 16 lanes with a fixed order of summation: norms, quantisation, gate, softmax.
#![allow(unsafe_code, clippy::inline_always, clippy::needless_range_loop)]

use super::level::{Level, fma, multiversion};
use super::shared::Shared;

/// Lanes of every reduction, whatever the registers are.
pub const LANES: usize = 16;
/// Block length of quantised rows.
pub const BLOCK: usize = 32;

/// Sums 16 lanes as a fixed tree.
#[inline(always)]
pub fn sum16(mut v: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            v[i] += v[i + width];
        }
        width /= 2;
    }
    v[0]
}

#[inline(always)]
fn sum_squares<const FMA: bool>(x: &[f32]) -> f32 {
    let mut acc = [0.0; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for c in chunks {
        for i in 0..LANES {
            acc[i] = fma::<FMA>(c[i], c[i], acc[i]);
        }
    }
    for (i, &v) in rest.iter().enumerate() {
        acc[i] = fma::<FMA>(v, v, acc[i]);
    }
    sum16(acc)
}

#[inline(always)]
fn rms_scale_body<const FMA: bool>(x: &[f32], eps: f32) -> f32 {
    1.0 / (sum_squares::<FMA>(x) / x.len() as f32 + eps).sqrt()
}
multiversion! {
    /// `rsqrt(mean x² + eps)`.
    pub fn rms_scale = rms_scale_body(x: &[f32], eps: f32) -> f32
}

#[inline(always)]
fn scaled_body<const FMA: bool>(x: &[f32], scale: f32, weight: &[f32], out: &mut [f32]) {
    for ((o, &v), &w) in out.iter_mut().zip(x).zip(weight) {
        *o = v * scale * w;
    }
}
multiversion! {
    /// `out = x · scale · weight`.
    pub fn scaled = scaled_body(x: &[f32], scale: f32, weight: &[f32], out: &mut [f32])
}

/// `out = x · rsqrt(mean x² + eps) · weight`.
pub fn rms_norm(level: Level, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    scaled(level, x, rms_scale(level, x, eps), weight, out);
}

/// Where a stretch of a row goes in a store of quantised rows.
#[derive(Debug)]
pub struct Places<'a> {
    /// Number of the row.
    pub row: usize,
    /// Its first block.
    pub block: usize,
    /// Rows in all.
    pub rows: usize,
    /// `[block][row][32]`.
    pub q: &'a Shared<i8>,
    /// `[block][row]`.
    pub scale: &'a Shared<f32>,
    /// `[block][row]`.
    pub total: &'a Shared<i32>,
    /// `[block][row]`.
    pub sum: &'a Shared<f32>,
}

#[inline(always)]
fn quantise_body<const FMA: bool>(x: &[f32], to: &Places<'_>) {
    for (j, block) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
        let mut lanes = [0.0f32; LANES];
        for i in 0..LANES {
            lanes[i] = block[i].abs().max(block[i + LANES].abs());
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] = lanes[i].max(lanes[i + width]);
            }
            width /= 2;
        }
        let d = lanes[0] / 127.0;
        let inverse = if d > 0.0 { 1.0 / d } else { 0.0 };
        let at = (to.block + j) * to.rows + to.row;
        // SAFETY: each row is one thread's, and so are its places.
        let q = unsafe { to.q.slice(at * BLOCK, BLOCK) };
        let mut total = 0i32;
        for i in 0..BLOCK {
            let v = round(block[i] * inverse).1;
            q[i] = v as i8;
            total += v;
        }
        // SAFETY: as above.
        unsafe {
            to.scale.set(at, d);
            to.total.set(at, total);
            to.sum.set(at, d * total as f32);
        }
    }
}
multiversion! {
    fn quantise_loop = quantise_body(x: &[f32], to: &Places<'_>)
}
/// Blocks of 32 to 8 bits: `q = round(x / d)`, `d = max|x| / 127`; also `Σq` and `d · Σq` a block, which the
/// offsets of weights are multiplied by.
pub fn quantise(level: Level, x: &[f32], to: &Places<'_>) {
    #[cfg(target_arch = "x86_64")]
    if level.avx512() {
        // SAFETY: the level has AVX-512.
        return unsafe { super::lanes512::quantise(x, to) };
    }
    quantise_loop(level, x, to);
}

/// The nearest whole number of `|x| < 2^22`, ties to even, as float and integer: adding 1.5·2^23 leaves it in the lowest
/// bits. A cast would keep compilers from using vectors, since it must check for what no integer holds.
#[inline(always)]
fn round(x: f32) -> (f32, i32) {
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x + SHIFT;
    (shifted - SHIFT, shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32)
}

/// `e^x` for `x ≤ 88`, relative error about 1e-7 (the Cephes polynomial); below −87 it is `e^-87`.
#[inline(always)]
pub fn exp<const FMA: bool>(x: f32) -> f32 {
    let x = x.clamp(-87.0, 88.0);
    let (n, exponent) = round(x * std::f32::consts::LOG2_E);
    let r = fma::<FMA>(n, -0.693_359_4, x);
    let r = fma::<FMA>(n, 2.121_944_4e-4, r);
    let mut p = 1.987_569_1e-4;
    p = fma::<FMA>(p, r, 1.398_2e-3);
    p = fma::<FMA>(p, r, 8.333_452e-3);
    p = fma::<FMA>(p, r, 4.166_579_6e-2);
    p = fma::<FMA>(p, r, 1.666_666_5e-1);
    p = fma::<FMA>(p, r, 0.5);
    let y = fma::<FMA>(r * r, p, r) + 1.0;
    y * f32::from_bits(((exponent + 127) as u32) << 23)
}

#[inline(always)]
fn gated_body<const FMA: bool>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((o, &g), &u) in out.iter_mut().zip(gate).zip(up) {
        *o = g / (1.0 + exp::<FMA>(-g)) * u;
    }
}
multiversion! {
    fn gated_loop = gated_body(gate: &[f32], up: &[f32], out: &mut [f32])
}
/// `out = silu(gate) · up`.
pub fn gated(level: Level, gate: &[f32], up: &[f32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if level.avx512() {
        // SAFETY: the level has AVX-512.
        return unsafe { super::lanes512::gated(gate, up, out) };
    }
    gated_loop(level, gate, up, out);
}

#[inline(always)]
fn softmax_body<const FMA: bool>(x: &mut [f32]) -> f32 {
    let mut top = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    for c in chunks.iter() {
        for i in 0..LANES {
            top[i] = top[i].max(c[i]);
        }
    }
    for (i, &v) in rest.iter().enumerate() {
        top[i] = top[i].max(v);
    }
    let max = top.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let mut sum = [0.0; LANES];
    for c in chunks.iter_mut() {
        // Not `map`: its closure would be compiled without the level's instructions, and every fused step be a call.
        for i in 0..LANES {
            c[i] = exp::<FMA>(c[i] - max);
            sum[i] += c[i];
        }
    }
    for (i, v) in rest.iter_mut().enumerate() {
        *v = exp::<FMA>(*v - max);
        sum[i] += *v;
    }
    sum16(sum)
}
multiversion! {
    fn softmax_loop = softmax_body(x: &mut [f32]) -> f32
}
/// `x = e^(x − max)`; returns the sum, the divisor that is left to the caller.
pub fn softmax(level: Level, x: &mut [f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if level.avx512() {
        // SAFETY: the level has AVX-512.
        return unsafe { super::lanes512::softmax(x) };
    }
    softmax_loop(level, x)
}

#[inline(always)]
fn log_sum_exp_body<const FMA: bool>(x: &[f32]) -> f32 {
    let mut top = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for c in chunks {
        for i in 0..LANES {
            top[i] = top[i].max(c[i]);
        }
    }
    for (i, &v) in rest.iter().enumerate() {
        top[i] = top[i].max(v);
    }
    let max = top.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let mut sum = [0.0; LANES];
    for c in chunks {
        for i in 0..LANES {
            sum[i] += exp::<FMA>(c[i] - max);
        }
    }
    for (i, &v) in rest.iter().enumerate() {
        sum[i] += exp::<FMA>(v - max);
    }
    max + sum16(sum).ln()
}
multiversion! {
    fn log_sum_exp_loop = log_sum_exp_body(x: &[f32]) -> f32
}
/// `ln Σ e^x`.
pub fn log_sum_exp(level: Level, x: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if level.avx512() {
        // SAFETY: the level has AVX-512.
        return unsafe { super::lanes512::log_sum_exp(x) };
    }
    log_sum_exp_loop(level, x)
}

#[inline(always)]
fn max16_body<const FMA: bool>(x: &[f32]) -> f32 {
    let mut top = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for c in chunks {
        for i in 0..LANES {
            top[i] = top[i].max(c[i]);
        }
    }
    for (i, &v) in rest.iter().enumerate() {
        top[i] = top[i].max(v);
    }
    top.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}
multiversion! {
    /// Greatest value of a row (NaN is passed over).
    pub fn maximum = max16_body(x: &[f32]) -> f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn loops_agree_with_f64(x in proptest::collection::vec(-30.0f32..30.0, 1..100)) {
            for level in Level::available() {
                let max = x.iter().fold(f64::MIN, |a, &b| a.max(f64::from(b)));
                let want = max + x.iter().map(|&v| (f64::from(v) - max).exp()).sum::<f64>().ln();
                prop_assert!((f64::from(log_sum_exp(level, &x)) - want).abs() < 1e-4);
                prop_assert_eq!(f64::from(maximum(level, &x)), max);
                let mut p = x.clone();
                let sum = softmax(level, &mut p);
                for (&p, &v) in p.iter().zip(&x) {
                    let want = (f64::from(v) - want).exp();
                    prop_assert!((f64::from(p / sum) - want).abs() < 1e-5);
                }
                let weight = vec![0.5; x.len()];
                let mut out = vec![0.0; x.len()];
                rms_norm(level, &x, &weight, 1e-5, &mut out);
                let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / x.len() as f64;
                for (&o, &v) in out.iter().zip(&x) {
                    prop_assert!((f64::from(o) - f64::from(v) / (mean + 1e-5).sqrt() * 0.5).abs() < 1e-4);
                }
            }
        }

        #[test]
        fn quantised_blocks_are_the_same_at_every_level(x in proptest::collection::vec(-5.0f32..5.0, 64)) {
            let mut seen = Vec::new();
            for level in Level::available() {
                let (mut q, mut d, mut t, mut s) = (vec![0i8; 64], vec![0.0; 2], vec![0; 2], vec![0.0; 2]);
                let places = Places {
                    row: 0,
                    block: 0,
                    rows: 1,
                    q: &Shared::new(&mut q),
                    scale: &Shared::new(&mut d),
                    total: &Shared::new(&mut t),
                    sum: &Shared::new(&mut s),
                };
                quantise(level, &x, &places);
                for (i, &v) in x.iter().enumerate() {
                    prop_assert!((f32::from(q[i]) * d[i / 32] - v).abs() <= d[i / 32] * 0.501);
                }
                for (i, block) in q.chunks(32).enumerate() {
                    prop_assert_eq!(t[i], block.iter().map(|&v| i32::from(v)).sum::<i32>());
                    prop_assert_eq!(s[i], d[i] * t[i] as f32);
                }
                seen.push((q, d, t, s));
            }
            prop_assert!(seen.windows(2).all(|w| w[0] == w[1]));
        }
    }

    #[test]
    fn gate_is_silu() {
        for level in Level::available() {
            let mut out = [0.0; 2];
            gated(level, &[1.0, -20.0], &[3.0, 2.0], &mut out);
            assert!((out[0] - 3.0 / (1.0 + (-1.0f32).exp())).abs() < 1e-6);
            assert!(out[1].abs() < 1e-6);
        }
    }
}
