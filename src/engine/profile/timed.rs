//! A backend that notes how long each operation of another one takes.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Instant;

use crate::engine::backend::cuda::driver::Room;
use crate::engine::backend::delta::DeltaNet;
use crate::engine::backend::{Backend, Best, Columns, HeadNorms, Heads, Input, Keeps, Rows, Split, Store};
use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;

/// Parts of a forward pass that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Rows of the embedding table.
    Embed,
    /// Projection to queries, keys and values, norm and quantisation included.
    Qkv,
    /// Head norms, rotation, writing to the cache.
    Rotate,
    /// Attention, or the recurrence in its place.
    Attend,
    /// Projection back to the residual stream.
    Output,
    /// Gate and up projections.
    GateUp,
    /// Down projection, gate included.
    Down,
    /// LM head.
    Head,
    /// Best entries of logits rows.
    Best,
    /// Copies: features, wanted rows, kept cache slots.
    Copy,
}

impl Part {
    /// All parts, in the order of a forward pass.
    pub const ALL: [Part; 10] = [
        Part::Embed,
        Part::Qkv,
        Part::Rotate,
        Part::Attend,
        Part::Output,
        Part::GateUp,
        Part::Down,
        Part::Head,
        Part::Best,
        Part::Copy,
    ];

    /// Key in the report.
    pub fn name(self) -> &'static str {
        match self {
            Part::Embed => "embed",
            Part::Qkv => "qkv",
            Part::Rotate => "rotate",
            Part::Attend => "attend",
            Part::Output => "output",
            Part::GateUp => "gate_up",
            Part::Down => "down",
            Part::Head => "head",
            Part::Best => "best",
            Part::Copy => "copy",
        }
    }
}

/// Milliseconds by part, in the order of [`Part::ALL`].
pub type Times = [f64; Part::ALL.len()];

/// A backend and what its operations took since [`Timed::take`] was called last. On a GPU operations are only asked for,
/// so it is the asking that is timed: what the processor adds to a pass.
pub struct Timed<B> {
    /// The backend.
    pub inner: B,
    times: Times,
    /// A normed projection whose part only the next operation tells: the one before a rotation made queries, keys and
    /// values, the one before a gated projection made gate and up, and what nothing follows was the head.
    open: f64,
}

impl<B> Timed<B> {
    /// Wraps a backend.
    pub fn new(inner: B) -> Self {
        Self { inner, times: Times::default(), open: 0.0 }
    }

    /// Times since the last call.
    pub fn take(&mut self) -> Times {
        self.close(Part::Head);
        std::mem::take(&mut self.times)
    }

    fn close(&mut self, part: Part) {
        self.times[part as usize] += std::mem::take(&mut self.open);
    }

    fn note(&mut self, part: Part, since: Instant) {
        self.times[part as usize] += since.elapsed().as_secs_f64() * 1e3;
    }
}

impl<B: Backend> Backend for Timed<B> {
    type Matrix = B::Matrix;
    type Vector = B::Vector;
    type Buf = B::Buf;
    type Cache = B::Cache;

    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn read_bandwidth(&mut self, bytes: usize) -> f64 {
        self.inner.read_bandwidth(bytes)
    }

    fn integer_peak(&mut self) -> Option<f64> {
        self.inner.integer_peak()
    }

