//! The dashboard: text, throughput, acceptance, latency, sensors, log.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Sample;
use crate::protocol::mode::Mode;
use crate::ui::app::{Focus, Model};
use crate::ui::format::{count, percent};
use crate::ui::paint::{Row, border, inside, titles};
use crate::ui::theme::Role;
use crate::ui::widget::{
    acceptance_strip, forecast, header, latency_table, log_view, sensor_panel, stage_bar, throughput, token_stream,
};
use crate::ui::wrap;

/// Least columns and rows of the full dashboard.
pub const NORMAL: (u16, u16) = (80, 24);
/// From here on there is room for two columns of panels.
const ROOMY: (u16, u16) = (120, 36);

/// Where everything is, borders included. Panels share their borders. An empty rectangle is a panel that is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Areas {
    /// First row.
    pub header: Rect,
    /// Rows with what must be seen now.
    pub alerts: Rect,
    /// Generated text.
    pub text: Rect,
    /// Speed and acceptance length.
    pub throughput: Rect,
    /// Acceptance by depth, and stage times.
    pub acceptance: Rect,
    /// Percentiles.
    pub latency: Rect,
    /// GPUs or host.
    pub sensors: Rect,
    /// Log.
    pub log: Rect,
}

/// Divides `area` (all rows but the footer).
pub fn areas(model: &Model, area: Rect) -> Areas {
    let alerts = (header::alerts(model).len() as u16).min(area.height.saturating_sub(1));
    let body = Rect { y: area.y + 1 + alerts, height: area.height.saturating_sub(1 + alerts), ..area };
    let mut areas = Areas {
        header: Rect { height: 1.min(area.height), ..area },
        alerts: Rect { y: area.y + 1, height: alerts, ..area },
        ..Areas::default()
    };
    if area.width >= ROOMY.0 && area.height + 1 >= ROOMY.1 {
        roomy(model, body, &mut areas);
    } else {
        normal(model, body, &mut areas);
    }
    areas
}

/// Rows of a stack of boxes that share borders: each gets its content rows plus two, and overlaps the next by one.
pub fn stack(area: Rect, contents: &[u16]) -> Vec<Rect> {
    let mut y = area.y;
    contents
        .iter()
        .map(|rows| {
            let rect = Rect { y, height: rows + 2, ..area }.intersection(area);
            y = y.saturating_add(rows + 1);
            rect
        })
        .collect()
}

/// Two boxes side by side with a shared border.
pub fn split(area: Rect, left_share: u16) -> (Rect, Rect) {
    let left = area.width * left_share / 100;
    (Rect { width: left + 1, ..area }, Rect { x: area.x + left, width: area.width - left, ..area })
}

fn normal(model: &Model, body: Rect, areas: &mut Areas) {
    // Four boxes on top of each other share five horizontal borders.
    let content = body.height.saturating_sub(5);
    let extra = content.saturating_sub(16);
    let (rates, gauges, log) = (5 + (extra / 4).min(5), 4 + (extra / 6).min(4), 2 + (extra / 8).min(4));
    if model.log_big {
        let rest = body.height.saturating_sub(3).saturating_sub(rates);
        let rows = stack(body, &[rates, rest]);
        (areas.throughput, areas.acceptance) = split(rows[0], 48);
        areas.log = rows[1];
        return;
    }
    let text = content.saturating_sub(rates + gauges + log);
    let rows = stack(body, &[text, rates, gauges, log]);
    areas.text = rows[0];
    (areas.throughput, areas.acceptance) = split(rows[1], 48);
    (areas.latency, areas.sensors) = split(rows[2], 48);
    areas.log = rows[3];
}

fn roomy(model: &Model, body: Rect, areas: &mut Areas) {
    let (left, right) = split(body, 54);
    let log = if model.log_big { body.height * 2 / 3 } else { (body.height / 5).clamp(4, 12) };
    let text = body.height.saturating_sub(log + 3);
    let rows = stack(left, &[text, log]);
    (areas.text, areas.log) = (rows[0], rows[1]);
    let content = body.height.saturating_sub(5);
    // Depths, stage times and sensors get what they need; the chart grows to a point, then the sensors have the rest.
    let depths = model.data.mode.map_or(7, |m| m.block_size.saturating_sub(1)).clamp(5, 15) as u16;
    let acceptance = (depths + stage_bar::ROWS).min(content / 3);
    let latency = 5;
    let gpus = sensor_panel::readings(model).0.map_or(0, |s| s.gpus.len()).min(8) as u16;
    let need = if gpus > 0 { 2 * gpus + 1 } else { 4 };
    let sensors = need.min(content.saturating_sub(acceptance + latency + 6)).max(4);
    let rest = content.saturating_sub(acceptance + latency + sensors);
    let rates = rest.min(20);
    let sensors = sensors + (rest - rates);
    let rows = stack(right, &[rates, acceptance, latency, sensors]);
    areas.throughput = rows[0];
    areas.acceptance = rows[1];
    areas.latency = rows[2];
    areas.sensors = rows[3];
}

