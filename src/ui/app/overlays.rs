//! Keys that every screen knows, and those of palette, themes, export and difference.

use crossterm::event::KeyEvent;

use crate::ui::action::{self, Action, Context};
use crate::ui::run::Question;
use crate::ui::run::library::ExportFormat;
use crate::ui::screen::Screen;
use crate::ui::theme::{BUILT_IN, Role};
use crate::ui::widget::palette;

use super::{Effect, Look, Model, Overlay};

/// One step up or down in a list that goes round.
fn step(at: usize, len: usize, down: bool) -> usize {
    if len == 0 { 0 } else { (at.min(len - 1) + if down { 1 } else { len - 1 }) % len }
}

impl Model {
    /// Text for the field that has the keys.
    pub(super) fn paste(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        match self.context() {
            Context::Prompt | Context::PlaygroundEdit => self.editor.insert(text),
            Context::Palette => self.palette.insert(line),
            Context::Field => {
                if let Some(field) = self.open_field() {
                    field.insert(line);
                }
            }
            _ => return,
        }
        self.dirty = true;
    }

    /// A key without a binding in a text field.
    pub(super) fn type_key(&mut self, event: &KeyEvent) -> bool {
        match self.context() {
            Context::Prompt | Context::PlaygroundEdit => self.editor.key(event),
            Context::Palette => {
                if let Some(Overlay::Palette(at)) = &mut self.overlay {
                    *at = 0;
                }
                self.palette.key(event)
            }
            Context::Field => {
                let typed = self.open_field().is_some_and(|field| field.key(event));
                if typed && self.screen == Screen::Compare {
                    self.compare.selected = 0;
                }
                typed
            }
            _ => false,
        }
    }

    /// What every screen does. `None` for actions of a single screen.
    pub(super) fn every_screen(&mut self, action: Action) -> Option<Vec<Effect>> {
        let screen = match action {
            Action::ShowDashboard => Screen::Dashboard,
            Action::ShowPlayground => Screen::Playground,
            Action::ShowTree => Screen::Tree,
            Action::ShowGpu => Screen::Gpu,
            Action::ShowRace => Screen::Race,
            Action::NextScreen => self.screen.beside(true),
            Action::PreviousScreen => self.screen.beside(false),
            Action::ShowBench => Screen::Bench,
            Action::ShowCompare => Screen::Compare,
            Action::ShowLog => Screen::Log,
            Action::Palette => {
                self.palette = crate::ui::editor::Editor::default();
                self.overlay = Some(Overlay::Palette(0));
                return Some(Vec::new());
            }
            Action::Theme => {
                let name = self.look.theme.name().to_owned();
                let at = BUILT_IN.iter().position(|(n, _)| *n == name).unwrap_or(0);
                self.overlay = Some(Overlay::Themes(at, name));
                return Some(Vec::new());
            }
            _ => return None,
        };
        Some(self.show(screen))
    }

    /// Goes to a screen.
    pub(super) fn show(&mut self, screen: Screen) -> Vec<Effect> {
        if self.screen != screen {
            self.log_scroll = 0;
        }
        self.screen = screen;
        if screen == Screen::Compare && self.bench.hosted { vec![Effect::ListRuns] } else { Vec::new() }
    }

    /// Leaves; while a run is live, only when asked twice.
    pub(super) fn quit(&mut self) -> Vec<Effect> {
        if !self.bench.running() {
            return vec![Effect::Quit];
        }
        if self.bench.confirmed(Question::Quit, self.now_ms) {
            return vec![Effect::StopRun, Effect::Quit];
        }
        self.say(Role::StateWarn, "a run is going on: again to stop it, keep what was measured, and quit");
        Vec::new()
    }

    pub(super) fn palette_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(Overlay::Palette(at)) = self.overlay else { return Vec::new() };
        let entries = palette::entries(self);
        match action {
            Action::Up => self.overlay = Some(Overlay::Palette(step(at, entries.len(), false))),
            Action::Down => self.overlay = Some(Overlay::Palette(step(at, entries.len(), true))),
            Action::Close => self.overlay = None,
            Action::Confirm => {
                self.overlay = None;
                if let Some(binding) = entries.get(at.min(entries.len().saturating_sub(1))) {
                    return self.act(binding.action);
                }
            }
            other => {
                self.palette.act(other);
            }
        }
        Vec::new()
    }

    pub(super) fn themes_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(Overlay::Themes(at, before)) = self.overlay.take() else { return Vec::new() };
        let at = match action {
            Action::Up => step(at, BUILT_IN.len(), false),
            Action::Down => step(at, BUILT_IN.len(), true),
            Action::Confirm => {
                self.say(Role::StateOk, format!("theme {}", self.look.theme.name()));
                return Vec::new();
            }
            Action::Close => {
                self.theme(&before);
                return Vec::new();
            }
            _ => at,
        };
        self.theme(BUILT_IN[at.min(BUILT_IN.len() - 1)].0);
        self.overlay = Some(Overlay::Themes(at, before));
        Vec::new()
    }

    fn theme(&mut self, name: &str) {
        match Look::new(Some(name), self.look.depth, self.look.ascii) {
            Ok(look) => self.look = look,
            Err(error) => self.fail("theme", &error),
        }
    }

    pub(super) fn export_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(Overlay::Export(at)) = self.overlay else { return Vec::new() };
        match action {
            Action::Up => self.overlay = Some(Overlay::Export(step(at, ExportFormat::ALL.len(), false))),
            Action::Down => self.overlay = Some(Overlay::Export(step(at, ExportFormat::ALL.len(), true))),
            Action::Close => self.overlay = None,
            Action::Confirm => {
                self.overlay = None;
                let format = ExportFormat::ALL[at.min(ExportFormat::ALL.len() - 1)];
                if let Some(run) = &self.compare.run {
                    return vec![Effect::Export { id: run.meta.id.clone(), format }];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn difference_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(Overlay::Difference(at)) = self.overlay else { return Vec::new() };
        let len = self.compare.differences().len();
        self.overlay = match action {
            Action::Left => Some(Overlay::Difference(step(at, len, false))),
            Action::Right => Some(Overlay::Difference(step(at, len, true))),
            Action::Close => None,
            _ => Some(Overlay::Difference(at)),
        };
        Vec::new()
    }

    /// What the palette offers: all that works on this screen.
    pub fn palette_bindings(&self) -> impl Iterator<Item = &'static action::Binding> {
        action::working(self.screen_context())
    }
}
