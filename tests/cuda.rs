//! The CUDA backend without a GPU: its kernels compile for every architecture, and their numbers are those of the CPU
//! backend when the same source runs on a simulated device.
#![allow(unsafe_code)]

#[path = "cuda/attention.rs"]
mod attention;
#[path = "cuda/compile.rs"]
mod compile;
#[path = "cuda/delta.rs"]
mod delta;
#[path = "cuda/engine.rs"]
mod engine;
#[path = "cuda/products.rs"]
mod products;
#[path = "cuda/rows.rs"]
mod rows;
#[path = "cuda/simulated.rs"]
mod simulated;

/// A small deterministic random stream.
pub struct Dice(u64);

impl Dice {
    /// A stream.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 32 random bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.bits() as usize % n
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Numbers from −1 to 1.
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.bits() as f32 / u32::MAX as f32 * 2.0 - 1.0).collect()
    }
}

/// Checks that two results agree up to rounding.
pub fn close(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: {g} instead of {w} at {i}");
    }
}
