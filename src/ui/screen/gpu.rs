//! GPUs: a row each, and charts of the one that is looked at. Without any: why, and the host's own sensors.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::dashboard::split;
use crate::protocol::sensor::{GpuReading, HostReading, Sensors};
use crate::ui::app::Model;
use crate::ui::format::{ABSENT, bytes, percent, used_of};
use crate::ui::history::Column;
use crate::ui::paint::{Row, bar, border, inside, titles};
use crate::ui::sensors::{CORES, GpuMoment, Moment};
use crate::ui::text;
use crate::ui::theme::Role;
use crate::ui::widget::sensor_panel::readings;
use crate::ui::widget::{chart, header};

/// One chart: title with the reading of now, scale, and what is drawn.
struct Plot {
    title: String,
    /// Top of the scale; none: the next round number above the greatest value.
    top: Option<f64>,
    unit: &'static str,
    pick: Box<dyn Fn(&Moment) -> Option<f64>>,
}

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let body = header::with_alerts(model, area, buf);
    let (sensors, whose) = readings(model);
    let Some(sensors) = sensors else {
        border(buf, body, theme, false);
        titles(buf, body, theme, false, "gpu", whose);
        Row::new(buf, inside(body), 0).put(" — no readings yet", theme.style(Role::TextDim));
        return;
    };
    let gpus = sensors.gpus.len();
    let rows = if gpus == 0 { 4 } else { (gpus as u16 + 1).min(body.height / 3).max(2) };
    let top = Rect { height: (rows + 2).min(body.height), ..body };
    let below = Rect { y: body.y + rows + 1, height: body.height.saturating_sub(rows + 1), ..body }.intersection(body);
    border(buf, top, theme, gpus > 1);
    let selected = model.gpu.min(gpus.saturating_sub(1));
    if let Some(gpu) = sensors.gpus.get(selected) {
        titles(buf, top, theme, gpus > 1, &format!("{gpus} gpu · {whose}"), "j k chooses one");
        table(model, sensors, selected, inside(top), buf);
        plots(model, &gpu_plots(gpu), below, buf);
    } else {
        titles(buf, top, theme, false, &format!("no gpu · {whose}"), "");
        none(model, &sensors.host, inside(top), buf);
        plots(model, &host_plots(&sensors.host), below, buf);
    }
}

fn whole(v: Option<f64>, unit: &str) -> String {
    v.filter(|v| v.is_finite()).map_or_else(|| format!("{ABSENT} {unit}"), |v| format!("{v:.0} {unit}"))
}

fn power(gpu: &GpuReading) -> String {
    match gpu.power_limit_w.filter(|l| l.is_finite()) {
        Some(limit) => format!("{}/{limit:.0} W", gpu.power_w.map_or(ABSENT.into(), |p| format!("{p:.0}"))),
        None => whole(gpu.power_w, "W"),
    }
}

/// One row a GPU.
fn table(model: &Model, sensors: &Sensors, selected: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let wide = area.width >= 110;
    let name_width = if wide { 24 } else { 14 };
    let mut row = Row::new(buf, area, 0);
    row.put(format!("   # {:<name_width$} {:>6} {:>15} {:>10}", "name", "util", "memory", "power"), dim);
    row.put(format!(" {:>9} {:>6}", "clock", "temp"), dim);
    row.put_whole("  limits", dim);
    let room = area.height.saturating_sub(1) as usize;
    let first = (selected + 1).saturating_sub(room);
    for (line, (i, gpu)) in sensors.gpus.iter().enumerate().skip(first).take(room).enumerate() {
        let mut row = Row::new(buf, area, line as u16 + 1);
        let style = if i == selected { theme.selection() } else { theme.style(Role::TextNormal) };
        let mhz = gpu.sm_mhz.map_or_else(|| format!("{ABSENT} MHz"), |m| format!("{m} MHz"));
        let name: String = gpu.name.trim_start_matches("NVIDIA ").chars().take(name_width).collect();
        row.put(if i == selected { "▸" } else { " " }, style);
        row.put(
            format!(
                "{:>3} {name:<name_width$} {:>6} {:>15} {:>10} {mhz:>9} {:>6}",
                gpu.index,
                percent(gpu.util_percent),
                used_of(gpu.mem_used, gpu.mem_total),
                power(gpu),
                whole(gpu.temp_c, "°C"),
            ),
            style,
        );
        if gpu.throttle.is_empty() {
            row.put_whole("  none", dim);
        } else {
            row.put(format!("  ⚠ {}", gpu.throttle.join(", ")), theme.style(Role::StateWarn));
        }
    }
}

