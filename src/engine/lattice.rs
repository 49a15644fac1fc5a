//! Candidates of a drafter whose choice for a slot depends on the token before it (DFlash 2's selector, specification
//! 1.11). Pure.
//!
//! The product form that trees are usually built by (specification 2.3) does not hold here. But a child's probability
//! given its parent still is at most 1, so a prefix never outweighs what it continues, and best-first construction gives
//! the heaviest prefixes all the same: only each parent ranks the next slot's candidates in an order of its own.

use rand::RngExt;
use rand::rngs::StdRng;

use super::sampler::Distribution;
use super::tree::{Candidates, Slots};

/// `k` candidates a slot, and how probable each is behind each candidate of the slot before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lattice {
    k: usize,
    /// `[L, k]`.
    ids: Vec<u32>,
    /// `[L, k, k]`: slot, candidate of the slot before, candidate. All lines of the first slot are the same.
    logprobs: Vec<f32>,
    /// `[L, k, k]`: candidates of every line, most probable first.
    order: Vec<u16>,
}

impl Lattice {
    /// From scores `[L, k, k]`, which are logarithms up to a constant a line. Ties go to the lower candidate.
    pub fn new(k: usize, ids: Vec<u32>, mut scores: Vec<f32>) -> Self {
        let mut order = Vec::with_capacity(scores.len());
        for line in scores.chunks_exact_mut(k.max(1)) {
            let top = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f64 = line.iter().map(|&s| f64::from(s - top).exp()).sum();
            let norm = top + total.ln() as f32;
            for score in line.iter_mut() {
                *score -= norm;
            }
            let mut ranks: Vec<u16> = (0..k as u16).collect();
            ranks.sort_by(|&a, &b| line[usize::from(b)].total_cmp(&line[usize::from(a)]).then(a.cmp(&b)));
            order.extend(ranks);
        }
        Self { k, ids, logprobs: scores, order }
    }

    /// The first slots alone.
    #[must_use]
    pub fn take(&self, slots: usize) -> Self {
        let slots = slots.min(self.slots());
        let pairs = slots * self.k * self.k;
        Self {
            k: self.k,
            ids: self.ids[..slots * self.k].to_vec(),
            logprobs: self.logprobs[..pairs].to_vec(),
            order: self.order[..pairs].to_vec(),
        }
    }

    fn line(&self, slot: usize, above: usize) -> std::ops::Range<usize> {
        let from = (slot * self.k + above) * self.k;
        from..from + self.k
    }

    /// The most probable candidate of every slot, given the one chosen before it, with its log-probability.
    pub fn chain(&self) -> Vec<(u32, f32)> {
        let mut above = 0;
        (0..self.slots())
            .map(|slot| {
                let (index, id, logprob) = self.at(slot, above, 0);
                above = index;
                (id, logprob)
            })
            .collect()
    }

    /// A chain drawn at this temperature, and the distribution that each token was drawn from.
    pub fn draw(&self, temperature: f32, random: &mut StdRng) -> (Vec<(u32, f32)>, Vec<Distribution>) {
        let mut above = 0;
        let mut chain = Vec::with_capacity(self.slots());
        let mut drawn_from = Vec::with_capacity(self.slots());
        for slot in 0..self.slots() {
            let ids = &self.ids[slot * self.k..(slot + 1) * self.k];
            let line = &self.logprobs[self.line(slot, above)];
            let top = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f64> =
                line.iter().map(|&l| (f64::from(l - top) / f64::from(temperature.max(1e-6))).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut entries: Vec<(u32, f32)> =
                ids.iter().zip(&weights).map(|(&id, w)| (id, (w / total) as f32)).collect();
            entries.sort_unstable_by_key(|e| e.0);
            let q = Distribution { entries };
            let token = q.draw(random.random());
            above = ids.iter().position(|&id| id == token).unwrap_or(0);
            chain.push((token, q.probability(token).ln()));
            drawn_from.push(q);
        }
        (chain, drawn_from)
    }

    /// Candidates as if they did not depend on each other, every slot ranked behind the most probable chain: what the
    /// controller of `auto` reckons with.
    pub fn behind_chain(&self) -> Slots {
        let mut slots = Slots { k: self.k, ..Slots::default() };
        let mut above = 0;
        for slot in 0..self.slots() {
            for rank in 0..self.k {
                let (_, id, logprob) = self.at(slot, above, rank);
                slots.ids.push(id);
                slots.logprobs.push(logprob);
            }
            above = self.at(slot, above, 0).0;
        }
        slots
    }
}

impl Candidates for Lattice {
    fn slots(&self) -> usize {
        self.ids.len().checked_div(self.k).unwrap_or(0)
    }

