//! Draft trees (DDTree, arXiv 2604.12989): best-first construction, ancestor masks, the walk. Pure.
//!
//! Node 0 is the seed (the newest committed token); node `i + 1` is entry `i` of the vectors. Parents come before their
//! children, and siblings stand in order of falling draft probability.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The candidates of a drafter whose slots do not depend on each other: for each of `L` slots the `k` most probable tokens, most probable first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Slots {
    /// Candidates per slot.
    pub k: usize,
    /// `[L, k]` token ids.
    pub ids: Vec<u32>,
    /// `[L, k]` log-probabilities at temperature 1.
    pub logprobs: Vec<f32>,
}

impl Slots {
    /// Number of slots (`L`).
    pub fn len(&self) -> usize {
        self.ids.len().checked_div(self.k).unwrap_or(0)
    }

    /// True without slots.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn at(&self, slot: usize, rank: usize) -> (u32, f32) {
        (self.ids[slot * self.k + rank], self.logprobs[slot * self.k + rank])
    }
}

/// What trees are built from.
pub trait Candidates {
    /// Number of slots (`L`).
    fn slots(&self) -> usize;
    /// Candidates a slot.
    fn k(&self) -> usize;
    /// The candidate of this rank in a slot, behind candidate `above` of the slot before (0 behind the seed): its index
    /// in the slot, its token, its log-probability.
    fn at(&self, slot: usize, above: usize, rank: usize) -> (usize, u32, f32);
}

impl Candidates for Slots {
    fn slots(&self) -> usize {
        self.len()
    }

    fn k(&self) -> usize {
        self.k
    }

    fn at(&self, slot: usize, _above: usize, rank: usize) -> (usize, u32, f32) {
        let (id, logprob) = self.at(slot, rank);
        (rank, id, logprob)
    }
}

/// A tree of drafted tokens below the seed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    /// Token of each node.
    pub tokens: Vec<u32>,
    /// Draft log-probability of each node's token at its slot.
    pub logprobs: Vec<f32>,
    /// Index of each node's parent (0 is the seed).
    pub parents: Vec<usize>,
    /// Depth of each node; children of the seed have 1.
    pub depths: Vec<usize>,
    /// The heaviest candidates that the budget left out. Nothing is computed for them; people want to see them.
    pub left_out: Vec<LeftOut>,
}

/// A candidate that did not make it into the tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftOut {
    /// Its token.
    pub token: u32,
    /// Draft log-probability of the token at its slot.
    pub logprob: f32,
    /// The node that it would hang below.
    pub parent: usize,
    /// The depth that it would have.
    pub depth: usize,
}

/// Left-out candidates that are remembered.
const LEFT_OUT: usize = 6;

/// Path through a tree that the target agrees with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Accepted nodes, seed (0) first; rising.
    pub path: Vec<usize>,
    /// The target's token after the last of them.
    pub bonus: u32,
}

struct Entry {
    weight: f64,
    ranks: Vec<u16>,
    parent: usize,
    /// The parent's candidate.
    above: usize,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    /// Heaviest first; equal weights by the smaller list of ranks, which makes the order total and reproducible.
    fn cmp(&self, other: &Self) -> Ordering {
        self.weight.total_cmp(&other.weight).then_with(|| other.ranks.cmp(&self.ranks))
    }
}

impl Tree {
    /// Number of nodes without the seed.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// True when nothing was drafted.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Rows of the verify pass: seed and nodes.
    pub fn rows(&self) -> usize {
        self.len() + 1
    }

    /// Depth of a row (0 for the seed).
    pub fn depth(&self, node: usize) -> usize {
        if node == 0 { 0 } else { self.depths[node - 1] }
    }

    fn add(&mut self, (token, logprob): (u32, f32), parent: usize, depth: usize) -> usize {
        self.tokens.push(token);
        self.logprobs.push(logprob);
        self.parents.push(parent);
        self.depths.push(depth);
        self.tokens.len()
    }

    /// The linear draft: the most probable token of every slot, each the child of the one before.
    pub fn chain(tokens: impl IntoIterator<Item = (u32, f32)>) -> Self {
        let mut tree = Self::default();
        for (depth, candidate) in tokens.into_iter().enumerate() {
            tree.add(candidate, depth, depth + 1);
        }
        tree
    }

    /// The `budget` heaviest prefixes, a prefix weighing the product of its tokens' draft probabilities. Indices are
    /// in order of falling weight; ties go to the lexicographically smaller list of ranks.
    pub fn best_first(slots: &impl Candidates, budget: usize) -> Self {
        let mut tree = Self::default();
        let mut heap = BinaryHeap::new();
        if slots.slots() > 0 {
            heap.push(Entry { weight: f64::from(slots.at(0, 0, 0).2), ranks: vec![0], parent: 0, above: 0 });
        }
        tree.grow(slots, budget, heap);
        tree
    }

