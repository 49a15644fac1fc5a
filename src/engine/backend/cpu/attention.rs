//! Attention of one query head over the cache slots that its row may see, and the cache itself.
//!
//! Keys lie in blocks of 16 slots, `[block][kv head][dim][16]`, so that one load serves 16 keys; values lie
//! `[slot][kv head][dim]`. The visible slots are taken in order and numbered from 0; every sum assigns lanes by that
//! number. A key therefore adds to the same lane in the same order whether its slot is part of the prefix or stands
//! somewhere in a tree, which keeps results the same bits in every mode.
#![allow(clippy::inline_always, clippy::needless_range_loop, clippy::too_many_arguments)]

use std::ops::Range;

use super::lanes::{LANES, softmax};
use super::level::{Level, fma, multiversion};

/// K and V of one layer.
#[derive(Debug, Default, Clone)]
pub struct LayerCache {
    /// Keys in blocks of 16 slots.
    pub k: Vec<f32>,
    /// Values by slot.
    pub v: Vec<f32>,
}

/// K and V of one session for all layers of a model.
#[derive(Debug, Clone)]
pub struct Cache {
    /// One entry a layer.
    pub layers: Vec<LayerCache>,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Slots with room.
    pub slots: usize,
}

/// Arithmetic of the cache layout.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    kv_heads: usize,
    head_dim: usize,
}

impl Places {
    /// Index of a key's first dimension; the next ones follow at distances of 16.
    pub fn key(self, slot: usize, head: usize) -> usize {
        ((slot / LANES) * self.kv_heads + head) * self.head_dim * LANES + slot % LANES
    }

    /// Index of a value's first dimension.
    pub fn value(self, slot: usize, head: usize) -> usize {
        (slot * self.kv_heads + head) * self.head_dim
    }
}

impl Cache {
    /// An empty cache.
    pub fn new(layers: usize, kv_heads: usize, head_dim: usize) -> Self {
        Self { layers: vec![LayerCache::default(); layers], kv_heads, head_dim, slots: 0 }
    }

    /// Makes room for `slots` slots; grows by halves so that a long answer does not copy at every step.
    pub fn reserve(&mut self, slots: usize) {
        if slots <= self.slots {
            return;
        }
        let room = slots.max(self.slots + self.slots / 2).max(64).next_multiple_of(LANES);
        let width = self.kv_heads * self.head_dim;
        for layer in &mut self.layers {
            layer.k.resize(room * width, 0.0);
            layer.v.resize(room * width, 0.0);
        }
        self.slots = room;
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        self.layers.len() * self.slots * self.kv_heads * self.head_dim * 8
    }

    /// Where things lie.
    pub fn places(&self) -> Places {
        Places { kv_heads: self.kv_heads, head_dim: self.head_dim }
    }

    /// Writes one head's key and value.
    #[cfg(test)]
    pub fn put(&mut self, layer: usize, slot: usize, head: usize, k: &[f32], v: &[f32]) {
        let (ka, va) = (self.places().key(slot, head), self.places().value(slot, head));
        let layer = &mut self.layers[layer];
        for (d, &x) in k.iter().enumerate() {
            layer.k[ka + d * LANES] = x;
        }
        layer.v[va..va + v.len()].copy_from_slice(v);
    }

    /// Moves slots `base + path[j]` to `base + j`; `path` rises, so a copy from left to right overwrites nothing that
    /// is still needed.
    pub fn keep(&mut self, base: usize, path: &[usize]) {
        let places = self.places();
        for (j, &node) in path.iter().enumerate() {
            if node == j {
                continue;
            }
            for head in 0..self.kv_heads {
                let (kf, kt) = (places.key(base + node, head), places.key(base + j, head));
                let (vf, vt) = (places.value(base + node, head), places.value(base + j, head));
                for layer in &mut self.layers {
                    for d in 0..self.head_dim {
                        layer.k[kt + d * LANES] = layer.k[kf + d * LANES];
                    }
                    layer.v.copy_within(vf..vf + self.head_dim, vt);
                }
            }
        }
    }
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    scores: Vec<f32>,
    picks: Vec<u32>,
}

/// One query head and what it may see.
pub struct Query<'a> {
    /// The head, rotated.
    pub q: &'a [f32],
    /// KV head it belongs to.
    pub kv_head: usize,
    /// Committed slots it sees.
    pub prefix: Range<usize>,
    /// Bit `j`: it sees slot `prefix.end + j`.
    pub mask: &'a [u64],
}

