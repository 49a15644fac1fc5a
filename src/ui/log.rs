//! The log: connection and mode changes, the server's own lines, errors. Bounded.

use std::collections::VecDeque;

use super::filter;
use crate::protocol::event::Level;

/// Lines kept.
const CAPACITY: usize = 500;
/// Characters of a message that are kept.
const MESSAGE_CHARS: usize = 1_000;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// How bad.
    pub level: Level,
    /// Who speaks.
    pub source: String,
    /// What.
    pub message: String,
}

/// The ring of lines.
#[derive(Debug, Clone, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
}

impl Log {
    /// Adds a line.
    pub fn push(&mut self, at_ms: u64, level: Level, source: &str, message: &str) {
        if self.entries.len() == CAPACITY {
            self.entries.pop_front();
        }
        let message = message.trim_end().chars().take(MESSAGE_CHARS).collect();
        self.entries.push_back(Entry { at_ms, level, source: source.chars().take(16).collect(), message });
    }

    /// Lines kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True before the first line.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lines of this level or worse that contain all words (in lower case), oldest first.
    pub fn chosen(&self, least: Level, words: &[String]) -> Vec<&Entry> {
        let holds =
            |e: &Entry| words.is_empty() || filter::holds(&format!("{:?} {} {}", e.level, e.source, e.message), words);
        self.entries.iter().filter(|e| e.level >= least && holds(e)).collect()
    }

    /// `rows` lines that end `skip` lines before the newest, oldest first.
    pub fn window(&self, rows: usize, skip: usize) -> impl Iterator<Item = &Entry> {
        let end = self.entries.len().saturating_sub(skip);
        self.entries.range(end.saturating_sub(rows)..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_windowed() {
        let mut log = Log::default();
        for i in 0..CAPACITY + 10 {
            log.push(0, Level::Info, "a-source-with-a-very-long-name", &format!("{i}"));
        }
        assert_eq!(log.len(), CAPACITY);
        let shown: Vec<_> = log.window(2, 1).map(|e| e.message.as_str()).collect();
        assert_eq!(shown, ["507", "508"]);
        assert_eq!(log.window(5, 10_000).count(), 0);
    }
}
