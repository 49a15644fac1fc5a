//! Mode `auto`: picks plain decoding, a chain length or a tree size every round from measured costs and calibrated
//! draft probabilities (specification 2.10). Pure: times come in as numbers.
//!
//! Let `C_d` be the time of a drafter pass and `C_v(n)` that of a verify pass with `n` rows. Plain decoding yields
//! `θ₀ = 1 / C_v(1)` tokens a millisecond. A drafting round that verifies a set of nodes with acceptance probabilities
//! `a_i` yields `1 + Σ a_i` tokens in `C_d + C_v(1 + nodes)`. Once the draft is there `C_d` is spent, so what is verified
//! is the set with the greatest `1 + Σ a_i − θ·C_v(1 + nodes)`: its worth over what the time would have given otherwise.
//! Whether to draft at all follows from what drafting rounds earned lately by that same measure; when they lose, plain
//! rounds take over, and drafting is tried again after a pause that doubles each time.

use crate::engine::tree::{Slots, Tree};

/// Probability classes of the calibration: a node's draft probability, in steps of a factor `e^0.5`.
const CLASSES: usize = 12;
/// Depths told apart by the calibration; deeper ones share the last.
const DEPTHS: usize = 4;
/// Weight of the draft probability itself, in observations.
const PRIOR: f64 = 4.0;
/// What a past observation keeps of its weight with each new one.
const FADE: f64 = 0.998;
/// Share of a new observation in running costs.
const COST_STEP: f64 = 0.05;
/// Share of a new round in the running worth of drafting.
const WORTH_STEP: f64 = 0.2;
/// Drafting rounds of one trial.
const TRIAL: u32 = 4;
/// Plain rounds before drafting is tried again, at first and at most.
const PAUSE: [u32; 2] = [32, 512];

/// Measured times, milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// One drafter pass for one sequence.
    pub draft: f64,
    /// Verify passes: rows and time, rows rising. At least one entry.
    pub verify: Vec<(usize, f64)>,
}

impl Costs {
    /// Time of a verify pass with `rows` rows: between measured points a straight line, beyond them the last slope.
    pub fn verify_ms(&self, rows: usize) -> f64 {
        let points = &self.verify;
        let Some(after) = points.iter().position(|p| p.0 >= rows) else {
            let n = points.len();
            let (x1, y1) = points[n - 1];
            let slope =
                if n > 1 { (y1 - points[n - 2].1).max(0.0) / (x1 - points[n - 2].0) as f64 } else { y1 / x1 as f64 };
            return y1 + slope * (rows - x1) as f64;
        };
        if after == 0 || points[after].0 == rows {
            return points[after].1;
        }
        let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
        y0 + (y1 - y0) * (rows - x0) as f64 / (x1 - x0) as f64
    }
}

/// What the controller has learnt about a server's pair; shared by its sequences.
#[derive(Debug, Clone)]
pub struct Controller {
    costs: Costs,
    /// Observed over measured time of verify passes: contexts grow, machines get busy.
    drift: f64,
    /// `[depth][class]`: accepted and seen nodes, fading.
    seen: [[(f64, f64); CLASSES]; DEPTHS],
    /// Largest tree that may be verified.
    most_nodes: usize,
}

/// A sequence's own decision: whether drafting pays for its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habit {
    /// Running worth of a drafting round in tokens, over plain decoding.
    worth: f64,
    /// Drafting rounds left in this trial.
    trial: u32,
    /// Plain rounds left before the next trial.
    pause: u32,
    /// Length of the next pause.
    next_pause: u32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { worth: 0.0, trial: TRIAL, pause: 0, next_pause: PAUSE[0] }
    }
}

impl Habit {
    /// Whether the next round drafts.
    pub fn drafts(&self) -> bool {
        self.pause == 0
    }

    /// A plain round has passed.
    pub fn passed(&mut self) {
        self.pause = self.pause.saturating_sub(1);
        if self.pause == 0 {
            self.trial = TRIAL;
            self.worth = 0.0;
        }
    }