/// All rows but the footer, at the size of the terminal.
pub fn whole(model: &Model) -> Rect {
    Rect::new(0, 0, model.size.0, model.size.1.saturating_sub(1))
}

/// Rows inside the panel that scroll keys move.
pub fn focused_height(model: &Model) -> usize {
    let areas = areas(model, whole(model));
    let panel = if model.focus == Focus::Log { areas.log } else { areas.text };
    panel.height.saturating_sub(2) as usize
}

/// How far the focused panel can be scrolled up.
pub fn focused_overflow(model: &Model) -> usize {
    let height = focused_height(model);
    match model.focus {
        Focus::Log => {
            let columns = areas(model, whole(model)).log.width.saturating_sub(2) as usize;
            log_view::overflow(&model.log_lines(), columns, height, model.log_big)
        }
        Focus::Text => {
            let columns = areas(model, whole(model)).text.width.saturating_sub(4) as usize;
            let rows = model.stream().map_or(0, |s| wrap::count(s, columns, model.rejects));
            rows.saturating_sub(height)
        }
    }
}

/// Draws the dashboard without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let areas = areas(model, area);
    header::with_alerts(model, area, buf);
    let sample = model.sample();
    // A panel scrolled away from its end has the keys' attention, and so has the log when it was chosen.
    let text_focus = model.focus == Focus::Text && model.text_scroll > 0;
    let log_focus = model.focus == Focus::Log;
    let window = sample.map_or_else(String::new, |s| format!("last {:.0} s", s.window_s));
    let log_note =
        if model.log_scroll > 0 { format!("{} lines below · G end", model.log_scroll) } else { "UTC".into() };
    let panels = [
        (areas.throughput, false, throughput::titles(model, areas.throughput)),
        (areas.acceptance, false, ("acceptance by depth".into(), window)),
        (areas.latency, false, ("latency".into(), queue(sample))),
        (areas.sensors, false, sensor_panel::titles(model)),
        (areas.text, text_focus, token_stream::titles(model)),
        (areas.log, log_focus, (format!("log{}", model.log_filter.label()), log_note)),
    ];
    // The focused border goes last: it wins the edges that it shares.
    for focus in [false, true] {
        for (panel, _, _) in panels.iter().filter(|(_, f, _)| *f == focus) {
            border(buf, *panel, theme, focus);
        }
    }
    for (panel, focus, (title, note)) in &panels {
        titles(buf, *panel, theme, *focus, title, note);
    }
    throughput::draw(model, inside(areas.throughput), buf);
    acceptance(model, inside(areas.acceptance), buf);
    latency_table::draw(buf, inside(areas.latency), theme, sample.map(|s| &s.latency));
    sensor_panel::draw(model, inside(areas.sensors), buf);
    token_stream::draw(model, inside(areas.text), buf);
    let lines = model.log_lines();
    let skip = model.log_scroll.min(lines.len());
    log_view::draw(buf, inside(areas.log), theme, &lines, skip, model.log_big);
}

/// Queue and cache in a few words.
fn queue(sample: Option<&Sample>) -> String {
    let Some(s) = sample else { return "— run — wait KV — %".into() };
    let kv = (s.kv_capacity > 0).then(|| s.kv_used as f64 * 100.0 / s.kv_capacity as f64);
    format!("{} run {} wait KV {}", count(s.running as u64), count(s.waiting as u64), percent(kv))
}

fn acceptance(model: &Model, inside: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let sample = model.sample();
    let shadow = model.shown().mode.is_some_and(|m| m.mode == Mode::Shadow);
    let rescue = sample.and_then(|s| s.shadow_rescue).filter(|_| shadow);
    let why = sample.and_then(|s| s.auto.as_ref());
    let below = stage_bar::ROWS + u16::from(rescue.is_some()) + u16::from(why.is_some());
    let strip = Rect { height: inside.height.saturating_sub(below), ..inside };
    acceptance_strip::draw(buf, strip, theme, sample);
    if let Some(why) = why {
        let line = Rect { y: strip.bottom(), height: 1, ..inside }.intersection(inside);
        forecast::draw(buf, line, theme, why);
    }
    if let Some(share) = rescue {
        let line = Rect { y: strip.bottom(), height: 1, ..inside }.intersection(inside);
        let text = format!(" a tree would save {} of the misses", percent(Some(share * 100.0)));
        Row::new(buf, line, 0).put(text, theme.style(Role::ModeShadow));
    }
    let stages = Rect { y: inside.bottom().saturating_sub(stage_bar::ROWS), height: stage_bar::ROWS, ..inside };
    stage_bar::draw(buf, stages.intersection(inside), theme, sample.and_then(|s| s.stages));
}
