//! The playground: the prompt, its answer with every round marked, and the round under the cursor.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::dashboard::stack;
use crate::protocol::event::RequestPhase;
use crate::source::ServerKind;
use crate::ui::app::Model;
use crate::ui::format::short;
use crate::ui::paint::{Row, border, inside, titles};
use crate::ui::playground::difference::{Verdict, compare};
use crate::ui::playground::{Attempt, State};
use crate::ui::rounds::Traced;
use crate::ui::stream::{Kind, Stream};
use crate::ui::text;
use crate::ui::theme::{Role, Theme};
use crate::ui::widget::{header, hint, step_panel, token_stream};
use crate::ui::wrap::{self, Rejects};

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let body = header::with_alerts(model, area, buf);
    let prompt = if body.height >= 34 { 4 } else { 2 };
    let steps = if body.height >= 34 { 10 } else { 6 };
    let answer = body.height.saturating_sub(prompt + steps + 4);
    let boxes = stack(body, &[prompt, answer, steps]);
    let editing = model.playground.editing;
    let walking = model.walk.at.is_some();
    for focus in [false, true] {
        for (rect, has) in [(boxes[0], editing), (boxes[1], false), (boxes[2], walking && !editing)] {
            if has == focus {
                border(buf, rect, theme, focus);
            }
        }
    }
    titles(buf, boxes[0], theme, editing, "prompt", &parameters(model));
    titles(buf, boxes[1], theme, false, &answer_title(model), answer_note(model));
    prompt_box(model, inside(boxes[0]), buf);
    answer_box(model, inside(boxes[1]), buf);
    let round = model.attempt_rounds().and_then(|t| model.walk.index(t).map(|i| (t, i)));
    let Some((traced, index)) = round else {
        titles(buf, boxes[2], theme, false, "round", "");
        no_round(model, inside(boxes[2]), buf);
        return;
    };
    let round = traced.rounds[index].as_ref();
    let note = match (walking, body.width >= 100) {
        (true, true) => "h ← → l · G newest · v tree",
        (false, true) => "newest · h steps back",
        (true, false) => "",
        (false, false) => "newest",
    };
    titles(buf, boxes[2], theme, walking && !editing, &step_panel::title(round, index, traced.rounds.len()), note);
    step_panel::draw(model, round, inside(boxes[2]), buf);
}

/// The parameters of the next run, with their keys.
fn parameters(model: &Model) -> String {
    let mode = match model.playground.mode {
        Some(mode) => mode.name().to_owned(),
        None => format!("server's, {}", model.data.mode.map_or_else(|| "—".into(), |m| m.label())),
    };
    format!("F2 ≤ {} tok · F3 temp {:.1} · F4 mode {mode}", model.max_tokens, model.temperature)
}

fn prompt_box(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }.intersection(area);
    if area.is_empty() {
        return;
    }
    if model.editor.text().is_empty() && !model.playground.editing {
        let hint = "press Enter and write a prompt; Enter sends it, Alt-Enter makes a new line";
        Row::new(buf, area, 0).put(hint, theme.style(Role::TextDim));
        return;
    }
    let (lines, cursor_row, cursor_column) = model.editor.layout(area.width.saturating_sub(1) as usize);
    let height = area.height.max(1) as usize;
    let top = if model.playground.editing { (cursor_row + 1).saturating_sub(height) } else { 0 };
    let style = theme.style(Role::TextNormal);
    for (i, line) in lines.iter().skip(top).take(height).enumerate() {
        Row::new(buf, area, i as u16).put(line, style);
    }
    if !model.playground.editing {
        if lines.len() > height {
            let more = format!(" +{} lines ", lines.len() - height);
            Row::new(buf, area, area.height - 1).right(more, theme.style(Role::TextDim));
        }
        return;
    }
    let at = (area.x + cursor_column as u16, area.y + (cursor_row - top) as u16);
    if area.contains(at.into())
        && let Some(cell) = buf.cell_mut(at)
    {
        cell.modifier.insert(Modifier::REVERSED);
    }
}

