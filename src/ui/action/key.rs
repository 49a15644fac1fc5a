//! Keys: how events become them, and what they are called.

use std::fmt::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde::{Deserialize, Serialize};

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    /// Reads a key as [`Key::label`] writes it, or in plain words: `ctrl-x`, `Alt-Enter`, `F5`, `space`, `pgup`, `?`.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut rest, mut modifiers) = (text, KeyModifiers::NONE);
        // A lone `-` is a key, so is the last one of `ctrl--`.
        while let Some((head, tail)) = rest.split_once('-').filter(|(head, tail)| !head.is_empty() && !tail.is_empty())
        {
            modifiers |= match head.to_ascii_lowercase().as_str() {
                "ctrl" | "control" | "c" => KeyModifiers::CONTROL,
                "alt" | "meta" | "a" => KeyModifiers::ALT,
                "shift" if tail.eq_ignore_ascii_case("tab") => {
                    rest = "backtab";
                    break;
                }
                _ => return None,
            };
            rest = tail;
        }
        let mut chars = rest.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            let arrow = ["←", "→", "↑", "↓"].contains(&rest);
            if c.is_control() {
                return None;
            }
            if !arrow {
                let c = if modifiers.contains(KeyModifiers::CONTROL) { c.to_ascii_lowercase() } else { c };
                return Some(Self(KeyCode::Char(c), modifiers));
            }
        }
        let code = match rest.to_ascii_lowercase().as_str() {
            "space" => KeyCode::Char(' '),
            "left" | "←" => KeyCode::Left,
            "right" | "→" => KeyCode::Right,
            "up" | "↑" => KeyCode::Up,
            "down" | "↓" => KeyCode::Down,
            "pgup" | "pageup" => KeyCode::PageUp,
            "pgdn" | "pagedown" => KeyCode::PageDown,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "enter" | "return" => KeyCode::Enter,
            "esc" | "escape" => KeyCode::Esc,
            "tab" => KeyCode::Tab,
            "backtab" => KeyCode::BackTab,
            "backspace" => KeyCode::Backspace,
            "delete" | "del" => KeyCode::Delete,
            "insert" => KeyCode::Insert,
            f => match f.strip_prefix('f').and_then(|n| n.parse().ok()) {
                Some(n @ 1..=24) => KeyCode::F(n),
                _ => return None,
            },
        };
        Some(Self(code, modifiers))
    }
}

/// `ModeOff` as `mode-off`.
pub(super) fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_back() {
        for binding in super::super::TABLE {
            for key in binding.keys {
                assert_eq!(Key::parse(&key.label()), Some(*key), "{}", key.label());
            }
        }
    }

    #[test]
    fn keys_are_read_as_people_write_them() {
        assert_eq!(Key::parse("CTRL-X"), Some(ctrl('x')));
        assert_eq!(Key::parse("ctrl--"), Some(ctrl('-')));
        assert_eq!(Key::parse("-"), Some(ch('-')));
        assert_eq!(Key::parse("G"), Some(ch('G')));
        assert_eq!(Key::parse("ctrl-alt-pgup"), Some(Key(KeyCode::PageUp, KeyModifiers::CONTROL | KeyModifiers::ALT)));
        assert_eq!(Key::parse("shift-tab"), Some(on(KeyCode::BackTab)));
        assert_eq!(Key::parse("F12"), Some(on(KeyCode::F(12))));
        for wrong in ["", "F0", "F99", "hyper-x", "ctrl-", "spacebar", "\u{1b}"] {
            assert_eq!(Key::parse(wrong), None, "{wrong:?}");
        }
    }
}
