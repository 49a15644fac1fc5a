//! The generated text, each token in the colour and shape of what happened to it; or what there is instead of text.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use crate::protocol::event::{FinishReason, RequestPhase};
use crate::protocol::mode::Mode;
use crate::protocol::state::Readiness;
use crate::source::Connection;
use crate::ui::action::{Action, Context};
use crate::ui::app::{Model, Pointed};
use crate::ui::format::{ABSENT, short};
use crate::ui::paint::{self, Row, bar};
use crate::ui::screen::dashboard;
use crate::ui::stream::{Kind, Stream};
use crate::ui::text;
use crate::ui::theme::{Role, Theme};
use crate::ui::wrap;

/// The style of a kind of token.
pub fn style(theme: &Theme, kind: Kind) -> Style {
    theme.style(match kind {
        Kind::Prompt | Kind::Remark => Role::TextDim,
        Kind::Plain => Role::TextNormal,
        Kind::Accepted => Role::TokenAccepted,
        Kind::Bonus => Role::TokenBonus,
        Kind::Rejected => Role::TokenRejected,
        Kind::Boundary => Role::BorderIdle,
    })
}

/// Title and note of the panel.
pub fn titles(model: &Model) -> (String, String) {
    let Some(stream) = model.stream() else { return ("text".into(), String::new()) };
    let phase = match stream.phase {
        _ if stream.interrupted => "interrupted",
        RequestPhase::Queued => "queued",
        RequestPhase::Started => "reading the prompt",
        RequestPhase::FirstToken => "writing",
        RequestPhase::Finished if stream.finish == Some(FinishReason::Length) => "done at the limit",
        RequestPhase::Finished => "done",
        RequestPhase::Cancelled => "cancelled",
        RequestPhase::Failed => "failed",
    };
    let tokens = if stream.counted { stream.tokens.to_string() } else { ABSENT.into() };
    let mut title = format!("text · {phase} · {tokens} tok");
    if stream.rounds > 0 {
        let tau = if model.look.ascii { "tau" } else { "τ" };
        let _ = write!(title, " · {} rounds · {tau} {}", stream.rounds, short(stream.tau()));
    }
    if let Some(tok_s) = stream.metrics.as_ref().and_then(|m| m.decode_tok_s) {
        let _ = write!(title, " · {} tok/s", short(Some(tok_s)));
    }
    let note = if model.text_scroll > 0 {
        format!("{} rows below · G end", model.text_scroll)
    } else if model.follow.is_some() {
        format!("following {}", stream.id)
    } else {
        String::new()
    };
    (title, note)
}

/// Draws the inside of the panel.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    match &model.data.readiness {
        Some(Readiness::Loading { what, fraction }) => loading(model, area, buf, what, *fraction),
        Some(Readiness::Failed { reason }) => failed(model, area, buf, reason),
        _ => match model.stream() {
            Some(stream) => tokens(model, stream, area, buf),
            None => empty(model, area, buf),
        },
    }
}

fn tokens(model: &Model, stream: &Stream, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let mut rows = wrap::tail(stream, inside.width as usize, inside.height as usize, model.text_scroll, model.rejects);
    let failure = failure(model, stream, inside);
    let over = (rows.len() + failure.len()).saturating_sub(inside.height as usize);
    rows.drain(..over);
    let mut line = 0;
    for cells in &rows {
        let mut row = Row::new(buf, inside, line);
        for cell in cells {
            row.put(&cell.symbol, style(theme, cell.kind));
        }
        line += 1;
    }
    for text in failure {
        Row::new(buf, inside, line).put(text, theme.style(Role::StateCrit));
        line += 1;
    }
    if !model.data.connected() {
        // What was written stays readable, but nobody may take it for the present.
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = buf.cell_mut(Position { x, y }) {
                    cell.set_fg(theme.color(Role::TextDim));
                }
            }
        }
    }
}

/// Why the request failed, in as many rows as it takes.
fn failure(model: &Model, stream: &Stream, inside: Rect) -> Vec<String> {
    let error = stream.error.as_deref().filter(|_| model.text_scroll == 0);
    let mut rows = error.map_or_else(Vec::new, |e| text::wrap(&format!("failed: {e}"), inside.width as usize));
    rows.truncate(inside.height as usize);
    rows
}

