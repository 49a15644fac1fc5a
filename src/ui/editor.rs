//! A small multi-line text editor with history, for prompts.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use super::action::Action;
use super::text;

/// Bytes that a prompt may have.
pub const MAX_BYTES: usize = 64 * 1024;
/// Prompts remembered.
const MAX_HISTORY: usize = 50;

/// Text, cursor and history.
#[derive(Debug, Clone, Default)]
pub struct Editor {
    text: String,
    /// Byte offset, always at a grapheme boundary.
    cursor: usize,
    history: Vec<String>,
    /// Place in the history while walking it, and the text that was being written.
    walking: Option<(usize, String)>,
    /// Something did not fit since this was last asked.
    overflowed: bool,
}

impl Editor {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The newest prompt sent.
    pub fn last(&self) -> Option<&str> {
        self.history.last().map(String::as_str)
    }

    /// Takes the text out and remembers it; `None` when there is nothing but space.
    pub fn take(&mut self) -> Option<String> {
        let text = self.keep()?;
        self.text.clear();
        self.cursor = 0;
        Some(text)
    }

    /// Remembers the text, which stays where it is; `None` when there is nothing but space.
    pub fn keep(&mut self) -> Option<String> {
        if self.text.trim().is_empty() {
            return None;
        }
        let text = self.text.clone();
        self.walking = None;
        self.history.retain(|h| *h != text);
        self.history.push(text.clone());
        if self.history.len() > MAX_HISTORY {
            self.history.remove(0);
        }
        Some(text)
    }

