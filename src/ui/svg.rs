//! A buffer as an SVG picture: monospace cells with their colours and attributes. The same buffer gives the same bytes.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

use super::color;

const COLUMN: f64 = 8.5;
const ROW: f64 = 18.0;
const BASELINE: f64 = 13.5;
const FONT: f64 = 14.0;
const MARGIN: f64 = 12.0;

#[derive(Clone, Copy, PartialEq)]
struct Look {
    fg: [u8; 3],
    bg: [u8; 3],
    bold: bool,
    dim: bool,
    strike: bool,
    underline: bool,
}

fn hex(c: [u8; 3]) -> String {
    format!("#{:02x}{:02x}{:02x}", c[0], c[1], c[2])
}

fn look(cell: &Cell, ink: [u8; 3], paper: [u8; 3]) -> Look {
    let or = |c: Color, default| color::rgb(c).unwrap_or(default);
    let (mut fg, mut bg) = (or(cell.fg, ink), or(cell.bg, paper));
    if cell.modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut fg, &mut bg);
    }
    Look {
        fg,
        bg,
        bold: cell.modifier.contains(Modifier::BOLD),
        dim: cell.modifier.contains(Modifier::DIM),
        strike: cell.modifier.contains(Modifier::CROSSED_OUT),
        underline: cell.modifier.contains(Modifier::UNDERLINED),
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// The share of a cell that a block element fills: left, top, width, height. Drawn as shapes, because fonts leave gaps
/// between them.
fn block(symbol: &str) -> Option<(f64, f64, f64, f64)> {
    let mut chars = symbol.chars();
    let (c, None) = (chars.next()?, chars.next()) else { return None };
    let eighth = |n: u32| f64::from(n) / 8.0;
    match c {
        '▁'..='█' => {
            let part = eighth(c as u32 - '▁' as u32 + 1);
            Some((0.0, 1.0 - part, 1.0, part))
        }
        '▉'..='▏' => Some((0.0, 0.0, eighth(8 - (c as u32 - '█' as u32)), 1.0)),
        _ => None,
    }
}

/// Which arms a box-drawing character has: left, right, up, down.
fn arms(symbol: &str) -> Option<[bool; 4]> {
    let arms = match symbol {
        "─" => "lr",
        "│" => "ud",
        "┌" => "rd",
        "┐" => "ld",
        "└" => "ru",
        "┘" => "lu",
        "├" => "rud",
        "┤" => "lud",
        "┬" => "lrd",
        "┴" => "lru",
        "┼" => "lrud",
        _ => return None,
    };
    Some(['l', 'r', 'u', 'd'].map(|arm| arms.contains(arm)))
}

fn lines(arms: [bool; 4], left: f64, top: f64, fill: &str, out: &mut String) {
    let (x, y) = (left + COLUMN / 2.0, top + ROW / 2.0);
    let mut rect = |x: f64, y: f64, w: f64, h: f64| {
        let _ = writeln!(out, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{fill}\"/>");
    };
    let [l, r, u, d] = arms;
    let (from, to) = (if l { left } else { x - 0.5 }, if r { left + COLUMN } else { x + 0.5 });
    if l || r {
        rect(from, y - 0.5, to - from, 1.0);
    }
    let (from, to) = (if u { top } else { y - 0.5 }, if d { top + ROW } else { y + 0.5 });
    if u || d {
        rect(x - 0.5, from, 1.0, to - from);
    }
}

/// Braille dots are drawn as squares: many fonts have none.
fn braille(symbol: &str, left: f64, top: f64, fill: &str, out: &mut String) -> bool {
    // Columns and rows of the dots, in the order of their bits.
    const PLACES: [(f64, f64); 8] =
        [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (1.0, 1.0), (1.0, 2.0), (0.0, 3.0), (1.0, 3.0)];
    let mut chars = symbol.chars();
    let (Some(c @ '\u{2800}'..='\u{28ff}'), None) = (chars.next(), chars.next()) else { return false };
    for (bit, (column, row)) in PLACES.into_iter().enumerate() {
        if c as u32 >> bit & 1 == 1 {
            let (x, y) = (left + (column + 0.5) * COLUMN / 2.0 - 1.0, top + (row + 0.5) * ROW / 4.0 - 1.0);
            let _ = writeln!(out, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"2\" height=\"2\" fill=\"{fill}\"/>");
        }
    }
    true
}

/// Shades are drawn as translucent blocks.
fn shade(symbol: &str) -> Option<f64> {
    match symbol {
        "░" => Some(0.3),
        "▒" => Some(0.5),
        "▓" => Some(0.75),
        _ => None,
    }
}

/// Renders a buffer; `ink` and `paper` stand for the terminal's default colours.
pub fn render(buf: &Buffer, ink: [u8; 3], paper: [u8; 3], title: &str) -> String {
    let (columns, rows) = (buf.area.width, buf.area.height);
    let width = f64::from(columns) * COLUMN + 2.0 * MARGIN;
    let height = f64::from(rows) * ROW + 2.0 * MARGIN;
    let ground = if columns > 0 && rows > 0 { look(&buf[(buf.area.x, buf.area.y)], ink, paper).bg } else { paper };
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.1} {height:.1}\" font-family=\"'DejaVu Sans Mono','Menlo','Consolas',monospace\" \
         font-size=\"{FONT}\" xml:space=\"preserve\" shape-rendering=\"crispEdges\">\n<title>"
    );
    escape(title, &mut out);
    let _ = writeln!(out, "</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>", hex(ground));
    for y in 0..rows {
        row(buf, y, ground, (ink, paper), &mut out);
    }
    out.push_str("</svg>\n");
    out
}

