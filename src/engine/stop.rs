//! Stop strings in a text that arrives in pieces.

/// What a piece of text led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// Text that may be shown now: none of it can be part of a stop string.
    pub text: String,
    /// A stop string is complete; `text` ends before it, and nothing comes after.
    pub stopped: bool,
}

/// Looks for stop strings. However the text is split into pieces, the result is the same: the match that is complete
/// first wins, and of several that end together the longest.
#[derive(Debug, Clone, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    /// The longest end of the text that could still become a stop string.
    held: String,
    stopped: bool,
}

impl StopMatcher {
    /// Empty stop strings are ignored.
    pub fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|s| !s.is_empty()).cloned().collect();
        Self { stops, held: String::new(), stopped: false }
    }

    /// Adds a piece of text.
    pub fn push(&mut self, text: &str) -> Matched {
        if self.stopped {
            return Matched { text: String::new(), stopped: true };
        }
        self.held.push_str(text);
        let first = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()).map(|start| (start + stop.len(), start)))
            .min();
        if let Some((_, start)) = first {
            self.stopped = true;
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return Matched { text, stopped: true };
        }
        let keep = self.held.char_indices().map(|(at, _)| at).find(|&at| {
            let end = &self.held[at..];
            self.stops.iter().any(|stop| stop.starts_with(end))
        });
        let held = self.held.split_off(keep.unwrap_or(self.held.len()));
        Matched { text: std::mem::replace(&mut self.held, held), stopped: false }
    }

    /// The text held back, when the answer ends for another reason.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Whether a stop string was found.
    pub fn stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        let mut matcher = StopMatcher::new(&stops);
        let mut out = String::new();
        for piece in pieces {
            out += &matcher.push(piece).text;
        }
        out += &matcher.finish();
        (out, matcher.stopped())
    }

    #[test]
    fn text_before_the_match_is_given_and_nothing_after() {
        assert_eq!(run(&["STOP"], &["abST", "OPcd", "ef"]), ("ab".into(), true));
        assert_eq!(run(&["STOP"], &["abST", "Xcd"]), ("abSTXcd".into(), false));
        assert_eq!(run(&["STOP"], &["abSTO"]), ("abSTO".into(), false));
        assert_eq!(run(&["", "\n\n"], &["a\n", "b\n", "\n", "c"]), ("a\nb".into(), true));
        assert_eq!(run(&[], &["a", "b"]), ("ab".into(), false));
    }

    #[test]
    fn only_what_could_become_a_stop_string_is_held_back() {
        let mut matcher = StopMatcher::new(&["aab".into(), "ünd".into()]);
        assert_eq!(matcher.push("xaaa").text, "xa");
        assert_eq!(matcher.push("c").text, "aac");
        assert_eq!(matcher.push("ü").text, "");
        assert_eq!(matcher.push("n").text, "");
        assert_eq!(matcher.push("ü").text, "ün");
        assert_eq!(matcher.finish(), "ü");
    }

    #[test]
    fn the_first_complete_match_wins() {
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]), ("xa".into(), true));
        assert_eq!(run(&["bc", "abc"], &["xab", "c"]), ("x".into(), true));
    }

    proptest! {
        #[test]
        fn splitting_changes_nothing(
            stops in proptest::collection::vec("[abü]{0,4}", 0..4),
            text in "[abcü]{0,24}",
            cuts in proptest::collection::vec(0usize..25, 0..8),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(chars.len())).chain([0, chars.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<String> = cuts.windows(2).map(|w| chars[w[0]..w[1]].iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stops, &pieces), run(&stops, &[&text]));
        }

        #[test]
        fn without_a_match_nothing_is_lost(text in "[abc]{0,24}", stop in "[ab]{1,3}d") {
            prop_assert_eq!(run(&[&stop], &[&text]), (text.clone(), false));
        }
    }
}
