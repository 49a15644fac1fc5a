//! What differs between devices, and nothing else: the operations that a forward pass needs. Models, rounds, trees and
//! the caches' bookkeeping are written once, above this trait.
//!
//! Losslessness rests on one promise of every backend: **the result of a row depends only on that row, its position
//! and the cache contents it may see** — never on how many other rows share the call, nor on which slots they take.

pub mod cpu;
pub mod cuda;
pub mod delta;
pub mod parallel;

use std::borrow::Cow;
use std::ops::Range;

use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;
use cuda::driver::Room;
use delta::{DeltaNet, DeltaShape};

/// How a matrix is to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Quantised files stay quantised where there is a kernel for the format; everything else becomes F32.
    AsStored,
    /// F32.
    F32,
    /// 8 bits in blocks of 32 along a row.
    Q8,
}

/// How a matrix is shared out among devices that work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Each makes some of the outputs, from all inputs.
    Outputs,
    /// Each makes a summand of every output, from some of the inputs.
    Inputs,
}

/// Rows of one forward pass, over several sessions. Rows of a session stand together, in the order of the cache slots
/// they write: `base`, `base + 1`, …
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// One entry a row.
    pub rows: Vec<Row>,
    /// `[rows, words]`: bit `j` of row `i` lets it see cache slot `base + j` of its session.
    pub masks: Vec<u64>,
    /// Words a row of `masks`.
    pub words: usize,
}

/// One row of a forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Index into the caches given to the call.
    pub session: usize,
    /// Position in the sequence: what RoPE rotates by.
    pub position: usize,
    /// Cache slot that takes this row's K and V.
    pub slot: usize,
    /// Committed slots the row may see. Slots from `prefix.end` on are seen by mask.
    pub prefix: Range<usize>,
}

impl Rows {
    /// Forgets all rows; `words` is the mask width of what follows.
    pub fn clear(&mut self, words: usize) {
        self.rows.clear();
        self.masks.clear();
        self.words = words;
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row whose mask is `mask` (shorter masks are padded with zeros).
    pub fn push(&mut self, row: Row, mask: &[u64]) {
        self.rows.push(row);
        self.masks.extend_from_slice(mask);
        self.masks.resize(self.rows.len() * self.words, 0);
    }

    /// Adds `count` rows that continue a sequence causally from slot and position `start`.
    pub fn push_causal(&mut self, session: usize, start: usize, count: usize) {
        for j in 0..count {
            let row = Row { session, position: start + j, slot: start + j, prefix: 0..start };
            self.rows.push(row);
            let from = self.masks.len();
            self.masks.resize(from + self.words, 0);
            for bit in 0..=j {
                self.masks[from + bit / 64] |= 1 << (bit % 64);
            }
        }
    }

    /// The cache slot before a row on its own path: its parent in a tree, the slot before in a chain. `None` at the
    /// start of the sequence. Parents stand before their children, so it is the last of the slots that the row sees
    /// beside its own.
    pub fn before(&self, row: usize) -> Option<usize> {
        let Row { slot, ref prefix, .. } = self.rows[row];
        let own = slot - prefix.end;
        let mask = self.mask(row);
        (0..=own / 64)
            .rev()
            .find_map(|word| {
                let seen = if word == own / 64 { mask[word] & ((1 << (own % 64)) - 1) } else { mask[word] };
                (seen != 0).then(|| prefix.end + word * 64 + 63 - seen.leading_zeros() as usize)
            })
            .or_else(|| prefix.end.checked_sub(1))
    }

    /// Mask of a row.
    pub fn mask(&self, row: usize) -> &[u64] {
        &self.masks[row * self.words..(row + 1) * self.words]
    }
}

/// Heads of an attention layer and how they are prepared.
#[derive(Debug, Clone)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// RoPE inverse frequencies: `head_dim / 2`, or fewer where only the first `2 · len` elements of a head rotate.
    pub inv_freq: Vec<f32>,
    /// Pairs `(2j, 2j+1)` instead of `(j, j + len)`.
    pub interleaved: bool,
    /// Epsilon of the per-head norms.
    pub eps: f32,
}

impl Heads {
    /// The heads of one of `count` devices. Where there are fewer KV heads than devices, several have the same one.
    #[must_use]
    pub fn share(&self, count: usize) -> Self {
        Self { heads: self.heads / count, kv_heads: (self.kv_heads / count).max(1), ..self.clone() }
    }

