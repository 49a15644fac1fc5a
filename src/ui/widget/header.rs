//! The first rows: connection, address, models, mode, uptime; and what the user must know now.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::state::Readiness;
use crate::source::Connection;
use crate::ui::app::Model;
use crate::ui::format;
use crate::ui::paint::Row;
use crate::ui::screen::Screen;
use crate::ui::text;
use crate::ui::theme::Role;

/// The connection in one word, with its colour and dot.
pub fn word(model: &Model) -> (&'static str, &'static str, Role) {
    let data = &model.data;
    match (&data.connection, &data.readiness) {
        (Connection::Connecting, _) => ("○", "connecting", Role::StateWarn),
        (Connection::Lost { .. }, _) => ("○", "gone", Role::StateCrit),
        (_, Some(Readiness::Loading { .. })) => ("○", "loading", Role::StateWarn),
        (_, Some(Readiness::Failed { .. })) => ("○", "failed", Role::StateCrit),
        _ if data.silent_s(model.now_ms).is_some() => ("○", "silent", Role::StateWarn),
        _ => ("●", "live", Role::StateOk),
    }
}

/// Rows that must be seen: what is wrong now, and the server's notice.
pub fn alerts(model: &Model) -> Vec<(Role, String)> {
    let data = &model.data;
    let mut alerts = Vec::new();
    match &data.connection {
        Connection::Lost { reason, .. } => {
            let seconds = data.retry_at_ms.saturating_sub(model.now_ms).div_ceil(1000);
            let when = if seconds == 0 { "retrying now".to_owned() } else { format!("retrying in {seconds} s") };
            // The countdown must be readable however long the reason is.
            let room = (model.size.0 as usize).saturating_sub(when.len() + 20).max(8);
            let mut reason = reason.clone();
            if text::width(&reason) > room {
                reason = reason.chars().take(room - 1).chain(['…']).collect();
            }
            alerts.push((Role::StateCrit, format!("server gone: {reason} · {when}")));
        }
        Connection::Connected { .. } => {
            if let Some(s) = data.silent_s(model.now_ms) {
                alerts.push((Role::StateWarn, format!("connected, but the server has said nothing for {s} s")));
            }
        }
        Connection::Connecting => {}
    }
    if let Some(notice) = data.state.as_ref().and_then(|s| s.notice.as_ref()) {
        alerts.push((Role::StateWarn, format!("⚠ {notice}")));
    }
    alerts.truncate(2);
    alerts
}

/// The mode as a badge, e.g. `▸DDTREE r32◂`, and what it is on its way to.
pub fn badge(model: &Model) -> (String, Option<Role>, Option<String>) {
    // Before the pair is there, the server's mode is a placeholder.
    let known = model.data.connected() && !matches!(word(model).1, "loading" | "failed");
    let mode = model.data.mode.filter(|_| known);
    let Some(mode) = mode else { return ("mode —".into(), None, None) };
    let label = mode.label();
    let label = match label.split_once(' ') {
        Some((name, knob)) => format!("▸{} {knob}◂", name.to_uppercase()),
        None => format!("▸{}◂", label.to_uppercase()),
    };
    let pending = model.switch.pending().filter(|p| *p != mode).map(|p| {
        if p.label() == mode.label() {
            format!(" → chain seed {} (pending)", if p.chain_seed { "on" } else { "off" })
        } else {
            format!(" → {} (pending)", p.label())
        }
    });
    (label, Some(Role::of_mode(mode.mode)), pending)
}

/// Draws the first row and the alerts below it; returns what is left.
pub fn with_alerts(model: &Model, area: Rect, buf: &mut Buffer) -> Rect {
    draw(model, Rect { height: 1.min(area.height), ..area }, buf);
    let alerts = alerts(model);
    let rows = (alerts.len() as u16).min(area.height.saturating_sub(1));
    for (i, (role, text)) in alerts.into_iter().take(rows as usize).enumerate() {
        let line = Rect { y: area.y + 1 + i as u16, height: 1, ..area };
        let mut row = Row::new(buf, line, 0);
        let width = row.left();
        row.put(format!(" {text:<width$}", width = width.saturating_sub(1)), model.look.theme.banner(role));
    }
    Rect { y: area.y + 1 + rows, height: area.height.saturating_sub(1 + rows), ..area }.intersection(area)
}

/// Columns from which on every tab has its name.
const NAMES: u16 = 110;
/// Columns from which on the tabs' keys stand apart.
const ROOMY: u16 = 100;

/// The screens there are: key and name where there is room, else the name of the one that is shown.
fn tabs(model: &Model, columns: u16) -> impl Iterator<Item = (Screen, String, String)> {
    Screen::ALL.into_iter().map(move |screen| {
        let key = model.tab_key(screen);
        let (key, name) = match columns {
            _ if screen == model.screen => (format!(" {key}"), format!(" {} ", screen.name())),
            NAMES.. => (format!(" {key}"), format!(" {}", screen.name())),
            // The names of the models need the room.
            ..ROOMY => (key, String::new()),
            _ => (format!(" {key}"), String::new()),
        };
        (screen, key, name)
    })
}

/// The screen whose tab is in a column of the first row.
pub fn tab_at(model: &Model, column: u16) -> Option<Screen> {
    let (dot, word, _) = word(model);
    let mut end = 1 + text::width(dot) + 2 + text::width(word);
    let column = column as usize;
    if column < end {
        return None;
    }
    tabs(model, model.size.0).find_map(|(screen, key, name)| {
        end += text::width(&key) + text::width(&name);
        (column < end).then_some(screen)
    })
}

/// Draws the first row.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let mut row = Row::new(buf, area, 0);
    let (dot, word, role) = word(model);
    // The dot, the mode and the pause come first: whatever the width, they stay.
    row.skip(1).put(dot, theme.style(role)).put(format!(" {word} "), theme.style(role));
    for (screen, key, name) in tabs(model, area.width) {
        if screen == model.screen {
            row.put(key + &name, theme.selection());
        } else {
            row.put(key, theme.style(Role::TextStrong)).put(name, dim);
        }
    }
    row.put(" ", dim);
    row.right(" ", dim);
    let (label, mode_role, pending) = badge(model);
    let style = mode_role.map_or(dim, |r| theme.banner(r));
    let wide = area.width >= 70;
    if wide {
        let up = model.data.uptime_s(model.now_ms).map_or_else(|| format::ABSENT.to_owned(), format::clock);
        row.right(format!(" up {up}"), dim);
    }
    if let Some(pending) = pending {
        row.right(pending, theme.style(Role::TokenPending));
    }
    row.right(format!(" {label} "), style);
    if model.shown().lagged > 0 {
        let lost = format!(" lagged {} ", format::count(model.shown().lagged));
        row.right(" ", dim).right(lost, theme.banner(Role::StateWarn));
    }
    if model.frozen.is_some() {
        row.right(" ", dim).right(" PAUSED ", theme.banner(Role::StateWarn));
    }
    row.right(" ", dim);
    let host = model.url.trim_start_matches("http://").trim_end_matches('/');
    row.put(host, theme.style(Role::TextNormal));
    if let Some(state) = model.data.state.as_ref().filter(|_| row.left() > 8) {
        let target = state.target.as_ref().map_or(format::ABSENT, |m| m.name.as_str());
        row.put("  ", dim).put(target, theme.style(Role::TextStrong));
        match &state.draft {
            Some(draft) => row.put(format!(" + {}", draft.name), dim),
            None if state.target.is_some() => row.put_whole(" (no drafter)", dim),
            None => &mut row,
        };
    }
}
