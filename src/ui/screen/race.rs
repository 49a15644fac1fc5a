//! The race: two runs of one prompt side by side, from their recorded times, with digits to be read from afar.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::dashboard::split;
use crate::protocol::mode::Mode;
use crate::ui::app::Model;
use crate::ui::format::short;
use crate::ui::paint::{Row, bar, border, inside, titles};
use crate::ui::race::{Lane, Progress, Stage, progress};
use crate::ui::rounds::Traced;
use crate::ui::stream::Stream;
use crate::ui::text;
use crate::ui::theme::Role;
use crate::ui::widget::{digits, header, token_stream};
use crate::ui::wrap::{self, Rejects};

/// Seconds with one digit behind the point.
fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let body = header::with_alerts(model, area, buf);
    let top = Rect { height: 4.min(body.height), ..body };
    let lanes = Rect { y: body.y + 3, height: body.height.saturating_sub(3), ..body }.intersection(body);
    let (left, right) = split(lanes, 50);
    for rect in [top, left, right] {
        border(buf, rect, theme, false);
    }
    titles(buf, top, theme, false, &headline(model), &standing(model));
    prompt(model, inside(top), buf);
    let offered = model.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
    let planned = model.race.modes(offered);
    for (i, rect) in [left, right].into_iter().enumerate() {
        lane(model, i, planned[i], rect, buf);
    }
}

fn headline(model: &Model) -> String {
    let race = &model.race;
    let kind = if race.unattended { "demo" } else { "race" };
    match &race.stage {
        Stage::Idle => kind.into(),
        Stage::Running(at) => format!("{kind} · run {} of 2 is being recorded", at + 1),
        Stage::Replay { .. } => {
            let speed = if race.slow > 0 { format!(" at 1/{} speed", 1 << race.slow) } else { String::new() };
            format!("{kind} · REPLAY{speed} of two runs, one after the other on one machine")
        }
        Stage::Failed { .. } => format!("{kind} · failed"),
    }
}

/// The clock of the replay, and at its end who was faster.
fn standing(model: &Model) -> String {
    let Some(at) = model.race.elapsed(model.now_ms) else { return String::new() };
    if at < model.race.length_ms() {
        return seconds(at);
    }
    match model.race.ratio() {
        Some(ratio) if ratio >= 1.0 => format!("right ×{ratio:.2} in tok/s"),
        Some(ratio) => format!("left ×{:.2} in tok/s", 1.0 / ratio),
        None => seconds(at),
    }
}

fn prompt(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let race = &model.race;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let shown = race.prompt.replace('\n', "↵");
    match &race.stage {
        Stage::Failed { why, .. } => {
            Row::new(buf, area, 0).put(format!(" {why}"), theme.style(Role::StateCrit));
        }
        Stage::Idle => {
            let why = model.no_race();
            let line = why.unwrap_or("s starts a race: one prompt in two modes, then both replayed side by side");
            let role = if why.is_some() { Role::StateWarn } else { Role::TextNormal };
            Row::new(buf, area, 0).put(format!(" {line}"), theme.style(role));
        }
        _ => {
            Row::new(buf, area, 0).put(" ", dim).put(shown, normal);
        }
    }
    let mut row = Row::new(buf, area, 1);
    if let Some(same) = same_text(model) {
        let (word, role) = if same { ("= same text", Role::StateOk) } else { ("≠ texts differ", Role::StateWarn) };
        row.right(format!(" {word} "), theme.style(role));
    }
    row.put(" from the times at which the tokens came; r replays, - + speed, [ ] modes", dim);
}

/// Whether both answers are the same tokens; once both are known.
fn same_text(model: &Model) -> Option<bool> {
    let [a, b] = &model.race.lanes;
    let (a, b) = (a.run.as_ref()?, b.run.as_ref()?);
    model.race.elapsed(model.now_ms).filter(|at| *at >= model.race.length_ms())?;
    Some(a.len() == b.len() && a.tokens().zip(b.tokens()).all(|(x, y)| x.id == y.id))
}

/// What a lane shows now: the replay, or the run while it goes on.
fn now<'a>(model: &'a Model, lane: &'a Lane) -> Option<(&'a Traced, Progress)> {
    if let Some(at) = model.race.elapsed(model.now_ms) {
        let run = lane.run.as_deref()?;
        return Some((run, progress(run, at)));
    }
    let run = lane.run.as_deref().or_else(|| lane.id.as_ref().and_then(|id| model.data.traces.get(id)))?;
    Some((run, progress(run, u64::MAX)))
}