    fn pack(&self, parts: &[TensorView<'_>], select: Option<&[u32]>, store: Store) -> Result<B::Matrix, WeightsError> {
        self.inner.pack(parts, select, store)
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn ranks(&self) -> usize {
        self.inner.ranks()
    }

    fn pack_shares(
        &self,
        shares: &[Vec<TensorView<'_>>],
        split: Split,
        store: Store,
    ) -> Result<B::Matrix, WeightsError> {
        self.inner.pack_shares(shares, split, store)
    }

    fn vector_shares(&self, shares: Vec<Vec<f32>>) -> Result<B::Vector, WeightsError> {
        self.inner.vector_shares(shares)
    }

    fn buf_shared(&self, width: usize) -> B::Buf {
        self.inner.buf_shared(width)
    }

    fn cache_shared(&self, layers: &[Keeps<'_>], exact: bool) -> B::Cache {
        self.inner.cache_shared(layers, exact)
    }

    fn add(&mut self, x: &B::Buf, rows: usize, out: &mut B::Buf) {
        let clock = Instant::now();
        self.inner.add(x, rows, out);
        self.note(Part::Copy, clock);
    }

    fn describe(&self, matrix: &B::Matrix) -> (usize, &'static str) {
        self.inner.describe(matrix)
    }

    fn vector(&self, values: Vec<f32>) -> Result<B::Vector, WeightsError> {
        self.inner.vector(values)
    }

    fn buf(&self, width: usize) -> B::Buf {
        self.inner.buf(width)
    }

    fn cache(&self, layers: &[Keeps<'_>], exact: bool) -> B::Cache {
        self.inner.cache(layers, exact)
    }

    fn reserve(&self, cache: &mut B::Cache, slots: usize) {
        self.inner.reserve(cache, slots);
    }

    fn embed(&mut self, table: &B::Matrix, ids: &[u32], scale: f32, out: &mut B::Buf) {
        self.close(Part::Head);
        let clock = Instant::now();
        self.inner.embed(table, ids, scale, out);
        self.note(Part::Embed, clock);
    }

    fn upload(&mut self, data: &[f32], out: &mut B::Buf) {
        let clock = Instant::now();
        self.inner.upload(data, out);
        self.note(Part::Copy, clock);
    }

    fn linear(
        &mut self,
        input: &Input<'_, B::Buf, B::Vector>,
        rows: usize,
        w: &B::Matrix,
        out: &mut B::Buf,
        add: bool,
    ) {
        let clock = Instant::now();
        self.inner.linear(input, rows, w, out, add);
        let ms = clock.elapsed().as_secs_f64() * 1e3;
        match input {
            Input::Normed { .. } => self.open += ms,
            Input::Gated(_) => {
                self.close(Part::GateUp);
                self.times[Part::Down as usize] += ms;
            }
            Input::Plain(_) => {
                self.close(Part::Head);
                self.times[Part::Output as usize] += ms;
            }
        }
    }

    fn norm(&mut self, x: &mut B::Buf, rows: usize, weight: &B::Vector, eps: f32) {
        let clock = Instant::now();
        self.inner.norm(x, rows, weight, eps);
        self.note(Part::Output, clock);
    }

    fn cap(&mut self, x: &mut B::Buf, rows: usize, scale: f32, cap: Option<f32>) {
        self.close(Part::Head);
        let clock = Instant::now();
        self.inner.cap(x, rows, scale, cap);
        self.note(Part::Head, clock);
    }

    fn rotate_store(
        &mut self,
        x: &mut B::Buf,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms<B::Vector>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut B::Cache],
    ) {
        self.close(Part::Qkv);
        let clock = Instant::now();
        self.inner.rotate_store(x, columns, heads, norms, rows, layer, caches);
        self.note(Part::Rotate, clock);
    }

    fn attend(
        &mut self,
        x: &B::Buf,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut B::Cache],
        out: &mut B::Buf,
    ) {
        let clock = Instant::now();
        self.inner.attend(x, q, heads, rows, layer, caches, out);
        self.note(Part::Attend, clock);
    }

    fn convolve(
        &mut self,
        x: &B::Buf,
        kernels: &B::Buf,
        at: usize,
        base: &B::Vector,
        group: usize,
        rows: &Rows,
        out: &mut B::Buf,
        add: bool,
    ) {
        let clock = Instant::now();
        self.inner.convolve(x, kernels, at, base, group, rows, out, add);
        self.note(Part::Output, clock);
    }

    fn gate(&mut self, x: &mut B::Buf, rows: usize, gates: &B::Buf, column: usize) {
        let clock = Instant::now();
        self.inner.gate(x, rows, gates, column);
        self.note(Part::Attend, clock);
    }

    fn delta(
        &mut self,
        x: &B::Buf,
        gates: &B::Buf,
        net: &DeltaNet<B::Vector>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut B::Cache],
        out: &mut B::Buf,
    ) {
        self.close(Part::Qkv);
        let clock = Instant::now();
        self.inner.delta(x, gates, net, rows, layer, caches, out);
        self.note(Part::Attend, clock);
    }

    fn gather(&mut self, x: &B::Buf, pick: &[usize], out: &mut B::Buf, at: usize) {
        let clock = Instant::now();
        self.inner.gather(x, pick, out, at);
        self.note(Part::Copy, clock);
    }

    fn place(&mut self, x: &B::Buf, rows: usize, out: &mut B::Buf, column: usize) {
        let clock = Instant::now();
        self.inner.place(x, rows, out, column);
        self.note(Part::Copy, clock);
    }

    fn read<'a>(&'a self, x: &'a B::Buf, rows: Range<usize>) -> Cow<'a, [f32]> {
        self.inner.read(x, rows)
    }

    fn best(&mut self, x: &B::Buf, rows: usize) -> Vec<Best> {
        self.close(Part::Head);
        let clock = Instant::now();
        let best = self.inner.best(x, rows);
        self.note(Part::Best, clock);
        best
    }

    fn top(&mut self, x: &B::Buf, rows: Range<usize>, k: usize) -> Vec<(u32, f32)> {
        self.close(Part::Head);
        let clock = Instant::now();
        let top = self.inner.top(x, rows, k);
        self.note(Part::Best, clock);
        top
    }

    fn keep(&mut self, cache: &mut B::Cache, base: usize, path: &[usize]) {
        let clock = Instant::now();
        self.inner.keep(cache, base, path);
        self.note(Part::Copy, clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::api::{ModelSource, Precision};
    use crate::engine::backend::cpu::Cpu;
    use crate::engine::backend::parallel::{Buf, Parallel};
    use crate::engine::rounds::Core;
    use crate::engine::weights::{Checkpoint, bundle};

    #[test]
    fn devices_that_work_together_are_timed_together() {
        let devices = Timed::new(Parallel::new(vec![Cpu::new(1), Cpu::new(1)]));
        assert_eq!(devices.ranks(), 2);
        assert!(matches!(devices.buf_shared(8), Buf::Shared(parts) if parts.len() == 2));
        let target = Checkpoint::open(&ModelSource::Embedded(&bundle::TINY_TARGET)).expect("it opens");
        let whole = target_heads(Core::load(Cpu::new(1), &target, None, Precision::Auto, |_| {}));
        let shared = target_heads(Core::load(devices, &target, None, Precision::Auto, |_| {}));
        assert_eq!(shared * 2, whole, "each has half of the heads");
    }

    fn target_heads<B: Backend>(core: Result<Core<B>, WeightsError>) -> usize {
        core.expect("it loads").target.heads.heads
    }
}
