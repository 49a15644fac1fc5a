//! The plots of a run: speed-up by suite, τ and speed-up by tree budget, rounds by accepted drafts.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::plot::{self, Series};
use super::results::{ratio, role};
use crate::protocol::mode::Mode;
use crate::protocol::run::{ModeSummary, Run};
use crate::ui::format::{percent, short};
use crate::ui::paint::{Row, bar};
use crate::ui::run::library::{Plot, comparison, summary};
use crate::ui::run::modes::mode_of;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// Draws a plot of a run in a scope (suite and concurrency).
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, plot: Plot, run: &Run, scope: (&str, usize)) {
    let drawn = match plot {
        Plot::Suites => by_suite(buf, area, theme, run, scope.1),
        Plot::Budgets => by_budget(buf, area, theme, run, scope),
        Plot::Acceptance => acceptance(buf, area, theme, run, scope),
    };
    if let Err(why) = drawn {
        Row::new(buf, area, 0).put(format!(" {why}"), theme.style(Role::TextDim));
    }
}

/// Bars from 0 with a mark at the baseline's speed.
fn by_suite(buf: &mut Buffer, area: Rect, theme: &Theme, run: &Run, concurrency: usize) -> Result<(), &'static str> {
    let dim = theme.style(Role::TextDim);
    let mut suites: Vec<&str> = Vec::new();
    for c in run.compare.iter().filter(|c| c.concurrency == concurrency) {
        if !suites.contains(&c.suite.as_str()) {
            suites.push(&c.suite);
        }
    }
    suites.sort_by_key(|s| *s != "all");
    if suites.len() == 2 && suites[0] == "all" {
        suites.remove(0);
    }
    let modes: Vec<&str> = run.plan.modes.iter().skip(1).map(|m| m.label.as_str()).collect();
    let rows: Vec<(&str, &str, f64)> = suites
        .iter()
        .flat_map(|s| modes.iter().map(move |m| (*s, *m)))
        .filter_map(|(s, m)| Some((s, m, comparison(&run.compare, s, concurrency, m)?.ratio?)))
        .filter(|(_, _, v)| v.is_finite() && *v >= 0.0)
        .collect();
    if rows.is_empty() {
        return Err("nothing was compared");
    }
    let widest = |f: fn(&(&str, &str, f64)) -> usize| rows.iter().map(f).max().unwrap_or(0);
    let (name, label) = (widest(|r| text::width(r.0)).min(12), widest(|r| text::width(r.1)).min(12));
    let greatest = rows.iter().fold(1.0f64, |m, r| m.max(r.2)) * 1.02;
    let room = area.height as usize;
    // Side by side where one column would not do, and suites set apart where there is room.
    let stacks = rows.len().div_ceil(room.max(1)).min(area.width as usize / 38).max(1);
    let apart = usize::from(stacks == 1 && rows.len() + suites.len() <= room);
    let stack_width = area.width / stacks as u16;
    let fits = room * stacks;
    let shown = if rows.len() > fits { fits.saturating_sub(1) } else { rows.len() };
    let mut before = "";
    let mut line = 0;
    for (i, (suite, mode, value)) in rows.iter().take(shown).enumerate() {
        let (stack, first) = (i / room.max(1), i % room.max(1) == 0);
        if first {
            line = 0;
        } else if suite != &before {
            line += apart;
        }
        let stack = Rect { x: area.x + stack as u16 * stack_width, width: stack_width, ..area };
        let head = if *suite == before && !first { "" } else { suite };
        before = suite;
        let mut row = Row::new(buf, stack, line as u16);
        row.put(format!(" {} ", fit(head, name)), theme.style(Role::TextNormal));
        row.put(format!("{} ", fit(mode, label)), theme.style(role(mode)));
        row.right(format!(" {:<6}", ratio(Some(*value))), theme.style(Role::TextStrong));
        let columns = row.left();
        let one = (columns as f64 / greatest).round() as usize;
        let start = stack.right().saturating_sub((columns + 7) as u16);
        bar(&mut row, columns, value / greatest, theme.style(role(mode)), theme.style(Role::BorderIdle));
        // The baseline's speed, over bar and track alike.
        let at = (start.saturating_add(one as u16), area.y + line as u16);
        if one < columns
            && stack.contains(at.into())
            && let Some(cell) = buf.cell_mut(at)
        {
            cell.set_symbol("┊").set_style(theme.style(Role::TextStrong));
        }
        line += 1;
    }
    if shown < rows.len() {
        let last = Rect { x: area.x + (stacks as u16 - 1) * stack_width, width: stack_width, ..area };
        Row::new(buf, last, room.saturating_sub(1) as u16)
            .put(format!(" {} more: a taller window", rows.len() - shown), dim);
    } else if stacks == 1 && line < room {
        Row::new(buf, area, room as u16 - 1).put(" ratio of decoding speeds · ┊ is ×1", dim);
    }
    Ok(())
}

