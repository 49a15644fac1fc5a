//! The plan of a run as a form, and what its rows mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::ui::app::Model;
use crate::ui::format;
use crate::ui::paint::Row;
use crate::ui::run::form::{Check, Field, Form};
use crate::ui::run::modes::mode_of;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// Columns of the left labels.
const LABEL: usize = 13;

/// Draws the form; the row with the cursor is always in sight.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer, focus: bool) {
    let theme = &model.look.theme;
    let form = &model.bench.form;
    let fields = form.fields();
    let height = area.height as usize;
    let cursor = form.cursor.min(fields.len() - 1);
    let top = (cursor + 1)
        .saturating_sub(height)
        .max(fields.len().saturating_sub(height).min(cursor.saturating_sub(height / 2)));
    for (i, field) in fields.iter().enumerate().skip(top).take(height) {
        let mut row = Row::new(buf, area, (i - top) as u16);
        row.put(format!(" {:<LABEL$}", label(form, *field)), theme.style(Role::TextDim));
        let here = focus && i == cursor;
        match (&form.edit, here) {
            (Some(editor), true) => {
                let room = row.left().saturating_sub(1);
                let (lines, _, column) = editor.layout(usize::MAX);
                let line = lines.first().map_or("", String::as_str);
                // The cursor and what stands before it stay in sight.
                let before: String = line
                    .chars()
                    .scan(0, |used, c| {
                        *used += text::width(c.encode_utf8(&mut [0; 4]));
                        (*used <= column).then_some(c)
                    })
                    .collect();
                let after: String = line[before.len()..].to_owned();
                let mut rest = after.chars();
                let under = rest.next().unwrap_or(' ');
                let typed = theme.style(Role::TextStrong).add_modifier(Modifier::UNDERLINED);
                row.put(text::tail(&before, room), typed);
                row.put(under.to_string(), typed.add_modifier(Modifier::REVERSED)).put(rest.collect::<String>(), typed);
            }
            _ => value(&mut row, form, *field, here, theme),
        }
    }
}

fn label(form: &Form, field: Field) -> &'static str {
    match field {
        Field::AddMode if form.modes.is_empty() => "modes",
        Field::Suite(0) => "suites",
        Field::Mode(0) => "modes",
        Field::Repeats => "repeats",
        Field::Prompts => "prompts",
        Field::MaxTokens => "max tokens",
        Field::Temperature => "temperature",
        Field::Seed => "seed",
        Field::Concurrency => "in flight",
        Field::Timeout => "time limit",
        _ => "",
    }
}

fn value(row: &mut Row<'_>, form: &Form, field: Field, here: bool, theme: &Theme) {
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let chosen = |style: Style| if here { theme.selection() } else { style };
    match field {
        Field::Suite(i) => check(row, &form.suites[i], chosen(normal), "", dim),
        Field::Mode(i) => {
            let mode = &form.modes[i];
            let ink = mode_of(&mode.word).map_or(normal, |m| theme.style(Role::of_mode(m)));
            let baseline = mode.on && form.modes.iter().position(|m| m.on) == Some(i);
            check(row, mode, chosen(if mode.on { ink } else { dim }), if baseline { " baseline" } else { "" }, dim);
        }
        Field::AddSuite => {
            row.put("+ path of a JSON-lines file", chosen(dim));
        }
        Field::AddMode => {
            row.put("+ another, e.g. ddtree:24", chosen(dim));
        }
        Field::Start => {
            row.put("[ start ]", chosen(theme.style(Role::StateOk).add_modifier(Modifier::BOLD)));
        }
        Field::DryRun => {
            row.put("[ dry run ]", chosen(theme.style(Role::TextStrong)));
        }
        _ => {
            let unit = match field {
                Field::Prompts if form.prompts.is_none() => " of each suite",
                Field::Prompts => " of each suite at most",
                Field::Repeats => " of every prompt and mode",
                Field::MaxTokens => " tokens an answer",
                Field::Temperature if form.temperature == 0.0 => " greedy: outputs are compared",
                Field::Temperature => " sampled: outputs are not compared",
                Field::Concurrency => " requests, one experiment each",
                Field::Timeout => " s a request",
                _ => "",
            };
            row.put(form.value(field), chosen(theme.style(Role::TextStrong))).put(unit, dim);
        }
    }
}

