//! ASCII mode: a finished frame brought down to ASCII, cell by cell, so that views need not care.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Replaces everything that is not ASCII by a look-alike of the same width.
pub fn flatten(buf: &mut Buffer, area: Rect) {
    let area = area.intersection(buf.area);
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            let cell = &mut buf[(x, y)];
            if cell.symbol().is_ascii() {
                continue;
            }
            // A wide character owns the column to its right: fill both.
            let columns = cell.symbol().width().max(1) as u16;
            let plain = look_alike(cell.symbol());
            cell.set_symbol(plain);
            for x in x + 1..(x + columns).min(area.right()) {
                buf[(x, y)].set_symbol("?");
            }
        }
    }
}

fn look_alike(symbol: &str) -> &'static str {
    match symbol.chars().next().unwrap_or(' ') {
        '─' | '—' | '–' | '╌' | '┄' => "-",
        '│' | '▏' | '┃' => "|",
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => "+",
        '┊' | '┆' => ":",
        '█' | '▉' | '▊' | '▋' | '▆' | '▇' | '▓' | '▐' => "#",
        '▌' | '▍' | '▎' | '▄' | '▅' | '▒' => "=",
        '▁' | '▂' | '▃' | '░' | '·' | '…' | '•' => ".",
        '★' => "@",
        '◆' => "%",
        '■' => "#",
        '≠' => "/",
        '≤' | '⟨' => "<",
        '⟩' | '⇥' => ">",
        '●' | '\u{2801}'..='\u{28ff}' => "*",
        '○' => "o",
        '⚠' => "!",
        '×' | '✗' => "x",
        'τ' => "t",
        '▸' | '›' | '→' | '▶' => ">",
        '◂' | '‹' | '←' | '◀' => "<",
        '↑' | '▲' => "^",
        '↓' | '▼' | '✓' => "v",
        '↵' => "$",
        '°' | '’' | '‘' => "'",
        '“' | '”' => "\"",
        '\u{a0}' | '\u{2800}' => " ",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn nothing_but_ascii_is_left_and_columns_stay() {
        let area = Rect::new(0, 0, 12, 1);
        let mut buf = Buffer::empty(area);
        buf.set_string(0, 0, "┌─漢a█▏τ·…é", Style::new());
        flatten(&mut buf, area);
        let line: String = (0..12).map(|x| buf[(x, 0)].symbol().to_owned()).collect();
        assert_eq!(line, "+-??a#|t..? ");
    }
}
