//! Several devices as one: tensor parallelism behind the same trait, so that models, rounds and caches know nothing of it.
//!
//! ```text
//! first device    x ──┬─ norm ─ heads 0..  ─ attention ─ output, its columns ──► Σ ─► x
//!                     │                                                         ▲
//! other devices       └► copy ─ heads n.. ─ attention ─ output, its columns ────┘
//! ```
//!
//! The first device keeps whatever is whole: the residual stream, embedding, LM head, drafter. What the target's layers do
//! inside is shared out (Shoeybi et al., Megatron-LM, 2019): the projections into a layer by their outputs, whole heads
//! together, so that each device has the queries, keys and values (and the cache) of its own heads; the projections out
//! of it by their inputs. Each device then has a summand of the result, and the first one adds them, always in
//! the order of the devices. A row's result therefore depends neither on other rows nor on timing, as everywhere; against
//! one device the order of the sum differs, and so may the last bits.

mod linear;
mod mix;
mod team;

use std::borrow::Cow;
use std::ops::Range;

use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;

use super::cuda::driver::Room;
use super::delta::DeltaNet;
use super::{Backend, Best, Columns, HeadNorms, Heads, Input, Keeps, Rows, Split, Store};
use linear::Scratch;
use team::Team;

/// Weights on the first device, or a share on each.
pub enum Matrix<M> {
    /// On the first device.
    Whole(M),
    /// Each device has some of the outputs.
    Outputs(Vec<M>),
    /// Each device has some of the inputs.
    Inputs(Vec<M>),
}

/// Activations on the first device, or a share of the columns on each.
pub enum Buf<T> {
    /// On the first device.
    Whole {
        /// The rows.
        rows: T,
        /// Elements of a row.
        width: usize,
    },
    /// Each device has some of the columns.
    Shared(Vec<T>),
}

impl<T> Buf<T> {
    /// The rows on the first device: all there is of a whole buffer.
    fn first(&self) -> &T {
        match self {
            Buf::Whole { rows, .. } => rows,
            Buf::Shared(parts) => &parts[0],
        }
    }
    fn first_mut(&mut self) -> &mut T {
        match self {
            Buf::Whole { rows, .. } => rows,
            Buf::Shared(parts) => &mut parts[0],
        }
    }
}

/// Keys and values on the first device, or those of its own heads on each.
pub enum Cache<C> {
    /// On the first device.
    Whole(C),
    /// Each device has its own heads'.
    Shared(Vec<C>),
}

impl<C> Cache<C> {
    /// One device's part.
    fn rank_mut(&mut self, rank: usize) -> &mut C {
        match self {
            Cache::Whole(cache) => cache,
            Cache::Shared(parts) => &mut parts[rank],
        }
    }
}

/// Devices that work together.
pub struct Parallel<B: Backend> {
    ranks: Vec<B>,
    team: Team,
    scratch: Scratch<B>,
}

impl<B: Backend> Parallel<B> {
    /// Puts devices together; there must be at least one.
    pub fn new(ranks: Vec<B>) -> Self {
        let team = Team::new(ranks.len());
        Self { ranks, team, scratch: Scratch::default() }
    }
}