fn row(buf: &Buffer, y: u16, ground: [u8; 3], default: ([u8; 3], [u8; 3]), out: &mut String) {
    let top = MARGIN + f64::from(y) * ROW;
    let mut x = 0;
    let mut texts = String::new();
    while x < buf.area.width {
        let at = |x: u16| &buf[(buf.area.x + x, buf.area.y + y)];
        let style = look(at(x), default.0, default.1);
        let start = x;
        let mut run = String::new();
        let mut shapes = String::new();
        // One run: cells of the same look. Anything but plain ASCII stands alone, so that fonts cannot shift the rest.
        while x < buf.area.width && look(at(x), default.0, default.1) == style {
            let symbol = at(x).symbol();
            let columns = symbol.width().max(1) as u16;
            let plain = symbol.is_ascii();
            let left = MARGIN + f64::from(x) * COLUMN;
            if let Some((dx, dy, w, h)) = block(symbol).or(shade(symbol).map(|_| (0.0, 0.0, 1.0, 1.0))) {
                let opacity = shade(symbol).map_or(String::new(), |o| format!(" fill-opacity=\"{o}\""));
                let _ = writeln!(
                    shapes,
                    "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{}\"{opacity}/>",
                    left + dx * COLUMN,
                    top + dy * ROW,
                    w * COLUMN,
                    h * ROW,
                    hex(style.fg)
                );
                run.push(' ');
            } else if let Some(arms) = arms(symbol) {
                lines(arms, left, top, &hex(style.fg), &mut shapes);
                run.push(' ');
            } else if braille(symbol, left, top, &hex(style.fg), &mut shapes) {
                run.push(' ');
            } else if plain {
                run.push_str(symbol);
            } else {
                if x > start {
                    break;
                }
                run.push_str(symbol);
                x += columns;
                break;
            }
            x += columns;
        }
        let left = MARGIN + f64::from(start) * COLUMN;
        let span = f64::from(x - start) * COLUMN;
        if style.bg != ground {
            let _ = writeln!(
                out,
                "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{span:.2}\" height=\"{ROW:.2}\" fill=\"{}\"/>",
                hex(style.bg)
            );
        }
        texts.push_str(&shapes);
        if !run.trim().is_empty() || style.strike || style.underline {
            let mut attributes = format!(" fill=\"{}\"", hex(style.fg));
            if style.bold {
                attributes.push_str(" font-weight=\"bold\"");
            }
            if style.dim {
                attributes.push_str(" opacity=\"0.65\"");
            }
            // Lines as shapes: not every renderer knows text-decoration beside textLength.
            for (_, dy) in [(style.strike, ROW * 0.53), (style.underline, BASELINE + 2.0)].iter().filter(|l| l.0) {
                let _ = writeln!(
                    texts,
                    "<rect x=\"{left:.2}\" y=\"{:.2}\" width=\"{span:.2}\" height=\"1\" fill=\"{}\"{}/>",
                    top + dy,
                    hex(style.fg),
                    if style.dim { " opacity=\"0.65\"" } else { "" }
                );
            }
            let _ = write!(
                texts,
                "<text x=\"{left:.2}\" y=\"{:.2}\" textLength=\"{span:.2}\" lengthAdjust=\"spacingAndGlyphs\"{attributes}>",
                top + BASELINE
            );
            escape(&run, &mut texts);
            texts.push_str("</text>\n");
        }
    }
    out.push_str(&texts);
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn attributes_and_markup_survive() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 12, 1));
        buf.set_string(0, 0, "<a>", Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD));
        buf.set_string(4, 0, "no", Style::new().add_modifier(Modifier::CROSSED_OUT | Modifier::DIM));
        buf.set_string(7, 0, "漢█", Style::new());
        let svg = render(&buf, [9; 3], [0; 3], "a & b");
        for part in ["&lt;a&gt;", "#010203", "font-weight=\"bold\"", "height=\"1\"", "漢", "a &amp; b"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(svg, render(&buf, [9; 3], [0; 3], "a & b"));
        assert!(!render(&Buffer::empty(Rect::default()), [9; 3], [0; 3], "").is_empty());
    }
}