/// Why there is none, and what there is instead.
fn none(model: &Model, host: &HostReading, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let reason = host.no_gpu_reason.as_deref().unwrap_or("the sensors tell of none");
    Row::new(buf, area, 0).put(" no GPU readings: ", theme.style(Role::StateWarn)).put(reason, normal);
    Row::new(buf, area, 1).put(" this is what the host tells instead; attach to a server with GPUs to see theirs", dim);
    let mut row = Row::new(buf, area, 2);
    let name = if host.cpu_name.is_empty() { ABSENT } else { &host.cpu_name };
    row.put(format!(" {name} · {} cores", host.cores), normal);
    row.put_whole(format!(" · this process {} resident", bytes(host.rss)), dim);
    let mut row = Row::new(buf, area, 3);
    row.put(" by core ", dim);
    let each = (row.left() / host.per_core.len().max(1)).min(24);
    if each < 12 {
        row.put_whole(format!("{} cores, {} of all", host.cores, percent(host.cpu_percent)), normal);
        return;
    }
    for core in &host.per_core {
        row.put(format!("{:>5} ", percent(Some(*core))), normal);
        bar(&mut row, each - 8, core / 100.0, theme.style(Role::SeriesB), theme.style(Role::BorderIdle));
        row.put("  ", dim);
    }
}

fn gpu_plots(gpu: &GpuReading) -> Vec<Plot> {
    let index = gpu.index;
    let of = |pick: fn(&GpuMoment) -> Option<f64>| -> Box<dyn Fn(&Moment) -> Option<f64>> {
        Box::new(move |m: &Moment| m.gpu(index).and_then(pick))
    };
    let share = gpu.mem_used.zip(gpu.mem_total).filter(|(_, t)| *t > 0).map(|(u, t)| u as f64 * 100.0 / t as f64);
    let mhz = gpu.sm_mhz.map(f64::from);
    vec![
        Plot {
            title: format!("utilisation {}", percent(gpu.util_percent)),
            top: Some(100.0),
            unit: "%",
            pick: of(|g| g.util),
        },
        Plot {
            title: format!("memory {} · {}", percent(share), used_of(gpu.mem_used, gpu.mem_total)),
            top: Some(100.0),
            unit: "%",
            pick: of(|g| g.memory.map(|m| m * 100.0)),
        },
        Plot {
            title: format!("power {}", power(gpu)),
            top: gpu.power_limit_w.filter(|l| l.is_finite() && *l > 0.0),
            unit: "W",
            pick: of(|g| g.power),
        },
        Plot { title: format!("sm clock {}", whole(mhz, "MHz")), top: None, unit: "MHz", pick: of(|g| g.clock) },
        Plot {
            title: format!("temperature {}", whole(gpu.temp_c, "°C")),
            top: Some(100.0),
            unit: "°C",
            pick: of(|g| g.temp),
        },
        Plot { title: "host cpu".into(), top: Some(100.0), unit: "%", pick: Box::new(|m| m.cpu) },
    ]
}

