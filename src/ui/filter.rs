//! A filter that is typed: words that lines must contain.

use super::editor::Editor;

/// The words, and whether they are being typed.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// What was typed.
    pub text: Editor,
    /// True while keys go into it.
    pub typing: bool,
}

impl Filter {
    /// True when there is something to look for.
    pub fn is_set(&self) -> bool {
        !self.text.text().trim().is_empty()
    }

    /// The words, in lower case.
    pub fn words(&self) -> Vec<String> {
        self.text.text().split_whitespace().map(str::to_lowercase).collect()
    }

    /// What titles say about it: empty when it is neither set nor typed.
    pub fn label(&self) -> String {
        match (self.typing, self.is_set()) {
            (true, _) => format!(" · /{}_", self.text.text()),
            (false, true) => format!(" · /{}", self.text.text()),
            (false, false) => String::new(),
        }
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Whether a line, in lower case, contains all words.
pub fn holds(line: &str, words: &[String]) -> bool {
    words.is_empty() || {
        let line = line.to_lowercase();
        words.iter().all(|w| line.contains(w))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_must_be_there_in_any_case_and_order() {
        let mut filter = Filter::default();
        assert!(holds("anything", &filter.words()) && !filter.is_set() && filter.label().is_empty());
        filter.text.insert("Mode  WARN");
        assert!(holds("warn: the mode changed", &filter.words()));
        assert!(!holds("the mode changed", &filter.words()));
        assert_eq!(filter.label(), " · /Mode  WARN");
    }
}