    /// Width of all query heads.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// What a layer keeps between rounds.
#[derive(Debug, Clone, Copy)]
pub enum Keeps<'a> {
    /// Keys and values of every slot. The heads of all such layers of a cache have one shape.
    Attention(&'a Heads),
    /// A recurrent state.
    Delta(&'a DeltaShape),
}

/// Where queries, keys and values stand in a row of activations.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    /// First query column; absent for rows that only write K and V.
    pub q: Option<usize>,
    /// First key column.
    pub k: usize,
    /// First value column.
    pub v: usize,
}

/// Per-head norm weights (`head_dim` each), where the model has them.
#[derive(Debug, Clone)]
pub struct HeadNorms<Vector = Vec<f32>> {
    /// For queries.
    pub q: Option<Vector>,
    /// For keys.
    pub k: Option<Vector>,
}

impl<Vector> Default for HeadNorms<Vector> {
    fn default() -> Self {
        Self { q: None, k: None }
    }
}

/// Input of a projection.
#[derive(Debug)]
pub enum Input<'a, Buf, Vector = Vec<f32>> {
    /// Rows as they are.
    Plain(&'a Buf),
    /// RMSNorm first: `x · rsqrt(mean x² + eps) · weight`.
    Normed {
        /// Rows.
        x: &'a Buf,
        /// Norm weight.
        weight: &'a Vector,
        /// Epsilon.
        eps: f32,
    },
    /// Gated MLP: rows are `[gate | up]`; the input is `silu(gate) · up`.
    Gated(&'a Buf),
}

/// The two best entries of a row of logits. Ties go to the lowest index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    /// Index of the greatest value.
    pub index: u32,
    /// The greatest value.
    pub value: f32,
    /// The second greatest value (equal to `value` on a tie).
    pub second: f32,
}

/// A device.
pub trait Backend: Send + 'static {
    /// Packed weights, `[out, in]`.
    type Matrix: Send;
    /// A weight vector, F32.
    type Vector: Send;
    /// Activations, `[rows, width]`, F32, growing on demand. Growth keeps what is there.
    type Buf: Send;
    /// K and V, or recurrent state, of one session for all layers of one model.
    type Cache: Send;

