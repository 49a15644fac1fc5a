//! One head of the gated delta rule: rows that share a state, states at anchors, and the loops underneath.
#![allow(unsafe_code, clippy::inline_always)]

use super::lanes::{self, LANES, sum16};
use super::level::{Level, fma, multiversion};
use super::shared::Shared;
use crate::engine::backend::delta::BLOCK;

/// Rows whose products with a state are made together.
const TOGETHER: usize = 8;

/// Rows that start from one state.
#[derive(Debug, Default)]
struct Family {
    /// The slot whose row is the last before the state; `None`: the cache's own.
    tip: Option<usize>,
    rows: Vec<usize>,
    children: Vec<usize>,
    depth: usize,
}

/// All families of a session's rows; the first one starts from the cache's state.
#[derive(Debug, Default)]
pub struct Families {
    all: Vec<Family>,
}

impl Families {
    /// Adds a family below another one.
    pub fn add(&mut self, tip: Option<usize>, above: Option<usize>) -> usize {
        let index = self.all.len();
        let depth = above.map_or(0, |a| self.all[a].depth + 1);
        self.all.push(Family { tip, depth, ..Family::default() });
        if let Some(above) = above {
            self.all[above].children.push(index);
        }
        index
    }

    /// The family that starts behind this slot.
    pub fn find(&self, tip: usize) -> Option<usize> {
        self.all.iter().position(|f| f.tip == Some(tip))
    }

    /// Adds a row.
    pub fn push(&mut self, family: usize, row: usize) {
        self.all[family].rows.push(row);
    }
}

/// A row, as one head sees it.
pub struct Row<'a> {
    /// Its index in the call.
    pub index: usize,
    /// Its slot.
    pub slot: usize,
    /// Rows of its path since the anchor.
    pub steps: usize,
    /// Query, normed and scaled.
    pub q: &'a [f32],
    /// Value.
    pub v: &'a [f32],
    /// How much of the correction is written.
    pub beta: f32,
}

/// Scratch memory of a thread.
#[derive(Debug, Default)]
pub struct Heap {
    states: Vec<Vec<f32>>,
    /// Keys and queries of the rows that go through a state together.
    lines: Vec<f32>,
    products: Vec<f32>,
    sums: Vec<f32>,
    path: Vec<(usize, f32)>,
}

/// One value head of one session.
pub struct Head<'a> {
    /// Instructions.
    pub level: Level,
    /// Width of keys.
    pub key_dim: usize,
    /// Width of values.
    pub value_dim: usize,
    /// Keys of the kept slots, from this head's first column on.
    pub keys: &'a [f32],
    /// Distance between two slots' keys.
    pub key_stride: usize,
    /// `e^g` of the kept slots.
    pub decays: &'a [f32],
    /// Distance between two slots' decays.
    pub decay_stride: usize,
    /// `δ` of the kept slots; this head's columns are this thread's.
    pub deltas: Shared<f32>,
    /// This head's first column.
    pub delta_at: usize,
    /// Distance between two slots' `δ`.
    pub delta_stride: usize,
    /// First kept slot.
    pub first: usize,
}

impl Head<'_> {
    fn key(&self, slot: usize) -> &[f32] {
        &self.keys[(slot - self.first) * self.key_stride..][..self.key_dim]
    }

    fn decay(&self, slot: usize) -> f32 {
        self.decays[(slot - self.first) * self.decay_stride]
    }

    /// SAFETY: the caller holds no other reference to this slot's `δ`.
    unsafe fn delta<'b>(&self, slot: usize) -> &'b mut [f32] {
        // SAFETY: this head's columns are one thread's, and the caller keeps to one reference at a time.
        unsafe { self.deltas.slice((slot - self.first) * self.delta_stride + self.delta_at, self.value_dim) }
    }

    /// Moves a state over one block of a path that ends in the row at `tip`:
    /// `S ← Γ(tip, anchor) S + Σ_j Γ(tip, j) k_j δ_jᵀ`.
    pub fn absorb(&self, state: &mut [f32], tip: usize, up: impl Fn(usize) -> Option<usize>, heap: &mut Heap) {
        heap.path.clear();
        let mut share = 1.0;
        let mut next = Some(tip);
        for _ in 0..BLOCK {
            // A path has a row at every position since the anchor.
            let Some(slot) = next else { break };
            heap.path.push((slot, share));
            share *= self.decay(slot);
            next = up(slot);
        }
        for (d, line) in state.chunks_exact_mut(self.value_dim).enumerate() {
            scale(self.level, line, share);
            for &(slot, share) in heap.path.iter().rev() {
                // SAFETY: one reference at a time.
                let delta = unsafe { self.delta(slot) };
                add(self.level, share * self.key(slot)[d], delta, line);
            }
        }
    }

    /// Evaluates a family from its state, and the families below it. `finish` gets every row's output.
    #[allow(clippy::too_many_arguments)]
    pub fn evaluate<'r>(
        &self,
        families: &Families,
        family: usize,
        state: &[f32],
        row: &impl Fn(usize) -> Row<'r>,
        up: &impl Fn(usize) -> Option<usize>,
        heap: &mut Heap,
        finish: &mut impl FnMut(usize, &[f32]),
    ) {
        let this = &families.all[family];
        for chunk in this.rows.chunks(TOGETHER) {
            self.rows(chunk, state, row, up, heap, finish);
        }
        for &child in &this.children {
            let Some(tip) = families.all[child].tip else { continue };
            let mut own = heap.states.pop().unwrap_or_default();
            own.clear();
            own.extend_from_slice(state);
            self.absorb(&mut own, tip, up, heap);
            self.evaluate(families, child, &own, row, up, heap, finish);
            heap.states.push(own);
        }
    }

    fn rows<'r>(
        &self,
        chunk: &[usize],
        state: &[f32],
        row: &impl Fn(usize) -> Row<'r>,
        up: &impl Fn(usize) -> Option<usize>,
        heap: &mut Heap,
        finish: &mut impl FnMut(usize, &[f32]),
    ) {
        let (level, vd) = (self.level, self.value_dim);
        let Heap { lines, products, sums, .. } = heap;
        lines.clear();
        for &index in chunk {
            let row = row(index);
            lines.extend_from_slice(self.key(row.slot));
            lines.extend_from_slice(row.q);
        }
        products.clear();
        products.resize(2 * chunk.len() * vd, 0.0);
        read(level, state, lines, self.key_dim, products);
        sums.resize(2 * vd, 0.0);
        for (&index, products) in chunk.iter().zip(products.chunks_exact(2 * vd)) {
            let row = row(index);
            let key = self.key(row.slot);
            sums.fill(0.0);
            let (corrected, o) = sums.split_at_mut(vd);
            let mut share = self.decay(row.slot);
            let mut next = up(row.slot);
            for _ in 0..row.steps {
                let Some(slot) = next else { break };
                // SAFETY: an ancestor's, while no other reference is held.
                let delta = unsafe { self.delta(slot) };
                let other = self.key(slot);
                add(level, share * dot(level, key, other), delta, corrected);
                add(level, share * dot(level, row.q, other), delta, o);
                share *= self.decay(slot);
                next = up(slot);
            }
            // SAFETY: its own, while no other reference is held.
            let delta = unsafe { self.delta(row.slot) };
            let (stored, read) = products.split_at(vd);
            for i in 0..vd {
                delta[i] = row.beta * (row.v[i] - share * stored[i] - corrected[i]);
            }
            add(level, share, read, o);
            add(level, dot(level, row.q, key), delta, o);
            finish(row.index, o);
        }
    }
}

