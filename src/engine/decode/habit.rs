//! Whether one sequence drafts in mode `auto`: an account of time.
//!
//! Every round pays a small allowance in. A drafting round pays in what its tokens would have taken in plain decoding, and
//! takes out what it took. While drafting seems to pay, it goes on unless the account says that it does not. While it
//! seems not to pay, it is tried only with what is on the account, so that a drafter that never pays costs the
//! allowance and nothing more, at any length of answer, and a text that drafting suits earns its next trials itself.

/// What a round adds to the account, as a share of its time.
const ALLOWANCE: f64 = 0.01;
/// Plain steps that the account holds at most: winnings are not there to be lost again.
const MOST: f64 = 2.0;
/// Plain steps that drafting may be behind while it seems to pay.
const GRACE: f64 = 2.0;
/// Least that a trial is expected to cost, in plain steps.
const LEAST_STAKE: f64 = 0.1;
/// Drafting rounds that the belief of a new sequence counts for, and the most that its own rounds count for.
const MEMORY: [f64; 2] = [8.0, 24.0];
/// Share of a new round in the running rate of drafting.
const RATE_STEP: f64 = 0.1;

/// A sequence's own experience with the drafter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habit {
    /// Expected worth of a drafting round: its tokens over what its time gives in plain decoding.
    worth: f64,
    /// Drafting rounds that this belief rests on.
    weight: f64,
    /// Tokens a millisecond of drafting rounds lately; 0 before the first.
    rate: f64,
    /// Milliseconds won or left to lose.
    account: f64,
    /// Drafts whatever it is worth: a rehearsal.
    eager: bool,
}

impl Default for Habit {
    fn default() -> Self {
        Self::expecting(0.0)
    }
}

/// What a drafting round was, in estimated times: what the machine did meanwhile to the one round is left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yield {
    /// Tokens that it added.
    pub tokens: usize,
    /// Milliseconds that it takes.
    pub ms: f64,
    /// Milliseconds that went into what earlier plain rounds had left for the drafter.
    pub catch_up_ms: f64,
    /// Milliseconds of a plain step.
    pub plain_ms: f64,
}

impl Yield {
    /// Tokens over those of plain decoding.
    pub fn worth(&self) -> f64 {
        self.tokens as f64 - self.ms / self.plain_ms
    }
}

impl Habit {
    /// A sequence that expects this worth of a drafting round.
    pub fn expecting(worth: f64) -> Self {
        Self { worth, weight: MEMORY[0], rate: 0.0, account: 0.0, eager: false }
    }

    /// A sequence that drafts in every round, to find out what drafting is worth.
    pub fn eager() -> Self {
        Self { eager: true, ..Self::default() }
    }

    /// Expected worth of a drafting round in tokens over plain decoding.
    pub fn worth(&self) -> f64 {
        self.worth
    }

    /// Tokens a millisecond of drafting rounds lately; 0 before the first.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether its own rounds say little so far.
    pub fn is_new(&self) -> bool {
        self.weight < 2.0 * MEMORY[0]
    }

    /// What must be on the account for the next round to draft.
    fn stake(&self, plain_ms: f64, catch_up_ms: f64) -> f64 {
        if self.worth >= 0.0 { -GRACE * plain_ms } else { (-self.worth).max(LEAST_STAKE) * plain_ms + catch_up_ms }
    }

    /// Whether the next round drafts, where a plain step takes `plain_ms` and the drafter has to catch up first for
    /// `catch_up_ms`.
    pub fn drafts(&self, plain_ms: f64, catch_up_ms: f64) -> bool {
        self.eager || self.account >= self.stake(plain_ms, catch_up_ms)
    }

    /// Plain rounds until it drafts again, as far as can be said; 0 when it drafts.
    pub fn pause(&self, plain_ms: f64, catch_up_ms: f64) -> u32 {
        if self.drafts(plain_ms, catch_up_ms) {
            return 0;
        }
        let missing = self.stake(plain_ms, catch_up_ms) - self.account;
        (missing / (ALLOWANCE * plain_ms)).ceil().min(1e6) as u32
    }

    /// A plain round has passed.
    pub fn passed(&mut self, plain_ms: f64) {
        self.account = (self.account + ALLOWANCE * plain_ms).min(MOST * plain_ms);
    }

    /// A drafting round has passed.
    pub fn drafted(&mut self, made: Yield) {
        let worth = made.worth();
        // Where drafting goes on, the drafter's reading of the prompt is an outlay, not a loss of this round.
        let catch_up_ms = if self.worth < 0.0 { made.catch_up_ms } else { 0.0 };
        self.weight = (self.weight + 1.0).min(MEMORY[1]);
        self.worth += (worth - self.worth) / self.weight;
        let rate = made.tokens as f64 / made.ms;
        self.rate = if self.rate > 0.0 { self.rate + RATE_STEP * (rate - self.rate) } else { rate };
        let gain = worth * made.plain_ms - catch_up_ms + ALLOWANCE * made.ms;
        self.account = (self.account + gain).min(MOST * made.plain_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: f64 = 5.0;

    fn lost(tokens: f64) -> Yield {
        Yield { tokens: 1, ms: PLAIN * (1.0 + tokens), catch_up_ms: 0.0, plain_ms: PLAIN }
    }

    fn won(tokens: usize) -> Yield {
        Yield { tokens: 1 + tokens, ms: PLAIN, catch_up_ms: 0.0, plain_ms: PLAIN }
    }

    #[test]
    fn a_drafter_that_never_pays_costs_the_allowance() {
        let mut habit = Habit::expecting(-0.8);
        let (mut time, mut behind) = (0.0, 0.0);
        for _ in 0..5_000 {
            if habit.drafts(PLAIN, 0.0) {
                habit.drafted(lost(0.8));
                time += 1.8 * PLAIN;
                behind += 0.8 * PLAIN;
            } else {
                habit.passed(PLAIN);
                time += PLAIN;
            }
            assert!(behind <= 0.01 * time + 1e-9, "{behind} of {time} ms");
        }
        assert!(behind > 0.005 * time, "it is tried now and then");
    }

    #[test]
    fn short_answers_are_not_gambled_with() {
        let habit = Habit::expecting(-0.5);
        assert!(!habit.drafts(PLAIN, 0.0));
        assert_eq!(habit.pause(PLAIN, 0.0), 50, "half a step at a hundredth of a step a round");
        assert!(Habit::expecting(0.2).drafts(PLAIN, 0.0), "where it pays as a rule it starts at once");
    }

    #[test]
    fn what_looked_good_is_dropped_once_it_is_behind() {
        let mut habit = Habit::expecting(2.0);
        let mut rounds = 0;
        while habit.drafts(PLAIN, 0.0) {
            habit.drafted(lost(0.5));
            rounds += 1;
            assert!(rounds < 10, "still drafting");
        }
        assert!(rounds >= 4);
    }

    #[test]
    fn a_text_that_suits_pays_for_its_own_trials() {
        let mut habit = Habit::expecting(-0.5);
        while !habit.drafts(PLAIN, 0.0) {
            habit.passed(PLAIN);
        }
        for _ in 0..12 {
            assert!(habit.drafts(PLAIN, 0.0));
            habit.drafted(won(1));
        }
        assert!(habit.worth() > 0.0);
    }

    #[test]
    fn catching_up_is_part_of_the_stake() {
        let mut habit = Habit::expecting(-0.5);
        for _ in 0..60 {
            habit.passed(PLAIN);
        }
        assert!(habit.drafts(PLAIN, 0.0));
        assert!(!habit.drafts(PLAIN, PLAIN));
    }
}
