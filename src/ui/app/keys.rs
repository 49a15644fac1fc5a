//! What keys do.

use crossterm::event::KeyEvent;

use crate::protocol::mode::{Mode, ModeRequest};
use crate::source::ServerKind;

use super::{Effect, Focus, Model, Overlay, Prompt};
use crate::ui::action::{Action, Context, Key};
use crate::ui::mode_switch;
use crate::ui::screen;
use crate::ui::theme::Role;
use crate::ui::view;

/// Choices for the limit on generated tokens.
const MAX_TOKENS: [usize; 6] = [64, 128, 256, 512, 1024, 2048];
/// Choices for the temperature.
const TEMPERATURES: [f32; 4] = [0.0, 0.3, 0.7, 1.0];

fn after<T: Copy + PartialEq>(choices: &[T], now: T) -> T {
    let at = choices.iter().position(|c| *c == now).map_or(0, |i| i + 1);
    choices[at % choices.len()]
}

impl Model {
    pub(super) fn key(&mut self, event: &KeyEvent) -> Vec<Effect> {
        let Some(key) = Key::of(event) else { return Vec::new() };
        let context = self.context();
        if let Some(action) = self.keys.find(context, key) {
            self.dirty_after_key();
            return self.act(action);
        }
        if context.is_text() && self.type_key(event) {
            self.dirty_after_key();
        }
        Vec::new()
    }