fn answer_title(model: &Model) -> String {
    let Some(attempt) = model.playground.current() else { return "answer".into() };
    let state = match (&attempt.state, model.attempt_rounds().map(|t| t.phase)) {
        (State::Failed(_), _) => "failed",
        (State::Running, Some(RequestPhase::Queued) | None) => "sent",
        (State::Running, Some(RequestPhase::Started)) => "reading the prompt",
        (State::Running, _) => "writing",
        (State::Done, Some(RequestPhase::Cancelled)) => "cancelled",
        (State::Done, _) => "done",
    };
    let mut title = format!("answer · {} · {state}", attempt.label());
    if let Some(traced) = model.attempt_rounds() {
        let tau = if model.look.ascii { "tau" } else { "τ" };
        let _ = write!(title, " · {} tok", traced.len());
        if !traced.rounds.is_empty() {
            let _ = write!(title, " · {} rounds · {tau} {}", traced.rounds.len(), short(traced.tau()));
        }
        if let Some(speed) = traced.decode_tok_s() {
            let _ = write!(title, " · {} tok/s", short(Some(speed)));
        }
    }
    title
}

fn answer_note(model: &Model) -> &'static str {
    match model.rejects {
        _ if model.size.0 < 100 => "",
        Rejects::LastRound => "x: rejects of this round",
        Rejects::Inline => "x: all rejects",
        Rejects::Clean => "x: clean text",
    }
}

/// One entry for each attempt, and whether the shown one says the same as the first.
fn attempts(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let play = &model.playground;
    let base = play.reference().and_then(|a| a.traced(&model.data.traces)).and_then(Traced::decode_tok_s);
    let mut row = Row::new(buf, area, 0);
    for (i, attempt) in play.attempts.iter().enumerate() {
        let selected = i == play.selected.min(play.attempts.len() - 1);
        let speed = attempt.traced(&model.data.traces).and_then(Traced::decode_tok_s);
        let mut text = format!(" {} {}", i + 1, attempt.label());
        if let Some(speed) = speed {
            let _ = write!(text, " {} tok/s", short(Some(speed)));
        }
        if let (Some(base), Some(speed), true) = (base, speed, i > 0)
            && base > 0.0
        {
            let _ = write!(text, " ×{:.2}", speed / base);
        }
        text.push(' ');
        let style = match attempt.mode {
            _ if selected => theme.selection(),
            Some(mode) => theme.style(Role::of_mode(mode.mode)),
            None => dim,
        };
        row.put(if selected { "▸" } else { " " }, style).put_whole(text, style);
    }
    row.put_whole("  j k attempts · r another mode", dim);
}

/// The verdict on the attempt that is shown.
fn verdict(model: &Model, attempt: &Attempt) -> Option<Vec<(Role, String)>> {
    let reference = model.playground.reference()?;
    if reference.tag == attempt.tag {
        return None;
    }
    let label = reference.label();
    Some(match compare(reference, attempt, &model.data.traces) {
        Verdict::SoFar(n) => vec![(Role::TextDim, format!("= the same as 1 ({label}) so far: {n}"))],
        Verdict::Identical { units, unit } => {
            vec![(Role::StateOk, format!("= identical to 1 ({label}): {units} of {units} {unit}"))]
        }
        Verdict::Differs { at, unit, before, first, second } => {
            let shown = |t: String| t.replace('\n', "↵");
            let sampled = if attempt.temperature > 0.0 { " (sampled: that is to be expected)" } else { "" };
            vec![
                (Role::StateWarn, format!("≠ differs from 1 ({label}) at {unit} {}{sampled}", at + 1)),
                (Role::TextNormal, format!("  1: …{}⟨{}⟩", shown(before.clone()), shown(first))),
                (
                    Role::TextNormal,
                    format!("  {}: …{}⟨{}⟩", model.playground.selected + 1, shown(before), shown(second)),
                ),
            ]
        }
        Verdict::Unknown(why) => vec![(Role::TextDim, format!("not compared with 1: {why}"))],
    })
}

fn answer_box(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }.intersection(area);
    let Some(attempt) = model.playground.current() else {
        empty(model, area, buf);
        return;
    };
    let mut text_area = area;
    if area.height > 2 {
        attempts(model, Rect { height: 1, ..area }, buf);
        text_area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    }
    if let Some(lines) = verdict(model, attempt) {
        let rows = (lines.len() as u16).min(text_area.height.saturating_sub(1));
        text_area.height -= rows;
        for (i, (role, line)) in lines.into_iter().take(rows as usize).enumerate() {
            let at = Rect { y: text_area.bottom() + i as u16, height: 1, ..text_area };
            Row::new(buf, at, 0).put(line, theme.style(role));
        }
    }
    if let State::Failed(why) = &attempt.state {
        for (i, line) in text::wrap(&format!("failed: {why}"), text_area.width as usize).iter().enumerate() {
            Row::new(buf, text_area, i as u16).put(line, theme.style(Role::StateCrit));
        }
        return;
    }
    match model.attempt_rounds() {
        Some(traced) => answer(model, traced, text_area, buf),
        None => plain(model, attempt, text_area, buf),
    }
}

