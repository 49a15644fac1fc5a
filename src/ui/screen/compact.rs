//! The compact screen for small terminals: numbers only, and it says so.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Screen, bench, compare, gpu, playground, race, tree};
use crate::ui::app::Model;
use crate::ui::format::{self, percent, short, used_of};
use crate::ui::paint::Row;
use crate::ui::theme::Role;
use crate::ui::widget::{header, sensor_panel};

/// Least columns and rows.
pub const LEAST: (u16, u16) = (30, 6);

/// Draws all rows but the footer, the most telling first.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, strong) = (theme.style(Role::TextDim), theme.style(Role::TextStrong));
    let data = model.shown();
    let sample = model.sample();

    let (dot, word, role) = header::word(model);
    let (badge, mode_role, pending) = header::badge(model);
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" {dot} {word}"), theme.style(role));
    row.right(" compact ", dim);
    if model.screen != Screen::Dashboard {
        row.put(format!(" {} {} ", model.tab_key(model.screen), model.screen.name()), theme.selection());
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        match model.screen {
            Screen::Bench => bench::compact(model, body, buf),
            Screen::Compare => compare::compact(model, body, buf),
            Screen::Playground => playground::compact(model, body, buf),
            Screen::Tree => tree::compact(model, body, buf),
            Screen::Gpu => gpu::compact(model, body, buf),
            Screen::Race => race::compact(model, body, buf),
            Screen::Log | Screen::Dashboard => super::log::lines(model, body, buf),
        }
        return;
    }
    if model.frozen.is_some() {
        row.right(" PAUSED ", theme.banner(Role::StateWarn));
    }
    let mut row = Row::new(buf, area, 1);
    row.put(" ", dim).put(format!(" {badge} "), mode_role.map_or(dim, |r| theme.banner(r)));
    row.put(pending.unwrap_or_default(), theme.style(Role::TokenPending));

    let tau = if model.look.ascii { "tau" } else { "τ" };
    let latency = sample.map(|s| s.latency).unwrap_or_default();
    let (sensors, whose) = sensor_panel::readings(model);
    let load = match sensors {
        Some(s) if !s.gpus.is_empty() => {
            let gpus: Vec<_> = s.gpus.iter().map(|g| percent(g.util_percent)).collect();
            ("gpu", format!("{} ({whose})", gpus.join(" ")))
        }
        Some(s) => (
            "cpu",
            format!("{}  mem {} ({whose})", percent(s.host.cpu_percent), used_of(s.host.mem_used, s.host.mem_total)),
        ),
        None => ("cpu", format::ABSENT.into()),
    };
    let queue = sample.map_or_else(
        || format::ABSENT.into(),
        |s| {
            let kv = (s.kv_capacity > 0).then(|| s.kv_used as f64 * 100.0 / s.kv_capacity as f64);
            format!("{} run · {} wait · KV {}", s.running, s.waiting, percent(kv))
        },
    );
    let mut lines: Vec<(&str, String)> = header::alerts(model).into_iter().map(|(_, text)| ("!", text)).collect();
    if data.lagged > 0 {
        lines.push(("!", format!("lagged: {} events lost", format::count(data.lagged))));
    }
    lines.extend([
        ("decode", format!("{} tok/s", short(sample.and_then(|s| s.decode_tok_s)))),
        (tau, format!("{} tok/round", short(sample.and_then(|s| s.tau)))),
        load,
        ("queue", queue),
        ("ttft", format!("{} p50", format::ms(latency.ttft.p50))),
        ("itl", format!("{} p50", format::ms(latency.itl.p50))),
        ("step", format!("{} p50", format::ms(latency.step.p50))),
        ("rounds", format!("{} rounds/s", short(sample.and_then(|s| s.rounds_s)))),
        ("up", data.uptime_s(model.now_ms).map_or_else(|| format::ABSENT.into(), format::clock)),
    ]);
    for (i, (label, value)) in lines.into_iter().enumerate() {
        let mut row = Row::new(buf, area, i as u16 + 2);
        let style = if label == "!" { theme.style(Role::StateWarn) } else { strong };
        row.put(format!(" {label:<6} "), dim).put(value, style);
    }
    let room = area.height.saturating_sub(12);
    if room > 1 {
        let log = Rect { y: area.bottom() - room + 1, height: room - 1, ..area };
        crate::ui::widget::log_view::draw(buf, log, theme, &model.log_lines(), 0, false);
    }
}
