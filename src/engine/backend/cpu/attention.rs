//! Attention of a few query heads over the cache slots that their rows may see.
//!
//! The visible slots of a row are taken in order and numbered from 0: the prefix, then what its mask picks. Scores are
//! sums over the dimensions of one key; the softmax assigns lanes by the slot's number; values are added in the order
//! of the numbers. A key therefore adds to the same sum in the same order whether its slot is part of the prefix or
//! stands somewhere in a tree, and whichever queries share the call, which keeps results the same bits in every mode.
//!
//! Queries that share a KV head and a prefix go together: each key and value is then loaded once for all of them.
#![allow(clippy::inline_always, clippy::needless_range_loop, clippy::too_many_arguments)]

use std::ops::Range;

use super::cache::{Cache, Element, LayerCache};
use super::lanes::{LANES, softmax};
use super::level::{Level, fma, multiversion};

/// Queries of one call at most: as many as have their accumulators in registers.
pub const GROUP: usize = 6;

/// Working memory of one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    scores: Vec<f32>,
    picks: Vec<Vec<u32>>,
    wide: Vec<f32>,
}

/// One query head and what its row sees beside the prefix.
pub struct Query<'a> {
    /// The head, rotated.
    pub q: &'a [f32],
    /// Bit `j`: it sees slot `prefix.end + j`.
    pub mask: &'a [u64],
    /// Takes the result, as wide as the head.
    pub out: &'a mut [f32],
}

/// Attention of up to [`GROUP`] queries of one KV head; all see the slots of `prefix`.
pub fn attend(
    level: Level,
    cache: &Cache,
    layer: usize,
    kv_head: usize,
    prefix: Range<usize>,
    queries: &mut [Query<'_>],
    scratch: &mut Scratch,
) {
    match &cache.layers[layer] {
        LayerCache::F32(p) => attend_planes(level, cache, (&p.k, &p.v), kv_head, prefix, queries, scratch),
        LayerCache::F16(p) => attend_planes(level, cache, (&p.k, &p.v), kv_head, prefix, queries, scratch),
        LayerCache::Delta(_) => panic!("layer {layer} keeps a recurrent state, not keys and values"),
    }
}

fn attend_planes<E: Wide>(
    level: Level,
    cache: &Cache,
    (keys, values): (&[E], &[E]),
    kv_head: usize,
    prefix: Range<usize>,
    queries: &mut [Query<'_>],
    scratch: &mut Scratch,
) {
    let Scratch { scores, picks, wide } = scratch;
    picks.resize_with(GROUP, Vec::new);
    let mut end = prefix.end;
    for (query, picks) in queries.iter().zip(picks.iter_mut()) {
        picks.clear();
        for (word, &bits) in query.mask.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                picks.push((prefix.end + word * 64 + bits.trailing_zeros() as usize) as u32);
                bits &= bits - 1;
            }
        }
        end = end.max(picks.last().map_or(0, |&slot| slot as usize + 1));
    }
    let places = cache.places;
    let dim = places.head_dim;
    let first = prefix.start / LANES;
    let room = (end.div_ceil(LANES) - first) * LANES;
    scores.resize(scores.len().max(room * GROUP), 0.0);
    let product = Scores {
        keys: &keys[first * LANES * places.kv_heads * dim + kv_head * dim * LANES..],
        stride: places.kv_heads * dim * LANES,
        scale: (dim as f32).sqrt().recip(),
        room,
    };
    E::scores(level, queries, &product, scores, wide);

    // Squeeze the visible scores together: the prefix stands in order already, picked slots follow.
    let from = prefix.start - first * LANES;
    let mut factors = [0.0; GROUP];
    for (i, picks) in picks.iter().enumerate().take(queries.len()) {
        let scores = &mut scores[i * room..(i + 1) * room];
        for (j, &slot) in picks.iter().enumerate() {
            scores[from + prefix.len() + j] = scores[slot as usize - first * LANES];
        }
        factors[i] = 1.0 / softmax(level, &mut scores[from..from + prefix.len() + picks.len()]);
    }
    let mix = Mix {
        scores: &scores[from..],
        room,
        values: &values[kv_head * dim..],
        width: places.kv_heads * dim,
        prefix,
        picks,
        factors: &factors,
    };
    E::mix(level, queries, &mix, wide);
}