/// Attention of one head; `out` is `head_dim` wide.
pub fn attend(level: Level, cache: &Cache, layer: usize, query: &Query<'_>, scratch: &mut Scratch, out: &mut [f32]) {
    let base = query.prefix.end;
    let picks = &mut scratch.picks;
    picks.clear();
    for (word, &bits) in query.mask.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            picks.push((base + word * 64 + bits.trailing_zeros() as usize) as u32);
            bits &= bits - 1;
        }
    }
    let end = picks.last().map_or(base, |&slot| slot as usize + 1);
    let first_block = query.prefix.start / LANES;
    let blocks = end.div_ceil(LANES) - first_block;
    if scratch.scores.len() < (blocks + 1) * LANES {
        scratch.scores.resize((blocks + 1) * LANES + 1024, 0.0);
    }
    let layer = &cache.layers[layer];
    let dim = cache.head_dim;
    let stride = cache.kv_heads * dim * LANES;
    let keys = &layer.k[first_block * stride + query.kv_head * dim * LANES..];
    scores(level, query.q, keys, stride, (dim as f32).sqrt().recip(), &mut scratch.scores[..blocks * LANES]);

    // Squeeze the visible scores together: the prefix stands in order already, picked slots follow.
    let from = query.prefix.start - first_block * LANES;
    let prefix = query.prefix.len();
    for (i, &slot) in scratch.picks.iter().enumerate() {
        scratch.scores[from + prefix + i] = scratch.scores[slot as usize - first_block * LANES];
    }
    let visible = &mut scratch.scores[from..from + prefix + scratch.picks.len()];
    let sum = softmax(level, visible);
    let width = cache.kv_heads * dim;
    let values = &layer.v[query.kv_head * dim..];
    weigh(level, visible, values, width, query.prefix.start, prefix, &scratch.picks, 1.0 / sum, out);
}

#[inline(always)]
fn scores_body<const FMA: bool>(q: &[f32], keys: &[f32], stride: usize, scale: f32, out: &mut [f32]) {
    for (b, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let block = keys[b * stride..b * stride + q.len() * LANES].as_chunks::<LANES>().0;
        let mut acc = [[0.0f32; LANES]; 4];
        let (fours, rest) = q.as_chunks::<4>();
        let (key_fours, key_rest) = block.as_chunks::<4>();
        for (q, k) in fours.iter().zip(key_fours) {
            for i in 0..4 {
                for l in 0..LANES {
                    acc[i][l] = fma::<FMA>(q[i], k[i][l], acc[i][l]);
                }
            }
        }
        for (q, k) in rest.iter().zip(key_rest) {
            for l in 0..LANES {
                acc[0][l] = fma::<FMA>(*q, k[l], acc[0][l]);
            }
        }
        for l in 0..LANES {
            out[l] = ((acc[0][l] + acc[1][l]) + (acc[2][l] + acc[3][l])) * scale;
        }
    }
}
multiversion! {
    fn scores = scores_body(q: &[f32], keys: &[f32], stride: usize, scale: f32, out: &mut [f32])
}

// Not a closure: a closure would be compiled without the caller's instruction set.
#[inline(always)]
fn add_value<const FMA: bool, const C: usize>(p: f32, values: &[f32], acc: &mut [[f32; LANES]; C]) {
    let v = values[..C * LANES].as_chunks::<LANES>().0;
    for c in 0..C {
        for l in 0..LANES {
            acc[c][l] = fma::<FMA>(p, v[c][l], acc[c][l]);
        }
    }
}

#[inline(always)]
fn weigh_columns<const FMA: bool, const C: usize>(
    p: &[f32],
    values: &[f32],
    width: usize,
    start: usize,
    prefix: usize,
    picks: &[u32],
    column: usize,
    scale: f32,
    out: &mut [f32],
) {
    // Two accumulators by the parity of the key's number: an add takes four cycles, and each must wait for the last.
    let mut acc = [[[0.0f32; LANES]; C]; 2];
    for i in 0..prefix {
        add_value::<FMA, C>(p[i], &values[(start + i) * width + column..], &mut acc[i % 2]);
    }
    for (i, &slot) in picks.iter().enumerate() {
        let i = prefix + i;
        add_value::<FMA, C>(p[i], &values[slot as usize * width + column..], &mut acc[i % 2]);
    }
    for c in 0..C {
        for l in 0..LANES {
            out[column + c * LANES + l] = (acc[0][c][l] + acc[1][c][l]) * scale;
        }
    }
}

