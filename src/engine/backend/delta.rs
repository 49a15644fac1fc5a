//! Layers with a recurrent state: the gated delta rule behind a short causal convolution (specification 8.3).
//!
//! # How rows are evaluated
//!
//! Sequentially the rule is `S ← αS; δ = β(v − Sᵀk); S ← S + kδᵀ; o = Sᵀq`, with `α = e^g`. Rows of a tree would each
//! need a state of their own that way. The state-free form (specification 8.6) needs none: with `S` the state at an
//! *anchor*, and `Γ(i, j)` the product of the decays on the way from (after) `j` to `i`,
//!
//! ```text
//! δ_i = β_i (v_i − Γ(i, anchor) Sᵀk_i − Σ_j Γ(i, j) (k_i·k_j) δ_j)        j: ancestors of i after the anchor
//! o_i =      Γ(i, anchor) Sᵀq_i + Σ_j Γ(i, j) (q_i·k_j) δ_j + (q_i·k_i) δ_i
//! ```
//!
//! In floating point the result depends on where the anchor is. If it were the start of the round, then plain decoding
//! and a long chain would round differently, and a near-tie could go either way. So **anchors are fixed positions**: the
//! multiples of [`BLOCK`]. A row at position `p` uses the state at `p − p mod BLOCK`, and the rows of its own path from
//! there on, committed or not. The committed ones are kept for that: `k`, `δ` and `α` a row, never a state. Where a path
//! of the tree crosses an anchor inside the round, the state there is `Γ S + Σ_j Γ kⱼδⱼᵀ` over that path's block, made in
//! scratch memory for as long as the rows below it are evaluated; when a committed path crosses it, the same formula with
//! the same rows makes it the cache's state. All of this is a function of the row's own path alone, so every bit of a row
//! is the same whether it came by plain decoding, in a chain, in a tree or in a prefill chunk of any size.

use std::ops::Range;

use super::Rows;

/// Positions between two anchors.
pub const BLOCK: usize = 16;

/// Shape of a gated delta rule layer.
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaShape {
    /// Key (and query) heads.
    pub key_heads: usize,
    /// Value heads, a multiple of the key heads. Each has a state `[key_dim, value_dim]`.
    pub value_heads: usize,
    /// Width of a key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Taps of the convolution, the row itself included.
    pub kernel: usize,
    /// Value head `h` uses key head `h mod key_heads` (GGUF files) instead of `h div (value_heads / key_heads)`.
    pub tiled: bool,
    /// Epsilon of the output norm.
    pub eps: f32,
}

impl DeltaShape {
    /// The heads of one of `count` devices.
    #[must_use]
    pub fn share(&self, count: usize) -> Self {
        Self { key_heads: self.key_heads / count, value_heads: self.value_heads / count, ..self.clone() }
    }

    /// The value heads of one of `count` devices: those that its key heads serve.
    pub fn value_heads_of(&self, rank: usize, count: usize) -> Vec<Range<usize>> {
        if !self.tiled {
            let share = self.value_heads / count;
            return std::iter::once(rank * share..(rank + 1) * share).collect();
        }
        let share = self.key_heads / count;
        let tiles = self.value_heads / self.key_heads;
        (0..tiles)
            .map(|tile| tile * self.key_heads + rank * share..tile * self.key_heads + (rank + 1) * share)
            .collect()
    }

    /// Channels of the convolution of one of `count` devices: queries, keys, values of its heads.
    pub fn channels_of(&self, rank: usize, count: usize) -> Vec<Range<usize>> {
        let keys = self.key_width();
        let share = keys / count;
        let mut ranges = vec![rank * share..(rank + 1) * share, keys + rank * share..keys + (rank + 1) * share];
        let values = self.value_heads_of(rank, count).into_iter();
        ranges.extend(values.map(|h| 2 * keys + h.start * self.value_dim..2 * keys + h.end * self.value_dim));
        ranges
    }

    /// Width of all key heads.
    pub fn key_width(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Width of all value heads.
    pub fn value_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Columns that go through the convolution: queries, keys, values.
    pub fn conv_width(&self) -> usize {
        2 * self.key_width() + self.value_width()
    }

    /// Key head that serves a value head.
    pub fn key_head(&self, value_head: usize) -> usize {
        if self.tiled { value_head % self.key_heads } else { value_head / (self.value_heads / self.key_heads) }
    }
}

/// Weights of such a layer that are not projections.
#[derive(Debug, Clone)]
pub struct DeltaNet<Vector = Vec<f32>> {
    /// Its shape.
    pub shape: DeltaShape,
    /// Convolution, `[kernel, conv_width]`, the oldest tap first.
    pub conv: Vector,
    /// `-e^A_log`, one a value head.
    pub decay: Vector,
    /// Bias of the time step, one a value head.
    pub bias: Vector,
    /// Weight of the output norm, `value_dim`.
    pub norm: Vector,
}

/// Rows of one session in a call: they stand together and take the slots from `base` on.
#[derive(Debug)]
pub struct Span {
    /// Index into the caches of the call.
    pub session: usize,
    /// Its first row.
    pub row: usize,
    /// Rows.
    pub count: usize,
    /// Slot of the first row; those before are committed.
    pub base: usize,
}

/// The rows of a call, session by session.
pub fn spans(rows: &Rows) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (index, row) in rows.rows.iter().enumerate() {
        match spans.last_mut() {
            Some(span) if span.session == row.session => span.count += 1,
            _ => spans.push(Span { session: row.session, row: index, count: 1, base: row.prefix.end }),
        }
    }
    spans
}