fn check(row: &mut Row<'_>, check: &Check, style: Style, note: &str, dim: Style) {
    let mark = if check.on { "[x]" } else { "[ ]" };
    // Of a long path the end tells more.
    let word = text::tail(&check.word, row.left().saturating_sub(5 + note.len()));
    row.put(format!("{mark} {word}"), style).put(note, dim);
}

/// What the row with the cursor means.
pub fn explain(field: Field) -> &'static str {
    match field {
        Field::Suite(_) => "A set of prompts. story: the three of the README. builtin: short prompts of several kinds.",
        Field::AddSuite => "A file with one JSON object a line, {\"turns\": [\"…\"]}. Enter, then type its path.",
        Field::Mode(_) => {
            "Each prompt is answered in every mode, in random order. The first chosen mode is the baseline."
        }
        Field::AddMode => "off, dflash, dflash:8 (block size), ddtree:32 (budget), ddtree:32:noseed. Enter, then type.",
        Field::Repeats => "More repeats make a prompt's mean steadier; more prompts make the interval narrower.",
        Field::Prompts => "The interval is over prompts: with few of them little can be said.",
        Field::MaxTokens => "Answers that reach the limit count as cut short; they are measured all the same.",
        Field::Temperature => {
            "At 0 every answer must equal the baseline's, token by token. Above 0 it may differ by right."
        }
        Field::Seed => "Fixes the random order of modes, and sampling above temperature 0.",
        Field::Concurrency => "1 shows what a single user feels. 1 2 4 measures three loads, one after the other.",
        Field::Timeout => "A request without an end by then counts as timed out.",
        Field::Start => "Warm-up first, then the measurement. space pauses, x stops and keeps.",
        Field::DryRun => "Makes the plan and estimates its time. Nothing is sent.",
    }
}

/// Draws what the plan comes to: why it cannot start, the last dry run, and the row's meaning.
pub fn about(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let width = (area.width as usize).saturating_sub(2);
    let mut lines: Vec<(String, Style)> = Vec::new();
    let mut add = |text: &str, style: Style| lines.extend(text::wrap(text, width).into_iter().map(|l| (l, style)));
    if let Some(why) = model.no_run() {
        add(why, theme.style(Role::StateWarn));
        add("\n", dim);
    } else if let Some(hint) = model.run_hint() {
        add(hint, theme.style(Role::StateWarn));
        add("\n", dim);
    }
    match &model.bench.dry {
        Some(Ok(dry)) => {
            let time = dry.estimate_s.map_or_else(|| "time unknown".into(), |s| format!("about {}", format::clock(s)));
            add(&format!("dry run: {} requests, {time}", dry.total), theme.style(Role::StateOk));
            for suite in &dry.plan.suites {
                add(&format!("{} · {} prompts · {}", suite.name, suite.prompts, suite.source), normal);
            }
            let modes: Vec<_> = dry.plan.modes.iter().map(|m| m.label.as_str()).collect();
            add(&format!("modes: {}", modes.join(", ")), normal);
            add(&format!("prefix cache: {}", dry.plan.prefix_cache), dim);
            add("\n", dim);
        }
        Some(Err(why)) => {
            add(&format!("dry run: {why}"), theme.style(Role::StateCrit));
            add("\n", dim);
        }
        None => {}
    }
    add(explain(model.bench.form.field()), dim);
    for (i, (line, style)) in lines.into_iter().take(area.height as usize).enumerate() {
        Row::new(buf, area, i as u16).skip(1).put(line, style);
    }
}