fn lane(model: &Model, index: usize, planned: Mode, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let lane = &model.race.lanes[index];
    let mode = lane.mode.filter(|_| model.race.stage != Stage::Idle).unwrap_or(planned);
    let role = Role::of_mode(mode);
    let label = model
        .data
        .mode
        .map_or_else(|| mode.name().to_owned(), |m| m.with(crate::ui::playground::wish(Some(mode))).label());
    let shown = now(model, lane);
    let replaying = model.race.elapsed(model.now_ms).is_some();
    let note = match (&model.race.stage, &shown) {
        (Stage::Running(at), _) if *at == index => "recording".to_owned(),
        (Stage::Running(at), None) if *at < index => "waits its turn".into(),
        (_, Some((_, Progress { finished_ms: Some(ms), .. }))) => format!("done in {}", seconds(*ms)),
        (Stage::Replay { .. }, _) => "replay".into(),
        _ => String::new(),
    };
    titles(buf, area, theme, false, &label.to_uppercase(), &note);
    let area = inside(area);
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }.intersection(area);
    let progress = shown.map(|(_, p)| p).unwrap_or_default();
    let number =
        progress.tok_s.map_or_else(|| "—".into(), |v| if v < 1000.0 { format!("{v:.1}") } else { format!("{v:.0}") });
    let digits_area = Rect { height: area.height.saturating_sub(6).min(5), ..area };
    // The unit stands beside them.
    let room = Rect { width: digits_area.width.saturating_sub(6), ..digits_area };
    let size = digits::fitting("000.0", room, model.look.ascii);
    let mut y = 0;
    if let Some(size) = size {
        digits::draw(buf, digits_area, &number, size, theme.style(role));
        let unit = Rect { y: area.y + size.rows() - 1, height: 1, ..area };
        let skip = size.width(&number) + 1;
        Row::new(buf, unit, 0).skip(skip).put_whole("tok/s", dim);
        y += size.rows();
    } else {
        Row::new(buf, area, 0).put(number, theme.style(Role::TextStrong)).put(" tok/s", dim);
        y += 1;
    }
    let total = shown.map(|(run, _)| run.len()).unwrap_or_default();
    let mut row = Row::new(buf, area, y);
    let tokens = progress.tokens;
    row.put(format!("{tokens} tok · {} rounds", progress.rounds), theme.style(Role::TextNormal));
    if progress.rounds > 0 {
        let tau = tokens.saturating_sub(1) as f64 / progress.rounds as f64;
        row.put_whole(format!(" · {} {} tok/round", if model.look.ascii { "tau" } else { "τ" }, short(Some(tau))), dim);
    }
    let mut row = Row::new(buf, area, y + 1);
    let finished = progress.finished_ms.filter(|_| replaying);
    let columns = row.left().saturating_sub(9);
    let share = if total > 0 { tokens as f64 / total as f64 } else { 0.0 };
    bar(&mut row, columns, if replaying { share } else { f64::NAN }, theme.style(role), theme.style(Role::BorderIdle));
    if let Some(ms) = finished {
        row.put(format!(" ✓ {}", seconds(ms)), theme.style(Role::TextStrong));
    }
    let below = Rect { y: area.y + y + 2, height: area.height.saturating_sub(y + 2), ..area }.intersection(area);
    if let Some((run, progress)) = shown {
        output(model, run, progress.rounds, below, buf);
    } else if matches!(model.race.stage, Stage::Idle) {
        let hint = if index == 0 { "[ changes the mode" } else { "] changes the mode" };
        Row::new(buf, below, 0).put(hint, dim);
    }
}

/// The text as far as its rounds had come.
fn output(model: &Model, run: &Traced, rounds: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let mut part = run.clone();
    part.rounds.truncate(rounds);
    let stream = Stream::of(&part);
    let rows: Vec<_> =
        stream.lines().iter().flat_map(|l| wrap::rows(l, area.width as usize, Rejects::Clean, u64::MAX)).collect();
    let skip = rows.len().saturating_sub(area.height as usize);
    for (i, cells) in rows.iter().skip(skip).enumerate() {
        let mut row = Row::new(buf, area, i as u16);
        for cell in cells {
            row.put(&cell.symbol, token_stream::style(theme, cell.kind));
        }
    }
}

/// What of it fits into little: both speeds.
pub fn compact(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" {}", text::tail(&headline(model), 60)), theme.style(Role::TextStrong));
    let offered = model.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
    for (i, planned) in model.race.modes(offered).into_iter().enumerate() {
        let lane = &model.race.lanes[i];
        let mode = lane.mode.unwrap_or(planned);
        let progress = now(model, lane).map(|(_, p)| p).unwrap_or_default();
        let mut row = Row::new(buf, area, i as u16 + 1);
        row.put(format!(" {mode:<7} "), theme.style(Role::of_mode(mode)));
        row.put(short(progress.tok_s), theme.style(Role::TextStrong)).put(" tok/s ", dim);
        row.put(format!(" {} tok", progress.tokens), theme.style(Role::TextNormal));
    }
    let mut row = Row::new(buf, area, 3);
    match model.no_race() {
        Some(why) => row.put(format!(" {why}"), theme.style(Role::StateWarn)),
        None => row.put(format!(" {}", standing(model)), theme.style(Role::StateOk)),
    };
}
