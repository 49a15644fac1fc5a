//! The playground: sending prompts, walking through answers.

use crate::protocol::mode::Mode;
use crate::source::ServerKind;
use crate::ui::action::Action;
use crate::ui::playground::{Attempt, State, wish};
use crate::ui::rounds::Traced;
use crate::ui::screen::Screen;
use crate::ui::theme::Role;

use super::{Answer, Effect, Model};

/// Rounds that a page moves by.
const PAGE: isize = 10;
/// Bytes of an answer's text that are kept.
const MAX_TEXT: usize = 256 * 1024;

impl Model {
    /// The rounds of the attempt that the playground shows. Never frozen: one waits for what one sent.
    pub fn attempt_rounds(&self) -> Option<&Traced> {
        self.playground.current().and_then(|a| a.traced(&self.data.traces))
    }

    pub(super) fn playground_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::EditPrompt => self.playground.editing = true,
            Action::Confirm | Action::RunPrompt => return self.run_prompt(),
            Action::Repeat => {
                let offered = self.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
                return match self.playground.another_mode(offered) {
                    Some(mode) => self.repeat(mode),
                    None => self.refuse("this server offers no other mode"),
                };
            }
            Action::ModeOff => return self.repeat(Mode::Off),
            Action::ModeDflash => return self.repeat(Mode::Dflash),
            Action::ModeDdtree => return self.repeat(Mode::Ddtree),
            Action::ModeAuto => return self.repeat(Mode::Auto),
            Action::StepBack => self.step_attempt(-1),
            Action::StepOn => self.step_attempt(1),
            Action::PageUp => self.step_attempt(-PAGE),
            Action::PageDown => self.step_attempt(PAGE),
            Action::FirstStep => self.step_attempt(isize::MIN),
            Action::LastStep => self.walk.at = None,
            Action::Up => self.select_attempt(-1),
            Action::Down => self.select_attempt(1),
            Action::TreeOfStep => {
                self.walk.request = self.playground.current().and_then(|a| a.id.clone());
                self.walk.node = None;
                return self.show(Screen::Tree);
            }
            Action::Rejected => {
                self.rejects = self.rejects.next();
                self.say(Role::StateOk, self.rejects.label());
            }
            Action::MaxTokens | Action::Temperature => self.turn_parameter(action),
            Action::NextMode => self.next_mode(),
            Action::StartRace => {
                let prompt = self.playground.current().map(|a| a.prompt.clone());
                let prompt = prompt.or_else(|| self.editor.keep());
                self.show(Screen::Race);
                return self.start_race(prompt);
            }
            Action::Close if self.playground.editing => self.playground.editing = false,
            Action::Close => {
                self.toast = None;
                self.walk.at = None;
            }
            other => {
                self.editor.act(other);
            }
        }
        Vec::new()
    }

    /// Says why nothing is done.
    pub(super) fn refuse(&mut self, why: &str) -> Vec<Effect> {
        self.say(Role::StateWarn, why);
        Vec::new()
    }

    fn step_attempt(&mut self, by: isize) {
        if let Some(traced) = self.playground.current().and_then(|a| a.traced(&self.data.traces)) {
            self.walk.go(traced, by);
        }
    }

    fn select_attempt(&mut self, by: isize) {
        let last = self.playground.attempts.len().saturating_sub(1);
        let at = self.playground.selected.min(last).saturating_add_signed(by).min(last);
        if at != self.playground.selected {
            self.playground.selected = at;
            self.walk.at = None;
        }
    }

    /// The server's own mode, then each on offer.
    fn next_mode(&mut self) {
        let offered = self.data.state.as_ref().map(|s| s.limits.modes.clone()).unwrap_or_default();
        let all: Vec<Option<Mode>> =
            std::iter::once(None).chain(Mode::ALL.into_iter().filter(|m| offered.contains(m)).map(Some)).collect();
        let at = all.iter().position(|m| *m == self.playground.mode).map_or(0, |i| i + 1);
        self.playground.mode = all[at % all.len()];
    }

    fn run_prompt(&mut self) -> Vec<Effect> {
        if !self.can_generate() {
            return Vec::new();
        }
        match self.editor.keep() {
            Some(text) => self.attempt(text, self.playground.mode),
            None => {
                self.playground.editing = true;
                self.refuse("there is no prompt yet: write one, then Enter")
            }
        }
    }

    fn repeat(&mut self, mode: Mode) -> Vec<Effect> {
        let Some(prompt) = self.playground.current().map(|a| a.prompt.clone()) else {
            return self.refuse("nothing to repeat yet: press Enter and write a prompt");
        };
        if self.data.kind().is_some_and(|k| k != ServerKind::Native) {
            return self.refuse("this server cannot decode one prompt in another mode");
        }
        let offered = self.data.state.as_ref().map(|s| s.limits.modes.clone()).unwrap_or_default();
        if self.data.connected() && !offered.contains(&mode) {
            return self.refuse(&format!("{mode} is not on offer here"));
        }
        if self.can_generate() { self.attempt(prompt, Some(mode)) } else { Vec::new() }
    }

    fn attempt(&mut self, prompt: String, mode: Option<Mode>) -> Vec<Effect> {
        if self.playground.attempts.iter().any(|a| a.state == State::Running) {
            return self.refuse("the last attempt still runs: Ctrl-X cancels it");
        }
        let (max_tokens, temperature) = (self.max_tokens, self.temperature);
        let settings = self.data.mode.map(|m| m.with(wish(mode)));
        let (tag, effect) = self.generate(prompt.clone(), max_tokens, temperature, wish(mode));
        self.playground.sent(Attempt {
            tag,
            id: None,
            mode: settings,
            prompt,
            temperature,
            max_tokens,
            state: State::Running,
            text: String::new(),
        });
        self.walk = crate::ui::playground::walk::Walk::default();
        vec![effect]
    }

    /// A piece of an answer to a prompt of ours.
    pub(super) fn answer(&mut self, answer: &Answer) {
        if let Some(attempt) = self.playground.of(answer.tag) {
            if attempt.text.len() < MAX_TEXT {
                attempt.text.push_str(&answer.text);
            }
            if attempt.id.is_none() && answer.id.is_some() {
                attempt.id.clone_from(&answer.id);
                self.data.traces.pin(self.playground.ids());
            }
            self.dirty |= self.screen == Screen::Playground;
        }
        if let Some(lane) = self.race.lane(answer.tag) {
            lane.id = answer.id.clone().or(lane.id.take());
        }
        self.dirty |= self.data.answer(&answer.text) && self.frozen.is_none();
    }

    pub(super) fn attempt_ended(&mut self, tag: u64, result: &Result<(), String>) {
        if let Some(attempt) = self.playground.of(tag) {
            attempt.state = match result {
                Ok(()) => State::Done,
                Err(why) => State::Failed(why.clone()),
            };
        }
    }
}
