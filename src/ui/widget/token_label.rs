//! A token in a few columns: quoted, so that its spaces show, with line breaks as signs.

use crate::protocol::trace::Token;
use crate::ui::text;

/// The token in at most `columns` columns, quotes included; a longer one ends in `…`.
pub fn quoted(token: &Token, columns: usize) -> String {
    let shown = String::from_utf8_lossy(token.as_bytes()).replace("\r\n", "↵").replace('\n', "↵").replace('\t', "⇥");
    let room = columns.saturating_sub(2).max(1);
    let mut kept = String::new();
    let mut used = 0;
    let cut = text::width(&shown) > room;
    for (symbol, width) in text::cells(&shown) {
        if used + width > if cut { room - 1 } else { room } {
            break;
        }
        used += width;
        kept.push_str(&symbol);
    }
    if cut {
        kept.push('…');
    }
    format!("\"{kept}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_line_ends_show() {
        let label = |t: &str, columns| quoted(&Token::new(1, t.as_bytes()), columns);
        assert_eq!(label(" the", 10), "\" the\"");
        assert_eq!(label("\n\n", 10), "\"↵↵\"");
        assert_eq!(label("international", 8), "\"inter…\"");
        assert_eq!(label("漢字漢字", 7), "\"漢字…\"");
        assert_eq!(quoted(&Token::new(1, &[0xe6]), 9), "\"\u{fffd}\"");
        for columns in 0..12 {
            assert!(text::width(&label("漢字 abc", columns)) <= columns.max(3), "{columns}");
        }
    }
}