    /// Like [`Tree::best_first`], but the whole most probable chain is put in first, so that the tree never accepts
    /// less than the chain would.
    pub fn chain_seeded(slots: &impl Candidates, budget: usize) -> Self {
        let length = slots.slots().min(budget);
        let mut tree = Self::default();
        let mut heap = BinaryHeap::new();
        let (mut weight, mut above) = (0.0, 0);
        for slot in 0..length {
            let (index, id, logprob) = slots.at(slot, above, 0);
            tree.add((id, logprob), slot, slot + 1);
            if slots.k() > 1 {
                let mut ranks = vec![0; slot];
                ranks.push(1);
                let next = f64::from(slots.at(slot, above, 1).2);
                heap.push(Entry { weight: weight + next, ranks, parent: slot, above });
            }
            weight += f64::from(logprob);
            above = index;
        }
        tree.grow(slots, budget, heap);
        tree
    }

    fn grow(&mut self, slots: &impl Candidates, budget: usize, mut heap: BinaryHeap<Entry>) {
        while self.len() < budget {
            let Some(entry) = heap.pop() else { break };
            let Entry { weight, ranks, parent, above } = entry;
            let depth = ranks.len();
            let rank = usize::from(ranks[depth - 1]);
            let (index, id, logprob) = slots.at(depth - 1, above, rank);
            let node = self.add((id, logprob), parent, depth);
            if rank + 1 < slots.k() {
                let next = f64::from(slots.at(depth - 1, above, rank + 1).2);
                let mut ranks = ranks.clone();
                ranks[depth - 1] += 1;
                heap.push(Entry { weight: weight - f64::from(logprob) + next, ranks, parent, above });
            }
            if depth < slots.slots() {
                let mut ranks = ranks;
                ranks.push(0);
                let next = f64::from(slots.at(depth, index, 0).2);
                heap.push(Entry { weight: weight + next, ranks, parent: node, above: index });
            }
        }
        self.left_out.extend(std::iter::from_fn(|| heap.pop()).take(LEFT_OUT).map(|entry| {
            let depth = entry.ranks.len();
            let (_, token, logprob) = slots.at(depth - 1, entry.above, usize::from(entry.ranks[depth - 1]));
            LeftOut { token, logprob, parent: entry.parent, depth }
        }));
    }

    /// Who sees whom: bit `j` of row `i` says that node `j` is `i` itself or an ancestor. `[rows, words]`.
    pub fn ancestor_masks(&self, words: usize) -> Vec<u64> {
        let mut masks = vec![0; self.rows() * words];
        masks[0] = 1;
        for node in 1..self.rows() {
            let parent = self.parents[node - 1];
            let (before, row) = masks.split_at_mut(node * words);
            row[..words].copy_from_slice(&before[parent * words..(parent + 1) * words]);
            row[node / 64] |= 1 << (node % 64);
        }
        masks
    }

    /// Follows the target's choices from the seed. `choose(node)` is the target's token after that node; it is asked
    /// only along the walked path, once a node.
    pub fn walk(&self, mut choose: impl FnMut(usize) -> u32) -> Walk {
        let mut path = vec![0];
        let mut node = 0;
        loop {
            let bonus = choose(node);
            match self.child(node, bonus) {
                Some(child) => {
                    node = child;
                    path.push(child);
                }
                None => return Walk { path, bonus },
            }
        }
    }

    /// The child of a node with this token.
    pub fn child(&self, node: usize, token: u32) -> Option<usize> {
        (node..self.len()).find(|&i| self.parents[i] == node && self.tokens[i] == token).map(|i| i + 1)
    }

