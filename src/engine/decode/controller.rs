//! Mode `auto`: picks plain decoding, a chain length or a tree size every round from measured costs and calibrated
//! draft probabilities (specification 2.10). Pure: times come in as numbers.
//!
//! Let `C_d(b)` be the time of a drafter pass with `b` slots and `C_v(n)` that of a verify pass with `n` rows. Plain
//! decoding yields `θ₀ = 1 / C_v(1)` tokens a millisecond. A drafting round that verifies a set of nodes with acceptance
//! probabilities `a_i` yields `1 + Σ a_i` tokens in `C_d + C_v(1 + nodes)`. Three decisions follow:
//!
//! 1. *Whether to draft*: by what drafting rounds have been worth lately, kept as an account of time ([`Habit`]). What one
//!    sequence learnt about the drafter the next one starts with; a rehearsal at start-up teaches the first.
//! 2. *How many slots*: where shorter blocks cost less (a causal drafter's predictions do not depend on later slots), the
//!    number with the greatest rate by how often rounds got to each depth.
//! 3. *What to verify*: once the draft is there `C_d` is spent, so the set with the greatest `1 + Σ a_i − θ·C_v(1 + nodes)`,
//!    its worth over what the time would have given otherwise.

use crate::engine::tree::{Slots, Tree};
use crate::protocol::event::Forecast;
use crate::protocol::mode::Mode;

use super::costs::Costs;
use super::habit::{Habit, Yield};

/// Probability classes of the calibration: a node's draft probability, in steps of a factor `e^0.5`.
const CLASSES: usize = 12;
/// Depths told apart by the calibration; deeper ones share the last.
const DEPTHS: usize = 4;
/// Weight of the draft probability itself, in observations.
const PRIOR: f64 = 4.0;
/// What a past observation keeps of its weight with each new one.
const FADE: f64 = 0.998;
/// Depths whose reach is told apart; deeper ones share the last.
const REACHES: usize = 16;
/// Share of a round in what new sequences expect: of one that says something new, and of a later one.
const COMMON_STEP: [f64; 2] = [0.06, 0.01];
/// Every so many drafting rounds the whole block is drafted, so that deep slots stay known.
const WHOLE_BLOCK: u64 = 32;

/// What else a verify pass holds, and what a sequence's own rows look back on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Rows that other sequences bring to the same forward.
    pub others: usize,
    /// Sequences that take part, this one included.
    pub sequences: usize,
    /// Cached tokens of the sequence.
    pub context: usize,
}

/// What the controller has learnt about a server's pair; shared by its sequences.
#[derive(Debug, Clone)]
pub struct Controller {
    costs: Costs,
    /// `[depth][class]`: accepted and seen nodes, fading.
    seen: [[(f64, f64); CLASSES]; DEPTHS],
    /// `[depth]`: rounds that got past a depth and rounds that could have, fading.
    reached: [(f64, f64); REACHES],
    /// What a new sequence expects a drafting round to be worth, in tokens.
    worth: f64,
    /// Rounds that drafted.
    rounds: u64,
    /// Largest tree that may be verified.
    most_nodes: usize,
    /// What was expected in the last round that drafted.
    forecast: Option<Forecast>,
}

impl Controller {
    /// A controller that has seen nothing but the measured costs.
    pub fn new(costs: Costs, most_nodes: usize) -> Self {
        Self {
            costs,
            seen: [[(0.0, 0.0); CLASSES]; DEPTHS],
            reached: [(0.0, 0.0); REACHES],
            worth: 0.0,
            rounds: 0,
            most_nodes,
            forecast: None,
        }
    }

    /// What a new sequence starts with.
    pub fn habit(&self) -> Habit {
        Habit::expecting(self.worth)
    }

    /// Slots of the next draft block, seed included and at most `block`; `None` for a plain round. `waiting` committed
    /// tokens are not in the drafter's cache yet.
    pub fn slots(&self, habit: &Habit, block: usize, waiting: usize, at: Setting) -> Option<usize> {
        if !habit.drafts(self.plain_ms(at), self.costs.catch_up_ms(waiting)) {
            return None;
        }
        // Drafting can look good for ever where nothing says what it is compared with.
        if at.sequences == 1 && self.costs.plain_is_stale() {
            return None;
        }
        if !self.costs.blocks_can_be_cut() || self.rounds.is_multiple_of(WHOLE_BLOCK) {
            return Some(block);
        }
        let (mut expected, mut reach, mut before) = (1.0, 1.0, 1.0);
        let (mut best, mut slots) = (0.0, block);
        for depth in 0..block - 1 {
            let (past, there) = self.reached[depth.min(REACHES - 1)];
            before = (past + PRIOR * before) / (there + PRIOR);
            reach *= before;
            expected += reach;
            let rate = expected / (self.costs.draft_ms(depth + 2) + self.share_ms(depth + 2, at));
            if rate > best {
                (best, slots) = (rate, depth + 2);
            }
        }
        Some(slots)
    }