    /// Device, threads, kernels.
    fn info(&self) -> DeviceInfo;
    /// Bytes a second that reading so many of them runs at, at best: what bounds decoding one token at a time.
    fn read_bandwidth(&mut self, bytes: usize) -> f64;
    /// 8-bit operations a second at best, where it is known how to measure that.
    fn integer_peak(&mut self) -> Option<f64> {
        None
    }
    /// The device's memory, where it is not the host's.
    fn room(&self) -> Option<Room> {
        None
    }
    /// Packs tensors stacked along the out dimension; `select` keeps only these rows of the (single) tensor.
    fn pack(
        &self,
        parts: &[TensorView<'_>],
        select: Option<&[u32]>,
        store: Store,
    ) -> Result<Self::Matrix, WeightsError>;
    /// Devices that the layers of a target are shared out among.
    fn ranks(&self) -> usize {
        1
    }
    /// As [`Backend::pack`], one share for each of [`Backend::ranks`] devices.
    fn pack_shares(
        &self,
        shares: &[Vec<TensorView<'_>>],
        _split: Split,
        store: Store,
    ) -> Result<Self::Matrix, WeightsError> {
        self.pack(&shares[0], None, store)
    }
    /// As [`Backend::vector`], one share for each of [`Backend::ranks`] devices.
    fn vector_shares(&self, mut shares: Vec<Vec<f32>>) -> Result<Self::Vector, WeightsError> {
        self.vector(shares.swap_remove(0))
    }
    /// A buffer on every device, `width` columns on each: what projections by outputs end in.
    fn buf_shared(&self, width: usize) -> Self::Buf {
        self.buf(width)
    }
    /// A cache on every device; `layers` are the shapes of one device's share.
    fn cache_shared(&self, layers: &[Keeps<'_>], exact: bool) -> Self::Cache {
        self.cache(layers, exact)
    }
    /// Bytes and format of a packed matrix.
    fn describe(&self, matrix: &Self::Matrix) -> (usize, &'static str);
    /// Brings a vector to the device.
    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector, WeightsError>;
    /// An empty buffer of this width.
    fn buf(&self, width: usize) -> Self::Buf;
    /// An empty cache for these layers. `exact` asks for F32 keys and values; otherwise the device may keep fewer bits.
    /// Recurrent states are F32 always.
    fn cache(&self, layers: &[Keeps<'_>], exact: bool) -> Self::Cache;
    /// Makes room for `slots` slots.
    fn reserve(&self, cache: &mut Self::Cache, slots: usize);

    /// `out[i] = table[ids[i]] · scale`.
    fn embed(&mut self, table: &Self::Matrix, ids: &[u32], scale: f32, out: &mut Self::Buf);
    /// Fills `out` with host rows.
    fn upload(&mut self, data: &[f32], out: &mut Self::Buf);
    /// `out = input · wᵀ`, or `out += …` with `add`.
    fn linear(
        &mut self,
        input: &Input<'_, Self::Buf, Self::Vector>,
        rows: usize,
        w: &Self::Matrix,
        out: &mut Self::Buf,
        add: bool,
    );
    /// RMSNorm of rows in place.
    fn norm(&mut self, x: &mut Self::Buf, rows: usize, weight: &Self::Vector, eps: f32);
    /// `x ← cap · tanh(x · scale / cap)` of the first `rows` rows; without a cap `x ← x · scale`.
    fn cap(&mut self, x: &mut Self::Buf, rows: usize, scale: f32, cap: Option<f32>);
    /// Norms heads, rotates q and k by position, writes k and v into the caches' layer.
    #[allow(clippy::too_many_arguments)]
    fn rotate_store(
        &mut self,
        x: &mut Self::Buf,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms<Self::Vector>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Self::Cache],
    );
    /// Attention of the rows' queries (at column `q`) over their visible slots, scale `head_dim^-0.5`.
    #[allow(clippy::too_many_arguments)]
    fn attend(
        &mut self,
        x: &Self::Buf,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Self::Cache],
        out: &mut Self::Buf,
    );
    /// A convolution over the rows of each session's block whose kernels come partly from the rows:
    /// `out[i, c] = Σ_t (base[t, c] + kernels[i, at + t · width/group + c/group]) · x[i - t, c]`, rows before a block's
    /// first counting as zero; `out += …` with `add`.
    #[allow(clippy::too_many_arguments)]
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
    );
    /// `x = x · σ(gates)` of the first `rows` rows; the gates begin at this column.
    fn gate(&mut self, x: &mut Self::Buf, rows: usize, gates: &Self::Buf, column: usize);
    /// A layer with a recurrent state: convolution, gated delta rule ([`delta`] says how), output norm and gate.
    /// Rows of `x` are `[queries | keys | values | z]`, those of `gates` `[b | a]`; `out` gets `[rows, value_width]`.
    ///
    /// Slots below a row's `prefix.end` count as committed, as they lie; what lies at slots from there on is forgotten.
    /// A cache cannot go back behind the last anchor before its committed slots: a call that does starts anew from an
    /// empty state, and so does one that leaves out slots.
    #[allow(clippy::too_many_arguments)]
    fn delta(
        &mut self,
        x: &Self::Buf,
        gates: &Self::Buf,
        net: &DeltaNet<Self::Vector>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Self::Cache],
        out: &mut Self::Buf,
    );
    /// `out[at + i] = x[pick[i]]`; rows of `out` before `at` stay.
    fn gather(&mut self, x: &Self::Buf, pick: &[usize], out: &mut Self::Buf, at: usize);
    /// Copies rows of `x` into `out` from this column on.
    fn place(&mut self, x: &Self::Buf, rows: usize, out: &mut Self::Buf, column: usize);
    /// `out += x` in the first `rows` rows.
    fn add(&mut self, x: &Self::Buf, rows: usize, out: &mut Self::Buf);
    /// Rows on the host, one after the other. Copied only where the host does not see the device's memory.
    fn read<'a>(&'a self, x: &'a Self::Buf, rows: Range<usize>) -> Cow<'a, [f32]>;
    /// Best and second best of the first `rows` rows.
    fn best(&mut self, x: &Self::Buf, rows: usize) -> Vec<Best>;
    /// The `k` greatest entries (all of them where a row has fewer) of each of these rows as `(index, log-probability)`,
    /// greatest first, ties to the lower index; rows one after the other.
    fn top(&mut self, x: &Self::Buf, rows: Range<usize>, k: usize) -> Vec<(u32, f32)>;
    /// Moves slots `base + path[j]` to `base + j` in every layer, of whichever kind. `path` rises.
    fn keep(&mut self, cache: &mut Self::Cache, base: usize, path: &[usize]);
}
