//! A run as a table: a column a mode, a row a measure, every number with its unit.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::results::{equal, interval, ratio, role, verdict};
use crate::protocol::run::{Comparison, ModeSummary, Run, Spread};
use crate::ui::format::{self, ms_bare, short};
use crate::ui::paint::Row;
use crate::ui::run::library::{comparison, summary};
use crate::ui::theme::{Role, Theme};

/// Columns of the measures' names and units.
const NAME: usize = 17;
/// Columns of a mode.
const MODE: usize = 12;
/// Columns of the baseline.
const BASELINE: usize = 8;
/// Samples that a 95th percentile needs.
const P95_LEAST: u64 = 20;

/// Rows that the table takes.
pub const ROWS: u16 = 12;

type Cell = (String, Role);

fn number(value: Option<f64>) -> Cell {
    let known = value.is_some_and(f64::is_finite);
    (short(value), if known { Role::TextNormal } else { Role::TextDim })
}

fn milliseconds(value: Option<f64>) -> Cell {
    match value {
        Some(v) if v.is_finite() => (ms_bare(v), Role::TextNormal),
        _ => (format::ABSENT.into(), Role::TextDim),
    }
}

fn p95(spread: &Spread) -> Cell {
    if spread.p95.is_none() && spread.n > 0 && spread.n < P95_LEAST {
        return (format!("n<{P95_LEAST}"), Role::TextDim);
    }
    milliseconds(spread.p95)
}

/// The rows: name, unit, and the cell of a mode.
fn cells(s: Option<&ModeSummary>, c: Option<&Comparison>, baseline: bool) -> Vec<(&'static str, &'static str, Cell)> {
    let absent = || (format::ABSENT.to_owned(), Role::TextDim);
    let of = |f: &dyn Fn(&ModeSummary) -> Cell| s.map_or_else(absent, f);
    let against = |f: &dyn Fn(&Comparison) -> Cell, own: &str| match c {
        _ if baseline => (own.to_owned(), Role::TextDim),
        Some(c) => f(c),
        None => absent(),
    };
    let known = |text: String, role: Role| {
        let role = if text == format::ABSENT { Role::TextDim } else { role };
        (text, role)
    };
    vec![
        ("decode", "tok/s", of(&|s| number(s.decode_tok_s.mean))),
        ("ratio", "×", against(&|c| known(ratio(c.ratio), Role::TextStrong), "×1")),
        ("  95 %", "×", against(&|c| known(interval(c.interval), Role::TextNormal), "")),
        (
            "verdict",
            "",
            against(
                &|c| {
                    let (w, r) = verdict(c.verdict);
                    (w.into(), r)
                },
                "baseline",
            ),
        ),
        ("end to end", "tok/s", of(&|s| number(s.e2e_tok_s.mean))),
        ("ttft p50", "ms", of(&|s| milliseconds(s.ttft_ms.p50))),
        ("τ", "tok/rd", of(&|s| number(s.tau_pooled))),
        ("itl p95", "ms", of(&|s| p95(&s.itl_ms))),
        ("step p95", "ms", of(&|s| p95(&s.step_gap_ms))),
        ("energy", "J/tok", of(&|s| number(s.j_per_token))),
        ("equal", "n/n", against(&|c| equal(&c.lossless), "")),
    ]
}

/// Modes that fit beside the baseline at a width.
pub fn fitting(width: u16) -> usize {
    ((width as usize).saturating_sub(NAME + BASELINE + 3) / MODE).max(1)
}

/// Draws the table of a run in a scope; `first` is the first mode after the baseline.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, run: &Run, (suite, concurrency): (&str, usize), first: usize) {
    let dim = theme.style(Role::TextDim);
    let Some(baseline) = run.plan.modes.first() else {
        Row::new(buf, area, 0).put(" the run has no modes", dim);
        return;
    };
    let others: Vec<&str> = run.plan.modes.iter().skip(1).map(|m| m.label.as_str()).collect();
    let fit = fitting(area.width).min(others.len());
    let first = first.min(others.len() - fit);
    let shown = &others[first..first + fit];
    let mut row = Row::new(buf, area, 0);
    let left = if first > 0 { "◂" } else { " " };
    let right = if first + fit < others.len() { "▸" } else { " " };
    row.put(format!(" {:<NAME$}", ""), dim);
    heading(&mut row, &baseline.label, BASELINE, theme);
    row.put(left, dim);
    for mode in shown {
        heading(&mut row, mode, MODE, theme);
    }
    row.put(right, dim);
    let of = |mode: &str| {
        (summary(&run.summary, suite, concurrency, mode), comparison(&run.compare, suite, concurrency, mode))
    };
    let base = cells(of(&baseline.label).0, None, true);
    let columns: Vec<_> = shown
        .iter()
        .map(|m| {
            let (s, c) = of(m);
            cells(s, c, false)
        })
        .collect();
    for (i, (name, unit, cell)) in base.iter().enumerate() {
        let mut row = Row::new(buf, area, i as u16 + 1);
        row.put(format!(" {name:<w$}", w = NAME - 6), theme.style(Role::TextNormal));
        row.put(format!("{unit:<6}"), dim);
        put(&mut row, cell, BASELINE, theme);
        row.put(" ", dim);
        for column in &columns {
            put(&mut row, &column[i].2, MODE, theme);
        }
    }
}

fn heading(row: &mut Row<'_>, label: &str, columns: usize, theme: &Theme) {
    let label: String = label.chars().take(columns - 1).collect();
    row.put(format!("{label:>columns$}"), theme.style(role(&label)).add_modifier(ratatui::style::Modifier::BOLD));
}

fn put(row: &mut Row<'_>, (text, role): &Cell, columns: usize, theme: &Theme) {
    let style: Style = theme.style(*role);
    row.put(format!("{text:>columns$}"), style);
}