    /// What is expected of each choice, as of the last round that drafted.
    pub fn forecast(&self) -> Option<&Forecast> {
        self.forecast.as_ref()
    }

    /// Milliseconds of a plain step, a sequence's share.
    fn plain_ms(&self, at: Setting) -> f64 {
        let n = at.sequences.max(1);
        self.costs.verify_ms(n, at.context) / n as f64
    }

    /// Largest tree that is considered.
    pub fn most_nodes(&self) -> usize {
        self.most_nodes
    }

    /// What `rows` rows add to a verify pass.
    fn share_ms(&self, rows: usize, at: Setting) -> f64 {
        let before = if at.others == 0 { 0.0 } else { self.costs.verify_ms(at.others, at.context) };
        self.costs.verify_ms(at.others + rows, at.context) - before
    }

    fn class(logprob: f32) -> usize {
        ((f64::from(-logprob) / 0.5).max(0.0) as usize).min(CLASSES - 1)
    }

    /// Probability that a node is accepted once its parent is, from its draft log-probability. What has not been seen at
    /// a depth is expected as at the depth before: a drafter that understates itself would else never be asked for more.
    fn chance(&self, depth: usize, logprob: f32) -> f64 {
        let class = Self::class(logprob);
        self.seen[..depth.clamp(1, DEPTHS)].iter().fold(f64::from(logprob).exp(), |before, at| {
            let (hits, seen) = at[class];
            ((hits + PRIOR * before) / (seen + PRIOR)).clamp(0.0, 1.0)
        })
    }

    /// The part of the best-first tree that is worth verifying; empty when one plain row is worth more. The tree is
    /// built with calibrated chances and grown while the next node is worth its row (cost curves are convex from the
    /// first few rows on, but not at the start, so every size is tried and the best one kept).
    ///
    /// Time is worth what it gives otherwise: plain decoding, or drafting rounds as they went lately if that is more.
    pub fn choose(&mut self, habit: &Habit, slots: &Slots, at: Setting) -> Tree {
        let mut calibrated = slots.clone();
        for slot in 0..slots.len() {
            for rank in 0..slots.k {
                let at = slot * slots.k + rank;
                calibrated.logprobs[at] = self.chance(slot + 1, slots.logprobs[at]).max(1e-9).ln() as f32;
            }
            // Calibration may turn neighbours round; the builder wants falling order.
            let range = slot * slots.k..(slot + 1) * slots.k;
            let mut pairs: Vec<(u32, f32)> =
                range.clone().map(|i| (calibrated.ids[i], calibrated.logprobs[i])).collect();
            pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
            for (i, (id, logprob)) in range.zip(pairs) {
                calibrated.ids[i] = id;
                calibrated.logprobs[i] = logprob;
            }
        }
        let tree = Tree::best_first(&calibrated, self.most_nodes);
        let plain = 1.0 / self.plain_ms(at);
        let theta = plain.max(habit.rate());
        let draft_ms = self.costs.draft_ms(slots.len() + 1);
        let mut reach = vec![1.0f64];
        let (mut expected, mut best, mut size) = (1.0, 1.0 - theta * self.share_ms(1, at), 0);
        let mut tree_rate = 0.0f64;
        for node in 0..tree.len() {
            let chance = reach[tree.parents[node]] * f64::from(tree.logprobs[node]).exp();
            reach.push(chance);
            expected += chance;
            let ms = self.share_ms(node + 2, at);
            tree_rate = tree_rate.max(expected / (draft_ms + ms));
            let worth = expected - theta * ms;
            if worth > best {
                best = worth;
                size = node + 1;
            }
        }
        let mut chain_rate = 0.0f64;
        let (mut expected, mut reach) = (1.0, 1.0);
        for slot in 0..slots.len() {
            reach *= f64::from(calibrated.logprobs[slot * slots.k]).exp();
            expected += reach;
            chain_rate = chain_rate.max(expected / (draft_ms + self.share_ms(slot + 2, at)));
        }
        // Nodes come in falling weight, so the first `size` ones are a tree of their own. Their log-probabilities are
        // given back as the drafter said them.
        let mut kept = Tree {
            tokens: tree.tokens[..size].to_vec(),
            logprobs: Vec::with_capacity(size),
            parents: tree.parents[..size].to_vec(),
            depths: tree.depths[..size].to_vec(),
            left_out: Vec::new(),
        };
        for node in 0..size {
            let slot = kept.depths[node] - 1;
            let range = slot * slots.k..(slot + 1) * slots.k;
            let said = range.clone().find(|&i| slots.ids[i] == kept.tokens[node]).map_or(0.0, |i| slots.logprobs[i]);
            kept.logprobs.push(said);
        }
        self.forecast = Some(Forecast {
            off_tok_s: plain * 1e3,
            dflash_tok_s: chain_rate * 1e3,
            ddtree_tok_s: tree_rate * 1e3,
            chosen: match size {
                0 => Mode::Off,
                _ if kept.is_chain() => Mode::Dflash,
                _ => Mode::Ddtree,
            },
            nodes: size,
            pause: 0,
            draft_ms,
            verify_ms: self.share_ms(size + 1, at),
        });
        kept
    }