impl<B> Backend for Parallel<B>
where
    B: Backend,
    B::Matrix: Sync,
    B::Vector: Clone + Sync,
    B::Buf: Sync,
    B::Cache: Sync,
{
    type Matrix = Matrix<B::Matrix>;
    type Vector = Vec<B::Vector>;
    type Buf = Buf<B::Buf>;
    type Cache = Cache<B::Cache>;

    fn info(&self) -> DeviceInfo {
        let first = self.ranks[0].info();
        DeviceInfo {
            name: format!("{} × {}", self.ranks.len(), first.name),
            threads: self.ranks.iter().map(|rank| rank.info().threads).sum(),
            ..first
        }
    }

    fn read_bandwidth(&mut self, bytes: usize) -> f64 {
        self.ranks[0].read_bandwidth(bytes) * self.ranks.len() as f64
    }

    /// The least of the devices': what is shared out must fit each.
    fn room(&self) -> Option<Room> {
        self.ranks.iter().filter_map(B::room).min_by_key(|room| room.free)
    }

    fn ranks(&self) -> usize {
        self.ranks.len()
    }

    fn pack(
        &self,
        parts: &[TensorView<'_>],
        select: Option<&[u32]>,
        store: Store,
    ) -> Result<Self::Matrix, WeightsError> {
        self.ranks[0].pack(parts, select, store).map(Matrix::Whole)
    }

    fn pack_shares(
        &self,
        shares: &[Vec<TensorView<'_>>],
        split: Split,
        store: Store,
    ) -> Result<Self::Matrix, WeightsError> {
        let packed = self.ranks.iter().zip(shares).map(|(rank, share)| rank.pack(share, None, store));
        let packed = packed.collect::<Result<Vec<_>, _>>()?;
        Ok(match split {
            Split::Outputs => Matrix::Outputs(packed),
            Split::Inputs => Matrix::Inputs(packed),
        })
    }

    fn describe(&self, matrix: &Self::Matrix) -> (usize, &'static str) {
        match matrix {
            Matrix::Whole(matrix) => self.ranks[0].describe(matrix),
            Matrix::Outputs(parts) | Matrix::Inputs(parts) => {
                let all = self.ranks.iter().zip(parts).map(|(rank, part)| rank.describe(part));
                all.fold((0, ""), |(bytes, _), (more, format)| (bytes + more, format))
            }
        }
    }

    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector, WeightsError> {
        self.ranks.iter().map(|rank| rank.vector(values.clone())).collect()
    }

    fn vector_shares(&self, shares: Vec<Vec<f32>>) -> Result<Self::Vector, WeightsError> {
        self.ranks.iter().zip(shares).map(|(rank, share)| rank.vector(share)).collect()
    }

    fn buf(&self, width: usize) -> Self::Buf {
        Buf::Whole { rows: self.ranks[0].buf(width), width }
    }

    fn buf_shared(&self, width: usize) -> Self::Buf {
        Buf::Shared(self.ranks.iter().map(|rank| rank.buf(width)).collect())
    }

    fn cache(&self, layers: &[Keeps<'_>], exact: bool) -> Self::Cache {
        Cache::Whole(self.ranks[0].cache(layers, exact))
    }

    fn cache_shared(&self, layers: &[Keeps<'_>], exact: bool) -> Self::Cache {
        Cache::Shared(self.ranks.iter().map(|rank| rank.cache(layers, exact)).collect())
    }

    fn reserve(&self, cache: &mut Self::Cache, slots: usize) {
        match cache {
            Cache::Whole(cache) => self.ranks[0].reserve(cache, slots),
            Cache::Shared(parts) => {
                for (rank, part) in self.ranks.iter().zip(parts) {
                    rank.reserve(part, slots);
                }
            }
        }
    }

    fn embed(&mut self, table: &Self::Matrix, ids: &[u32], scale: f32, out: &mut Self::Buf) {
        // Tables are never shared out.
        if let Matrix::Whole(table) = table {
            self.ranks[0].embed(table, ids, scale, out.first_mut());
        }
    }

    fn upload(&mut self, data: &[f32], out: &mut Self::Buf) {
        self.ranks[0].upload(data, out.first_mut());
    }

    fn linear(
        &mut self,
        input: &Input<'_, Self::Buf, Self::Vector>,
        rows: usize,
        w: &Self::Matrix,
        out: &mut Self::Buf,
        add: bool,
    ) {
        match (w, out) {
            (Matrix::Whole(w), out) => self.ranks[0].linear(&linear::first(input), rows, w, out.first_mut(), add),
            (Matrix::Outputs(w), Buf::Shared(out)) => self.spread(input, rows, w, out, add),
            (Matrix::Inputs(w), Buf::Whole { rows: out, width }) => self.sum(input, rows, w, (out, *width), add),
            (Matrix::Outputs(_), Buf::Whole { .. }) | (Matrix::Inputs(_), Buf::Shared(_)) => {
                unreachable!("projections by outputs end in shared buffers, those by inputs in whole ones")
            }
        }
    }

    fn norm(&mut self, x: &mut Self::Buf, rows: usize, weight: &Self::Vector, eps: f32) {
        self.ranks[0].norm(x.first_mut(), rows, &weight[0], eps);
    }

    fn cap(&mut self, x: &mut Self::Buf, rows: usize, scale: f32, cap: Option<f32>) {
        self.ranks[0].cap(x.first_mut(), rows, scale, cap);
    }

    fn rotate_store(
        &mut self,
        x: &mut Self::Buf,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms<Self::Vector>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Self::Cache],
    ) {
        self.rotate(x, columns, heads, norms, rows, layer, caches);
    }

    fn attend(
        &mut self,
        x: &Self::Buf,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Self::Cache],
        out: &mut Self::Buf,
    ) {
        self.look(x, q, heads, rows, layer, caches, out);
    }

    fn convolve(
        &mut self,
        x: &Self::Buf,
        kernels: &Self::Buf,
        at: usize,
        base: &Self::Vector,
        group: usize,
        rows: &Rows,
        out: &mut Self::Buf,
        add: bool,
    ) {
        // Only drafters have these, and they are never shared out.
        self.ranks[0].convolve(x.first(), kernels.first(), at, &base[0], group, rows, out.first_mut(), add);
    }

    fn gate(&mut self, x: &mut Self::Buf, rows: usize, gates: &Self::Buf, column: usize) {
        match (x, gates) {
            (Buf::Shared(x), Buf::Shared(gates)) => {
                let parts = self.ranks.iter_mut().zip(x).zip(gates).collect();
                self.team.each(parts, |_, ((rank, x), gates)| rank.gate(x, rows, gates, column));
            }
            (x, gates) => self.ranks[0].gate(x.first_mut(), rows, gates.first(), column),
        }
    }

    fn delta(
        &mut self,
        x: &Self::Buf,
        gates: &Self::Buf,
        net: &DeltaNet<Self::Vector>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Self::Cache],
        out: &mut Self::Buf,
    ) {
        self.recall(x, gates, net, rows, layer, caches, out);
    }

    fn gather(&mut self, x: &Self::Buf, pick: &[usize], out: &mut Self::Buf, at: usize) {
        self.ranks[0].gather(x.first(), pick, out.first_mut(), at);
    }

    fn place(&mut self, x: &Self::Buf, rows: usize, out: &mut Self::Buf, column: usize) {
        self.ranks[0].place(x.first(), rows, out.first_mut(), column);
    }

    fn add(&mut self, x: &Self::Buf, rows: usize, out: &mut Self::Buf) {
        self.ranks[0].add(x.first(), rows, out.first_mut());
    }

    fn read<'a>(&'a self, x: &'a Self::Buf, rows: Range<usize>) -> Cow<'a, [f32]> {
        self.ranks[0].read(x.first(), rows)
    }

    fn best(&mut self, x: &Self::Buf, rows: usize) -> Vec<Best> {
        self.ranks[0].best(x.first(), rows)
    }

    fn top(&mut self, x: &Self::Buf, rows: Range<usize>, k: usize) -> Vec<(u32, f32)> {
        self.ranks[0].top(x.first(), rows, k)
    }

    fn keep(&mut self, cache: &mut Self::Cache, base: usize, path: &[usize]) {
        match cache {
            Cache::Whole(cache) => self.ranks[0].keep(cache, base, path),
            Cache::Shared(parts) => {
                let parts = self.ranks.iter_mut().zip(parts).collect();
                self.team.each(parts, |_, (rank, part): (&mut B, _)| rank.keep(part, base, path));
            }
        }
    }
}