#[inline(always)]
fn weigh_body<const FMA: bool>(
    p: &[f32],
    values: &[f32],
    width: usize,
    start: usize,
    prefix: usize,
    picks: &[u32],
    scale: f32,
    out: &mut [f32],
) {
    let mut column = 0;
    while column + 4 * LANES <= out.len() {
        weigh_columns::<FMA, 4>(p, values, width, start, prefix, picks, column, scale, out);
        column += 4 * LANES;
    }
    while column + LANES <= out.len() {
        weigh_columns::<FMA, 1>(p, values, width, start, prefix, picks, column, scale, out);
        column += LANES;
    }
    // Heads that are no multiple of 16 wide.
    for (d, out) in out.iter_mut().enumerate().skip(column) {
        let mut acc = [0.0f32; 2];
        for i in 0..prefix {
            acc[i % 2] = fma::<FMA>(p[i], values[(start + i) * width + d], acc[i % 2]);
        }
        for (i, &slot) in picks.iter().enumerate() {
            let i = prefix + i;
            acc[i % 2] = fma::<FMA>(p[i], values[slot as usize * width + d], acc[i % 2]);
        }
        *out = (acc[0] + acc[1]) * scale;
    }
}
multiversion! {
    fn weigh = weigh_body(
        p: &[f32], values: &[f32], width: usize, start: usize, prefix: usize, picks: &[u32], scale: f32, out: &mut [f32],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Not a multiple of 16 nor of 4, so that the ends of all loops are reached.
    const DIM: usize = 18;

    fn filled(slots: &[usize], contents: &[(Vec<f32>, Vec<f32>)]) -> Cache {
        let mut cache = Cache::new(1, 1, DIM);
        cache.reserve(64);
        for (&slot, (k, v)) in slots.iter().zip(contents) {
            cache.put(0, slot, 0, k, v);
        }
        cache
    }

    proptest! {
        /// The same keys give the same bits from a plain prefix and scattered over a tree; and both equal a softmax
        /// computed in f64.
        #[test]
        fn slots_do_not_matter(
            seed in proptest::collection::vec(-1.0f32..1.0, DIM * 2 * 20 + DIM),
            prefix in 0usize..12,
            gaps in proptest::collection::vec(0usize..3, 8),
        ) {
            let level = Level::detect();
            let n = prefix + gaps.len();
            let contents: Vec<_> =
                (0..n).map(|i| seed[i * 2 * DIM..(i + 1) * 2 * DIM].split_at(DIM)).map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            let q = &seed[DIM * 2 * 20..];
            let plain = filled(&(0..n).collect::<Vec<_>>(), &contents);
            let mut slots: Vec<usize> = (0..prefix).collect();
            let mut mask = 0u64;
            let mut at = prefix;
            for gap in &gaps {
                at += gap;
                slots.push(at);
                mask |= 1 << (at - prefix);
                at += 1;
            }
            let tree = filled(&slots, &contents);
            let mut scratch = Scratch::default();
            let (mut a, mut b) = ([0.0; DIM], [0.0; DIM]);
            attend(level, &plain, 0, &Query { q, kv_head: 0, prefix: 0..n, mask: &[] }, &mut scratch, &mut a);
            attend(level, &tree, 0, &Query { q, kv_head: 0, prefix: 0..prefix, mask: &[mask] }, &mut scratch, &mut b);
            prop_assert_eq!(a, b);

            let scores: Vec<f64> = contents.iter()
                .map(|(k, _)| k.iter().zip(q).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>() / (DIM as f64).sqrt())
                .collect();
            let max = scores.iter().fold(f64::MIN, |m, &s| m.max(s));
            let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            for d in 0..DIM {
                let want: f64 = scores.iter().zip(&contents)
                    .map(|(s, (_, v))| (s - max).exp() / total * f64::from(v[d])).sum();
                prop_assert!((f64::from(a[d]) - want).abs() < 1e-5);
            }
            // After the walk kept these nodes, the tree's cache is the plain one.
            let path: Vec<usize> = slots[prefix..].iter().map(|s| s - prefix).collect();
            let mut kept = tree;
            kept.keep(prefix, &path);
            let mut c = [0.0; DIM];
            attend(level, &kept, 0, &Query { q, kv_head: 0, prefix: 0..n, mask: &[] }, &mut scratch, &mut c);
            prop_assert_eq!(a, c);
        }
    }
}
