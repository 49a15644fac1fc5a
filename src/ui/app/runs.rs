//! The bench, compare and log screens: what keys do there, and what comes back from the runs.

use crate::protocol::event::Level;
use crate::protocol::mode::Mode;
use crate::protocol::run::RunProgress;
use crate::source::ServerKind;
use crate::ui::action::Action;
use crate::ui::editor::Editor;
use crate::ui::filter::Filter;
use crate::ui::run::form::Wish;
use crate::ui::run::live::Live;
use crate::ui::run::{Bench, Pane, Question};
use crate::ui::screen::{self, Screen};
use crate::ui::theme::Role;

use super::{Effect, Model, Msg, Overlay};

impl Model {
    /// Says that benchmarks can be run and kept here. Without this the screens say that they cannot.
    pub fn offer_runs(&mut self) {
        self.bench.hosted = true;
        self.dirty = true;
    }

    /// Why no run can be started now, in words; `None` when one can.
    pub fn no_run(&self) -> Option<&'static str> {
        if !self.bench.hosted {
            return Some("benchmarks are not available on this attachment");
        }
        match self.data.kind() {
            None => return Some("not connected: nothing can be measured"),
            Some(ServerKind::Vllm) => {
                return Some("vLLM cannot switch its mode while it runs: nothing to compare here");
            }
            Some(ServerKind::Sglang) => {
                return Some("SGLang cannot switch its mode while it runs: nothing to compare here");
            }
            Some(ServerKind::OpenAi) => {
                return Some("this server cannot switch its mode while it runs: nothing to compare here");
            }
            Some(ServerKind::Native) => {}
        }
        let modes = self.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
        match modes {
            _ if !self.data.ready() => Some("the models are not loaded yet"),
            [] => Some("this server offers no live switch"),
            _ => None,
        }
    }

    /// What a user should know before a run, though it does not keep them from one.
    pub fn run_hint(&self) -> Option<&'static str> {
        let modes = self.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
        (modes == [Mode::Off]).then_some("no drafter is loaded: only off can be measured")
    }

    pub(super) fn bench_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::StartRun => return self.start_run(),
            Action::DryRun => return self.dry_run(),
            Action::PauseRun => {
                let paused = self.bench.live.as_ref().is_some_and(|l| l.phase == crate::ui::run::live::Phase::Paused);
                return vec![Effect::PauseRun(!paused)];
            }
            Action::StopRun => {
                if self.bench.confirmed(Question::Stop, self.now_ms) {
                    self.say(Role::StateOk, "stopping after the request under way; what was measured is kept");
                    return vec![Effect::StopRun];
                }
                self.say(Role::StateWarn, "stop the run and keep what was measured? again to stop, Esc to go on");
            }
            Action::FocusNext => {
                self.bench.pane = if self.bench.pane == Pane::Plan { Pane::Results } else { Pane::Plan };
                self.bench.scroll = 0;
            }
            Action::Close => {
                self.bench.take_back();
                self.toast = None;
                self.bench.scroll = 0;
            }
            _ if self.bench.running() || self.bench.pane == Pane::Results => self.scroll_requests(action),
            _ => return self.form_action(action),
        }
        Vec::new()
    }

    fn form_action(&mut self, action: Action) -> Vec<Effect> {
        let form = &mut self.bench.form;
        match action {
            Action::Up => form.go(-1),
            Action::Down => form.go(1),
            Action::PageUp | Action::Top => form.go(isize::MIN),
            Action::PageDown | Action::Bottom => form.go(isize::MAX),
            Action::Toggle => form.toggle(),
            Action::Left => form.turn(false),
            Action::Right => form.turn(true),
            Action::Remove => {
                if !form.remove() {
                    self.say(Role::StateWarn, "only suites and modes that you added can be removed");
                }
            }
            Action::Confirm => match form.enter() {
                Wish::None => {}
                Wish::Start => return self.start_run(),
                Wish::DryRun => return self.dry_run(),
            },
            _ => return Vec::new(),
        }
        // What was planned before is no longer the plan.
        self.bench.dry = None;
        Vec::new()
    }

    fn scroll_requests(&mut self, action: Action) {
        let most = self.bench.live.as_ref().map_or(0, |l| l.recent.len().saturating_sub(1));
        let page = (self.size.1 / 3).max(1) as usize;
        let at = self.bench.scroll.min(most);
        self.bench.scroll = match action {
            Action::Up => at + 1,
            Action::Down => at.saturating_sub(1),
            Action::PageUp => at + page,
            Action::PageDown => at.saturating_sub(page),
            Action::Top => most,
            Action::Bottom => 0,
            _ => at,
        }
        .min(most);
    }

    fn start_run(&mut self) -> Vec<Effect> {
        if self.bench.running() {
            self.say(Role::StateWarn, "a run is going on already");
            return Vec::new();
        }
        let options = match self.no_run().map_or_else(|| self.bench.form.options(), |why| Err(why.into())) {
            Ok(options) => options,
            Err(why) => {
                self.say(Role::StateWarn, why);
                return Vec::new();
            }
        };
        self.bench.live = Some(Box::new(Live::new(self.now_ms)));
        self.bench.pane = Pane::Results;
        self.bench.scroll = 0;
        self.bench.take_back();
        vec![Effect::StartRun(options)]
    }

    fn dry_run(&mut self) -> Vec<Effect> {
        match self.no_run().map_or_else(|| self.bench.form.options(), |why| Err(why.into())) {
            Ok(options) => vec![Effect::PlanRun(options)],
            Err(why) => {
                self.say(Role::StateWarn, why);
                Vec::new()
            }
        }
    }

    pub(super) fn compare_action(&mut self, action: Action) -> Vec<Effect> {
        let most = self.compare.visible().len().saturating_sub(1);
        let page = (self.size.1 / 3).max(1) as usize;
        let compare = &mut self.compare;
        let at = compare.selected.min(most);
        match action {
            Action::Up => compare.selected = at.saturating_sub(1),
            Action::Down => compare.selected = (at + 1).min(most),
            Action::PageUp => compare.selected = at.saturating_sub(page),
            Action::PageDown => compare.selected = (at + page).min(most),
            Action::Top => compare.selected = 0,
            Action::Bottom => compare.selected = most,
            Action::Left => compare.column = compare.column.saturating_sub(1),
            Action::Right => {
                let modes = compare.run.as_ref().map_or(0, |r| r.plan.modes.len());
                compare.column = (compare.column + 1).min(modes.saturating_sub(2));
            }
            Action::FocusNext => compare.plot = compare.plot.walk(true),
            Action::FocusPrevious => compare.plot = compare.plot.walk(false),
            Action::Suite => compare.scope = (compare.scope + 1) % compare.scopes().len().max(1),
            Action::Filter => compare.filtering = true,
            Action::Close => {
                compare.filter = Editor::default();
                self.toast = None;
            }
            Action::Reload => return if self.bench.hosted { vec![Effect::ListRuns] } else { Vec::new() },
            Action::Difference => {
                if compare.differences().is_empty() {
                    self.say(Role::StateOk, "no difference of outputs is recorded in this run");
                } else {
                    self.overlay = Some(Overlay::Difference(0));
                }
            }
            Action::Export => {
                if compare.run.is_some() {
                    self.overlay = Some(Overlay::Export(0));
                } else {
                    self.say(Role::StateWarn, "no run to export");
                }
            }
            _ => {}
        }
        self.load_wanted()
    }

    fn load_wanted(&mut self) -> Vec<Effect> {
        self.compare.wanted().map(Effect::LoadRun).into_iter().collect()
    }

    pub(super) fn log_action(&mut self, action: Action) {
        let most = screen::log::overflow(self);
        let page = (self.size.1 as usize).saturating_sub(6).max(1);
        let at = self.log_scroll.min(most);
        self.log_scroll = match action {
            Action::Up => at + 1,
            Action::Down => at.saturating_sub(1),
            Action::PageUp => at + page,
            Action::PageDown => at.saturating_sub(page),
            Action::Top => most,
            Action::Filter => {
                self.log_filter.typing = true;
                at
            }
            Action::Level => {
                self.log_level = match self.log_level {
                    Level::Info => Level::Warn,
                    Level::Warn => Level::Error,
                    Level::Error => Level::Info,
                };
                0
            }
            Action::Close => {
                self.toast = None;
                self.log_filter.clear();
                0
            }
            Action::Bottom => 0,
            _ => at,
        }
        .min(screen::log::overflow(self));
    }

    /// The field of one line that has the keys.
    pub(super) fn open_field(&mut self) -> Option<&mut Editor> {
        match (&self.overlay, self.screen) {
            (None, Screen::Bench) => self.bench.form.edit.as_mut(),
            (None, Screen::Compare) => Some(&mut self.compare.filter),
            _ => self.line_filter().map(|f| &mut f.text),
        }
    }

    /// The filter of lines that is being typed.
    fn line_filter(&mut self) -> Option<&mut Filter> {
        match (&self.overlay, self.screen) {
            (Some(Overlay::Help(_)), _) => Some(&mut self.help_filter),
            (None, Screen::Dashboard | Screen::Log) => Some(&mut self.log_filter),
            _ => None,
        }
    }

    /// The words of a filter changed: what it leaves is looked at from its beginning or its newest entry.
    pub(super) fn filtered(&mut self) {
        if let Some(Overlay::Help(at)) = &mut self.overlay {
            *at = 0;
        }
        match self.screen {
            Screen::Compare => self.compare.selected = 0,
            _ => self.log_scroll = 0,
        }
    }

    pub(super) fn field_action(&mut self, action: Action) -> Vec<Effect> {
        if matches!(action, Action::Confirm | Action::Close)
            && let Some(filter) = self.line_filter()
        {
            filter.typing = false;
            if action == Action::Close {
                filter.clear();
            }
            return Vec::new();
        }
        match (action, self.screen) {
            (Action::Confirm, Screen::Bench) => {
                if let Err(why) = self.bench.form.accept() {
                    self.say(Role::StateWarn, why);
                } else {
                    self.toast = None;
                    self.bench.dry = None;
                }
            }
            (Action::Close, Screen::Bench) => {
                self.bench.form.edit = None;
                self.toast = None;
            }
            (Action::Confirm, _) => {
                self.compare.filtering = false;
                return self.load_wanted();
            }
            (Action::Close, _) => {
                self.compare.filtering = false;
                self.compare.filter = Editor::default();
            }
            _ => {
                if let Some(field) = self.open_field() {
                    field.act(action);
                }
                self.filtered();
            }
        }
        Vec::new()
    }

    pub(super) fn run_msg(&mut self, msg: Msg) -> Vec<Effect> {
        match msg {
            Msg::Run(progress) => self.progress(progress),
            Msg::Planned(answer) => self.bench.planned(answer),
            Msg::Runs(Ok(runs)) => {
                self.compare.listed(runs);
                return self.load_wanted();
            }
            Msg::Runs(Err(why)) => self.compare.error = Some(why),
            Msg::RunLoaded(run) => {
                let tried = self.compare.loading.clone();
                self.compare.loaded(run);
                // The cursor may have moved on meanwhile. What failed is not tried again by itself.
                if self.compare.current().map(|r| &r.id) != tried.as_ref() {
                    return self.load_wanted();
                }
            }
            Msg::Exported(Ok(file)) => self.say(Role::StateOk, format!("written to {file}")),
            Msg::Exported(Err(why)) => self.fail("export", &format!("not exported: {why}")),
            _ => {}
        }
        Vec::new()
    }

    fn progress(&mut self, progress: RunProgress) {
        let now = self.now_ms;
        match &progress {
            RunProgress::Failed(why) => self.fail("bench", &format!("the run failed: {why}")),
            RunProgress::Ended { run, file } => {
                let kept = file.as_ref().map_or_else(String::new, |f| format!(", kept as {f}"));
                let text = format!("run {} ended{kept}", run.meta.id);
                self.data.note(now, Level::Info, "bench", &text);
                self.say(Role::StateOk, text);
                self.compare.add(run.clone());
            }
            _ => {}
        }
        let bench: &mut Bench = &mut self.bench;
        bench.live.get_or_insert_with(|| Box::new(Live::new(now))).apply(progress, now);
        if !bench.running() {
            bench.take_back();
        }
    }
}