    fn dirty_after_key(&mut self) {
        self.dirty = true;
    }

    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Quit => return self.quit(),
            Action::Suspend => return vec![Effect::Suspend],
            Action::Redraw => return vec![Effect::Redraw],
            Action::CancelGeneration => return self.cancel(),
            Action::Help => {
                self.overlay =
                    if matches!(self.overlay, Some(Overlay::Help(_))) { None } else { Some(Overlay::Help(0)) };
                self.help_filter.clear();
                return Vec::new();
            }
            _ => {}
        }
        if self.context().is_screen()
            && let Some(effects) = self.every_screen(action)
        {
            return effects;
        }
        match self.context() {
            Context::Prompt => self.prompt_action(action),
            Context::Help => {
                self.help_action(action);
                Vec::new()
            }
            Context::ModeMenu => self.menu_action(action),
            Context::BenchPlan | Context::BenchRun => self.bench_action(action),
            Context::Compare => self.compare_action(action),
            Context::Log => {
                self.log_action(action);
                Vec::new()
            }
            Context::Playground | Context::PlaygroundEdit => self.playground_action(action),
            Context::Tree => self.tree_action(action),
            Context::Gpu => self.gpu_action(action),
            Context::Race => self.race_action(action),
            Context::Field => self.field_action(action),
            Context::Palette => self.palette_action(action),
            Context::Themes => self.themes_action(action),
            Context::Export => self.export_action(action),
            Context::Difference => self.difference_action(action),
            Context::Dashboard | Context::Screens | Context::Global => self.dashboard_action(action),
        }
    }

    pub(super) fn dashboard_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Prompt => self.overlay = Some(Overlay::Prompt),
            Action::ModeMenu => {
                let now = self.switch.pending().or(self.data.mode).map_or(Mode::Off, |m| m.mode);
                self.overlay = Some(Overlay::ModeMenu(Mode::ALL.iter().position(|m| *m == now).unwrap_or(0)));
            }
            Action::Rerun => return self.rerun(),
            Action::Pause => {
                self.frozen = if self.frozen.is_some() { None } else { Some(Box::new(self.data.clone())) };
            }
            Action::Rejected => {
                self.rejects = self.rejects.next();
                self.say(Role::StateOk, self.rejects.label());
            }
            Action::LogSize => {
                self.log_big = !self.log_big;
                self.focus = if self.log_big { Focus::Log } else { Focus::Text };
            }
            Action::FollowNext => self.follow_next(),
            Action::FollowNewest => {
                self.follow = None;
                self.text_scroll = 0;
            }
            Action::ResetSpeeds => {
                self.data.speeds.reset();
                self.say(Role::StateOk, "the comparison of modes starts afresh");
            }
            Action::FocusNext => {
                self.focus = if self.focus == Focus::Text { Focus::Log } else { Focus::Text };
            }
            Action::Filter => self.log_filter.typing = true,
            Action::Close => {
                self.toast = None;
                self.pointed = None;
                self.log_filter.clear();
                self.text_scroll = 0;
                self.log_scroll = 0;
            }
            Action::Up => self.scroll(1),
            Action::Down => self.scroll(-1),
            Action::PageUp => self.scroll(self.page()),
            Action::PageDown => self.scroll(-self.page()),
            Action::Top => self.scroll(isize::MAX),
            Action::Bottom => self.scroll(isize::MIN),
            other => return self.mode_action(other),
        }
        Vec::new()
    }

    pub(super) fn mode_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::ModeOff => self.set_mode(Mode::Off),
            Action::ModeDflash => self.set_mode(Mode::Dflash),
            Action::ModeDdtree => self.set_mode(Mode::Ddtree),
            Action::ModeShadow => self.set_mode(Mode::Shadow),
            Action::ModeAuto => self.set_mode(Mode::Auto),
            Action::Less => self.turn(false),
            Action::More => self.turn(true),
            Action::ChainSeed => self.toggle_chain_seed(),
            _ => Vec::new(),
        }
    }

    fn menu_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(Overlay::ModeMenu(at)) = self.overlay else { return Vec::new() };
        let last = Mode::ALL.len() - 1;
        match action {
            Action::Up => self.overlay = Some(Overlay::ModeMenu(at.checked_sub(1).unwrap_or(last))),
            Action::Down => self.overlay = Some(Overlay::ModeMenu(if at >= last { 0 } else { at + 1 })),
            Action::Close => self.overlay = None,
            Action::Confirm => {
                self.overlay = None;
                return self.set_mode(Mode::ALL[at.min(last)]);
            }
            Action::ModeOff | Action::ModeDflash | Action::ModeDdtree | Action::ModeShadow | Action::ModeAuto => {
                self.overlay = None;
                return self.mode_action(action);
            }
            other => return self.mode_action(other),
        }
        Vec::new()
    }

    fn prompt_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Close => self.overlay = None,
            Action::MaxTokens | Action::Temperature => self.turn_parameter(action),
            Action::Confirm => {
                if !self.can_generate() {
                    return Vec::new();
                }
                if let Some(text) = self.editor.take() {
                    self.overlay = None;
                    return self.send(text);
                }
                self.say(Role::StateWarn, "there is nothing to send yet");
            }
            other => {
                self.editor.act(other);
            }
        }
        Vec::new()
    }

    /// The next choice of a parameter of prompts.
    pub(super) fn turn_parameter(&mut self, action: Action) {
        match action {
            Action::MaxTokens => self.max_tokens = after(&MAX_TOKENS, self.max_tokens),
            Action::Temperature => self.temperature = after(&TEMPERATURES, self.temperature),
            _ => {}
        }
    }

    fn help_action(&mut self, action: Action) {
        let Some(Overlay::Help(at)) = self.overlay else { return };
        let most = view::help_overflow(self);
        let page = (self.size.1 as usize).saturating_sub(6).max(1);
        self.overlay = match action {
            Action::Close => None,
            Action::Filter => {
                self.help_filter.typing = true;
                Some(Overlay::Help(0))
            }
            Action::Up => Some(Overlay::Help(at.saturating_sub(1))),
            Action::Down => Some(Overlay::Help((at + 1).min(most))),
            Action::PageUp => Some(Overlay::Help(at.saturating_sub(page))),
            Action::PageDown => Some(Overlay::Help((at + page).min(most))),
            Action::Top => Some(Overlay::Help(0)),
            Action::Bottom => Some(Overlay::Help(most)),
            _ => Some(Overlay::Help(at)),
        };
    }

    fn page(&self) -> isize {
        (screen::dashboard::focused_height(self).saturating_sub(1)).max(1) as isize
    }

    /// Scrolls the focused panel; positive is up, towards older text.
    fn scroll(&mut self, by: isize) {
        let most = screen::dashboard::focused_overflow(self);
        let at = if self.focus == Focus::Log { &mut self.log_scroll } else { &mut self.text_scroll };
        *at = at.min(&mut most.clone()).saturating_add_signed(by).min(most);
    }

    fn follow_next(&mut self) {
        let data = self.shown();
        let now = self.stream().map(|s| s.id.clone());
        let at = data.streams.iter().position(|s| Some(&s.id) == now.as_ref());
        let next = at.map(|at| data.streams[(at + 1) % data.streams.len()].id.clone());
        match next {
            Some(id) => {
                self.say(Role::StateOk, format!("following {id}; f follows the newest"));
                self.follow = Some(id);
                self.text_scroll = 0;
            }
            None => self.say(Role::StateWarn, "no requests yet"),
        }
    }

    /// Whether the server takes mode changes; says why not.
    fn can_switch(&mut self) -> bool {
        let why = match (self.data.kind(), &self.data.state) {
            (None, _) => "not connected: the mode cannot be switched",
            (Some(ServerKind::Vllm), _) => "vLLM cannot switch its mode while it runs",
            (Some(ServerKind::Sglang), _) => "SGLang cannot switch its mode while it runs",
            (Some(ServerKind::OpenAi), _) => "this server cannot switch its mode while it runs",
            (Some(ServerKind::Native), None) => "the server has not said yet what it offers",
            (Some(ServerKind::Native), Some(s)) if s.limits.modes.is_empty() => {
                if self.data.ready() {
                    "this server offers no live switch"
                } else {
                    "the models are not loaded yet"
                }
            }
            _ => return true,
        };
        self.say(Role::StateWarn, why);
        false
    }

    fn set_mode(&mut self, mode: Mode) -> Vec<Effect> {
        if !self.can_switch() {
            return Vec::new();
        }
        let offered = self.data.state.as_ref().map(|s| s.limits.modes.clone()).unwrap_or_default();
        if !offered.contains(&mode) {
            let names: Vec<_> = offered.iter().map(|m| m.name()).collect();
            self.say(Role::StateWarn, format!("{mode} is not on offer here (only {})", names.join(", ")));
            return Vec::new();
        }
        self.ask(ModeRequest::mode(mode))
    }

    fn turn(&mut self, more: bool) -> Vec<Effect> {
        if !self.can_switch() {
            return Vec::new();
        }
        let (Some(mode), Some(state)) = (self.switch.pending().or(self.data.mode), &self.data.state) else {
            return Vec::new();
        };
        match mode_switch::step(mode, &state.limits, more) {
            Ok(request) => self.ask(request),
            Err(why) => {
                self.say(Role::StateWarn, why);
                Vec::new()
            }
        }
    }

    fn toggle_chain_seed(&mut self) -> Vec<Effect> {
        if !self.can_switch() {
            return Vec::new();
        }
        let Some(mode) = self.switch.pending().or(self.data.mode) else { return Vec::new() };
        let on = !mode.chain_seed;
        self.say(Role::StateOk, if on { "chain seed on" } else { "chain seed off" });
        self.ask(ModeRequest { chain_seed: Some(on), ..ModeRequest::default() })
    }

    fn ask(&mut self, request: ModeRequest) -> Vec<Effect> {
        let Some(in_force) = self.data.mode else { return Vec::new() };
        self.switch.ask(request, in_force).map(Effect::SetMode).into_iter().collect()
    }

    pub(super) fn can_generate(&mut self) -> bool {
        if self.data.ready() {
            return true;
        }
        let why =
            if self.data.connected() { "the models are not loaded yet" } else { "not connected: nothing was sent" };
        self.say(Role::StateWarn, why);
        false
    }

    fn rerun(&mut self) -> Vec<Effect> {
        let Some(text) = self.editor.last().map(str::to_owned) else {
            self.say(Role::StateWarn, "no prompt was sent from here yet: press p");
            return Vec::new();
        };
        if self.can_generate() { self.send(text) } else { Vec::new() }
    }

    fn send(&mut self, text: String) -> Vec<Effect> {
        self.follow = None;
        self.text_scroll = 0;
        vec![self.generate(text, self.max_tokens, self.temperature, ModeRequest::default()).1]
    }

    /// Sends a prompt; returns the tag under which its answer comes.
    pub(super) fn generate(
        &mut self,
        text: String,
        max_tokens: usize,
        temperature: f32,
        mode: ModeRequest,
    ) -> (u64, Effect) {
        self.own_running += 1;
        self.tags += 1;
        let tag = self.tags;
        let native = self.data.kind() == Some(ServerKind::Native);
        let target = self.data.state.as_ref().and_then(|s| s.target.as_ref());
        let model = target.filter(|_| !native).map(|t| t.name.clone());
        self.data.answer_begins(&text);
        (tag, Effect::Generate(Prompt { text, max_tokens, temperature, model, mode, tag }))
    }

    fn cancel(&mut self) -> Vec<Effect> {
        if self.own_running == 0 {
            self.say(Role::StateWarn, "nothing that was sent from here is running");
            return Vec::new();
        }
        vec![Effect::CancelGeneration]
    }
}
