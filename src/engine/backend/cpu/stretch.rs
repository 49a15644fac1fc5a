//! What surrounds a product: rows are normed or gated and quantised before it, and its results put away after it, each
//! by the thread that has the data near.
#![allow(unsafe_code)]

use crate::engine::backend::Input;

use super::Buf;
use super::acts::{Acts, ActsView};
use super::gemm::Sink;
use super::lanes::{self, BLOCK};
use super::level::Level;
use super::pack::TILE;
use super::pool::Worker;
use super::shared::Shared;

/// Where a product's results go.
pub struct Output {
    /// `[rows, width]`.
    pub data: Shared<f32>,
    /// Columns of a row.
    pub width: usize,
    /// Whether results are added to what is there.
    pub add: bool,
}

impl Sink for Output {
    #[inline]
    fn put(&self, row: usize, column: usize, values: &[f32; TILE]) {
        if let Some(count @ TILE..) = self.width.checked_sub(column) {
            debug_assert!(count >= TILE);
            // SAFETY: as below. Of a length known to the compiler.
            let out: &mut [f32; TILE] =
                unsafe { self.data.slice(row * self.width + column, TILE) }.try_into().expect("16 elements");
            if self.add {
                for (o, v) in out.iter_mut().zip(values) {
                    *o += v;
                }
            } else {
                *out = *values;
            }
            return;
        }
        let count = TILE.min(self.width - column);
        // SAFETY: a tile's columns belong to the thread that computes the tile; rows are inside the grown buffer.
        let out = unsafe { self.data.slice(row * self.width + column, count) };
        if self.add {
            for (o, v) in out.iter_mut().zip(values) {
                *o += v;
            }
        } else {
            out.copy_from_slice(&values[..count]);
        }
    }
}

/// An activation store that threads fill together.
pub struct Sharing {
    floats: Shared<f32>,
    q: Shared<i8>,
    scale: Shared<f32>,
    total: Shared<i32>,
    sum: Shared<f32>,
}

impl Sharing {
    /// Shares a store; its borrow must outlive every use.
    pub fn of(acts: &mut Acts) -> Self {
        Self {
            floats: Shared::new(&mut acts.floats),
            q: Shared::new(&mut acts.q),
            scale: Shared::new(&mut acts.scale),
            total: Shared::new(&mut acts.total),
            sum: Shared::new(&mut acts.sum),
        }
    }

    /// SAFETY: no thread writes meanwhile.
    pub unsafe fn view<'a>(&self, rows: usize) -> ActsView<'a> {
        // SAFETY: passed on.
        unsafe {
            ActsView {
                rows,
                floats: self.floats.all(),
                q: self.q.all(),
                scale: self.scale.all(),
                total: self.total.all(),
                sum: self.sum.all(),
            }
        }
    }
}

/// Columns of rows that one thread prepares for a product.
pub struct Stretch<'a> {
    /// Kernels.
    pub level: Level,
    /// Where the rows come from.
    pub input: &'a Input<'a, Buf>,
    /// Number of rows.
    pub rows: usize,
    /// Columns of a row.
    pub k: usize,
    /// Whether the product reads floats.
    pub exact: bool,
    /// Columns to prepare.
    pub columns: std::ops::Range<usize>,
}

impl Stretch<'_> {
    /// Norms or gates every row's columns and puts them into the store in the form that the product reads.
    pub fn prepare(&self, to: &Sharing, local: &mut Vec<f32>) {
        let &Stretch { level, rows, k, .. } = self;
        let columns = self.columns.clone();
        if columns.is_empty() {
            return;
        }
        local.resize(local.len().max(columns.len()), 0.0);
        for row in 0..rows {
            let floats = if self.exact {
                // SAFETY: these columns are this thread's.
                unsafe { to.floats.slice(row * k + columns.start, columns.len()) }
            } else {
                &mut local[..columns.len()]
            };
            let stored: &[f32] = match self.input {
                Input::Plain(x) if self.exact => {
                    floats.copy_from_slice(&x.row(row)[columns.clone()]);
                    floats
                }
                Input::Plain(x) => &x.row(row)[columns.clone()],
                Input::Normed { x, weight, eps } => {
                    // The sum runs over the whole row, whoever needs it.
                    let scale = lanes::rms_scale(level, x.row(row), *eps);
                    lanes::scaled(level, &x.row(row)[columns.clone()], scale, &weight[columns.clone()], floats);
                    floats
                }
                Input::Gated(x) => {
                    let (gate, up) = x.row(row).split_at(k);
                    lanes::gated(level, &gate[columns.clone()], &up[columns.clone()], floats);
                    floats
                }
            };
            if !self.exact {
                let Sharing { q, scale, total, sum, .. } = to;
                let places = lanes::Places { row, block: columns.start / BLOCK, rows, q, scale, total, sum };
                lanes::quantise(level, stored, &places);
            }
        }
    }
}

/// A thread's tiles: the same share of either half. Of gate and up projections it then has the same columns, which are
/// the ones that it gates for the next product.
pub fn halves(worker: &Worker<'_>, tiles: usize) -> [std::ops::Range<usize>; 2] {
    let half = tiles / 2;
    let (step, rest) = (2, tiles - half);
    let second = worker.share(rest, step);
    [worker.share(half, step), half + second.start..half + second.end]
}
