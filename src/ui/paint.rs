//! Writing into a buffer: one row at a time, clipped, with every string made safe on the way.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::merge::MergeStrategy;
use ratatui::widgets::{Block, Widget};

use super::text;
use super::theme::{Role, Theme};

/// One row of an area, filled from the left and from the right until they meet.
pub struct Row<'a> {
    buf: &'a mut Buffer,
    x: u16,
    end: u16,
    y: u16,
}

impl<'a> Row<'a> {
    /// Row `line` of `area`; a row outside of it swallows everything.
    pub fn new(buf: &'a mut Buffer, area: Rect, line: u16) -> Self {
        let area = area.intersection(buf.area);
        if line >= area.height {
            return Self { buf, x: 0, end: 0, y: 0 };
        }
        Self { x: area.x, end: area.right(), y: area.y + line, buf }
    }

    /// Columns left.
    pub fn left(&self) -> usize {
        (self.end - self.x) as usize
    }

    /// Writes at the left; what does not fit ends in `…`.
    pub fn put(&mut self, text: impl AsRef<str>, style: Style) -> &mut Self {
        let text = text.as_ref();
        let room = self.left();
        let cut = text::width(text) > room;
        let mut budget = if cut { room.saturating_sub(1) } else { room };
        for (symbol, w) in text::cells(text) {
            if w > budget {
                break;
            }
            self.cell(&symbol, w, style);
            budget -= w;
        }
        if cut && room > 0 {
            self.cell("…", 1, style);
            self.x = self.end;
        }
        self
    }

    /// Writes at the left if all of it fits, else nothing.
    pub fn put_whole(&mut self, text: impl AsRef<str>, style: Style) -> &mut Self {
        if text::width(text.as_ref()) <= self.left() {
            self.put(text, style);
        }
        self
    }

    /// Leaves `columns` free.
    pub fn skip(&mut self, columns: usize) -> &mut Self {
        self.x = self.end.min(self.x.saturating_add(columns.min(u16::MAX as usize) as u16));
        self
    }

    /// Writes at the right end if all of it fits, and takes that room away.
    pub fn right(&mut self, text: impl AsRef<str>, style: Style) -> &mut Self {
        let w = text::width(text.as_ref());
        if w > self.left() {
            return self;
        }
        let (x, end) = (self.x, self.end);
        self.x = end - w as u16;
        self.put(text, style);
        self.x = x;
        self.end = end - w as u16;
        self
    }

    fn cell(&mut self, symbol: &str, w: usize, style: Style) {
        if w == 0 || w > self.left() {
            return;
        }
        if let Some(cell) = self.buf.cell_mut((self.x, self.y)) {
            cell.set_symbol(symbol).set_style(style);
        }
        for x in self.x + 1..self.x + w as u16 {
            // The columns behind a wide character belong to it.
            if let Some(cell) = self.buf.cell_mut((x, self.y)) {
                cell.reset();
                cell.set_style(style);
            }
        }
        self.x += w as u16;
    }
}

/// The inside of a box that fills `area`.
pub fn inside(area: Rect) -> Rect {
    if area.width < 2 || area.height < 2 {
        return Rect::default();
    }
    Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 }
}

/// The border of a box; boxes that share an edge get junctions.
pub fn border(buf: &mut Buffer, area: Rect, theme: &Theme, focus: bool) {
    let area = area.intersection(buf.area);
    if area.width >= 2 && area.height >= 2 {
        let style = theme.style(if focus { Role::BorderFocus } else { Role::BorderIdle });
        Block::bordered().merge_borders(MergeStrategy::Exact).border_style(style).render(area, buf);
    }
}

/// Title and note in the upper border of a box. Drawn after all borders: a neighbour's lower edge is the same row.
pub fn titles(buf: &mut Buffer, area: Rect, theme: &Theme, focus: bool, title: &str, note: &str) {
    let area = area.intersection(buf.area);
    if area.width < 6 || area.height < 2 {
        return;
    }
    let top = Rect { x: area.x + 2, width: area.width - 4, ..area };
    let mut row = Row::new(buf, top, 0);
    if !title.is_empty() {
        row.put(format!(" {title} "), theme.style(if focus { Role::BorderFocus } else { Role::TextStrong }));
    }
    if !note.is_empty() {
        let (note, style) = (format!(" {note} "), theme.style(Role::TextDim));
        if text::width(&note) <= row.left() {
            row.right(note, style);
        } else {
            row.put(note, style);
        }
    }
}

/// A horizontal bar in eighths of a column. `fraction` outside 0..=1 is clamped; not a number draws the track only.
pub fn bar(row: &mut Row<'_>, columns: usize, fraction: f64, fill: Style, track: Style) {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let columns = columns.min(row.left());
    let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (fraction * columns as f64 * 8.0).round() as usize;
    let (full, part) = (eighths / 8, eighths % 8);
    row.put("█".repeat(full), fill);
    let mut drawn = full;
    if part > 0 && drawn < columns {
        row.put(EIGHTHS[part], fill);
        drawn += 1;
    }
    row.put("·".repeat(columns - drawn), track);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(buf: &Buffer) -> String {
        (0..buf.area.width).map(|x| buf[(x, 0)].symbol().to_owned()).collect()
    }

    #[test]
    fn rows_are_cut_with_an_ellipsis_and_never_overrun() {
        let area = Rect::new(0, 0, 6, 1);
        let mut buf = Buffer::empty(area);
        Row::new(&mut buf, area, 0).put("abcdefgh", Style::new());
        assert_eq!(line(&buf), "abcde…");
        let mut buf = Buffer::empty(area);
        Row::new(&mut buf, area, 0).right("zz", Style::new()).put("漢字漢字", Style::new());
        assert_eq!(line(&buf), "漢 … zz");
    }

    #[test]
    fn rows_outside_swallow() {
        let area = Rect::new(0, 0, 4, 1);
        let mut buf = Buffer::empty(area);
        Row::new(&mut buf, area, 1).put("x", Style::new());
        Row::new(&mut buf, Rect::new(90, 90, 4, 4), 0).put("x", Style::new());
        assert_eq!(line(&buf), "    ");
    }

    #[test]
    fn bars_survive_any_fraction() {
        for fraction in [f64::NAN, f64::INFINITY, -3.0, 0.0, 0.5, 1.0, 7.0] {
            let area = Rect::new(0, 0, 4, 1);
            let mut buf = Buffer::empty(area);
            bar(&mut Row::new(&mut buf, area, 0), 9, fraction, Style::new(), Style::new());
            assert!(line(&buf).chars().all(|c| "█▌·".contains(c)), "{fraction}");
        }
    }
}
