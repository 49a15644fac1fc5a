//! The compare screen: runs that were kept, the table of one of them, and its plots.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::dashboard::{split, stack};
use crate::protocol::run::{Run, RunStatus};
use crate::ui::app::Model;
use crate::ui::format::{self, date};
use crate::ui::paint::{Row, border, inside, titles};
use crate::ui::run::library::{Plot, RunListItem};
use crate::ui::text;
use crate::ui::theme::Role;
use crate::ui::widget::{header, results, run_plots, run_table};

/// From here on all plots are shown at once.
const ROOMY: (u16, u16) = (120, 34);

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let body = header::with_alerts(model, area, buf);
    let roomy = body.width >= ROOMY.0 && body.height + 2 >= ROOMY.1;
    let theme = &model.look.theme;
    let compare = &model.compare;
    let warned = compare.run.as_ref().is_some_and(|r| !r.warnings.is_empty());
    let table =
        run_table::ROWS + if roomy { (body.height.saturating_sub(34) / 3).min(8) } else { 0 } + u16::from(warned);
    let rows = stack(body, &[table, body.height.saturating_sub(table + 3)]);
    let list_share = if body.width >= 140 { 30 } else { 32 };
    let (list, right) = split(rows[0], list_share);
    let mut panels =
        vec![(list, true, "runs".to_owned(), list_note(model)), (right, false, table_title(model), table_note(model))];
    let scope = compare.scope().unwrap_or_else(|| ("all".into(), 1));
    let mut plots: Vec<(Rect, Plot)> = Vec::new();
    if roomy {
        let (a, rest) = split(rows[1], 34);
        let (b, c) = split(rest, 50);
        plots.extend([a, b, c].into_iter().zip(Plot::ALL));
    } else {
        plots.push((rows[1], compare.plot));
    }
    for (area, plot) in &plots {
        let note = if roomy { String::new() } else { format!("w: {}", plot.walk(true).title()) };
        panels.push((*area, false, plot.title().into(), note));
    }
    for focus in [false, true] {
        for (area, ..) in panels.iter().filter(|p| p.1 == focus) {
            border(buf, *area, theme, focus);
        }
    }
    for (area, focus, title, note) in &panels {
        titles(buf, *area, theme, *focus, title, note);
    }
    runs(model, inside(list), buf);
    let inner = inside(right);
    match &compare.run {
        Some(run) => {
            run_table::draw(buf, inner, theme, run, (&scope.0, scope.1), compare.column);
            facts(model, run, inner, buf);
            for (area, plot) in plots {
                run_plots::draw(buf, inside(area), theme, plot, run, (&scope.0, scope.1));
            }
        }
        None => {
            for (i, line) in text::wrap(&empty(model), inner.width.saturating_sub(2) as usize).into_iter().enumerate() {
                Row::new(buf, inner, i as u16).skip(1).put(line, theme.style(Role::TextDim));
            }
        }
    }
}

/// Below the table: warnings, then where and how it was measured, as far as there is room.
fn facts(model: &Model, run: &Run, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let room = area.height.saturating_sub(run_table::ROWS) as usize;
    let width = area.width.saturating_sub(2) as usize;
    let mut lines: Vec<(String, Role)> = Vec::new();
    if let Some(first) = run.warnings.first() {
        let more = run.warnings.len() - 1;
        let rest = if more > 0 && room < 2 + more { format!(" (and {more} more)") } else { String::new() };
        lines.push((format!("⚠{rest} {first}"), Role::StateWarn));
        if rest.is_empty() {
            lines.extend(run.warnings.iter().skip(1).map(|w| (format!("⚠ {w}"), Role::StateWarn)));
        }
    }
    let plan = &run.plan;
    let suites: Vec<_> = plan.suites.iter().map(|s| format!("{} ({} prompts)", s.name, s.prompts)).collect();
    lines.push((
        format!(
            "{} · {} repeats · at most {} tokens · temperature {:.1} · seed {}",
            suites.join(", "),
            plan.repeats,
            plan.max_tokens,
            plan.temperature,
            plan.seed
        ),
        Role::TextDim,
    ));
    let device = run
        .env
        .device
        .as_ref()
        .map_or_else(|| run.env.server.clone(), |d| format!("{} · {} threads · {}", d.name, d.threads, d.kernels));
    let draft = run.env.draft.as_ref().map_or_else(String::new, |d| format!(" + {}", d.name));
    let target = run.env.target.as_ref().map(|t| t.name.clone()).or_else(|| run.env.model.clone());
    let model_name = target.unwrap_or_else(|| format::ABSENT.into());
    lines.push((format!("{model_name}{draft} · {device}"), Role::TextDim));
    if room == 1 {
        // A single row: what does not fit ends in an ellipsis.
        if let Some((line, role)) = lines.first() {
            Row::new(buf, area, run_table::ROWS).skip(1).put(line, theme.style(*role));
        }
        return;
    }
    let wrapped =
        lines.into_iter().flat_map(|(l, role)| text::wrap(&l, width.max(4)).into_iter().map(move |l| (l, role)));
    for (i, (line, role)) in wrapped.take(room).enumerate() {
        Row::new(buf, area, run_table::ROWS + i as u16).skip(1).put(line, theme.style(role));
    }
}

