//! What this machine can do at most: the yardsticks of `bench-kernels`.

use std::hint::black_box;
use std::time::Instant;

use super::Cpu;
use super::level::Level;
#[cfg(target_arch = "x86_64")]
use super::{amx, vnni};

/// Passes over the buffer and repetitions of the arithmetic; the fastest counts, since a limit is asked for.
const RUNS: usize = 7;
/// Steps of the arithmetic measurement: some milliseconds.
const STEPS: usize = 200_000;

impl Cpu {
    /// Bytes a second that all threads together read from a buffer of `bytes`, best of some passes.
    pub fn measure_bandwidth(&mut self, bytes: usize) -> f64 {
        let buffer = vec![1u64; bytes / 8];
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let clock = Instant::now();
            self.pool.run(&|worker| {
                let range = worker.share(buffer.len(), 8);
                black_box(sum(&buffer[range]));
            });
            best = best.min(clock.elapsed().as_secs_f64());
        }
        (buffer.len() * 8) as f64 / best
    }

    /// Integer operations a second (a multiplication and an addition are two) of all threads together, with the
    /// instructions that products of many rows use. `None` where the compiler picks the instructions.
    pub fn measure_integers(&mut self) -> Option<f64> {
        #[cfg(target_arch = "x86_64")]
        {
            let (steps, per_step) = match self.level {
                Level::Amx => (STEPS / 20, amx::PEAK_STEP_OPS),
                Level::Vnni => (STEPS, vnni::PEAK_STEP_OPS),
                _ => return None,
            };
            let amx = self.level == Level::Amx;
            let mut best = f64::INFINITY;
            for _ in 0..RUNS {
                let clock = Instant::now();
                self.pool.run(&|_| {
                    if amx {
                        amx::peak(steps);
                    } else {
                        black_box(vnni::peak(steps));
                    }
                });
                best = best.min(clock.elapsed().as_secs_f64());
            }
            Some((steps * per_step * self.pool.count()) as f64 / best)
        }
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

fn sum(values: &[u64]) -> u64 {
    let mut lanes = [0u64; 64];
    for chunk in values.as_chunks::<64>().0 {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*value);
        }
    }
    lanes.iter().fold(0, |a, b| a.wrapping_add(*b))
}
