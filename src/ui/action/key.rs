//! Keys: how events become them, and what they are called.

use std::fmt::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub KeyCode, pub KeyModifiers);

pub(super) const fn ch(c: char) -> Key {
    Key(KeyCode::Char(c), KeyModifiers::NONE)
}
pub(super) const fn ctrl(c: char) -> Key {
    Key(KeyCode::Char(c), KeyModifiers::CONTROL)
}
pub(super) const fn on(code: KeyCode) -> Key {
    Key(code, KeyModifiers::NONE)
}
pub(super) const fn alt(code: KeyCode) -> Key {
    Key(code, KeyModifiers::ALT)
}

impl Key {
    /// The key of an event, with the differences between terminals taken out: Shift is part of a character, and Ctrl
    /// does not know upper case. `None` for releases and repeats.
    pub fn of(event: &KeyEvent) -> Option<Self> {
        if event.kind != KeyEventKind::Press {
            return None;
        }
        let mut modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
        let code = match event.code {
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => KeyCode::Char(c.to_ascii_lowercase()),
            KeyCode::BackTab => {
                modifiers = KeyModifiers::NONE;
                KeyCode::BackTab
            }
            code => code,
        };
        Some(Self(code, modifiers))
    }

    /// For people: `Ctrl-X`, `PgUp`, `space`.
    pub fn label(self) -> String {
        let mut text = String::new();
        if self.1.contains(KeyModifiers::CONTROL) {
            text.push_str("Ctrl-");
        }
        if self.1.contains(KeyModifiers::ALT) {
            text.push_str("Alt-");
        }
        match self.0 {
            KeyCode::Char(' ') => text.push_str("space"),
            KeyCode::Char(c) if self.1.contains(KeyModifiers::CONTROL) => text.push(c.to_ascii_uppercase()),
            KeyCode::Char(c) => text.push(c),
            KeyCode::Left => text.push('←'),
            KeyCode::Right => text.push('→'),
            KeyCode::Up => text.push('↑'),
            KeyCode::Down => text.push('↓'),
            KeyCode::PageUp => text.push_str("PgUp"),
            KeyCode::PageDown => text.push_str("PgDn"),
            KeyCode::BackTab => text.push_str("Shift-Tab"),
            KeyCode::F(n) => {
                let _ = write!(text, "F{n}");
            }
            other => {
                let _ = write!(text, "{other:?}");
            }
        }
        text
    }
}
