//! Mode `auto`: picks plain decoding, a chain length or a tree size every round from measured costs and calibrated
//! draft probabilities (specification 2.10). Pure: times come in as numbers.
//!
//! Let `C_d` be the time of a drafter pass and `C_v(n)` that of a verify pass with `n` rows. Plain decoding yields
//! `θ₀ = 1 / C_v(1)` tokens a millisecond. A drafting round that verifies a set of nodes with acceptance probabilities
//! `a_i` yields `1 + Σ a_i` tokens in `C_d + C_v(1 + nodes)`. Once the draft is there `C_d` is spent, so what is verified
//! is the set with the greatest `1 + Σ a_i − θ·C_v(1 + nodes)`: its worth over what the time would have given otherwise.
//! Whether to draft at all follows from what drafting rounds earned lately by that same measure; when they lose, plain
//! rounds take over, and drafting is tried again after a pause that doubles each time. What one sequence learnt about the
//! drafter the next one starts with.

use crate::engine::tree::{Slots, Tree};
use crate::protocol::event::Forecast;
use crate::protocol::mode::Mode;

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
/// Share of a new round in the running rate of drafting.
const RATE_STEP: f64 = 0.1;
/// Drafting rounds of one trial.
const TRIAL: u32 = 4;
/// Drafting rounds of a trial after one that lost.
const SHORT_TRIAL: u32 = 2;
/// Plain rounds before drafting is tried again, at first and at most.
const PAUSE: [u32; 2] = [32, 512];

/// Times of verify passes by rows: rows and milliseconds, rows rising, at least one entry.
pub type Curve = Vec<(usize, f64)>;

/// Measured times, milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// One drafter pass for one sequence.
    pub draft: f64,
    /// Verify passes over a short context.
    pub verify: Curve,
    /// The two contexts that were measured, in tokens.
    pub contexts: [usize; 2],
    /// Verify passes over the long one; empty where it was not measured.
    pub deep: Curve,
}

/// Between measured points a straight line, beyond them the last slope.
fn read(points: &Curve, rows: usize) -> f64 {
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

impl Costs {
    /// Time of a verify pass with `rows` rows over `context` cached tokens: attention grows with both, everything else
    /// with the rows only, so it is a straight line over the context.
    pub fn verify_ms(&self, rows: usize, context: usize) -> f64 {
        let near = read(&self.verify, rows);
        let [short, long] = self.contexts;
        if self.deep.is_empty() || long <= short {
            return near;
        }
        let share = (context as f64 - short as f64) / (long - short) as f64;
        (near + (read(&self.deep, rows) - near).max(0.0) * share).max(near * 0.5)
    }
}

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
    /// Observed over measured time of verify passes: contexts grow, machines get busy.
    drift: f64,
    /// `[depth][class]`: accepted and seen nodes, fading.
    seen: [[(f64, f64); CLASSES]; DEPTHS],
    /// Largest tree that may be verified.
    most_nodes: usize,
    /// Length of the next pause, as the last trial of any sequence left it.
    pause: u32,
    /// What was expected in the last round that drafted.
    forecast: Option<Forecast>,
}