    /// A drafting round earned `worth` tokens over what its time gives in plain decoding.
    fn earned(&mut self, worth: f64) {
        self.worth += WORTH_STEP * (worth - self.worth);
        self.trial = self.trial.saturating_sub(1);
        if self.trial > 0 {
            return;
        }
        if self.worth < 0.0 {
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(PAUSE[1]);
        } else {
            self.next_pause = PAUSE[0];
        }
    }
}

impl Controller {
    /// A controller that has seen nothing but the measured costs.
    pub fn new(costs: Costs, most_nodes: usize) -> Self {
        Self { costs, drift: 1.0, seen: [[(0.0, 0.0); CLASSES]; DEPTHS], most_nodes }
    }

    /// Plain decoding, tokens a millisecond of a sequence's share when `sequences` decode together.
    fn plain(&self, sequences: usize) -> f64 {
        let n = sequences.max(1);
        n as f64 / (self.costs.verify_ms(n) * self.drift)
    }

    /// Largest tree that is considered.
    pub fn most_nodes(&self) -> usize {
        self.most_nodes
    }

    /// What `rows` rows add to a verify pass that has `others` rows anyway.
    fn share_ms(&self, rows: usize, others: usize) -> f64 {
        let before = if others == 0 { 0.0 } else { self.costs.verify_ms(others) };
        (self.costs.verify_ms(others + rows) - before) * self.drift
    }

    fn class(logprob: f32) -> usize {
        ((f64::from(-logprob) / 0.5).max(0.0) as usize).min(CLASSES - 1)
    }

    /// Probability that a node is accepted once its parent is, from its draft log-probability.
    fn chance(&self, depth: usize, logprob: f32) -> f64 {
        let (hits, seen) = self.seen[depth.clamp(1, DEPTHS) - 1][Self::class(logprob)];
        ((hits + PRIOR * f64::from(logprob).exp()) / (seen + PRIOR)).clamp(0.0, 1.0)
    }