/// The answer of a server that tells no rounds.
fn plain(model: &Model, attempt: &Attempt, area: Rect, buf: &mut Buffer) {
    let style = model.look.theme.style(Role::TextNormal);
    let lines = text::wrap(&attempt.text, area.width as usize);
    let skip = lines.len().saturating_sub(area.height as usize);
    for (i, line) in lines.iter().skip(skip).enumerate() {
        Row::new(buf, area, i as u16).put(line, style);
    }
}

fn cell_style(theme: &Theme, kind: Kind, here: bool) -> ratatui::style::Style {
    let style = token_stream::style(theme, kind);
    if here {
        let shape = style.add_modifier.difference(Modifier::DIM);
        theme.selection().add_modifier(shape)
    } else {
        style
    }
}

/// Draws an answer; the round under the cursor stands out, and is always in sight.
pub fn answer(model: &Model, traced: &Traced, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let step = model.walk.round(traced).map(|r| r.step);
    let stream = Stream::of(traced);
    let columns = area.width as usize;
    let height = area.height as usize;
    let rows: Vec<_> =
        stream.lines().iter().flat_map(|l| wrap::rows(l, columns, model.rejects, step.unwrap_or(u64::MAX))).collect();
    // Live, the newest round needs no mark: the text ends there.
    let marked = step.filter(|_| model.walk.at.is_some());
    let first = match marked.and_then(|s| rows.iter().position(|r| r.iter().any(|c| c.step == s))) {
        Some(at) => at.saturating_sub(height / 2).min(rows.len().saturating_sub(height)),
        None => rows.len().saturating_sub(height),
    };
    for (i, cells) in rows.iter().skip(first).take(height).enumerate() {
        let mut row = Row::new(buf, area, i as u16);
        for cell in cells {
            row.put(&cell.symbol, cell_style(theme, cell.kind, marked == Some(cell.step)));
        }
    }
}

fn empty(model: &Model, area: Rect, buf: &mut Buffer) {
    let lines = [
        ("One prompt, round by round.", Role::TextStrong),
        ("", Role::TextDim),
        ("Enter   write a prompt and send it", Role::TextNormal),
        ("h l     walk through its rounds: drafted, chosen, why it ended", Role::TextNormal),
        ("r       the same prompt in another mode: faster? the same text?", Role::TextNormal),
        ("v       the tree of a round      R  race two modes", Role::TextNormal),
    ];
    hint::draw(buf, area, &model.look.theme, 64, &lines);
}

fn no_round(model: &Model, area: Rect, buf: &mut Buffer) {
    let foreign = model.data.kind().is_some_and(|k| k != ServerKind::Native);
    let why = match model.playground.current() {
        None => "rounds show here once a prompt was sent",
        Some(_) if foreign => "this server does not tell its rounds: there is only text",
        Some(Attempt { state: State::Running, .. }) => "no round yet",
        Some(_) => "the rounds of this answer are not kept any more",
    };
    Row::new(buf, area, 0).put(format!(" {why}"), model.look.theme.style(Role::TextDim));
}

/// What of it fits into little: the answer, or the prompt while it is written.
pub fn compact(model: &Model, area: Rect, buf: &mut Buffer) {
    if model.playground.editing {
        prompt_box(model, area, buf);
        return;
    }
    let round = model.attempt_rounds().and_then(|t| model.walk.index(t).map(|i| (t, i)));
    let below = if area.height >= 8 { 4 } else { 0 };
    let text = Rect { height: area.height.saturating_sub(below), ..area };
    answer_box(model, text, buf);
    if let (Some((traced, index)), true) = (round, below > 0) {
        let round = traced.rounds[index].as_ref();
        let line = Rect { y: text.bottom(), height: 1, ..area };
        let title = step_panel::title(round, index, traced.rounds.len());
        Row::new(buf, line, 0).put(format!(" {title}"), model.look.theme.style(Role::TextStrong));
        let panel = Rect { y: line.bottom(), height: below - 1, ..area };
        step_panel::draw(model, round, panel, buf);
    }
}