fn empty(model: &Model) -> String {
    let compare = &model.compare;
    match (&compare.error, &compare.runs) {
        (Some(why), _) => why.clone(),
        _ if !model.bench.hosted => "benchmarks are not available on this attachment".into(),
        _ if compare.loading.is_some() => "reading the run".into(),
        (_, None) => "looking for runs".into(),
        (_, Some(runs)) if runs.is_empty() => {
            "No runs were kept yet: 4 opens the bench screen, s starts one there.".into()
        }
        _ => "no run is chosen".into(),
    }
}

fn list_note(model: &Model) -> String {
    let compare = &model.compare;
    let all = compare.runs.as_ref().map_or(0, Vec::len);
    let filter = compare.filter.text();
    if filter.is_empty() && !compare.filtering {
        return format!("{all}");
    }
    format!("{} of {all}", compare.visible().len())
}

fn table_title(model: &Model) -> String {
    let Some(run) = &model.compare.run else { return "run".into() };
    let (suite, concurrency) = model.compare.scope().unwrap_or_else(|| ("all".into(), 1));
    let suite = if suite == "all" { "all suites".into() } else { suite };
    let ladder = run.plan.concurrency.len() > 1;
    let flight = if ladder { format!(" · {concurrency} in flight") } else { String::new() };
    format!("{suite}{flight}")
}

fn table_note(model: &Model) -> String {
    model.compare.run.as_ref().map_or_else(String::new, |run| {
        format!("{} · {}{}", run.meta.title, date(run.meta.started_ms), status(run.meta.status))
    })
}

fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Complete => "",
        RunStatus::Unfinished => " · unfinished",
        RunStatus::Stopped => " · stopped",
        RunStatus::Imported => " · imported",
    }
}

/// The list, two rows a run.
fn runs(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let compare = &model.compare;
    let typing = compare.filtering || !compare.filter.text().is_empty();
    let list = Rect { height: area.height.saturating_sub(u16::from(typing)), ..area };
    if typing {
        let mut row = Row::new(buf, area, area.height.saturating_sub(1));
        row.put(" /", theme.style(Role::TextStrong));
        let room = row.left().saturating_sub(2);
        row.put(text::tail(compare.filter.text(), room), normal);
        if compare.filtering {
            row.put(" ", theme.selection());
        }
    }
    let visible = compare.visible();
    if visible.is_empty() {
        let what = match &compare.runs {
            Some(runs) if !runs.is_empty() => " the filter leaves none",
            Some(_) => " none yet",
            None => " —",
        };
        Row::new(buf, list, 0).put(what, dim);
        return;
    }
    let each = 2;
    let fit = (list.height as usize / each).max(1);
    let selected = compare.selected.min(visible.len() - 1);
    let top = (selected + 1).saturating_sub(fit);
    for (i, item) in visible.iter().enumerate().skip(top).take(fit) {
        let line = ((i - top) * each) as u16;
        let here = i == selected;
        let mut row = Row::new(buf, list, line);
        let width = row.left();
        let head = format!(" {} {}", if here { "▸" } else { " " }, item.title);
        let pad = width.saturating_sub(text::width(&head));
        row.put(head + &" ".repeat(pad), if here { theme.selection() } else { normal });
        let state = if compare.loading.as_ref() == Some(&item.id) { " · reading" } else { status(item.status) };
        let date = date(item.started_ms);
        // Where there is little room, the year is what one knows.
        let date = if width < 36 { date.split_once('-').map_or("", |(_, rest)| rest) } else { date.as_str() };
        Row::new(buf, list, line + 1).put(format!("   {date}{state} · {}", modes(item)), dim);
    }
}

fn modes(item: &RunListItem) -> String {
    match item.modes.len() {
        0 => format::ABSENT.into(),
        1..=3 => item.modes.join(", "),
        n => format!("{n} modes"),
    }
}

/// The screen for small terminals: the run with the cursor and its results.
pub fn compact(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let compare = &model.compare;
    let Some(run) = &compare.run else {
        for (i, line) in text::wrap(&empty(model), area.width.saturating_sub(2) as usize).into_iter().enumerate() {
            Row::new(buf, area, i as u16).skip(1).put(line, theme.style(Role::TextDim));
        }
        return;
    };
    let mut row = Row::new(buf, area, 0);
    let place = compare.selected.min(compare.visible().len().saturating_sub(1)) + 1;
    row.right(format!(" {place}/{} ", compare.visible().len()), theme.style(Role::TextDim));
    row.put(format!(" {}", run.meta.title), theme.style(Role::TextStrong));
    let table = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    results::draw(buf, table, theme, &run.summary, &run.compare);
}
