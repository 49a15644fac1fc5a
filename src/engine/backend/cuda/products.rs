//! Products of weights with activation rows.

use crate::engine::backend::Input;

use super::driver::{Arg, Driver};
use super::pack::Format;
use super::{Buf, Cuda, Matrix, THREADS, Vector, done};

/// The kernel for a product of so many rows, and the rows that one of its blocks takes.
fn product(format: Format, rows: usize) -> (&'static str, usize) {
    let names: [&'static str; 3] = match format {
        Format::F32 => return if rows == 1 { ("linear_f32_1", 1) } else { ("linear_f32_8", 8) },
        Format::F16 => ["linear_f16_1", "linear_f16_4", "linear_f16_4"],
        Format::BF16 => ["linear_bf16_1", "linear_bf16_2", "linear_bf16_4"],
        Format::Q8 => ["linear_q8_1", "linear_q8_2", "linear_q8_4"],
        Format::Q4 => ["linear_q4_1", "linear_q4_2", "linear_q4_4"],
    };
    match rows {
        ..=8 => (names[0], 8),
        9..=16 if names[1] != names[2] => (names[1], 16),
        _ => (names[2], 32),
    }
}

impl<D: Driver> Cuda<D> {
    /// Makes the input of a product: rows in F32 (`split` off) or as sums of two BF16.
    fn prepare(&mut self, input: &Input<'_, Buf<D>, Vector<D>>, rows: usize, k: usize, split: bool) {
        let padded = k.next_multiple_of(32);
        let scratch = &mut self.scratch;
        if split {
            done(scratch.high.grow(rows * padded * 2, 0));
            done(scratch.low.grow(rows * padded * 2, 0));
            done(scratch.sums.grow(rows * padded / 32 * 4, 0));
        } else {
            done(scratch.floats.grow(rows * k * 4, 0));
        }
        let (x, kind, weight, eps) = match input {
            Input::Plain(x) => (x, 0, 0, 0.0),
            Input::Normed { x, weight, eps } => (x, 1, weight.at(), *eps),
            Input::Gated(x) => (x, 2, 0, 0.0),
        };
        let floats = if split { 0 } else { self.scratch.floats.at() };
        let args = [
            x.memory.at().into(),
            x.width.into(),
            Arg::Int(kind),
            weight.into(),
            eps.into(),
            k.into(),
            padded.into(),
            floats.into(),
            self.scratch.high.at().into(),
            self.scratch.low.at().into(),
            self.scratch.sums.at().into(),
        ];
        self.launch("prepare", [rows, 1, 1], THREADS, THREADS / 32, &args);
    }

    /// See [`crate::engine::backend::Backend::linear`].
    pub(super) fn multiply(
        &mut self,
        input: &Input<'_, Buf<D>, Vector<D>>,
        rows: usize,
        w: &Matrix<D>,
        out: &mut Buf<D>,
        add: bool,
    ) {
        if rows == 0 {
            return;
        }
        out.grow(rows);
        let layout = &w.layout;
        let (kernel, rows_a_block) = product(layout.format, rows);
        let groups = rows.div_ceil(rows_a_block);
        if layout.format == Format::F32 {
            let x = match input {
                Input::Plain(x) if x.width == layout.k => x.memory.at(),
                _ => {
                    self.prepare(input, rows, layout.k, false);
                    self.scratch.floats.at()
                }
            };
            let args = [
                w.memory.at().into(),
                x.into(),
                out.memory.at().into(),
                layout.n.into(),
                layout.k.into(),
                rows.into(),
                add.into(),
            ];
            self.launch(kernel, [layout.n.div_ceil(THREADS / 32), groups, 1], THREADS, 0, &args);
            return;
        }
        self.prepare(input, rows, layout.k, true);
        let args = [
            w.memory.at().into(),
            self.scratch.high.at().into(),
            self.scratch.low.at().into(),
            self.scratch.sums.at().into(),
            out.memory.at().into(),
            layout.n.into(),
            layout.blocks().into(),
            rows.into(),
            add.into(),
        ];
        // A float a warp, row and feature of the block.
        let floats = THREADS / 32 * rows_a_block * 16;
        self.launch(kernel, [layout.tiles(), groups, 1], THREADS, floats, &args);
    }
}
