//! Switching the mode: one wish at a time is under way, later ones wait and are merged, so that quick key presses
//! arrive in order and the last one wins.

use crate::protocol::mode::{Limits, Mode, ModeRequest, ModeSettings};

/// Wishes on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switch {
    wanted: Option<ModeSettings>,
    sent: bool,
    waiting: ModeRequest,
}

impl Switch {
    /// What was asked for and is not in force yet.
    pub fn pending(&self) -> Option<ModeSettings> {
        self.wanted
    }

    /// Asks for a change; returns what must be sent now, if anything.
    pub fn ask(&mut self, change: ModeRequest, in_force: ModeSettings) -> Option<ModeRequest> {
        let base = self.wanted.unwrap_or(in_force);
        let wanted = base.with(change);
        if wanted == base {
            return None;
        }
        self.wanted = Some(wanted);
        if self.sent {
            self.waiting = ModeRequest {
                mode: change.mode.or(self.waiting.mode),
                block_size: change.block_size.or(self.waiting.block_size),
                tree_budget: change.tree_budget.or(self.waiting.tree_budget),
                chain_seed: change.chain_seed.or(self.waiting.chain_seed),
            };
            return None;
        }
        self.sent = true;
        Some(change)
    }

    /// The server answered; returns what waited and must be sent now.
    pub fn answered(&mut self) -> Option<ModeRequest> {
        let next = std::mem::take(&mut self.waiting);
        if next.is_empty() {
            *self = Self::default();
            return None;
        }
        Some(next)
    }

    /// The server said which settings are in force.
    pub fn seen(&mut self, in_force: ModeSettings) {
        if self.wanted == Some(in_force) && self.waiting.is_empty() {
            self.wanted = None;
        }
    }

    /// Gives up: the server refused or is gone. Returns true if something was under way.
    pub fn give_up(&mut self) -> bool {
        std::mem::take(self) != Self::default()
    }
}

/// The next step of the knob that belongs to the mode: the tree budget doubles and halves, the block size counts.
/// The error says why there is nothing to turn.
pub fn step(settings: ModeSettings, limits: &Limits, more: bool) -> Result<ModeRequest, String> {
    let clamp = |value: usize, [least, greatest]: [usize; 2]| value.min(greatest).max(least);
    let end = if more { "greatest" } else { "least" };
    match settings.mode {
        Mode::Off => Err("nothing to turn in off: choose d or t first".into()),
        Mode::Auto => Err("auto turns its own knobs: choose d or t to turn them".into()),
        Mode::Dflash => {
            let now = settings.block_size;
            let next = clamp(if more { now.saturating_add(1) } else { now.saturating_sub(1) }, limits.block_size);
            if next == now {
                return Err(format!("block size {now} is the {end} here"));
            }
            Ok(ModeRequest { block_size: Some(next), ..ModeRequest::default() })
        }
        Mode::Ddtree | Mode::Shadow => {
            let now = settings.tree_budget;
            // Steps are powers of two: from 48 up is 64, down is 32.
            let power = if more {
                now.saturating_add(1).checked_next_power_of_two().unwrap_or(now)
            } else {
                now.div_ceil(2).checked_next_power_of_two().unwrap_or(1)
            };
            let next = clamp(power, limits.tree_budget);
            if next == now {
                return Err(format!("tree budget {now} is the {end} here"));
            }
            Ok(ModeRequest { tree_budget: Some(next), ..ModeRequest::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ModeSettings = ModeSettings { mode: Mode::Ddtree, block_size: 8, tree_budget: 32, chain_seed: true };

    fn limits() -> Limits {
        Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 9],
            tree_budget: [1, 100],
            context: 1,
            max_running: 1,
            max_waiting: 1,
        }
    }

    #[test]
    fn one_wish_at_a_time_and_the_last_wins() {
        let mut switch = Switch::default();
        assert_eq!(switch.ask(ModeRequest::mode(Mode::Off), NOW), Some(ModeRequest::mode(Mode::Off)));
        assert_eq!(switch.ask(ModeRequest::mode(Mode::Dflash), NOW), None);
        assert_eq!(switch.ask(ModeRequest::mode(Mode::Shadow), NOW), None);
        assert_eq!(switch.pending().map(|p| p.mode), Some(Mode::Shadow));
        assert_eq!(switch.answered(), Some(ModeRequest::mode(Mode::Shadow)));
        assert_eq!(switch.answered(), None);
        assert_eq!(switch.pending(), None);
        assert_eq!(switch.ask(ModeRequest::mode(Mode::Ddtree), NOW), None, "already in force");
    }

    #[test]
    fn the_mode_event_may_come_before_the_answer() {
        let mut switch = Switch::default();
        switch.ask(ModeRequest::mode(Mode::Off), NOW);
        switch.seen(NOW.with(ModeRequest::mode(Mode::Off)));
        assert_eq!(switch.pending(), None);
        assert_eq!(switch.answered(), None);
        assert!(!switch.give_up());
    }

    #[test]
    fn budgets_double_and_stop_at_the_limits() {
        let turn = |budget, more| step(ModeSettings { tree_budget: budget, ..NOW }, &limits(), more);
        let budget = |budget, more| turn(budget, more).ok().and_then(|r| r.tree_budget);
        assert_eq!(budget(32, true), Some(64));
        assert_eq!(budget(64, true), Some(100));
        assert_eq!(budget(100, false), Some(64));
        assert_eq!(budget(48, false), Some(32));
        assert_eq!(budget(48, true), Some(64));
        assert_eq!(budget(1, false), None);
        assert_eq!(budget(2, false), Some(1));
        assert!(turn(100, true).expect_err("at the end").contains("greatest"));
        assert_eq!(budget(usize::MAX, true), Some(100));
    }

    #[test]
    fn block_sizes_count_and_off_has_no_knob() {
        let dflash = ModeSettings { mode: Mode::Dflash, ..NOW };
        assert_eq!(step(dflash, &limits(), true).map(|r| r.block_size), Ok(Some(9)));
        assert!(step(ModeSettings { block_size: 9, ..dflash }, &limits(), true).is_err());
        assert!(step(ModeSettings { mode: Mode::Off, ..NOW }, &limits(), true).is_err());
        let odd = Limits { block_size: [9, 2], ..limits() };
        let _ = step(dflash, &odd, false);
    }
}
