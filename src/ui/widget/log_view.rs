//! Log lines.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Level;
use crate::ui::format;
use crate::ui::log::Entry;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// Columns in front of a message: time, level, source.
fn head(entry: &Entry) -> usize {
    17 + text::width(&entry.source).max(6)
}

/// Rows of a message. Only a log with room for it (`full`) shows messages whole.
fn message(entry: &Entry, columns: usize, full: bool) -> Vec<String> {
    let room = columns.saturating_sub(head(entry));
    let rows = if full && room > 0 { text::wrap(&entry.message, room) } else { Vec::new() };
    if rows.is_empty() { vec![entry.message.clone()] } else { rows }
}

/// How many lines a log can be scrolled up until its first line is seen.
pub fn overflow(entries: &[&Entry], columns: usize, rows: usize, full: bool) -> usize {
    let mut left = rows;
    let fit = entries.iter().take_while(|entry| {
        let need = message(entry, columns, full).len();
        let fits = need <= left;
        left = left.saturating_sub(need);
        fits
    });
    entries.len().saturating_sub(fit.count().max(1))
}

/// Draws the lines that end `skip` lines before the newest, with messages wrapped (`full`) or cut.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, entries: &[&Entry], skip: usize, full: bool) {
    let dim = theme.style(Role::TextDim);
    if entries.is_empty() {
        Row::new(buf, area, 0).put(" no such lines yet", dim);
        return;
    }
    let height = area.height as usize;
    let end = entries.len().saturating_sub(skip);
    let rows: Vec<(bool, &Entry, String)> = entries[end.saturating_sub(height)..end]
        .iter()
        .flat_map(|entry| {
            let parts = message(entry, area.width as usize, full).into_iter().enumerate();
            parts.map(move |(i, part)| (i == 0, *entry, part))
        })
        .collect();
    // The newest stay.
    let over = rows.len().saturating_sub(height);
    for (line, (first, entry, part)) in rows.into_iter().skip(over).enumerate() {
        let (word, role) = match entry.level {
            Level::Info => ("info ", Role::TextDim),
            Level::Warn => ("WARN ", Role::StateWarn),
            Level::Error => ("ERROR", Role::StateCrit),
        };
        let mut row = Row::new(buf, area, line as u16);
        if first {
            row.put(format!(" {} ", format::time_of_day(entry.at_ms)), dim);
            row.put(word, theme.style(role)).put(format!(" {:<6} ", entry.source), dim);
        } else {
            row.skip(head(entry));
        }
        let style = if entry.level == Level::Info { Role::TextNormal } else { role };
        row.put(part, theme.style(style));
    }
}
