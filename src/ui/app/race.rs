//! The race: running both lanes, one after the other, then replaying them.

use crate::protocol::mode::Mode;
use crate::source::ServerKind;
use crate::ui::action::Action;
use crate::ui::playground::wish;
use crate::ui::race::{MAX_TOKENS, MOST_SLOW, Next, PROMPTS, Race, Stage};
use crate::ui::screen::Screen;

use super::{Effect, Model};

/// Milliseconds that the server's last word on a request may take after its answer.
const LAST_WORD_MS: u64 = 3_000;

impl Model {
    /// Races run by themselves from now on, one after another.
    pub fn demo(&mut self) {
        self.race.unattended = true;
        self.screen = Screen::Race;
        self.dirty = true;
    }

    pub(super) fn race_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::StartRace => {
                let typed = self.editor.keep().or_else(|| self.editor.last().map(str::to_owned));
                return self.start_race(typed);
            }
            Action::Replay => {
                if self.race.lanes.iter().all(|l| l.run.is_some()) {
                    self.race.stage = Stage::Replay { since_ms: self.now_ms };
                } else {
                    return self.refuse("nothing to replay yet: s runs both modes");
                }
            }
            Action::Slower | Action::Faster => {
                let slow = self.race.slow;
                let slow = if action == Action::Slower { (slow + 1).min(MOST_SLOW) } else { slow.saturating_sub(1) };
                // What was seen so far stays where it is.
                if let (Some(at), Stage::Replay { since_ms }) = (self.race.elapsed(self.now_ms), &mut self.race.stage) {
                    *since_ms = self.now_ms.saturating_sub(at << slow);
                }
                self.race.slow = slow;
            }
            Action::LeftLane => self.turn_lane(0),
            Action::RightLane => self.turn_lane(1),
            Action::EditPrompt => {
                self.playground.editing = true;
                return self.show(Screen::Playground);
            }
            Action::Close => {
                self.toast = None;
                self.race.unattended = false;
            }
            _ => {}
        }
        Vec::new()
    }

    fn offered(&self) -> Vec<Mode> {
        self.data.state.as_ref().map(|s| s.limits.modes.clone()).unwrap_or_default()
    }

    fn turn_lane(&mut self, lane: usize) {
        let offered: Vec<Mode> =
            Mode::ALL.into_iter().filter(|m| self.offered().contains(m) && *m != Mode::Shadow).collect();
        let now = self.race.modes(&offered)[lane];
        let at = offered.iter().position(|m| *m == now).map_or(0, |i| i + 1);
        if let Some(next) = offered.get(at % offered.len().max(1)) {
            self.race.chosen[lane] = Some(*next);
        }
    }

    /// Why no race can be run now.
    pub fn no_race(&self) -> Option<&'static str> {
        match self.data.kind() {
            None => Some("not connected: nothing can be raced"),
            Some(ServerKind::Native) if !self.data.ready() => Some("the models are not loaded yet"),
            Some(ServerKind::Native) if self.offered().len() < 2 => {
                Some("this server offers one mode only: a race needs two")
            }
            Some(ServerKind::Native) => None,
            Some(_) => Some("this server cannot decode one prompt in two modes"),
        }
    }

    /// Runs both lanes. Without a prompt one of ours is taken.
    pub(super) fn start_race(&mut self, prompt: Option<String>) -> Vec<Effect> {
        if let Some(why) = self.no_race() {
            return self.refuse(why);
        }
        if matches!(self.race.stage, Stage::Running(_)) {
            return self.refuse("a race is being run already");
        }
        let prompt = prompt.unwrap_or_else(|| PROMPTS[self.race.round % PROMPTS.len()].to_owned());
        let modes = self.race.modes(&self.offered());
        let (tag, effect) = self.generate(prompt.clone(), MAX_TOKENS, 0.0, wish(Some(modes[0])));
        self.race.begin(prompt, modes, tag);
        self.dirty = true;
        vec![effect]
    }

    /// Our client has read the whole answer of a lane, or has not.
    pub(super) fn race_answered(&mut self, tag: u64, result: Result<(), String>) -> Vec<Effect> {
        match result {
            Ok(()) => {
                let now = self.now_ms;
                if let Some(lane) = self.race.lane(tag) {
                    lane.answered_ms = Some(now);
                }
            }
            Err(why) => {
                self.race.ended(tag, Err(why), self.now_ms);
            }
        }
        self.race_step()
    }

    /// What the race does by itself: from lane to lane, to the replay, and to the next race.
    pub(super) fn race_step(&mut self) -> Vec<Effect> {
        if let Stage::Running(at) = self.race.stage {
            return self.lane_step(at);
        }
        if self.race.unattended && self.no_race().is_none() && self.race.next(self.now_ms) == Next::Start {
            return self.start_race(None);
        }
        Vec::new()
    }

    fn lane_step(&mut self, at: usize) -> Vec<Effect> {
        let lane = &self.race.lanes[at];
        let (Some(tag), Some(answered)) = (lane.tag, lane.answered_ms) else { return Vec::new() };
        let run = lane.id.as_ref().and_then(|id| self.data.traces.get(id));
        let late = self.now_ms >= answered + LAST_WORD_MS;
        let result = match run {
            Some(run) if !run.active() || late => Ok(Box::new(run.clone())),
            None if late => Err("the server told nothing of this request's rounds".to_owned()),
            _ => return Vec::new(),
        };
        self.dirty = true;
        if !self.race.ended(tag, result, self.now_ms) {
            return Vec::new();
        }
        let Race { prompt, lanes, .. } = &self.race;
        let (prompt, mode) = (prompt.clone(), lanes[1].mode);
        let (tag, effect) = self.generate(prompt, MAX_TOKENS, 0.0, wish(mode));
        self.race.lanes[1].tag = Some(tag);
        vec![effect]
    }
}
