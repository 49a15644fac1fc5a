//! The mouse: tabs, focus, scrolling, and the token under the pointer.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::{Effect, Focus, Model};
use crate::ui::action::{Action, Context};
use crate::ui::screen::{Screen, dashboard};
use crate::ui::stream::Kind;
use crate::ui::theme::Role;
use crate::ui::widget::{header, token_stream};

/// Rows that one notch of the wheel scrolls.
const NOTCH: usize = 3;

/// What the terminal reports of the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MouseMode {
    /// Nothing: selecting text works as in the shell.
    Off,
    /// Buttons and wheel. Motion costs a message for every cell that the pointer crosses, so it must be asked for.
    #[default]
    Clicks,
    /// Motion too: the token under the pointer is explained.
    Hover,
}

impl MouseMode {
    /// Every mode.
    pub const ALL: [MouseMode; 3] = [MouseMode::Off, MouseMode::Clicks, MouseMode::Hover];

    /// Its name on the command line and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            MouseMode::Off => "off",
            MouseMode::Clicks => "clicks",
            MouseMode::Hover => "hover",
        }
    }

    fn next(self) -> Self {
        match self {
            MouseMode::Off => MouseMode::Clicks,
            MouseMode::Clicks => MouseMode::Hover,
            MouseMode::Hover => MouseMode::Off,
        }
    }
}

/// A token that the user points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointed {
    /// Its text, or that of its neighbours of the same kind and round.
    pub text: String,
    /// What happened to it.
    pub kind: Kind,
    /// Verify round of the request.
    pub step: u64,
}

impl Pointed {
    /// One line about it.
    pub fn explain(&self) -> String {
        let what = match self.kind {
            Kind::Prompt => return "the prompt".into(),
            Kind::Remark => return "a remark of spectop".into(),
            Kind::Plain => "written without drafts",
            Kind::Accepted => "accepted drafts",
            Kind::Bonus => "the target's own token",
            Kind::Rejected => "drafts that the target rejected",
            Kind::Boundary => "end of the round",
        };
        format!("round {}: {what} \"{}\"", self.step, self.text.trim())
    }
}

impl Model {
    pub(super) fn pointer(&mut self, event: MouseEvent) -> Vec<Effect> {
        let at = Position { x: event.column, y: event.row };
        match event.kind {
            MouseEventKind::ScrollUp => self.wheel(at, Action::Up),
            MouseEventKind::ScrollDown => self.wheel(at, Action::Down),
            MouseEventKind::Down(MouseButton::Left) => self.click(at),
            MouseEventKind::Moved if self.mouse == MouseMode::Hover => {
                self.point(at);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn roomy(&self) -> bool {
        self.size.0 >= dashboard::NORMAL.0 && self.size.1 >= dashboard::NORMAL.1
    }

    fn click(&mut self, at: Position) -> Vec<Effect> {
        if self.overlay.is_some() || self.context().is_text() || !self.roomy() {
            return Vec::new();
        }
        self.dirty = true;
        if at.y == 0 {
            return header::tab_at(self, at.x).map_or_else(Vec::new, |screen| self.act(screen.action()));
        }
        self.focus_at(at);
        self.point(at);
        Vec::new()
    }

    /// The panel under the pointer gets the scroll keys.
    fn focus_at(&mut self, at: Position) {
        if self.screen != Screen::Dashboard {
            return;
        }
        let areas = dashboard::areas(self, dashboard::whole(self));
        if areas.log.contains(at) {
            self.focus = Focus::Log;
        } else if areas.text.contains(at) {
            self.focus = Focus::Text;
        }
    }

    fn point(&mut self, at: Position) {
        let there = self.overlay.is_none() && self.screen == Screen::Dashboard && self.roomy();
        let pointed = if there { token_stream::at(self, at) } else { None };
        if pointed != self.pointed {
            self.pointed = pointed;
            self.dirty = true;
        }
    }

    fn wheel(&mut self, at: Position, action: Action) -> Vec<Effect> {
        if self.overlay.is_none() && self.roomy() {
            self.focus_at(at);
        }
        // Where keys are typed the arrows walk the text or its history: the wheel must not.
        if matches!(self.context(), Context::Field | Context::Prompt | Context::PlaygroundEdit) {
            return Vec::new();
        }
        self.dirty = true;
        // Texts go by rows, a few at a time; lists and steps one by one.
        let text = matches!(self.context(), Context::Dashboard | Context::Log | Context::BenchRun | Context::Help);
        (0..if text { NOTCH } else { 1 }).flat_map(|_| self.act(action)).collect()
    }

    pub(super) fn next_mouse(&mut self) -> Vec<Effect> {
        self.mouse = self.mouse.next();
        self.pointed = None;
        let what = match self.mouse {
            MouseMode::Off => "mouse off: the terminal selects text again",
            MouseMode::Clicks => "mouse: clicks and wheel",
            MouseMode::Hover => "mouse: clicks, wheel, and the token under the pointer",
        };
        self.say(Role::StateOk, what);
        vec![Effect::Mouse(self.mouse)]
    }
}