    /// The part of the best-first tree that is worth verifying; empty when one plain row is worth more. The tree is
    /// built with calibrated chances and grown while the next node is worth its row (cost curves are convex from the
    /// first few rows on, but not at the start, so every size is tried and the best one kept).
    /// `others` are the rows that other sequences bring to the same forward, `sequences` how many take part in all.
    pub fn choose(&self, slots: &Slots, others: usize, sequences: usize) -> Tree {
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
        let theta = self.plain(sequences);
        let mut reach = vec![1.0f64];
        let (mut expected, mut best, mut size) = (1.0, 1.0 - theta * self.share_ms(1, others), 0);
        for node in 0..tree.len() {
            let chance = reach[tree.parents[node]] * f64::from(tree.logprobs[node]).exp();
            reach.push(chance);
            expected += chance;
            let worth = expected - theta * self.share_ms(node + 2, others);
            if worth > best {
                best = worth;
                size = node + 1;
            }
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
        kept
    }

    /// Learns from a drafting round: which nodes were accepted, what it earned. `tree` is what was verified, `path` the
    /// accepted nodes (seed first), `draft_ms` this sequence's share of the drafter pass; `others` and `sequences` as in
    /// [`Controller::choose`].
    pub fn learn(
        &mut self,
        habit: &mut Habit,
        tree: &Tree,
        path: &[usize],
        draft_ms: f64,
        others: usize,
        sequences: usize,
    ) {
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
        let ms = draft_ms + self.share_ms(tree.rows(), others);
        habit.earned(path.len() as f64 - self.plain(sequences) * ms);
    }

    /// Keeps the costs current: a drafter pass and a verify pass with `rows` rows took this long.
    pub fn observe(&mut self, draft_ms: Option<f64>, rows: usize, verify_ms: f64) {
        if let Some(ms) = draft_ms {
            self.costs.draft += COST_STEP * (ms - self.costs.draft);
        }
        let ratio = (verify_ms / self.costs.verify_ms(rows)).clamp(0.25, 8.0);
        self.drift += COST_STEP * (ratio - self.drift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs of a machine on which eight rows cost as much as 1.4.
    fn flat() -> Costs {
        Costs { draft: 0.6, verify: vec![(1, 5.0), (8, 7.0), (16, 10.0), (32, 20.0)] }
    }

    /// Costs that rise by nearly a plain step a row.
    fn steep() -> Costs {
        Costs { draft: 2.0, verify: vec![(1, 5.0), (8, 30.0), (16, 60.0)] }
    }

    fn slots(p: f32, length: usize) -> Slots {
        let mut slots = Slots { k: 2, ..Slots::default() };
        for slot in 0..length as u32 {
            slots.ids.extend([slot * 2, slot * 2 + 1]);
            slots.logprobs.extend([p.ln(), ((1.0 - p) * 0.5).ln()]);
        }
        slots
    }

    #[test]
    fn costs_interpolate_and_extrapolate() {
        let costs = flat();
        assert_eq!((costs.verify_ms(1), costs.verify_ms(8), costs.verify_ms(12)), (5.0, 7.0, 8.5));
        assert_eq!(costs.verify_ms(48), 30.0);
        assert!((costs.verify_ms(4) - (5.0 + 3.0 * 2.0 / 7.0)).abs() < 1e-12);
    }

    #[test]
    fn cheap_rows_and_sure_drafts_make_long_proposals_and_dear_rows_none() {
        let sure = slots(0.95, 7);
        assert!(Controller::new(flat(), 32).choose(&sure, 0, 1).len() >= 7);
        let doubtful = slots(0.2, 7);
        assert!(Controller::new(steep(), 32).choose(&doubtful, 0, 1).is_empty());
    }

    /// Plays rounds of a drafter whose every draft is right with probability `truth`, whatever it claims. Returns the
    /// time against plain decoding (below 1 is faster).
    fn play(costs: &Costs, claim: f32, truth: f64, tokens: usize) -> f64 {
        let mut controller = Controller::new(costs.clone(), 32);
        let mut habit = Habit::default();
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        let mut chance = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) as f64 / (1u64 << 53) as f64
        };
        let (mut out, mut ms) = (0, 0.0);
        while out < tokens {
            if !habit.drafts() {
                habit.passed();
                out += 1;
                ms += costs.verify_ms(1);
                continue;
            }
            let tree = controller.choose(&slots(claim, 7), 0, 1);
            // At every depth the first candidate is right with `truth`, the second never.
            let mut path = vec![0];
            let mut node = 0;
            while chance() < truth {
                let depth = if node == 0 { 1 } else { tree.depths[node - 1] + 1 };
                match tree.child(node, (depth as u32 - 1) * 2) {
                    Some(child) => {
                        path.push(child);
                        node = child;
                    }
                    None => break,
                }
            }
            let spent = costs.draft + costs.verify_ms(tree.rows());
            controller.learn(&mut habit, &tree, &path, costs.draft, 0, 1);
            out += path.len();
            ms += spent;
        }
        ms / (out as f64 * costs.verify_ms(1))
    }

    #[test]
    fn never_loses_much_and_wins_where_it_can() {
        // A drafter that claims to be sure and is always wrong.
        let useless = play(&steep(), 0.95, 0.0, 2_000);
        assert!(useless < 1.03, "a useless drafter costs {useless}");
        let useless = play(&flat(), 0.95, 0.0, 2_000);
        assert!(useless < 1.03, "a useless drafter costs {useless}");
        // A good one on a flat machine.
        let good = play(&flat(), 0.8, 0.8, 2_000);
        assert!(good < 0.55, "a good drafter takes {good}");
        // A modest one that understates itself.
        let modest = play(&flat(), 0.3, 0.7, 2_000);
        assert!(modest < 0.7, "an understated drafter takes {modest}");
    }

    #[test]
    fn a_pause_ends_and_grows() {
        let mut habit = Habit::default();
        for _ in 0..TRIAL {
            assert!(habit.drafts());
            habit.earned(-1.0);
        }
        for _ in 0..PAUSE[0] {
            assert!(!habit.drafts());
            habit.passed();
        }
        assert!(habit.drafts());
        for _ in 0..TRIAL {
            habit.earned(-1.0);
        }
        assert_eq!(habit.pause, PAUSE[0] * 2);
    }
}
