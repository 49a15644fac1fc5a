//! Speed now and over time, acceptance length, and how the modes compare.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::chart;
use crate::ui::app::Model;
use crate::ui::format::short;
use crate::ui::history::Column;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::Role;

/// Title of the panel, and the scale of its chart.
pub fn titles(model: &Model, area: Rect) -> (String, String) {
    let columns = model.shown().history.columns(area.width.saturating_sub(2) as usize, |p| p.tok_s);
    let measured = columns.iter().any(|c| matches!(c, Column::Value(..)));
    let note = if measured { format!("chart to {} tok/s", scale(chart::ceiling(&columns))) } else { String::new() };
    ("throughput".into(), note)
}

/// A round number without needless digits.
fn scale(ceiling: f64) -> String {
    if (10.0..100_000.0).contains(&ceiling) { format!("{ceiling:.0}") } else { short(Some(ceiling)) }
}

/// Draws the inside of the panel.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let data = model.shown();
    let sample = model.sample();
    let number = |v: Option<f64>| if v.is_some() { theme.style(Role::TextStrong) } else { dim };

    let decode = sample.and_then(|s| s.decode_tok_s);
    let mut row = Row::new(buf, area, 0);
    row.put(" decode ", dim).put(short(decode), number(decode));
    let instant = sample.and_then(|s| s.tok_s);
    row.put(" · now ", dim).put(short(instant), normal).put(" tok/s", dim);

    let rows_below = match area.height {
        0..=2 => 1,
        _ => 2,
    };
    let charts = area.height.saturating_sub(1 + rows_below);
    let tau_rows = match charts {
        0..7 => 0,
        7..12 => 2,
        _ => 3,
    };
    let width = area.width as usize;
    let chart_area = Rect { y: area.y + 1, height: charts - tau_rows, ..area };
    let columns = data.history.columns(width, |p| p.tok_s);
    chart::draw(buf, chart_area, theme, &columns, chart::ceiling(&columns));
    let tau_area = Rect { y: chart_area.bottom() + 1, height: tau_rows, ..area };
    let mut columns = data.history.columns(width, |p| p.tau);
    let ceiling = chart::ceiling(&columns);
    // The lines of the chart above go on through this one; once is enough for the labels.
    for column in &mut columns {
        if let Column::Mark(label, _) = column {
            label.clear();
        }
    }
    chart::draw(buf, tau_area, theme, &columns, ceiling);

    let tau = sample.and_then(|s| s.tau);
    let rounds = sample.and_then(|s| s.rounds_s);
    let mut row = Row::new(buf, area, area.height.saturating_sub(rows_below + tau_rows));
    row.put(if model.look.ascii { " tau " } else { " τ " }, dim)
        .put(short(tau), number(tau))
        .put(" tok/round", dim)
        .put("  ", dim)
        .put(short(rounds), number(rounds))
        .put(" rounds/s", dim);
    let rows = sample.and_then(|s| s.rows);
    if rows.is_some() {
        row.put_whole(format!("  {} rows/pass", short(rows)), dim);
    }
    let prefill = sample.and_then(|s| s.prefill_tok_s);
    if prefill.is_some() {
        row.put_whole(format!("  prefill {} tok/s", short(prefill)), dim);
    }
    if rows_below == 2 {
        compare(model, area, buf);
    }
}

/// The last row: speed by mode over the rounds seen.
fn compare(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let mut row = Row::new(buf, area, area.height - 1);
    let table = model.shown().speeds.table();
    if table.is_empty() {
        row.put(" too few rounds to compare yet", dim);
        return;
    }
    row.right(" est. ", dim);
    for speed in table {
        let (figure, unit) = match speed.ratio {
            Some(ratio) if ratio < 9.95 => (format!("×{ratio:.1}"), ""),
            Some(ratio) => (format!("×{ratio:.0}"), ""),
            None => (format!("{:.0}", speed.tok_s), " tok/s"),
        };
        if text::width(&speed.label) + text::width(&figure) + unit.len() + 2 > row.left() {
            break;
        }
        row.put(format!(" {} ", speed.label), theme.style(Role::of_mode(speed.mode)));
        row.put(figure, theme.style(Role::TextStrong)).put(unit, dim);
    }
}