    /// A sequence in `auto` had a plain round; `waiting` committed tokens are not in the drafter's cache now.
    pub fn rested(&mut self, habit: &mut Habit, waiting: usize, at: Setting) {
        let plain_ms = self.plain_ms(at);
        habit.passed(plain_ms);
        let pause = habit.pause(plain_ms, self.costs.catch_up_ms(waiting));
        if let Some(forecast) = &mut self.forecast {
            (forecast.chosen, forecast.nodes, forecast.pause) = (Mode::Off, 0, pause);
        }
    }

    /// Learns which drafts are accepted, from a round of any mode: `tree` is what was verified, `path` the accepted nodes
    /// (seed first).
    pub fn saw(&mut self, tree: &Tree, path: &[usize]) {
        for node in 1..=tree.len() {
            let parent = tree.parents[node - 1];
            if !path.contains(&parent) {
                continue;
            }
            let depth = tree.depths[node - 1].clamp(1, DEPTHS) - 1;
            let (hits, seen) = &mut self.seen[depth][Self::class(tree.logprobs[node - 1])];
            *hits = *hits * FADE + f64::from(u8::from(path.contains(&node)));
            *seen = *seen * FADE + 1.0;
        }
        for (depth, &node) in path.iter().enumerate() {
            if tree.parents.contains(&node) {
                let (past, there) = &mut self.reached[depth.min(REACHES - 1)];
                *past = *past * FADE + f64::from(u8::from(depth + 1 < path.len()));
                *there = *there * FADE + 1.0;
            }
        }
    }

    /// Learns what a drafting round in `auto` was worth.
    pub fn earned(&mut self, habit: &mut Habit, round: &Drafted, at: Setting) {
        let draft_ms = round.draft_ms.unwrap_or_else(|| self.costs.draft_ms(round.slots));
        let made = Yield {
            tokens: round.tokens,
            ms: draft_ms + self.share_ms(round.rows, at),
            // A drafting round leaves no more tokens than it had slots; what more there is plain rounds have left.
            catch_up_ms: self.costs.catch_up_ms(round.waiting.saturating_sub(round.slots)),
            plain_ms: self.plain_ms(at),
        };
        let step = if habit.is_new() { COMMON_STEP[0] } else { COMMON_STEP[1] };
        self.rounds += 1;
        // The first rounds of all are averaged.
        let step = step.max(1.0 / (self.rounds as f64).min(16.0));
        self.worth += step * (made.worth() - self.worth);
        habit.drafted(made);
    }

    /// The costs, to be kept current.
    pub fn costs(&mut self) -> &mut Costs {
        &mut self.costs
    }
}

/// A drafting round, as the account sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drafted {
    /// Slots of the block, seed included.
    pub slots: usize,
    /// Committed tokens that were brought into the drafter's cache.
    pub waiting: usize,
    /// Rows verified.
    pub rows: usize,
    /// Tokens added.
    pub tokens: usize,
    /// Share of the drafter pass where several sequences drafted; `None`: as for one.
    pub draft_ms: Option<f64>,
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
