//! How deep drafts are accepted: one bar a depth.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Sample;
use crate::ui::format;
use crate::ui::paint::{Row, bar};
use crate::ui::theme::{Role, Theme};

/// Least columns of one entry: depth, a bar of three, the share.
const ENTRY: u16 = 11;

/// Draws the strip; entries run down, then right.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, sample: Option<&Sample>) {
    let dim = theme.style(Role::TextDim);
    let shares: &[f64] = sample.map_or(&[], |s| &s.per_pos);
    let deepest = shares.iter().rposition(|s| *s > 0.0).map_or(usize::from(!shares.is_empty()), |i| i + 1);
    let shares = &shares[..deepest];
    if area.height == 0 {
        return;
    }
    if shares.is_empty() {
        let why = match sample {
            None => " —",
            Some(s) if s.tok_s.is_none() && s.rounds_s.is_none() => " — nothing is being generated",
            Some(_) => " — no drafts in this mode",
        };
        Row::new(buf, area, 0).put(why, dim);
        return;
    }
    let rows = area.height as usize;
    let fit = (area.width / ENTRY).max(1) as usize;
    let columns = shares.len().div_ceil(rows).min(fit);
    let capacity = columns * rows;
    let shown = if shares.len() > capacity { capacity - 1 } else { shares.len() };
    let width = area.width / columns as u16;
    for (index, share) in shares.iter().take(shown.max(1)).enumerate() {
        let (column, line) = (index / rows, index % rows);
        let entry = Rect { x: area.x + column as u16 * width, width, ..area };
        let mut row = Row::new(buf, entry, line as u16);
        row.right(format!(" {:>3} ", format::share(*share)), theme.style(Role::TextNormal));
        row.put(format!("{:>3} ", index + 1), dim);
        let columns = row.left();
        bar(&mut row, columns, *share, theme.style(Role::TokenAccepted), theme.style(Role::BorderIdle));
    }
    if shown < shares.len() {
        let (column, line) = (shown / rows, shown % rows);
        let entry = Rect { x: area.x + column as u16 * width, width, ..area };
        Row::new(buf, entry, line as u16).put(format!("  +{} more", shares.len() - shown), dim);
    }
}
