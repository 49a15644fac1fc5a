//! GPUs and host: bars, and "—" for what cannot be read.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::sensor::{GpuReading, HostReading, Sensors};
use crate::ui::app::Model;
use crate::ui::format::{ABSENT, bytes, percent, used_of};
use crate::ui::paint::{Row, bar};
use crate::ui::sensors::blank;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// The readings to show, and whose they are: the server's while they come in, else this machine's.
pub fn readings(model: &Model) -> (Option<&Sensors>, &'static str) {
    match model.sample() {
        Some(sample) if !blank(&sample.sensors) => (Some(&sample.sensors), "server"),
        // This machine goes on while the server is gone or does not tell, whatever was frozen.
        _ => (model.data.local.as_ref(), "this machine"),
    }
}

/// Title and note of the panel.
pub fn titles(model: &Model) -> (String, String) {
    let (sensors, whose) = readings(model);
    match sensors {
        Some(s) if !s.gpus.is_empty() => (format!("gpu · {whose}"), format!("{} cores", s.host.cores)),
        Some(s) => (format!("cpu · {whose}"), format!("{} cores", s.host.cores)),
        None => ("cpu".into(), whose.into()),
    }
}

/// Draws the inside of the panel.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (sensors, _) = readings(model);
    let Some(sensors) = sensors else {
        Row::new(buf, area, 0).put(" — no readings yet", theme.style(Role::TextDim));
        return;
    };
    if sensors.gpus.is_empty() {
        host(buf, area, theme, &sensors.host);
        return;
    }
    let count = sensors.gpus.len() as u16;
    // The host keeps one row; the GPUs share the rest, two rows each where there is room.
    let room = area.height.saturating_sub(1);
    let each = if count.saturating_mul(2) <= room { 2 } else { 1 };
    let fit = (room / each).max(1).min(count);
    for (i, gpu) in sensors.gpus.iter().take(fit as usize).enumerate() {
        let cell = Rect { y: area.y + i as u16 * each, height: each.min(area.height), ..area };
        gpu_rows(buf, cell, theme, gpu);
    }
    let below = Rect { y: area.y + fit * each, height: room.saturating_sub(fit * each) + 1, ..area };
    if count > fit {
        let mut row = Row::new(buf, below, 0);
        row.put(format!(" +{} more GPUs", count - fit), theme.style(Role::TextDim));
    } else if below.height >= 4 {
        host(buf, below, theme, &sensors.host);
    } else if area.height > 1 {
        host_line(buf, below, theme, &sensors.host);
    }
}

fn fraction(used: Option<u64>, total: Option<u64>) -> Option<f64> {
    match (used, total) {
        (Some(used), Some(total)) if total > 0 => Some(used as f64 / total as f64),
        _ => None,
    }
}

/// A bar of load or of fill. Load is no warning, however high: a busy processor is what one wants to see here.
fn gauge(row: &mut Row<'_>, theme: &Theme, columns: usize, share: Option<f64>, load: bool) {
    let role = if load { Role::SeriesB } else { Role::of_level(share.unwrap_or(0.0)) };
    bar(row, columns, share.unwrap_or(f64::NAN), theme.style(role), theme.style(Role::BorderIdle));
}

fn gpu_rows(buf: &mut Buffer, area: Rect, theme: &Theme, gpu: &GpuReading) {
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let whole = |v: Option<f64>, unit: &str| {
        v.filter(|v| v.is_finite()).map_or_else(|| format!("{ABSENT} {unit}"), |v| format!("{v:.0} {unit}"))
    };
    let util = gpu.util_percent.map(|u| u / 100.0);
    let mhz = gpu.sm_mhz.map_or_else(|| format!("{ABSENT} MHz"), |m| format!("{m} MHz"));
    let power = match gpu.power_limit_w {
        Some(limit) if area.width > 60 => {
            format!("{}/{limit:.0} W", gpu.power_w.map_or(ABSENT.into(), |p| format!("{p:.0}")))
        }
        _ => whole(gpu.power_w, "W"),
    };
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" {} ", gpu.index), theme.style(Role::TextStrong));
    let memory = used_of(gpu.mem_used, gpu.mem_total);
    if area.height == 1 {
        row.right(format!(" {} {power} {} ", memory, whole(gpu.temp_c, "°C")), normal);
        row.put(format!("{:>5} ", percent(gpu.util_percent)), normal);
        let columns = row.left();
        gauge(&mut row, theme, columns, util, true);
        return;
    }
    row.right(format!(" {} ", gpu.name.trim_start_matches("NVIDIA ")), dim);
    row.put(format!("util {:>5} ", percent(gpu.util_percent)), normal);
    let columns = row.left().min(40);
    gauge(&mut row, theme, columns, util, true);
    let mut row = Row::new(buf, area, 1);
    row.put(format!("   {memory} "), normal);
    row.put(format!(" {power}  {}  {mhz}", whole(gpu.temp_c, "°C")), normal);
    if !gpu.throttle.is_empty() {
        row.put(format!("  ⚠ {}", gpu.throttle.join(", ")), theme.style(Role::StateWarn));
    }
}

fn host_line(buf: &mut Buffer, area: Rect, theme: &Theme, host: &HostReading) {
    let mut row = Row::new(buf, area, 0);
    row.put(
        format!(" cpu {}  mem {}", percent(host.cpu_percent), used_of(host.mem_used, host.mem_total)),
        theme.style(Role::TextDim),
    );
    row.put_whole(format!("  rss {}", bytes(host.rss)), theme.style(Role::TextDim));
}

/// One eighth block by load.
fn core_glyph(percent: f64) -> &'static str {
    const EIGHTHS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let share = if percent.is_finite() { (percent / 100.0).clamp(0.0, 1.0) } else { 0.0 };
    EIGHTHS[((share * 8.0) as usize).min(7)]
}

fn host(buf: &mut Buffer, area: Rect, theme: &Theme, host: &HostReading) {
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" cpu {:>5} ", percent(host.cpu_percent)), normal);
    // Per core beside the total: one glyph a core where they fit.
    if !host.per_core.is_empty() && host.per_core.len() + 12 < row.left() {
        row.right(" ", dim);
        for core in host.per_core.iter().rev() {
            row.right(core_glyph(*core), theme.style(Role::SeriesB));
        }
        row.right(" ", dim);
    }
    let columns = row.left();
    gauge(&mut row, theme, columns, host.cpu_percent.map(|p| p / 100.0), true);
    let mut row = Row::new(buf, area, 1);
    let memory = used_of(host.mem_used, host.mem_total);
    row.put(format!(" mem {memory:>5} "), normal);
    row.right(format!(" rss {} ", bytes(host.rss)), normal);
    let columns = row.left();
    gauge(&mut row, theme, columns, fraction(host.mem_used, host.mem_total), false);
    // The reason matters more than the processor's name: with few rows it takes the name's.
    let reason = host.no_gpu_reason.as_ref().map(|r| format!("no gpu: {r}"));
    let reason = reason.map_or_else(Vec::new, |r| text::wrap(&r, (area.width as usize).saturating_sub(2)));
    let name = area.height as usize >= 3 + reason.len().min(2);
    if name {
        let mut row = Row::new(buf, area, 2);
        row.put(" ", dim).put(if host.cpu_name.is_empty() { ABSENT } else { &host.cpu_name }, dim);
    }
    for (i, line) in reason.iter().enumerate() {
        Row::new(buf, area, 2 + u16::from(name) + i as u16).put(format!(" {line}"), dim);
    }
}
