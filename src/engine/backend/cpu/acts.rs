//! Activation rows as products read them: in 8 bits, block by block, so that the rows of a block lie side by side.

use super::lanes::BLOCK;
use super::pack::Format;

/// Rows that kernels may read beyond the last one (and whose results they throw away).
const BEYOND: usize = 16;

/// Room for activation rows, kept between products.
#[derive(Debug, Default)]
pub struct Acts {
    /// Rows as floats (F32 weights), `[row][k]`.
    pub floats: Vec<f32>,
    /// `[block][row][32]`.
    pub q: Vec<i8>,
    /// Scales, `[block][row]`.
    pub scale: Vec<f32>,
    /// Sums of a block's integers, `[block][row]`.
    pub total: Vec<i32>,
    /// Scale times sum, `[block][row]`.
    pub sum: Vec<f32>,
}

/// Activation rows, ready for a product.
#[derive(Debug, Clone, Copy)]
pub struct ActsView<'a> {
    /// Rows in all: the distance between blocks.
    pub rows: usize,
    /// As in [`Acts`].
    pub floats: &'a [f32],
    /// As in [`Acts`].
    pub q: &'a [i8],
    /// As in [`Acts`].
    pub scale: &'a [f32],
    /// As in [`Acts`].
    pub total: &'a [i32],
    /// As in [`Acts`].
    pub sum: &'a [f32],
}

impl Acts {
    /// Makes room for rows of `k` features in the form that `format` needs.
    pub fn shape(&mut self, rows: usize, k: usize, format: Format) {
        if format == Format::F32 {
            self.floats.resize((rows * k).max(self.floats.len()), 0.0);
        } else {
            let pairs = rows * (k / BLOCK) + BEYOND;
            self.q.resize((pairs * BLOCK).max(self.q.len()), 0);
            self.scale.resize(pairs.max(self.scale.len()), 0.0);
            self.total.resize(pairs.max(self.total.len()), 0);
            self.sum.resize(pairs.max(self.sum.len()), 0.0);
        }
    }

    /// What products read.
    pub fn view(&self, rows: usize) -> ActsView<'_> {
        ActsView { rows, floats: &self.floats, q: &self.q, scale: &self.scale, total: &self.total, sum: &self.sum }
    }
}

impl ActsView<'_> {
    /// Checks once a call what kernels then read without looking: `padded` rows from `first` on, in `blocks` blocks.
    pub fn check(&self, first: usize, padded: usize, blocks: usize) {
        let end = (blocks - 1) * self.rows + first + padded;
        assert!(
            self.q.len() >= end * BLOCK && self.scale.len() >= end && self.total.len() >= end && self.sum.len() >= end,
            "the activation store has no room for these rows"
        );
    }
}