/// The token at a place of the dashboard, with its neighbours of the same kind and round.
pub fn at(model: &Model, place: Position) -> Option<Pointed> {
    let panel = paint::inside(dashboard::areas(model, dashboard::whole(model)).text);
    let inside = Rect { x: panel.x + 1, width: panel.width.saturating_sub(2), ..panel };
    let stream = model.stream().filter(|_| inside.contains(place) && model.data.ready())?;
    let mut rows = wrap::tail(stream, inside.width as usize, inside.height as usize, model.text_scroll, model.rejects);
    let over = (rows.len() + failure(model, stream, inside).len()).saturating_sub(inside.height as usize);
    rows.drain(..over);
    let row = rows.get((place.y - inside.y) as usize)?;
    let mut end = inside.x as usize;
    let found = row.iter().position(|cell| {
        end += cell.width;
        (place.x as usize) < end
    })?;
    let same = |cell: &wrap::Cell| (cell.kind, cell.step) == (row[found].kind, row[found].step);
    let from = row[..found].iter().rposition(|c| !same(c)).map_or(0, |i| i + 1);
    let text = row[from..].iter().take_while(|c| same(c)).map(|c| c.symbol.as_str()).collect();
    Some(Pointed { text, kind: row[found].kind, step: row[found].step })
}

/// Centres lines in an area.
fn centred(buf: &mut Buffer, area: Rect, lines: &[(String, Style)]) {
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    for (i, (line, style)) in lines.iter().enumerate() {
        let width = text::width(line).min(area.width as usize);
        let mut row = Row::new(buf, area, top + i as u16);
        row.skip((area.width as usize - width) / 2).put(line, *style);
    }
}

fn empty(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, strong) = (theme.style(Role::TextDim), theme.style(Role::TextStrong));
    let key_of = |action| model.keys.label(Context::Dashboard, action);
    let lines = match &model.data.connection {
        Connection::Connecting => vec![(format!("connecting to {} …", model.url), dim)],
        Connection::Lost { .. } => vec![
            ("no server".into(), strong),
            (format!("spectop tries {} again and again; {} quits", model.url, key_of(Action::Quit)), dim),
        ],
        Connection::Connected { .. } => {
            let offered = model.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
            let modes: Vec<String> = [Action::ModeDflash, Action::ModeDdtree]
                .into_iter()
                .zip([Mode::Dflash, Mode::Ddtree])
                .filter(|(_, m)| offered.contains(m))
                .map(|(a, _)| key_of(a))
                .collect();
            let prompt = format!("press {} to type a prompt", key_of(Action::Prompt));
            let hint =
                if modes.is_empty() { prompt } else { format!("{prompt}, or {} to switch mode", modes.join(" / ")) };
            let mut lines = vec![(hint, strong)];
            if area.height >= 4 {
                lines.push((String::new(), dim));
                lines.push(("requests of other clients show up here too, token by token".into(), dim));
            }
            if area.height >= 5 {
                lines.push((format!("{} lists all keys", key_of(Action::Help)), dim));
            }
            lines
        }
    };
    centred(buf, area, &lines);
}

fn loading(model: &Model, area: Rect, buf: &mut Buffer, what: &str, fraction: Option<f64>) {
    let theme = &model.look.theme;
    let width = (area.width as usize).saturating_sub(4).min(60);
    let top = area.height.saturating_sub(3) / 2;
    let inside = Rect { x: area.x + (area.width - width as u16) / 2, width: width as u16, ..area };
    Row::new(buf, inside, top).put("loading the models", theme.style(Role::TextStrong));
    let line = if area.height < 3 { top } else { top + 1 };
    let mut row = Row::new(buf, inside, line);
    match fraction.filter(|f| f.is_finite()) {
        Some(f) => {
            row.right(format!(" {:>3.0} %", f.clamp(0.0, 1.0) * 100.0), theme.style(Role::TextStrong));
            let columns = row.left();
            bar(&mut row, columns, f, theme.style(Role::SeriesC), theme.style(Role::BorderIdle));
        }
        None => {
            row.put("size not known yet", theme.style(Role::TextDim));
        }
    }
    Row::new(buf, inside, line + 1).put(what, theme.style(Role::TextDim));
}

fn failed(model: &Model, area: Rect, buf: &mut Buffer, reason: &str) {
    let theme = &model.look.theme;
    let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    Row::new(buf, inside, 0).put("the models could not be loaded", theme.style(Role::StateCrit));
    for (i, line) in text::wrap(reason, inside.width as usize).into_iter().enumerate() {
        Row::new(buf, inside, i as u16 + 1).put(line, theme.style(Role::TextNormal));
    }
}