/// A sequence's own decision: whether drafting pays for its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habit {
    /// Running worth of a drafting round in tokens, over plain decoding.
    worth: f64,
    /// Tokens a millisecond of drafting rounds lately; 0 before the first.
    rate: f64,
    /// Drafting rounds left in this trial.
    trial: u32,
    /// Plain rounds left before the next trial.
    pause: u32,
    /// Length of the next pause.
    next_pause: u32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { worth: 0.0, rate: 0.0, trial: TRIAL, pause: 0, next_pause: PAUSE[0] }
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
            // Whoever has lost before must be brief.
            self.trial = if self.next_pause > PAUSE[0] { SHORT_TRIAL } else { TRIAL };
            self.worth = 0.0;
        }
    }

    /// Plain rounds until the next trial; 0 while drafting.
    pub fn pause(&self) -> u32 {
        self.pause
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
        Self { costs, drift: 1.0, seen: [[(0.0, 0.0); CLASSES]; DEPTHS], most_nodes, pause: PAUSE[0], forecast: None }
    }

    /// What a new sequence starts with: a full trial, or a brief one where drafting has not paid lately.
    pub fn habit(&self) -> Habit {
        let trial = if self.pause > PAUSE[0] { 1 } else { TRIAL };
        Habit { trial, next_pause: self.pause, ..Habit::default() }
    }

    /// What is expected of each choice, as of the last round that drafted.
    pub fn forecast(&self) -> Option<&Forecast> {
        self.forecast.as_ref()
    }

    /// Plain decoding, tokens a millisecond of a sequence's share.
    fn plain(&self, at: Setting) -> f64 {
        let n = at.sequences.max(1);
        n as f64 / (self.costs.verify_ms(n, at.context) * self.drift)
    }

    /// Largest tree that is considered.
    pub fn most_nodes(&self) -> usize {
        self.most_nodes
    }

    /// What `rows` rows add to a verify pass.
    fn share_ms(&self, rows: usize, at: Setting) -> f64 {
        let before = if at.others == 0 { 0.0 } else { self.costs.verify_ms(at.others, at.context) };
        (self.costs.verify_ms(at.others + rows, at.context) - before) * self.drift
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
        let plain = self.plain(at);
        let theta = plain.max(habit.rate);
        let mut reach = vec![1.0f64];
        let (mut expected, mut best, mut size) = (1.0, 1.0 - theta * self.share_ms(1, at), 0);
        let mut tree_rate = 0.0f64;
        for node in 0..tree.len() {
            let chance = reach[tree.parents[node]] * f64::from(tree.logprobs[node]).exp();
            reach.push(chance);
            expected += chance;
            let ms = self.share_ms(node + 2, at);
            tree_rate = tree_rate.max(expected / (self.costs.draft + ms));
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
            chain_rate = chain_rate.max(expected / (self.costs.draft + self.share_ms(slot + 2, at)));
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
            draft_ms: self.costs.draft,
            verify_ms: self.share_ms(size + 1, at),
        });
        kept
    }

    /// Notes that the last round was a plain one, with so many more to come before drafting is tried again.
    pub fn rests(&mut self, pause: u32) {
        if let Some(forecast) = &mut self.forecast {
            (forecast.chosen, forecast.nodes, forecast.pause) = (Mode::Off, 0, pause);
        }
    }

    /// Learns from a drafting round: which nodes were accepted, what it earned. `tree` is what was verified, `path` the
    /// accepted nodes (seed first), `draft_ms` this sequence's share of the drafter pass, or `None` when that pass had
    /// to catch up with plain rounds or a prompt, which is no cost of drafting on.
    pub fn learn(&mut self, habit: &mut Habit, tree: &Tree, path: &[usize], draft_ms: Option<f64>, at: Setting) {
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
        let ms = draft_ms.unwrap_or(self.costs.draft) + self.share_ms(tree.rows(), at);
        let rate = path.len() as f64 / ms;
        habit.rate = if habit.rate > 0.0 { habit.rate + RATE_STEP * (rate - habit.rate) } else { rate };
        habit.earned(path.len() as f64 - self.plain(at) * ms);
        if habit.trial == 0 {
            self.pause = habit.next_pause;
        }
    }

    /// Keeps the costs current: a drafter pass and a verify pass with `rows` rows over `context` tokens took this long.
    pub fn observe(&mut self, draft_ms: Option<f64>, rows: usize, context: usize, verify_ms: f64) {
        if let Some(ms) = draft_ms {
            self.costs.draft += COST_STEP * (ms - self.costs.draft);
        }
        let ratio = (verify_ms / self.costs.verify_ms(rows, context)).clamp(0.25, 8.0);
        self.drift += COST_STEP * (ratio - self.drift);
    }
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
