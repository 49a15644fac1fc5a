//! Log lines.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Level;
use crate::ui::format;
use crate::ui::log::{Entry, Log};
use crate::ui::paint::Row;
use crate::ui::theme::{Role, Theme};

/// Draws the lines that end `skip` lines before the newest.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, log: &Log, skip: usize) {
    let dim = theme.style(Role::TextDim);
    if log.is_empty() {
        Row::new(buf, area, 0).put(" nothing yet", dim);
        return;
    }
    lines(buf, area, theme, log.window(area.height as usize, skip));
}

/// Draws these lines from the top.
pub fn lines<'a>(buf: &mut Buffer, area: Rect, theme: &Theme, entries: impl Iterator<Item = &'a Entry>) {
    let dim = theme.style(Role::TextDim);
    for (line, entry) in entries.take(area.height as usize).enumerate() {
        let (word, role) = match entry.level {
            Level::Info => ("info ", Role::TextDim),
            Level::Warn => ("WARN ", Role::StateWarn),
            Level::Error => ("ERROR", Role::StateCrit),
        };
        let mut row = Row::new(buf, area, line as u16);
        row.put(format!(" {} ", format::time_of_day(entry.at_ms)), dim);
        row.put(word, theme.style(role)).put(format!(" {:<6} ", entry.source), dim);
        let style = if entry.level == Level::Info { Role::TextNormal } else { role };
        row.put(&entry.message, theme.style(style));
    }
}
