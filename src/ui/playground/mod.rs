//! The playground: one prompt, tried in one mode after another, walked through round by round.

pub mod difference;
pub mod walk;

use crate::protocol::mode::{Mode, ModeRequest, ModeSettings};

use super::rounds::{Traced, Traces};

/// Attempts kept of one prompt.
const MAX_ATTEMPTS: usize = 6;

/// Where an attempt is.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// It runs.
    Running,
    /// It came to its end.
    Done,
    /// It failed; why.
    Failed(String),
}

/// A prompt that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Our tag.
    pub tag: u64,
    /// The server's id, once known.
    pub id: Option<String>,
    /// The mode that was asked for, or that was in force.
    pub mode: Option<ModeSettings>,
    /// The prompt.
    pub prompt: String,
    /// Its temperature.
    pub temperature: f32,
    /// Its limit on tokens.
    pub max_tokens: usize,
    /// Where it is.
    pub state: State,
    /// The answer as text: all there is of servers that do not trace their rounds.
    pub text: String,
}

impl Attempt {
    /// Its rounds, if the server traces them and they are still kept.
    pub fn traced<'a>(&self, traces: &'a Traces) -> Option<&'a Traced> {
        self.id.as_ref().and_then(|id| traces.get(id))
    }

    /// The mode for people: what was asked for.
    pub fn label(&self) -> String {
        self.mode.map_or_else(|| "—".into(), |m| m.label())
    }
}

/// The playground.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Playground {
    /// Attempts at the same prompt, oldest first.
    pub attempts: Vec<Attempt>,
    /// The attempt that is looked at.
    pub selected: usize,
    /// The prompt is being written.
    pub editing: bool,
    /// Mode of the next attempt; none: the server's.
    pub mode: Option<Mode>,
}

impl Playground {
    /// The attempt that is looked at.
    pub fn current(&self) -> Option<&Attempt> {
        self.attempts.get(self.selected.min(self.attempts.len().saturating_sub(1)))
    }

    /// The attempt that others are compared with: the first one at this prompt.
    pub fn reference(&self) -> Option<&Attempt> {
        self.attempts.first()
    }

    /// An attempt by its tag.
    pub fn of(&mut self, tag: u64) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|a| a.tag == tag)
    }

    /// A prompt is sent. Another prompt, or other conditions, begin a new comparison.
    pub fn sent(&mut self, attempt: Attempt) {
        let same = |a: &Attempt| {
            a.prompt == attempt.prompt
                && a.max_tokens == attempt.max_tokens
                && a.temperature.to_bits() == attempt.temperature.to_bits()
        };
        if !self.attempts.iter().all(same) {
            self.attempts.clear();
        }
        if self.attempts.len() == MAX_ATTEMPTS {
            // The first one stays: the others are compared with it.
            self.attempts.remove(1);
        }
        self.attempts.push(attempt);
        self.selected = self.attempts.len() - 1;
        self.editing = false;
    }

    /// The mode in which the prompt is repeated: the next on offer after that of the last attempt.
    pub fn another_mode(&self, offered: &[Mode]) -> Option<Mode> {
        let tried: Vec<Mode> = self.attempts.iter().filter_map(|a| a.mode.map(|m| m.mode)).collect();
        let walk = Mode::ALL.into_iter().filter(|m| offered.contains(m) && *m != Mode::Shadow);
        let untried = walk.clone().find(|m| !tried.contains(m));
        let last = tried.last().copied();
        untried.or_else(|| {
            let all: Vec<Mode> = walk.collect();
            let at = last.and_then(|l| all.iter().position(|m| *m == l)).map_or(0, |i| i + 1);
            all.get(at % all.len().max(1)).copied()
        })
    }

    /// Requests whose rounds must be kept.
    pub fn ids(&self) -> Vec<String> {
        self.attempts.iter().filter_map(|a| a.id.clone()).collect()
    }
}

/// What is asked of the server for a mode; nothing for the server's own.
pub fn wish(mode: Option<Mode>) -> ModeRequest {
    mode.map_or_else(ModeRequest::default, ModeRequest::mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(tag: u64, prompt: &str, mode: Mode) -> Attempt {
        Attempt {
            tag,
            id: None,
            mode: Some(ModeSettings { mode, block_size: 8, tree_budget: 16, chain_seed: true }),
            prompt: prompt.into(),
            temperature: 0.0,
            max_tokens: 64,
            state: State::Done,
            text: String::new(),
        }
    }

    #[test]
    fn another_mode_is_one_that_was_not_tried_yet() {
        let offered = [Mode::Off, Mode::Dflash, Mode::Ddtree, Mode::Shadow];
        let mut play = Playground::default();
        assert_eq!(play.another_mode(&offered), Some(Mode::Off));
        play.sent(attempt(1, "p", Mode::Dflash));
        assert_eq!(play.another_mode(&offered), Some(Mode::Off));
        play.sent(attempt(2, "p", Mode::Off));
        play.sent(attempt(3, "p", Mode::Ddtree));
        assert_eq!(play.another_mode(&offered), Some(Mode::Off), "round again, shadow left out");
        assert_eq!(play.another_mode(&[]), None);
    }

    #[test]
    fn another_prompt_begins_anew_and_the_first_attempt_stays() {
        let mut play = Playground::default();
        for tag in 0..9 {
            play.sent(attempt(tag, "p", Mode::Off));
        }
        assert_eq!(play.attempts.len(), MAX_ATTEMPTS);
        assert_eq!((play.reference().map(|a| a.tag), play.current().map(|a| a.tag)), (Some(0), Some(8)));
        play.sent(attempt(9, "q", Mode::Off));
        assert_eq!(play.attempts.len(), 1);
    }
}
