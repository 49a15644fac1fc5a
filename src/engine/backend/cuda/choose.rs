//! Choosing from rows of logits.

use std::ops::Range;

use crate::engine::backend::{Backend, Best};
use crate::engine::sampler::top_k;

use super::driver::Driver;
use super::{Buf, Cuda, done};

/// Threads of a block that looks for the best entries of a row.
const SEARCH_THREADS: usize = 512;
/// Most entries that the device sorts; beyond, the host does.
const MOST_TOP: usize = 1024;
impl<D: Driver> Cuda<D> {
    /// See [`crate::engine::backend::Backend::best`].
    pub(super) fn find_best(&mut self, x: &Buf<D>, rows: usize) -> Vec<Best> {
        if rows == 0 {
            return Vec::new();
        }
        done(self.scratch.answers.grow(rows * 12, 0));
        let args = [x.memory.at().into(), x.width.into(), self.scratch.answers.at().into()];
        self.launch("best", [rows, 1, 1], SEARCH_THREADS, SEARCH_THREADS * 3, &args);
        let mut words = vec![0u32; rows * 3];
        done(self.driver.download(self.scratch.answers.at(), bytemuck::cast_slice_mut(&mut words)));
        words
            .as_chunks::<3>()
            .0
            .iter()
            .map(|&[index, value, second]| Best { index, value: f32::from_bits(value), second: f32::from_bits(second) })
            .collect()
    }

    /// See [`crate::engine::backend::Backend::top`].
    pub(super) fn find_top(&mut self, x: &Buf<D>, rows: Range<usize>, k: usize) -> Vec<(u32, f32)> {
        let k = k.min(x.width);
        if k == 0 || rows.is_empty() {
            return Vec::new();
        }
        if k > MOST_TOP {
            let logits = self.read(x, rows);
            return logits.chunks_exact(x.width).flat_map(|row| top_k(row, k)).collect();
        }
        let count = rows.len() * k;
        done(self.scratch.answers.grow(count * 8, 0));
        let room = k.next_power_of_two();
        let args = [
            x.memory.at().into(),
            x.width.into(),
            rows.start.into(),
            k.into(),
            room.into(),
            self.scratch.answers.at().into(),
        ];
        self.launch("top", [rows.len(), 1, 1], SEARCH_THREADS, 32 + 256 + 4 + 2 * room, &args);
        let mut words = vec![0u32; count * 2];
        done(self.driver.download(self.scratch.answers.at(), bytemuck::cast_slice_mut(&mut words)));
        words.as_chunks::<2>().0.iter().map(|&[index, logprob]| (index, f32::from_bits(logprob))).collect()
    }
}