/// Keys of one head, block by block.
pub struct Scores<'a, E> {
    /// From the first block on.
    pub keys: &'a [E],
    /// Elements from block to block.
    pub stride: usize,
    /// Factor of every score.
    pub scale: f32,
    /// Scores of a query; a multiple of 16.
    pub room: usize,
}

/// Values of one head and how much of each a query takes.
pub struct Mix<'a, E> {
    /// From a query's first visible slot on, [`Mix::room`] a query.
    pub scores: &'a [f32],
    /// Scores of a query.
    pub room: usize,
    /// Values from slot 0 on.
    pub values: &'a [E],
    /// Elements from slot to slot.
    pub width: usize,
    /// Slots that all queries see.
    pub prefix: Range<usize>,
    /// Further slots of each query.
    pub picks: &'a [Vec<u32>],
    /// One over the sum of each query's scores.
    pub factors: &'a [f32],
}

impl<E> Scores<'_, E> {
    /// Panics unless kernels that trust these lengths stay inside of what they are given. Returns the heads' width.
    pub fn check(&self, queries: &[Query<'_>], out: &[f32]) -> usize {
        let dim = queries[0].q.len();
        let blocks = self.room / LANES;
        assert!(queries.len() <= GROUP && queries.iter().all(|q| q.q.len() == dim));
        assert!(blocks == 0 || self.keys.len() >= (blocks - 1) * self.stride + dim * LANES);
        assert!(out.len() >= queries.len() * self.room);
        dim
    }
}

impl<E> Mix<'_, E> {
    /// The same; heads are a multiple of 16 wide, and picks rise.
    pub fn check(&self, queries: &[Query<'_>]) -> usize {
        let dim = queries[0].out.len();
        let count = queries.len();
        assert!(dim.is_multiple_of(LANES) && count <= GROUP && queries.iter().all(|q| q.out.len() == dim));
        let last = self.picks[..count].iter().filter_map(|p| p.last()).map(|&s| s as usize + 1).max().unwrap_or(0);
        let end = self.prefix.end.max(last);
        assert!(end == 0 || self.values.len() >= (end - 1) * self.width + dim);
        for i in 0..count {
            assert!(self.scores.len() >= i * self.room + self.prefix.len() + self.picks[i].len());
        }
        dim
    }
}

