//! Keys that every screen knows, and those of palette, themes, export and difference.

use crossterm::event::KeyEvent;

use crate::ui::action::{Action, Bound, Context};
use crate::ui::run::Question;
use crate::ui::run::library::ExportFormat;
use crate::ui::screen::Screen;
use crate::ui::theme::Role;
use crate::ui::widget::palette;

use super::{Effect, Model, Overlay};

/// One step up or down in a list that goes round.
fn step(at: usize, len: usize, down: bool) -> usize {
    if len == 0 { 0 } else { (at.min(len - 1) + if down { 1 } else { len - 1 }) % len }
}

impl Model {
    /// Text for the field that has the keys. On the dashboard there is only one thing that a text can be meant for.
    pub(super) fn paste(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        if self.context() == Context::Dashboard {
            self.overlay = Some(Overlay::Prompt);
        }
        match self.context() {
            Context::Prompt => {
                self.editor.insert(text);
                self.tell_overflow();
            }
            Context::PlaygroundEdit => self.editor.insert(text),
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
            Context::Prompt => {
                let typed = self.editor.key(event);
                self.tell_overflow();
                typed
            }
            Context::PlaygroundEdit => self.editor.key(event),
            Context::Palette => {
                if let Some(Overlay::Palette(at)) = &mut self.overlay {
                    *at = 0;
                }
                self.palette.key(event)
            }
            Context::Field => {
                let typed = self.open_field().is_some_and(|field| field.key(event));
                if typed {
                    self.filtered();
                }
                typed
            }
            _ => false,
        }
    }

    /// What every screen does. `None` for actions of a single screen.
    pub(super) fn every_screen(&mut self, action: Action) -> Option<Vec<Effect>> {
        match action {
            Action::NextScreen => return Some(self.show(self.screen.beside(true))),
            Action::PreviousScreen => return Some(self.show(self.screen.beside(false))),
            Action::Palette => {
                self.palette = crate::ui::editor::Editor::default();
                self.overlay = Some(Overlay::Palette(0));
                Some(Vec::new())
            }
            Action::Theme => {
                let name = self.look.theme.name().to_owned();
                let at = self.look.themes.position(&name);
                self.overlay = Some(Overlay::Themes(at, name));
                Some(Vec::new())
            }
            Action::Copy => Some(self.copy()),
            Action::CopyView => Some(self.copy_view()),
            Action::Mouse => Some(self.next_mouse()),
            Action::Characters => {
                self.look.ascii = !self.look.ascii;
                self.say(Role::StateOk, if self.look.ascii { "ASCII characters only" } else { "all characters" });
                Some(Vec::new())
            }
            Action::Motion => {
                self.look.still = !self.look.still;
                self.say(Role::StateOk, if self.look.still { "reduced motion" } else { "full motion" });
                Some(Vec::new())
            }
            _ => Screen::of(action).map(|screen| self.show(screen)),
        }
    }

    /// Goes to a screen.
    pub(super) fn show(&mut self, screen: Screen) -> Vec<Effect> {
        if self.screen != screen {
            self.log_scroll = 0;
            self.log_filter.clear();
            self.pointed = None;
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
        let entries: Vec<Action> = palette::entries(self).into_iter().map(|b| b.action).collect();
        match action {
            Action::Up => self.overlay = Some(Overlay::Palette(step(at, entries.len(), false))),
            Action::Down => self.overlay = Some(Overlay::Palette(step(at, entries.len(), true))),
            Action::Close => self.overlay = None,
            Action::Confirm => {
                self.overlay = None;
                if let Some(action) = entries.get(at.min(entries.len().saturating_sub(1))) {
                    return self.act(*action);
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
            Action::Up => step(at, self.look.themes.len(), false),
            Action::Down => step(at, self.look.themes.len(), true),
            Action::Confirm => {
                let name = self.look.theme.name();
                self.say(Role::StateOk, format!("theme {name}; theme = \"{name}\" in config.toml keeps it for good"));
                return Vec::new();
            }
            Action::Close => {
                self.theme(&before);
                return Vec::new();
            }
            _ => at,
        };
        let name = self.look.themes.name(at).to_owned();
        self.theme(&name);
        self.overlay = Some(Overlay::Themes(at, before));
        Vec::new()
    }

    fn theme(&mut self, name: &str) {
        match self.look.themed(name) {
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
    pub fn palette_bindings(&self) -> impl Iterator<Item = &Bound> {
        self.keys.working(self.screen_context())
    }
}
