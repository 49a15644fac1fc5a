//! How fast each mode was, over the rounds seen since attaching: the live answer to "how much faster is it?".
//!
//! The texts differ from mode to mode, so this is an estimate and is labelled so; a fair comparison is a benchmark.

use crate::protocol::mode::Mode;
use crate::protocol::trace::Round;

/// Modes (with their settings) kept.
const CAPACITY: usize = 8;
/// Rounds before a figure is shown.
const ENOUGH: u64 = 10;

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    label: String,
    mode: Mode,
    tokens: u64,
    ms: f64,
    rounds: u64,
    used: u64,
}

/// One mode's figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Mode with its setting.
    pub label: String,
    /// The mode.
    pub mode: Mode,
    /// Tokens per second of round time.
    pub tok_s: f64,
    /// Against `off`, when `off` was seen and this is another mode.
    pub ratio: Option<f64>,
}

/// Sums by mode.
#[derive(Debug, Clone, Default)]
pub struct Speeds {
    entries: Vec<Entry>,
    last_round: Option<u64>,
    clock: u64,
}

impl Speeds {
    /// Takes a round in. The stage times of an engine round are shared by its sessions and are counted once.
    pub fn add(&mut self, label: &str, round: &Round) {
        self.clock += 1;
        let known = self.entries.iter().position(|e| e.label == label);
        let at = known.unwrap_or_else(|| self.begin(label, round.mode));
        let entry = &mut self.entries[at];
        entry.used = self.clock;
        entry.tokens += round.committed.len() as u64;
        if self.last_round != Some(round.round) {
            let ms = round.stages.total();
            entry.ms += if ms.is_finite() { ms.max(0.0) } else { 0.0 };
            entry.rounds += 1;
        }
        self.last_round = Some(round.round);
    }

    /// A place for a new mode; the one not used for longest makes room.
    fn begin(&mut self, label: &str, mode: Mode) -> usize {
        if self.entries.len() == CAPACITY
            && let Some(oldest) = (0..CAPACITY).min_by_key(|i| self.entries[*i].used)
        {
            self.entries.remove(oldest);
        }
        self.entries.push(Entry { label: label.to_owned(), mode, tokens: 0, ms: 0.0, rounds: 0, used: 0 });
        self.entries.len() - 1
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The modes with enough rounds: `off` first, then the most recently used.
    pub fn table(&self) -> Vec<Speed> {
        let rate = |e: &Entry| e.tokens as f64 / (e.ms / 1000.0);
        let mut kept: Vec<&Entry> = self.entries.iter().filter(|e| e.rounds >= ENOUGH && e.ms > 0.0).collect();
        kept.sort_by_key(|e| (e.mode != Mode::Off, std::cmp::Reverse(e.used)));
        let off = kept.first().filter(|e| e.mode == Mode::Off).map(|e| rate(e));
        kept.into_iter()
            .map(|e| Speed {
                label: e.label.clone(),
                mode: e.mode,
                tok_s: rate(e),
                ratio: off.filter(|_| e.mode != Mode::Off).map(|off| rate(e) / off),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::state::StageTimes;
    use crate::protocol::trace::{RoundEnd, Token};

    fn round(n: u64, mode: Mode, tokens: usize, ms: f64) -> Round {
        Round {
            request: "r".into(),
            round: n,
            step: n,
            mode,
            proposed: Vec::new(),
            left_out: Vec::new(),
            accepted: vec![0],
            bonus: Token::default(),
            committed: vec![Token::default(); tokens],
            accepted_drafts: 0,
            end: RoundEnd::Plain,
            shadow_hit: None,
            stages: StageTimes { verify: ms, ..StageTimes::default() },
            rows: 1,
            context: 0,
            at_ms: 0,
        }
    }

    #[test]
    fn ratios_are_against_off_and_shared_time_counts_once() {
        let mut speeds = Speeds::default();
        for n in 0..20 {
            speeds.add("off", &round(n, Mode::Off, 1, 10.0));
        }
        for n in 20..40 {
            speeds.add("ddtree r32", &round(n, Mode::Ddtree, 3, 20.0));
            speeds.add("ddtree r32", &round(n, Mode::Ddtree, 3, 20.0));
        }
        let table = speeds.table();
        assert_eq!((table[0].label.as_str(), table[0].tok_s, table[0].ratio), ("off", 100.0, None));
        assert_eq!((table[1].tok_s, table[1].ratio), (300.0, Some(3.0)));
        speeds.reset();
        assert!(speeds.table().is_empty());
    }

    #[test]
    fn few_rounds_and_odd_times_show_nothing() {
        let mut speeds = Speeds::default();
        speeds.add("off", &round(0, Mode::Off, 1, f64::NAN));
        for n in 0..30 {
            speeds.add(&format!("ddtree r{n}"), &round(n, Mode::Ddtree, 1, 0.0));
        }
        assert!(speeds.table().is_empty());
    }
}