/// Calls a kernel that is compiled for each number of queries, so that their sums are registers.
#[cfg(target_arch = "x86_64")]
macro_rules! by_count {
    ($count:expr, $f:ident::<$e:ident> $args:tt) => {
        match $count {
            1 => $f::<$e, 1> $args,
            2 => $f::<$e, 2> $args,
            3 => $f::<$e, 3> $args,
            4 => $f::<$e, 4> $args,
            5 => $f::<$e, 5> $args,
            _ => $f::<$e, 6> $args,
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use by_count;

/// An element with kernels of its own.
pub trait Wide: Element {
    /// `out[i·room + s] = scale · q_i · k_s`.
    fn scores(level: Level, queries: &[Query<'_>], product: &Scores<'_, Self>, out: &mut [f32], wide: &mut Vec<f32>);
    /// Writes every query's result.
    fn mix(level: Level, queries: &mut [Query<'_>], mix: &Mix<'_, Self>, wide: &mut Vec<f32>);
}

macro_rules! wide {
    ($element:ty) => {
        impl Wide for $element {
            fn scores(
                level: Level,
                queries: &[Query<'_>],
                product: &Scores<'_, Self>,
                out: &mut [f32],
                wide: &mut Vec<f32>,
            ) {
                #[cfg(target_arch = "x86_64")]
                if level.avx512() {
                    super::attention512::scores(queries, product, out);
                    return;
                } else if level == Level::Avx2 {
                    super::attention256::scores(queries, product, out);
                    return;
                }
                scores::<$element>(level, queries, product, out, wide);
            }
            fn mix(level: Level, queries: &mut [Query<'_>], parts: &Mix<'_, Self>, wide: &mut Vec<f32>) {
                #[cfg(target_arch = "x86_64")]
                if queries[0].out.len().is_multiple_of(LANES) {
                    if level.avx512() {
                        super::attention512::mix(queries, parts);
                        return;
                    } else if level == Level::Avx2 {
                        super::attention256::mix(queries, parts);
                        return;
                    }
                }
                mix::<$element>(level, queries, parts, wide);
            }
        }
    };
}
wide!(f32);
wide!(half::f16);

#[inline(always)]
fn scores_body<const FMA: bool, E: Element>(
    queries: &[Query<'_>],
    product: &Scores<'_, E>,
    out: &mut [f32],
    wide: &mut Vec<f32>,
) {
    let dim = queries[0].q.len();
    wide.resize(wide.len().max(dim * LANES), 0.0);
    for b in 0..product.room / LANES {
        let block = &product.keys[b * product.stride..][..dim * LANES];
        for (w, &k) in wide.iter_mut().zip(block) {
            *w = k.widen();
        }
        let block = wide[..dim * LANES].as_chunks::<LANES>().0;
        for (i, query) in queries.iter().enumerate() {
            let mut acc = [[0.0f32; LANES]; 2];
            for (q, k) in query.q.chunks(2).zip(block.chunks(2)) {
                for (j, (q, k)) in q.iter().zip(k).enumerate() {
                    for l in 0..LANES {
                        acc[j][l] = fma::<FMA>(*q, k[l], acc[j][l]);
                    }
                }
            }
            let out = &mut out[i * product.room + b * LANES..][..LANES];
            for l in 0..LANES {
                out[l] = (acc[0][l] + acc[1][l]) * product.scale;
            }
        }
    }
}
multiversion! {
    fn scores<E: Element> = scores_body(
        queries: &[Query<'_>], product: &Scores<'_, E>, out: &mut [f32], wide: &mut Vec<f32>,
    )
}

// Not a closure: a closure would be compiled without the caller's instruction set.
#[inline(always)]
fn add_scaled<const FMA: bool>(factor: f32, x: &[f32], out: &mut [f32]) {
    for (o, &v) in out.iter_mut().zip(x) {
        *o = fma::<FMA>(factor, v, *o);
    }
}

#[inline(always)]
fn mix_body<const FMA: bool, E: Element>(queries: &mut [Query<'_>], mix: &Mix<'_, E>, wide: &mut Vec<f32>) {
    let dim = queries[0].out.len();
    wide.resize(wide.len().max(dim), 0.0);
    for query in queries.iter_mut() {
        query.out.fill(0.0);
    }
    let prefix = mix.prefix.len();
    for j in 0..prefix {
        let value = &mix.values[(mix.prefix.start + j) * mix.width..][..dim];
        for (w, &v) in wide.iter_mut().zip(value) {
            *w = v.widen();
        }
        for (i, query) in queries.iter_mut().enumerate() {
            add_scaled::<FMA>(mix.scores[i * mix.room + j], &wide[..dim], query.out);
        }
    }
    for (i, query) in queries.iter_mut().enumerate() {
        for (j, &slot) in mix.picks[i].iter().enumerate() {
            let value = &mix.values[slot as usize * mix.width..][..dim];
            for (w, &v) in wide.iter_mut().zip(value) {
                *w = v.widen();
            }
            add_scaled::<FMA>(mix.scores[i * mix.room + prefix + j], &wide[..dim], query.out);
        }
        for o in query.out.iter_mut() {
            *o *= mix.factors[i];
        }
    }
}
multiversion! {
    fn mix<E: Element> = mix_body(queries: &mut [Query<'_>], parts: &Mix<'_, E>, wide: &mut Vec<f32>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::backend::{Heads, Keeps};
    use proptest::prelude::*;

    fn filled(exact: bool, dim: usize, slots: &[usize], contents: &[(Vec<f32>, Vec<f32>)]) -> Cache {
        let heads = Heads { heads: 1, kv_heads: 1, head_dim: dim, inv_freq: vec![], interleaved: false, eps: 0.0 };
        let mut cache = Cache::new(&[Keeps::Attention(&heads)], exact);
        cache.reserve(64);
        let writer = cache.writer(0);
        for (&slot, (k, v)) in slots.iter().zip(contents) {
            // SAFETY: the cache is there, and this is the only thread.
            #[allow(unsafe_code)]
            unsafe {
                writer.put(slot, 0, k, v);
            }
        }
        cache
    }

    /// Attention of `count` copies of a query in one call; all results are the same bits, and one is returned.
    fn one(level: Level, cache: &Cache, q: &[f32], prefix: Range<usize>, mask: &[u64], count: usize) -> Vec<f32> {
        let mut outs = vec![vec![0.0; q.len()]; count];
        let mut queries: Vec<Query<'_>> = outs.iter_mut().map(|out| Query { q, mask, out }).collect();
        attend(level, cache, 0, 0, prefix, &mut queries, &mut Scratch::default());
        assert!(outs.windows(2).all(|w| w[0] == w[1]));
        outs.swap_remove(0)
    }

    proptest! {
        /// At every level and in both formats: the same keys give the same bits from a plain prefix and scattered over
        /// a tree, alone and in a group; all equal a softmax computed in f64.
        #[test]
        fn slots_and_neighbours_do_not_matter(
            // 18 is no multiple of 16 nor of 4, so that the ends of all loops are reached; 80 is a block of columns
            // and a rest.
            dim in proptest::sample::select(vec![18usize, 32, 80]),
            seed in proptest::collection::vec(-1.0f32..1.0, 80 * 2 * 20 + 80),
            prefix in 0usize..12,
            gaps in proptest::collection::vec(0usize..3, 8),
            exact: bool,
        ) {
            let n = prefix + gaps.len();
            let contents: Vec<_> = (0..n)
                .map(|i| seed[i * 2 * dim..(i + 1) * 2 * dim].split_at(dim))
                .map(|(k, v)| (k.to_vec(), v.to_vec()))
                .collect();
            let q = &seed[seed.len() - dim..];
            let mut slots: Vec<usize> = (0..prefix).collect();
            let mut mask = 0u64;
            let mut at = prefix;
            for gap in &gaps {
                at += gap;
                slots.push(at);
                mask |= 1 << (at - prefix);
                at += 1;
            }
            let plain = filled(exact, dim, &(0..n).collect::<Vec<_>>(), &contents);
            let tree = filled(exact, dim, &slots, &contents);
            let scores: Vec<f64> = contents.iter()
                .map(|(k, _)| k.iter().zip(q).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>() / (dim as f64).sqrt())
                .collect();
            let max = scores.iter().fold(f64::MIN, |m, &s| m.max(s));
            let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            let tolerance = if exact { 1e-5 } else { 3e-3 };
            for level in Level::available() {
                let a = one(level, &plain, q, 0..n, &[], 1);
                prop_assert_eq!(&a, &one(level, &plain, q, 0..n, &[], GROUP));
                for count in 1..=GROUP {
                    prop_assert_eq!(&a, &one(level, &tree, q, 0..prefix, &[mask], count));
                }
                for d in 0..dim {
                    let want: f64 = scores.iter().zip(&contents)
                        .map(|(s, (_, v))| (s - max).exp() / total * f64::from(v[d])).sum();
                    prop_assert!((f64::from(a[d]) - want).abs() < tolerance, "{level}: {} against {want}", a[d]);
                }
                // After the walk kept these nodes, the tree's cache is the plain one.
                let path: Vec<usize> = slots[prefix..].iter().map(|s| s - prefix).collect();
                let mut kept = tree.clone();
                kept.keep(prefix, &path);
                prop_assert_eq!(&a, &one(level, &kept, q, 0..n, &[], 2));
            }
        }
    }
}
