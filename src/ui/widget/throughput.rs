//! Speed now and over time, acceptance length, and how the modes compare.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::chart;
use crate::ui::app::Model;
use crate::ui::format::short;
use crate::ui::paint::Row;
use crate::ui::theme::Role;

/// Title of the panel, and the scale of its chart.
pub fn titles(model: &Model, area: Rect) -> (String, String) {
    let columns = model.shown().history.columns(area.width.saturating_sub(2) as usize, |p| p.tok_s);
    let scale = if model.shown().history.is_empty() { None } else { Some(chart::ceiling(&columns)) };
    let note = scale.map_or_else(String::new, |s| format!("chart to {s} tok/s"));
    ("throughput".into(), note)
}

/// Draws the inside of the panel.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let data = model.shown();
    let now = if model.frozen.is_some() { data.sample_at_ms } else { model.now_ms };
    let sample = data.live(now);
    let number = |v: Option<f64>| if v.is_some() { theme.style(Role::TextStrong) } else { dim };

    let decode = sample.and_then(|s| s.decode_tok_s);
    let mut row = Row::new(buf, area, 0);
    row.put(" ", dim).put(short(decode), number(decode)).put(" tok/s decode", dim);
    let instant = sample.and_then(|s| s.tok_s);
    row.right(" ", dim).right(format!("now {}", short(instant)), normal);

    let rows_below = match area.height {
        0..=2 => 1,
        _ => 2,
    };
    let chart_rows = area.height.saturating_sub(1 + rows_below);
    let tau_rows = if chart_rows >= 7 { 2 } else { 0 };
    let width = area.width as usize;
    let chart_area = Rect { y: area.y + 1, height: chart_rows - tau_rows.min(chart_rows), ..area };
    let columns = data.history.columns(width, |p| p.tok_s);
    chart::draw(buf, chart_area, theme, &columns, chart::ceiling(&columns));
    if tau_rows > 0 {
        let tau_area = Rect { y: chart_area.bottom(), height: tau_rows, ..area };
        let columns = data.history.columns(width, |p| p.tau);
        chart::draw(buf, tau_area, theme, &columns, chart::ceiling(&columns));
    }

    let tau = sample.and_then(|s| s.tau);
    let rounds = sample.and_then(|s| s.rounds_s);
    let mut row = Row::new(buf, area, area.height.saturating_sub(rows_below));
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
        row.put(" no rounds to compare yet: switch the mode while it writes", dim);
        return;
    }
    row.put(" est.", dim);
    for speed in table {
        let figure = match speed.ratio {
            Some(ratio) => format!("×{ratio:.2}"),
            None => format!("{} tok/s", short(Some(speed.tok_s))),
        };
        let entry = format!(" {} {figure}", speed.label);
        if crate::ui::text::width(&entry) > row.left() {
            break;
        }
        row.put(format!(" {} ", speed.label), theme.style(Role::of_mode(speed.mode)));
        row.put(figure, theme.style(Role::TextStrong));
    }
}
