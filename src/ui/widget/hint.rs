//! What an empty panel says: what would stand there, and what to press.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::paint::Row;
use crate::ui::theme::{Role, Theme};

/// Draws lines in the middle of an area, as a block of this many columns.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, columns: u16, lines: &[(&str, Role)]) {
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    let left = (area.width.saturating_sub(columns) / 2) as usize;
    for (i, (line, role)) in lines.iter().enumerate() {
        Row::new(buf, area, top + i as u16).skip(left).put(line, theme.style(*role));
    }
}