    /// Whether something was left out for want of room, since this was last asked.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Puts text in at the cursor. Line ends are normalised; what exceeds the limit is left out.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let room = MAX_BYTES.saturating_sub(self.text.len());
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.overflowed |= end < text.len();
        self.text.insert_str(self.cursor, &text[..end]);
        self.cursor += end;
        self.settle();
    }

    /// A key without a binding: typing and moving. True if it did something.
    pub fn key(&mut self, key: &KeyEvent) -> bool {
        match key.code {
            KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Tab => self.insert("    "),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Up => self.vertical(true),
            KeyCode::Down => self.vertical(false),
            KeyCode::Backspace => self.delete(self.before(), self.cursor),
            KeyCode::Delete => self.delete(self.cursor, self.after()),
            _ => return false,
        }
        true
    }

    /// An editing action of the table. False for actions of others.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Newline => self.insert("\n"),
            Action::LineStart => self.cursor = self.line_start(),
            Action::LineEnd => self.cursor = self.line_end(),
            Action::DeleteWord => self.delete(self.word_start(), self.cursor),
            Action::DeleteToStart => self.delete(self.line_start(), self.cursor),
            Action::DeleteToEnd => self.delete(self.cursor, self.line_end()),
            Action::HistoryOlder => self.walk(true),
            Action::HistoryNewer => self.walk(false),
            _ => return false,
        }
        true
    }

    /// Lines as shown at a width, and the cursor's row and column among them.
    pub fn layout(&self, columns: usize) -> (Vec<String>, usize, usize) {
        let columns = columns.max(2);
        let mut lines = vec![String::new()];
        let (mut used, mut offset) = (0, 0);
        let mut place = (0, 0);
        for grapheme in self.text.graphemes(true) {
            if offset == self.cursor {
                place = (lines.len() - 1, used);
            }
            offset += grapheme.len();
            if grapheme == "\n" {
                lines.push(String::new());
                used = 0;
                continue;
            }
            let width = text::width(grapheme);
            if used + width > columns {
                lines.push(String::new());
                if offset - grapheme.len() == self.cursor {
                    place = (lines.len() - 1, 0);
                }
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(grapheme);
            }
            used += width;
        }
        if offset == self.cursor {
            if used >= columns {
                lines.push(String::new());
                used = 0;
            }
            place = (lines.len() - 1, used);
        }
        (lines, place.0, place.1)
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(i, _)| i)
    }

    fn after(&self) -> usize {
        self.cursor + self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |i| i + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |i| self.cursor + i)
    }

    fn word_start(&self) -> usize {
        let head = &self.text[..self.cursor];
        let trimmed = head.trim_end();
        trimmed.rfind(char::is_whitespace).map_or(0, |i| i + trimmed[i..].chars().next().map_or(1, char::len_utf8))
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
        self.settle();
    }

    /// Text joined by an edit may have merged two graphemes: the cursor goes behind the one it landed in.
    fn settle(&mut self) {
        let at = self.cursor;
        self.cursor = self
            .text
            .grapheme_indices(true)
            .map(|(i, _)| i)
            .chain(std::iter::once(self.text.len()))
            .find(|i| *i >= at)
            .unwrap_or(self.text.len());
    }

    /// A line up or down in the same column; beyond the first and last line: the history.
    fn vertical(&mut self, up: bool) {
        let start = self.line_start();
        let column = self.text[start..self.cursor].graphemes(true).count();
        let target = if up {
            if start == 0 {
                return self.walk(true);
            }
            self.text[..start - 1].rfind('\n').map_or(0, |i| i + 1)
        } else {
            let end = self.line_end();
            if end == self.text.len() {
                return self.walk(false);
            }
            end + 1
        };
        let line = self.text[target..].split('\n').next().unwrap_or_default();
        self.cursor = target + line.graphemes(true).take(column).map(str::len).sum::<usize>();
    }

    fn walk(&mut self, older: bool) {
        let next = match (&self.walking, older) {
            (None, true) => self.history.len().checked_sub(1),
            (Some((at, _)), true) => Some(at.saturating_sub(1)),
            (None, false) => None,
            (Some((at, draft)), false) if at + 1 >= self.history.len() => {
                self.text.clone_from(draft);
                self.walking = None;
                self.cursor = self.text.len();
                return;
            }
            (Some((at, _)), false) => Some(at + 1),
        };
        let Some(at) = next else { return };
        let draft = self.walking.take().map_or_else(|| self.text.clone(), |(_, draft)| draft);
        self.text.clone_from(&self.history[at]);
        self.cursor = self.text.len();
        self.walking = Some((at, draft));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn press(editor: &mut Editor, code: KeyCode) {
        editor.key(&KeyEvent::new(code, KeyModifiers::NONE));
    }

    fn typed(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.insert(text);
        editor
    }

    #[test]
    fn typing_moving_deleting() {
        let mut e = typed("héllo 漢字");
        press(&mut e, KeyCode::Left);
        press(&mut e, KeyCode::Backspace);
        assert_eq!(e.text(), "héllo 字");
        e.act(Action::DeleteWord);
        assert_eq!(e.text(), "字");
        press(&mut e, KeyCode::Delete);
        assert_eq!(e.text(), "");
        press(&mut e, KeyCode::Backspace);
        press(&mut e, KeyCode::Delete);
    }

    #[test]
    fn pasted_line_ends_are_normalised() {
        assert_eq!(typed("a\r\nb\rc").text(), "a\nb\nc");
        let mut e = typed(&"漢".repeat(MAX_BYTES));
        assert!(e.text().len() <= MAX_BYTES);
        assert!(e.take_overflow(), "what is left out is told");
        e.insert("x");
        assert!(e.text().len() <= MAX_BYTES);
    }

    #[test]
    fn history_walks_and_comes_back() {
        let mut e = Editor::default();
        for prompt in ["one", "two", "one"] {
            e.insert(prompt);
            assert_eq!(e.take().as_deref(), Some(prompt));
        }
        e.insert("draft");
        press(&mut e, KeyCode::Up);
        assert_eq!(e.text(), "one");
        press(&mut e, KeyCode::Up);
        assert_eq!(e.text(), "two");
        press(&mut e, KeyCode::Up);
        assert_eq!(e.text(), "two");
        press(&mut e, KeyCode::Down);
        press(&mut e, KeyCode::Down);
        assert_eq!(e.text(), "draft");
        assert_eq!(typed(" \n").take(), None);
    }

    #[test]
    fn the_cursor_is_where_the_next_character_goes() {
        assert_eq!(typed("ab\ncd").layout(10), (vec!["ab".into(), "cd".into()], 1, 2));
        assert_eq!(typed("abcd").layout(4), (vec!["abcd".into(), String::new()], 1, 0));
        let mut e = typed("abcdef");
        e.act(Action::LineStart);
        assert_eq!((e.layout(4).1, e.layout(4).2), (0, 0));
    }

    proptest! {
        #[test]
        fn no_sequence_of_keys_breaks_it(keys in proptest::collection::vec(0u8..16, 0..60), columns in 0usize..12) {
            let mut e = Editor::default();
            for k in keys {
                match k {
                    0 => e.insert("a"), 1 => e.insert("漢 "), 2 => e.insert("e\u{301}"), 3 => e.insert("\u{301}\n"),
                    4 => e.insert("👩‍💻"), 5 => press(&mut e, KeyCode::Left), 6 => press(&mut e, KeyCode::Right),
                    7 => press(&mut e, KeyCode::Up), 8 => press(&mut e, KeyCode::Down),
                    9 => press(&mut e, KeyCode::Backspace), 10 => press(&mut e, KeyCode::Delete),
                    11 => { e.act(Action::DeleteWord); } 12 => { e.act(Action::LineStart); }
                    13 => { e.act(Action::DeleteToEnd); } 14 => { e.take(); } _ => { e.act(Action::DeleteToStart); }
                }
                let (lines, row, _) = e.layout(columns);
                prop_assert!(row < lines.len());
            }
        }
    }
}
