//! Whether two answers are the same, token by token, and where they part.

use crate::protocol::trace::Token;
use crate::ui::rounds::Traces;

use super::{Attempt, State};

/// What a comparison of two answers says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// One of them still runs; equal as far as both have come.
    SoFar(usize),
    /// Equal to the end.
    Identical {
        /// Tokens compared, or characters where tokens are not known.
        units: usize,
        /// `tokens` or `characters`.
        unit: &'static str,
    },
    /// They part.
    Differs {
        /// Index of the first difference.
        at: usize,
        /// `token` or `character`.
        unit: &'static str,
        /// What both say before it.
        before: String,
        /// How the first goes on.
        first: String,
        /// How the second goes on.
        second: String,
    },
    /// There is nothing to compare; why.
    Unknown(&'static str),
}

/// Characters shown on each side of a difference.
const CONTEXT: usize = 24;

fn joined<'a>(tokens: impl IntoIterator<Item = &'a Token>) -> String {
    let bytes: Vec<u8> = tokens.into_iter().flat_map(|t| t.as_bytes().iter().copied()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_of(text: &str) -> String {
    let from = text.char_indices().rev().nth(CONTEXT - 1).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

fn start_of(text: &str) -> String {
    text.chars().take(CONTEXT).collect()
}

/// Compares the tokens of two attempts, or their texts where a server tells no tokens.
pub fn compare(first: &Attempt, second: &Attempt, traces: &Traces) -> Verdict {
    if matches!(first.state, State::Failed(_)) || matches!(second.state, State::Failed(_)) {
        return Verdict::Unknown("one of the two failed");
    }
    let running = first.state == State::Running || second.state == State::Running;
    let (Some(a), Some(b)) = (first.traced(traces), second.traced(traces)) else {
        return texts(&first.text, &second.text, running);
    };
    if !a.whole() || !b.whole() {
        return texts(&first.text, &second.text, running);
    }
    let (a, b): (Vec<&Token>, Vec<&Token>) = (a.tokens().collect(), b.tokens().collect());
    let common = a.iter().zip(&b).take_while(|(x, y)| x.id == y.id).count();
    if common == a.len() && common == b.len() && !running {
        return Verdict::Identical { units: common, unit: "tokens" };
    }
    if running && (common == a.len() || common == b.len()) {
        return Verdict::SoFar(common);
    }
    Verdict::Differs {
        at: common,
        unit: "token",
        before: end_of(&joined(a[..common].iter().copied())),
        first: start_of(&joined(a[common..].iter().copied())),
        second: start_of(&joined(b[common..].iter().copied())),
    }
}

fn texts(a: &str, b: &str, running: bool) -> Verdict {
    let common = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let (na, nb) = (a.chars().count(), b.chars().count());
    if running && (common == na || common == nb) {
        return Verdict::SoFar(common);
    }
    if common == na && common == nb {
        return if na == 0 {
            Verdict::Unknown("there is no text to compare")
        } else {
            Verdict::Identical { units: na, unit: "characters" }
        };
    }
    let cut = |t: &str| t.char_indices().nth(common).map_or(t.len(), |(at, _)| at);
    Verdict::Differs {
        at: common,
        unit: "character",
        before: end_of(&a[..cut(a)]),
        first: start_of(&a[cut(a)..]),
        second: start_of(&b[cut(b)..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_by_character() {
        assert_eq!(texts("héllo", "héllo", false), Verdict::Identical { units: 5, unit: "characters" });
        assert_eq!(texts("héllo", "hé", true), Verdict::SoFar(2));
        let Verdict::Differs { at, before, first, second, .. } = texts("the cat", "the dog", false) else {
            panic!("they differ")
        };
        assert_eq!((at, before.as_str(), first.as_str(), second.as_str()), (4, "the ", "cat", "dog"));
        assert!(matches!(texts("", "", false), Verdict::Unknown(_)));
        assert!(matches!(texts("ab", "abc", false), Verdict::Differs { at: 2, .. }));
    }
}
