//! Where two outputs part: baseline and mode side by side, and how close the call was.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::results::role;
use crate::ui::app::Model;
use crate::ui::format;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::Role;

/// Gap between the two best logits below which a difference is a near tie.
const NEAR_TIE: f64 = 0.05;

/// Draws the inside of the box.
pub fn draw(model: &Model, at: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal, strong) =
        (theme.style(Role::TextDim), theme.style(Role::TextNormal), theme.style(Role::TextStrong));
    let all = model.compare.differences();
    let Some((mode, d)) = all.get(at.min(all.len().saturating_sub(1))).copied() else {
        Row::new(buf, area, 0).put(" no difference is recorded", dim);
        return;
    };
    let baseline =
        model.compare.run.as_ref().and_then(|r| r.plan.modes.first()).map_or("baseline", |m| m.label.as_str());
    let mut row = Row::new(buf, area, 0);
    row.right(format!("{} of {} ", at.min(all.len() - 1) + 1, all.len()), dim);
    let turn = if d.turn > 0 { format!(" turn {}", d.turn + 1) } else { String::new() };
    row.put(format!(" {}/{}{turn} rep {}  ", d.suite, d.prompt_id, d.repeat + 1), strong);
    row.put(format!("first difference at {} {}", d.unit, d.index), normal);
    let mut row = Row::new(buf, area, 1);
    let (meaning, tone) = match d.margin.filter(|m| m.is_finite()) {
        None => ("the server did not send the margin".to_owned(), Role::TextDim),
        Some(m) if m.abs() <= NEAR_TIE => (format!("margin {m:.4} logits: a near tie"), Role::StateWarn),
        Some(m) => (format!("margin {m:.4} logits: no near tie, look into this"), Role::StateCrit),
    };
    row.put(format!(" {meaning}"), theme.style(tone));
    let end = if d.same_end { "both ended alike" } else { "they ended for different reasons" };
    row.put(format!(" · {end}"), dim);
    let half = area.width / 2;
    let sides = [
        (Rect { width: half, ..area }, baseline, &d.baseline, d.baseline_id),
        (Rect { x: area.x + half, width: area.width - half, ..area }, mode, &d.other, d.other_id),
    ];
    for (side, label, output, id) in sides {
        let mut row = Row::new(buf, side, 3);
        row.put(format!(" {label}"), theme.style(role(label)));
        row.put(id.map_or_else(String::new, |id| format!("  token {id}")), dim);
        let lines = text::wrap(output, (side.width as usize).saturating_sub(3));
        for (i, line) in lines.into_iter().take((area.height as usize).saturating_sub(4)).enumerate() {
            Row::new(buf, Rect { width: side.width.saturating_sub(1), ..side }, i as u16 + 4).skip(1).put(line, normal);
        }
    }
    if d.baseline.is_empty() && d.other.is_empty() {
        Row::new(buf, area, 4).put(format!(" {} no text was kept", format::ABSENT), dim);
    }
}