/// Exactly so many columns.
fn fit(name: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    let cut = text::width(name) > columns;
    for (symbol, w) in text::cells(name) {
        if used + w > columns.saturating_sub(usize::from(cut)) {
            break;
        }
        out.push_str(&symbol);
        used += w;
    }
    if cut && columns > 0 {
        out.push('…');
        used += 1;
    }
    out + &" ".repeat(columns.saturating_sub(used))
}

fn by_budget(
    buf: &mut Buffer,
    area: Rect,
    theme: &Theme,
    run: &Run,
    (suite, concurrency): (&str, usize),
) -> Result<(), &'static str> {
    let trees: Vec<_> = run
        .plan
        .modes
        .iter()
        .filter(|m| m.request.mode == Some(Mode::Ddtree))
        .filter_map(|m| Some((m.request.tree_budget.filter(|b| *b > 0)?, m.label.as_str())))
        .collect();
    let budgets = || trees.iter().map(|(b, _)| (*b as f64).log2());
    let (least, most) = (budgets().fold(f64::INFINITY, f64::min), budgets().fold(f64::NEG_INFINITY, f64::max));
    if trees.is_empty() {
        return Err("no tree budget was measured");
    }
    let place = |b: usize| if most > least { ((b as f64).log2() - least) / (most - least) } else { 0.5 };
    let mut ticks: Vec<(f64, String)> = trees.iter().map(|(b, _)| (place(*b), format!("r{b}"))).collect();
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let chain = run.plan.modes.iter().skip(1).find(|m| m.request.mode == Some(Mode::Dflash)).map(|m| m.label.as_str());
    let speed = |mode: &str| comparison(&run.compare, suite, concurrency, mode).and_then(|c| c.ratio);
    let tau = |mode: &str| summary(&run.summary, suite, concurrency, mode).and_then(|s| s.tau_pooled);
    let series = |value: &dyn Fn(&str) -> Option<f64>| {
        let mut points: Vec<_> = trees.iter().filter_map(|(b, m)| Some((place(*b), value(m)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut all = vec![Series { points, style: theme.style(Role::ModeDdtree), level: false }];
        if let Some(level) = chain.and_then(value) {
            let style = theme.style(Role::ModeDflash);
            all.insert(0, Series { points: vec![(0.0, level)], style, level: true });
        }
        all
    };
    let dim = theme.style(Role::TextDim);
    // Side by side where the panel is wide, one above the other where it is high.
    let side = area.width >= 60 && area.height < 16;
    let (a, b) = if side {
        let half = area.width / 2;
        (Rect { width: half, ..area }, Rect { x: area.x + half, width: area.width - half, ..area })
    } else {
        let half = area.height / 2;
        (Rect { height: half, ..area }, Rect { y: area.y + half, height: area.height - half, ..area })
    };
    for (area, name, value) in [
        (a, " × speed-up", &speed as &dyn Fn(&str) -> Option<f64>),
        (b, " τ tok/round", &tau as &dyn Fn(&str) -> Option<f64>),
    ] {
        let mut row = Row::new(buf, area, 0);
        row.put(name, theme.style(Role::TextStrong)).put("  ● ddtree", theme.style(Role::ModeDdtree));
        if let Some(chain) = chain {
            row.put_whole(format!("  ╌ {chain}"), theme.style(Role::ModeDflash));
        }
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }.intersection(area);
        plot::draw(buf, body, &series(value), &ticks, 1.0, dim);
    }
    Ok(())
}

/// Shares of a mode's rounds by accepted drafts, with everything from the last row on in one.
fn shares(s: &ModeSummary, rows: usize) -> Vec<f64> {
    let total: f64 = s.accepted_hist.iter().map(|n| *n as f64).sum();
    if total <= 0.0 || rows == 0 {
        return Vec::new();
    }
    let mut shares = vec![0.0; rows];
    for (k, n) in s.accepted_hist.iter().enumerate() {
        shares[k.min(rows - 1)] += *n as f64 / total;
    }
    shares
}

/// The chain beside the tree: rows are accepted drafts, bars are shares of rounds.
fn acceptance(
    buf: &mut Buffer,
    area: Rect,
    theme: &Theme,
    run: &Run,
    (suite, concurrency): (&str, usize),
) -> Result<(), &'static str> {
    let here = |s: &&ModeSummary| s.suite == suite && s.concurrency == concurrency;
    let drafting = run.summary.iter().filter(here).filter(|s| s.accepted_hist.iter().any(|n| *n > 0));
    let drafting: Vec<_> = drafting.filter(|s| mode_of(&s.mode).is_none_or(Mode::drafts)).collect();
    // The first chain and the tree with the greatest τ: that is what the methods' papers put side by side.
    let tree = |s: &&&ModeSummary| mode_of(&s.mode) == Some(Mode::Ddtree);
    let first = drafting.iter().find(|s| !tree(s));
    let best =
        drafting.iter().filter(tree).max_by(|a, b| a.tau_pooled.unwrap_or(0.0).total_cmp(&b.tau_pooled.unwrap_or(0.0)));
    let pair: Vec<&ModeSummary> = first.into_iter().chain(best).copied().collect();
    if pair.is_empty() {
        return Err("no rounds with drafts were recorded");
    }
    let dim = theme.style(Role::TextDim);
    let longest = pair.iter().map(|s| s.accepted_hist.iter().rposition(|n| *n > 0).map_or(0, |k| k + 1)).max();
    let rows = longest.unwrap_or(0).min((area.height as usize).saturating_sub(1));
    let half = (area.width.saturating_sub(4) as usize) / pair.len();
    let mut row = Row::new(buf, area, 0);
    row.put("    ", dim);
    for s in &pair {
        let head = format!("{}  τ {}", s.mode, short(s.tau_pooled));
        row.put(fit(&head, half.saturating_sub(1)), theme.style(role(&s.mode))).put(" ", dim);
    }
    let shares: Vec<Vec<f64>> = pair.iter().map(|s| shares(s, rows)).collect();
    let greatest = shares.iter().flatten().fold(0.0f64, |m, v| m.max(*v)).max(1e-9);
    for k in 0..rows {
        let mut row = Row::new(buf, area, k as u16 + 1);
        let more = k + 1 == rows && longest.is_some_and(|l| l > rows);
        row.put(format!("{:>3}{}", k, if more { "+" } else { " " }), dim);
        for (s, shares) in pair.iter().zip(&shares) {
            let columns = half.saturating_sub(8);
            let style = theme.style(role(&s.mode));
            bar(&mut row, columns, shares[k] / greatest, style, theme.style(Role::BorderIdle));
            row.put(format!(" {:>5}  ", percent(Some(shares[k] * 100.0))), theme.style(Role::TextNormal));
        }
    }
    Ok(())
}