#[inline(always)]
fn dot_body<const FMA: bool>(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            sum[i] = fma::<FMA>(a[i], b[i], sum[i]);
        }
    }
    for (i, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        sum[i] = fma::<FMA>(a, b, sum[i]);
    }
    sum16(sum)
}
multiversion! {
    fn dot = dot_body(a: &[f32], b: &[f32]) -> f32
}

#[inline(always)]
fn add_body<const FMA: bool>(by: f32, x: &[f32], out: &mut [f32]) {
    for (o, &x) in out.iter_mut().zip(x) {
        *o = fma::<FMA>(by, x, *o);
    }
}
multiversion! {
    /// `out += by · x`.
    fn add = add_body(by: f32, x: &[f32], out: &mut [f32])
}

#[inline(always)]
fn read_body<const FMA: bool>(state: &[f32], lines: &[f32], key_dim: usize, out: &mut [f32]) {
    let width = state.len() / key_dim;
    for (d, column) in state.chunks_exact(width).enumerate() {
        for (line, out) in lines.chunks_exact(key_dim).zip(out.chunks_exact_mut(width)) {
            add_body::<FMA>(line[d], column, out);
        }
    }
}
multiversion! {
    /// `out += Sᵀ x` for each line `x`; a line's sums run over the keys in order, whoever shares the call.
    fn read = read_body(state: &[f32], lines: &[f32], key_dim: usize, out: &mut [f32])
}

#[inline(always)]
fn scale_body<const FMA: bool>(x: &mut [f32], by: f32) {
    for x in x {
        *x *= by;
    }
}
multiversion! {
    fn scale = scale_body(x: &mut [f32], by: f32)
}

#[inline(always)]
fn weigh_body<const FMA: bool>(x: &[f32], weight: &[f32], out: &mut [f32]) {
    for ((o, &x), &w) in out.iter_mut().zip(x).zip(weight) {
        *o = fma::<FMA>(x, w, *o);
    }
}
multiversion! {
    /// `out += x · weight`, element by element.
    pub fn weigh = weigh_body(x: &[f32], weight: &[f32], out: &mut [f32])
}

#[inline(always)]
fn silu_body<const FMA: bool>(x: &mut [f32]) {
    for x in x {
        *x /= 1.0 + lanes::exp::<FMA>(-*x);
    }
}
multiversion! {
    /// `x = x · σ(x)`.
    pub fn silu = silu_body(x: &mut [f32])
}

#[inline(always)]
fn gate_body<const FMA: bool>(x: &mut [f32], gate: &[f32]) {
    for (x, &g) in x.iter_mut().zip(gate) {
        *x /= 1.0 + lanes::exp::<FMA>(-g);
    }
}
multiversion! {
    /// `x = x · σ(gate)`.
    pub fn gate = gate_body(x: &mut [f32], gate: &[f32])
}

/// `out = x · scale / √(Σ x² + 1e-6)`.
pub fn normalise(level: Level, x: &[f32], by: f32, out: &mut [f32]) {
    out.copy_from_slice(x);
    scale(level, out, by / (dot(level, x, x) + 1e-6).sqrt());
}

/// `out = rms_norm(x) · weight · silu(z)`.
pub fn gated_norm(level: Level, x: &[f32], weight: &[f32], eps: f32, z: &[f32], out: &mut [f32]) {
    lanes::rms_norm(level, x, weight, eps, out);
    for (o, &z) in out.iter_mut().zip(z) {
        *o *= z;
    }
    gate(level, out, z);
}

/// `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + e^x)`.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}
