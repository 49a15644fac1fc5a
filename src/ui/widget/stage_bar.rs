//! Where the time of a round goes: a divided bar and its legend.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::state::StageTimes;
use crate::ui::format::ms_bare;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// Rows that the bar and its legend take.
pub const ROWS: u16 = 2;

/// Draws the bar and its legend. Each stage has its colour and its fill, so that it reads without colour too.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, stages: Option<StageTimes>) {
    let dim = theme.style(Role::TextDim);
    let Some(stages) = stages.filter(|s| s.total().is_finite() && s.total() > 0.0) else {
        Row::new(buf, area, 0).put(" — ms/round", dim);
        return;
    };
    let parts = [
        ("draft", "d", stages.draft, "▓", Role::SeriesA),
        ("build", "b", stages.build, "▒", Role::SeriesB),
        ("verify", "v", stages.verify, "█", Role::SeriesC),
        ("commit", "c", stages.commit, "░", Role::SeriesD),
    ];
    let mut row = Row::new(buf, area, 0);
    let total = format!(" {} ms/round ", ms_bare(stages.total()));
    row.right(total, theme.style(Role::TextStrong)).skip(1);
    let columns = row.left();
    let mut cut = 0.0;
    let mut drawn = 0;
    for (_, _, ms, fill, role) in parts {
        cut += ms.max(0.0) / stages.total();
        let end = ((cut * columns as f64).round() as usize).clamp(drawn, columns);
        row.put(fill.repeat(end - drawn), theme.style(role));
        drawn = end;
    }
    // The longest legend that fits: words with units of the bar's total, then letters.
    let wide = parts.iter().map(|p| text::width(p.0) + text::width(&ms_bare(p.2)) + 4).sum::<usize>() + 1;
    let mut row = Row::new(buf, area, 1);
    let long = wide <= row.left();
    let middle = wide - 8 <= row.left();
    row.put(" ", dim);
    for (name, letter, ms, fill, role) in parts {
        if long {
            row.put(fill, theme.style(role)).put(" ", dim);
        }
        row.put(if middle { name } else { letter }, theme.style(role))
            .put(format!(" {}", ms_bare(ms)), theme.style(Role::TextNormal))
            .put(" ", dim);
    }
    row.put_whole("ms", dim);
}
