//! Text from outside, made safe for cells: one place decides what a grapheme looks like and how wide it is.
//!
//! Model output, log lines, URLs and model names are written by others. Nothing of them may reach the terminal as a
//! control sequence or move the cells beside it, so every string goes through [`cells`] on its way into a buffer.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Characters that one cell may hold: enough for flags and families, too few to bury a line under accents.
const CELL_CHARS: usize = 10;

/// What stands in for a control or formatting character; `None` for characters that are shown as they are.
pub fn stand_in(c: char) -> Option<char> {
    match c {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + c as u32),
        '\u{7f}' => Some('\u{2421}'),
        // C1 controls (some terminals obey them), line separators, direction overrides, invisible fillers and tags.
        '\u{80}'..='\u{9f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2060}'..='\u{206f}'
        | '\u{61c}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => Some('\u{fffd}'),
        _ => None,
    }
}

/// A string as cells: each grapheme with its width in columns. A width of 0 belongs to the cell before it.
pub fn cells(text: &str) -> impl Iterator<Item = (Cow<'_, str>, usize)> {
    text.graphemes(true).map(|grapheme| {
        let symbol: Cow<'_, str> = if grapheme.chars().any(|c| stand_in(c).is_some()) {
            Cow::Owned(grapheme.chars().map(|c| stand_in(c).unwrap_or(c)).take(CELL_CHARS).collect())
        } else if grapheme.chars().nth(CELL_CHARS).is_some() {
            Cow::Owned(grapheme.chars().take(CELL_CHARS).collect())
        } else {
            Cow::Borrowed(grapheme)
        };
        let width = symbol.width();
        (symbol, width)
    })
}

/// Columns that a string takes.
pub fn width(text: &str) -> usize {
    cells(text).map(|(_, w)| w).sum()
}

/// The end of a string that fits into `columns`, with `…` where something was cut off.
pub fn tail(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = Vec::new();
    let mut used = 1;
    let all: Vec<_> = cells(text).collect();
    for (symbol, w) in all.iter().rev() {
        if used + w > columns {
            break;
        }
        used += w;
        kept.push(symbol.as_ref());
    }
    kept.reverse();
    if columns == 0 { String::new() } else { format!("…{}", kept.concat()) }
}

/// Breaks a text into lines of at most `columns`, at spaces where there are any.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split_inclusive(' ') {
            let w = width(word.trim_end());
            if used + w > columns && used > 0 {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                used = 0;
            }
            if w <= columns {
                line.push_str(word);
                used += width(word);
                continue;
            }
            for (symbol, w) in cells(word) {
                if used + w > columns && used > 0 {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push_str(&symbol);
                used += w;
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_symbols() {
        let shown: String = cells("a\x1b[31mb\u{9b}c\u{202e}").map(|(s, _)| s.into_owned()).collect();
        assert_eq!(shown, "a␛[31mb\u{fffd}c\u{fffd}");
        assert!(shown.chars().all(|c| !c.is_control()));
    }

    #[test]
    fn widths_are_columns() {
        assert_eq!(width("漢字"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("\u{1b}"), 1);
        assert_eq!(width(""), 0);
    }

    #[test]
    fn a_cell_holds_a_bounded_number_of_characters() {
        let zalgo: String = std::iter::once('a').chain(std::iter::repeat_n('\u{301}', 500)).collect();
        let (symbol, w) = cells(&zalgo).next().expect("one grapheme");
        assert_eq!((symbol.chars().count(), w), (CELL_CHARS, 1));
    }

    #[test]
    fn tail_keeps_the_end() {
        assert_eq!(tail("abcdef", 4), "…def");
        assert_eq!(tail("abc", 4), "abc");
        assert_eq!(tail("漢字漢字", 4), "…字");
        assert_eq!(tail("abc", 0), "");
    }

    #[test]
    fn wrapping_never_exceeds_the_width() {
        for columns in 1..30 {
            for line in wrap("the quick  brown漢 fox jumps/over/a/very/long/path and\nstops", columns) {
                assert!(width(&line) <= columns.max(2), "{line:?} at {columns}");
            }
        }
    }
}
