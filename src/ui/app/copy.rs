//! What `y` and `Y` copy. How it reaches the clipboard is the terminal's matter.

use super::{Effect, Model};
use crate::protocol::event::Level;
use crate::ui::format;
use crate::ui::screen::Screen;
use crate::ui::theme::Role;
use crate::ui::view;

/// Bytes that are copied at most: terminals refuse or cut longer sequences.
const MOST: usize = 72 * 1024;

impl Model {
    /// Copies what the screen is about: the answer, the log lines; on other screens what is seen.
    pub(super) fn copy(&mut self) -> Vec<Effect> {
        match self.screen {
            Screen::Dashboard => match self.stream().map(crate::ui::stream::Stream::answer) {
                Some(text) if !text.is_empty() => self.hand_over("the answer", text),
                _ => {
                    self.say(Role::StateWarn, "there is no text to copy yet");
                    Vec::new()
                }
            },
            Screen::Playground if self.playground.current().is_some() => {
                let text = self.attempt_rounds().map(crate::ui::rounds::Traced::text);
                let plain = || self.playground.current().map(|a| a.text.clone()).unwrap_or_default();
                let text = text.unwrap_or_else(plain);
                self.hand_over("the answer", text)
            }
            Screen::Log => {
                let text: String =
                    self.log_lines().iter().map(|e| log_line(e.at_ms, e.level, &e.source, &e.message)).collect();
                self.hand_over("the log", text)
            }
            _ => self.copy_view(),
        }
    }

    /// Copies the screen as text.
    pub(super) fn copy_view(&mut self) -> Vec<Effect> {
        let text = view::text(self);
        self.hand_over("the view", text)
    }

    fn hand_over(&mut self, what: &str, mut text: String) -> Vec<Effect> {
        let mut note = String::new();
        if text.len() > MOST {
            // The end is what was just written.
            let mut from = text.len() - MOST;
            while !text.is_char_boundary(from) {
                from += 1;
            }
            text.drain(..from);
            note = format!(": its last {} KiB", MOST / 1024);
        }
        let lines = text.lines().count();
        let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
        self.say(Role::StateOk, format!("{what} went to the terminal's clipboard ({lines}){note}"));
        vec![Effect::Copy(text)]
    }
}

fn log_line(at_ms: u64, level: Level, source: &str, message: &str) -> String {
    format!("{} {level:?} {source} {message}\n", format::time_of_day(at_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::app::Look;
    use crate::ui::color::Depth;
    use crate::ui::stream::Stream;

    #[test]
    fn text_without_marks_is_copied_and_a_long_one_cut_at_a_character() {
        let look = Look::new(None, Depth::True, false).expect("a look");
        let mut model = Model::new("x", look, 0);
        assert_eq!(model.copy(), [], "nothing yet");
        let mut stream = Stream::new("a");
        stream.own_begins("question");
        stream.own_text("two\nlines");
        model.data.streams.push(stream);
        assert_eq!(model.copy(), [Effect::Copy("two\nlines".into())]);
        model.data.streams[0].own_text(&"漢".repeat(MOST));
        let effects = model.copy();
        let [Effect::Copy(text)] = effects.as_slice() else { panic!("{effects:?}") };
        assert!(text.len() <= MOST && text.len() > MOST - 4 && text.chars().all(|c| c == '漢'));
        model.screen = Screen::Log;
        model.data.note(0, Level::Warn, "link", "gone");
        assert_eq!(model.copy(), [Effect::Copy("00:00:00 Warn link gone\n".into())]);
    }
}