fn host_plots(host: &HostReading) -> Vec<Plot> {
    let cores = if host.per_core.len() > CORES { &[][..] } else { &host.per_core[..] };
    let core = |i: usize, load: f64| Plot {
        title: format!("core {i} {}", percent(Some(load))),
        top: Some(100.0),
        unit: "%",
        pick: Box::new(move |m: &Moment| m.cores.get(i).copied().filter(|p| p.is_finite())),
    };
    let whole = vec![
        Plot {
            title: format!("cpu {}", percent(host.cpu_percent)),
            top: Some(100.0),
            unit: "%",
            pick: Box::new(|m| m.cpu),
        },
        Plot {
            title: format!("memory {}", used_of(host.mem_used, host.mem_total)),
            top: Some(100.0),
            unit: "%",
            pick: Box::new(|m| m.memory.map(|m| m * 100.0)),
        },
    ];
    whole.into_iter().chain(cores.iter().enumerate().map(|(i, load)| core(i, *load))).collect()
}

/// The charts in one or two columns, the first ones where there is no room for all.
fn plots(model: &Model, plots: &[Plot], area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let history = &model.shown().sensors;
    let columns = if area.width >= 70 { 2 } else { 1 };
    let lines = plots.len().div_ceil(columns);
    let fit = ((area.height as usize).saturating_sub(1) / 4).clamp(1, lines.max(1));
    let mut cells = Vec::new();
    let mut y = area.y;
    for line in 0..fit {
        let left = area.bottom().saturating_sub(y);
        let height = if line + 1 == fit { left } else { (area.height.saturating_sub(1)) / fit as u16 + 1 };
        let strip = Rect { y, height, ..area }.intersection(area);
        y = y.saturating_add(height.saturating_sub(1));
        if columns == 2 {
            let (a, b) = split(strip, 50);
            cells.extend([a, b]);
        } else {
            cells.push(strip);
        }
    }
    for rect in cells.iter().take(plots.len()) {
        border(buf, *rect, theme, false);
    }
    for (plot, rect) in plots.iter().zip(cells) {
        let room = inside(rect);
        let drawn = history.columns(room.width as usize, &plot.pick);
        let top = plot.top.unwrap_or_else(|| chart::ceiling(&drawn));
        let measured = drawn.iter().any(|c| matches!(c, Column::Value(..)));
        let note = if measured { format!("to {top:.0} {}", plot.unit) } else { "no readings".into() };
        titles(buf, rect, theme, false, &text::tail(&plot.title, rect.width.saturating_sub(4) as usize), &note);
        chart::draw(buf, room, theme, &drawn, top);
    }
}

/// What of it fits into little: numbers only.
pub fn compact(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let normal = theme.style(Role::TextNormal);
    let (sensors, whose) = readings(model);
    let Some(sensors) = sensors else {
        Row::new(buf, area, 0).put(" — no readings yet", theme.style(Role::TextDim));
        return;
    };
    for (i, gpu) in sensors.gpus.iter().enumerate().take(area.height as usize) {
        let mut row = Row::new(buf, area, i as u16);
        row.put(format!(" {} {:>5} ", gpu.index, percent(gpu.util_percent)), normal);
        row.put(format!("{} {} {}", used_of(gpu.mem_used, gpu.mem_total), power(gpu), whole(gpu.temp_c, "°C")), normal);
    }
    if sensors.gpus.is_empty() {
        let host = &sensors.host;
        Row::new(buf, area, 0).put(format!(" no gpu ({whose})"), theme.style(Role::StateWarn));
        Row::new(buf, area, 1).put(format!(" cpu {}", percent(host.cpu_percent)), normal);
        Row::new(buf, area, 2).put(format!(" mem {}", used_of(host.mem_used, host.mem_total)), normal);
        let reason = host.no_gpu_reason.as_deref().unwrap_or_default();
        for (i, line) in text::wrap(reason, area.width.saturating_sub(2) as usize).iter().enumerate() {
            Row::new(buf, area, i as u16 + 3).put(format!(" {line}"), theme.style(Role::TextDim));
        }
    }
}