    fn k(&self) -> usize {
        self.k
    }

    fn at(&self, slot: usize, above: usize, rank: usize) -> (usize, u32, f32) {
        let line = self.line(slot, above);
        let index = usize::from(self.order[line.start + rank]);
        (index, self.ids[slot * self.k + index], self.logprobs[line.start + index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tree::Tree;
    use proptest::prelude::*;
    use rand::SeedableRng;

    /// Two slots of two candidates. Behind 10 comes 21, behind 11 comes 20.
    fn small() -> Lattice {
        let scores = [0.6f32, 0.4, 0.6, 0.4, 0.1, 0.9, 0.8, 0.2].map(f32::ln).to_vec();
        Lattice::new(2, vec![10, 11, 20, 21], scores)
    }

    #[test]
    fn every_parent_ranks_its_own_children() {
        let lattice = small();
        assert_eq!(lattice.chain().iter().map(|c| c.0).collect::<Vec<_>>(), [10, 21]);
        // .6, .6·.9 = .54, .4, .4·.8 = .32, .4·.2 = .08, .6·.1 = .06
        let tree = Tree::best_first(&lattice, 6);
        assert_eq!(tree.tokens, [10, 21, 11, 20, 21, 20]);
        assert_eq!(tree.parents, [0, 1, 0, 3, 3, 1]);
        let seeded = Tree::chain_seeded(&lattice, 3);
        assert_eq!((seeded.tokens, seeded.parents), (vec![10, 21, 11], vec![0, 1, 0]));
        let slots = lattice.behind_chain();
        assert_eq!(slots.ids, [10, 11, 21, 20]);
        assert!((slots.logprobs[2] - 0.9f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn draws_follow_the_conditional_distribution() {
        let lattice = small();
        let mut random = StdRng::seed_from_u64(3);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..20_000 {
            let (chain, q) = lattice.draw(1.0, &mut random);
            assert!((q[1].entries.iter().map(|e| e.1).sum::<f32>() - 1.0).abs() < 1e-6);
            *counts.entry((chain[0].0, chain[1].0)).or_insert(0) += 1;
        }
        for (pair, p) in [((10, 20), 0.06), ((10, 21), 0.54), ((11, 20), 0.32), ((11, 21), 0.08)] {
            let share = f64::from(counts[&pair]) / 20_000.0;
            assert!((share - p).abs() < 0.015, "{pair:?}: {share} against {p}");
        }
        // Cold, it is the chain.
        assert_eq!(lattice.draw(1e-3, &mut random).0[1].0, 21);
    }

    #[test]
    fn an_empty_one_has_no_chain() {
        assert!(Lattice::default().chain().is_empty());
        assert!(Tree::best_first(&Lattice::default(), 4).is_empty());
    }

    proptest! {
        #[test]
        fn the_heaviest_prefixes_are_taken(scores in proptest::collection::vec(-3.0f32..0.0, 27), budget in 1usize..45) {
            let mut scores = scores;
            for above in 1..3 {
                scores.copy_within(0..3, above * 3);
            }
            let lattice = Lattice::new(3, (0..9).collect(), scores);
            let tree = Tree::best_first(&lattice, budget);
            let mut all = Vec::new();
            for a in 0..3usize {
                let first = f64::from(lattice.logprobs[a]);
                all.push(first);
                for b in 0..3usize {
                    let second = first + f64::from(lattice.logprobs[9 + a * 3 + b]);
                    all.push(second);
                    all.extend((0..3usize).map(|c| second + f64::from(lattice.logprobs[18 + b * 3 + c])));
                }
            }
            all.sort_by(|a, b| b.total_cmp(a));
            let mut weights = vec![0.0f64];
            for i in 0..tree.len() {
                weights.push(weights[tree.parents[i]] + f64::from(tree.logprobs[i]));
            }
            prop_assert_eq!(tree.len(), budget.min(all.len()));
            for (got, want) in weights[1..].iter().zip(&all) {
                prop_assert!((got - want).abs() < 1e-5, "{} against {}", got, want);
            }
        }
    }
}