    /// True when every node's parent is the node before it.
    pub fn is_chain(&self) -> bool {
        self.parents.iter().enumerate().all(|(i, &parent)| parent == i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slots(k: usize, rows: &[&[(u32, f32)]]) -> Slots {
        Slots {
            k,
            ids: rows.iter().flat_map(|r| r.iter().map(|c| c.0)).collect(),
            logprobs: rows.iter().flat_map(|r| r.iter().map(|c| c.1.ln())).collect(),
        }
    }

    /// The hand case of the specification, appendix A.
    #[test]
    fn hand_case() {
        let (a, b, c, d) = (10, 11, 12, 13);
        let slots = slots(2, &[&[(a, 0.6), (b, 0.3)], &[(c, 0.7), (d, 0.2)]]);
        let tree = Tree::best_first(&slots, 4);
        assert_eq!(tree.tokens, [a, c, b, c]);
        assert_eq!(tree.parents, [0, 1, 0, 3]);
        assert_eq!(tree.depths, [1, 2, 1, 2]);
        assert_eq!(tree.ancestor_masks(1)[4], 0b11001);
        let walk = tree.walk(|node| [b, 99, 99, c, 7][node]);
        assert_eq!(walk, Walk { path: vec![0, 3, 4], bonus: 7 });
    }

    #[test]
    fn chain_seed_keeps_the_spine() {
        let slots = slots(3, &[&[(1, 0.4), (2, 0.35), (3, 0.2)], &[(1, 0.4), (2, 0.3), (3, 0.2)]]);
        let tree = Tree::chain_seeded(&slots, 5);
        assert_eq!(&tree.tokens[..2], [1, 1]);
        assert_eq!(&tree.parents[..2], [0, 1]);
        assert_eq!((tree.tokens[2], tree.parents[2]), (2, 0));
        assert_eq!(tree.len(), 5);
    }

    #[test]
    fn what_the_budget_leaves_out_is_told_heaviest_first() {
        let slots = slots(2, &[&[(10, 0.6), (11, 0.3)], &[(12, 0.7), (13, 0.2)]]);
        // .6, .6·.7, .3 are in; then come .3·.7 = .21 below node 3, and .6·.2 = .12 below node 1.
        let tree = Tree::best_first(&slots, 3);
        let left: Vec<_> = tree.left_out.iter().map(|l| (l.token, l.parent, l.depth)).collect();
        assert_eq!(left, [(12, 3, 2), (13, 1, 2)]);
        assert!(Tree::best_first(&slots, 6).left_out.is_empty(), "nothing is left");
    }

    #[test]
    fn empty_and_zero_budget() {
        assert!(Tree::best_first(&Slots::default(), 8).is_empty());
        let slots = slots(1, &[&[(1, 0.5)]]);
        assert!(Tree::best_first(&slots, 0).is_empty());
        assert_eq!(Tree::chain_seeded(&slots, 9).len(), 1);
        assert!(Tree::default().is_chain());
    }

    /// Every prefix and its weight, by brute force.
    fn all_prefixes(slots: &Slots) -> Vec<(f64, Vec<u16>)> {
        let mut all: Vec<(f64, Vec<u16>)> = Vec::new();
        let mut level: Vec<(f64, Vec<u16>)> = vec![(0.0, vec![])];
        for slot in 0..slots.len() {
            let mut next = Vec::new();
            for (weight, ranks) in &level {
                for rank in 0..slots.k {
                    let mut longer = ranks.clone();
                    longer.push(rank as u16);
                    next.push((weight + f64::from(slots.at(slot, rank).1), longer));
                }
            }
            all.extend(next.iter().cloned());
            level = next;
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all
    }

    fn arbitrary_slots() -> impl Strategy<Value = Slots> {
        (1usize..=4, 1usize..=5).prop_flat_map(|(length, k)| {
            proptest::collection::vec(proptest::collection::vec(0.01f32..1.0, k), length).prop_map(move |rows| {
                let mut slots = Slots { k, ..Slots::default() };
                for mut row in rows {
                    row.sort_by(|a, b| b.total_cmp(a));
                    let sum: f32 = row.iter().sum::<f32>() * 1.1;
                    slots.ids.extend(0..k as u32);
                    slots.logprobs.extend(row.iter().map(|p| (p / sum).ln()));
                }
                slots
            })
        })
    }

    proptest! {
        #[test]
        fn takes_the_heaviest_prefixes(slots in arbitrary_slots(), budget in 1usize..40) {
            let tree = Tree::best_first(&slots, budget);
            let all = all_prefixes(&slots);
            prop_assert_eq!(tree.len(), budget.min(all.len()));
            let mut weights = vec![0.0f64];
            for i in 0..tree.len() {
                prop_assert!(tree.parents[i] <= i);
                prop_assert_eq!(tree.depths[i], tree.depth(tree.parents[i]) + 1);
                weights.push(weights[tree.parents[i]] + f64::from(tree.logprobs[i]));
            }
            for (got, want) in weights[1..].iter().zip(&all) {
                prop_assert!((got - want.0).abs() < 1e-5, "{} against {}", got, want.0);
            }
        }

        #[test]
        fn masks_equal_a_brute_force_ancestor_matrix(slots in arbitrary_slots(), budget in 1usize..100) {
            let tree = Tree::chain_seeded(&slots, budget);
            let words = tree.rows().div_ceil(64);
            let masks = tree.ancestor_masks(words);
            for i in 0..tree.rows() {
                let mut ancestors = vec![i];
                let mut at = i;
                while at != 0 {
                    at = tree.parents[at - 1];
                    ancestors.push(at);
                }
                for j in 0..tree.rows() {
                    let bit = masks[i * words + j / 64] >> (j % 64) & 1 == 1;
                    prop_assert_eq!(bit, ancestors.contains(&j));
                }
            }
        }

        #[test]
        fn a_seeded_tree_accepts_at_least_the_chain(slots in arbitrary_slots(), budget in 4usize..40, picks in proptest::collection::vec(0u32..5, 64)) {
            let chain = Tree::chain((0..slots.len()).map(|s| slots.at(s, 0)));
            let tree = Tree::chain_seeded(&slots, budget);
            // The target's choice depends on the depth alone here, so that both see the same continuation.
            let linear = chain.walk(|n| picks[chain.depth(n)]);
            let branched = tree.walk(|n| picks[tree.depth(n)]);
            prop_assert!(branched.path.len() >= linear.path.len());
        }
    }
}
