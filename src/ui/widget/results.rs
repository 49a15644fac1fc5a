//! Benchmark results: a row a mode, with its ratio to the baseline, the interval as a bar, and what may be said.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::interval_bar::{self, Scale};
use crate::protocol::run::{Comparison, Losslessness, ModeSummary, Verdict};
use crate::ui::format::{self, short};
use crate::ui::paint::Row;
use crate::ui::run::library::comparison;
use crate::ui::run::modes::mode_of;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// Columns of the mode's name.
const NAME: usize = 13;
/// Columns that a bar needs to say anything.
const LEAST_BAR: usize = 8;
/// Columns that a bar should have before less telling numbers get theirs.
const GOOD_BAR: usize = 15;

/// A line of the table.
enum Line<'a> {
    /// Names the suite and the concurrency.
    Heading(String),
    /// A mode.
    Mode(&'a ModeSummary, Option<&'a Comparison>),
}

/// Colour of a mode by its label.
pub fn role(label: &str) -> Role {
    mode_of(label).map_or(Role::SeriesB, Role::of_mode)
}

/// What the interval says, in a word or two, with its colour.
pub fn verdict(verdict: Verdict) -> (&'static str, Role) {
    match verdict {
        Verdict::Faster => ("faster", Role::StateOk),
        Verdict::Slower => ("slower", Role::StateWarn),
        Verdict::NoDifferenceShown => ("no diff.", Role::TextDim),
        Verdict::NotEnoughData => ("too few", Role::TextDim),
    }
}

/// A ratio: `×0.53`, `×12.3`.
pub fn ratio(value: Option<f64>) -> String {
    match value.filter(|v| v.is_finite()) {
        None => format::ABSENT.into(),
        Some(v) => format!("×{}", short(Some(v))),
    }
}

/// An interval: `0.50–0.56`.
pub fn interval(value: Option<[f64; 2]>) -> String {
    match value {
        Some([low, high]) if low.is_finite() && high.is_finite() => {
            format!("{}–{}", short(Some(low)), short(Some(high)))
        }
        _ => format::ABSENT.into(),
    }
}

/// Whether outputs are the baseline's: `✓ 12/12`, `✗ 11/12`, `—`.
pub fn equal(lossless: &Losslessness) -> (String, Role) {
    if !lossless.checked || lossless.compared == 0 {
        return (format::ABSENT.into(), Role::TextDim);
    }
    let all = lossless.identical == lossless.compared;
    let figure = format!("{}/{}", lossless.identical, lossless.compared);
    if all { (format!("✓ {figure}"), Role::StateOk) } else { (format!("✗ {figure}"), Role::StateCrit) }
}

fn lines<'a>(summary: &'a [ModeSummary], compare: &'a [Comparison]) -> Vec<Line<'a>> {
    let mut scopes: Vec<(&str, usize)> = Vec::new();
    for s in summary {
        if !scopes.contains(&(s.suite.as_str(), s.concurrency)) {
            scopes.push((&s.suite, s.concurrency));
        }
    }
    scopes.sort_by_key(|(suite, concurrency)| (*suite != "all", *concurrency));
    // With a single suite, "all" says it already.
    let suites = scopes.iter().filter(|(s, _)| *s != "all").map(|(s, _)| s).collect::<std::collections::BTreeSet<_>>();
    let single = suites.len() == 1 && scopes.iter().any(|(s, _)| *s == "all");
    let ladder = scopes.iter().any(|(_, c)| *c != scopes[0].1);
    let mut lines = Vec::new();
    for (suite, concurrency) in scopes.iter().filter(|(s, _)| !single || *s == "all") {
        if scopes.len() > 1 && (ladder || !single) {
            let name = if *suite == "all" { "all suites" } else { suite };
            let flight = if ladder { format!(" · {concurrency} in flight") } else { String::new() };
            lines.push(Line::Heading(format!("{name}{flight}")));
        }
        for s in summary.iter().filter(|s| s.suite == *suite && s.concurrency == *concurrency) {
            lines.push(Line::Mode(s, comparison(compare, suite, *concurrency, &s.mode)));
        }
    }
    lines
}

/// The lines that fit into so many rows. A suite that would be cut in the middle is left out whole, unless it is the first.
fn fitting<'a, 'b>(lines: &'b [Line<'a>], room: usize) -> &'b [Line<'a>] {
    if lines.len() <= room {
        return lines;
    }
    let starts = lines.iter().enumerate().skip(1).filter(|(_, l)| matches!(l, Line::Heading(_))).map(|(i, _)| i);
    // One row says that something is left out.
    let room = room.saturating_sub(1);
    let whole = starts.take_while(|i| *i <= room).last();
    &lines[..whole.unwrap_or(room).min(lines.len())]
}

/// Rows that the table takes when it may have so many.
pub fn rows(summary: &[ModeSummary], compare: &[Comparison], most: usize) -> usize {
    let lines = lines(summary, compare);
    let shown = fitting(&lines, most.saturating_sub(2)).len();
    shown + 2 + usize::from(shown < lines.len())
}

/// Columns by name that fit a width.
struct Columns {
    speed: bool,
    interval: bool,
    bar: usize,
    tau: bool,
    n: bool,
    equal: bool,
    verdict: bool,
}

impl Columns {
    fn fit(width: usize) -> Self {
        // Name and ratio always; the others in the order of what they tell.
        let mut left = width.saturating_sub(NAME + 2 + 7);
        let mut take = |columns: usize, spare: usize| {
            let fits = columns + spare <= left;
            left -= if fits { columns } else { 0 };
            fits
        };
        let interval = take(12, 0);
        let verdict = take(9, 0);
        let equal = take(9, 0);
        let tau = take(6, 0);
        // These only where they leave the bar room enough.
        let speed = take(8, GOOD_BAR);
        let n = take(5, GOOD_BAR);
        let bar = if left > LEAST_BAR { left - 1 } else { 0 };
        Self { speed, interval, bar: bar.min(90), tau, n, equal, verdict }
    }
}

/// Draws heading, modes and axis; what does not fit in height is left out from the end, and said.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, summary: &[ModeSummary], compare: &[Comparison]) {
    let (dim, normal, strong) =
        (theme.style(Role::TextDim), theme.style(Role::TextNormal), theme.style(Role::TextStrong));
    let lines = lines(summary, compare);
    if lines.is_empty() {
        Row::new(buf, area, 0).put(" no results yet", dim);
        return;
    }
    let columns = Columns::fit(area.width as usize);
    let known = compare.iter().filter(|c| c.metric == "decode_tok_s");
    let scale = Scale::of(known.flat_map(|c| c.ratio.into_iter().chain(c.interval.into_iter().flatten())));
    let baseline = compare.first().map_or("off", |c| c.baseline.as_str());
    heading(&mut Row::new(buf, area, 0), &columns, baseline, dim);
    let room = (area.height as usize).saturating_sub(2);
    let shown = fitting(&lines, room).len();
    for (i, line) in lines.iter().take(shown).enumerate() {
        let mut row = Row::new(buf, area, i as u16 + 1);
        match line {
            Line::Heading(name) => {
                row.put(format!(" {name}"), strong);
            }
            Line::Mode(s, c) => mode(&mut row, &columns, scale, s, *c, (theme, normal, dim)),
        }
    }
    if shown < lines.len() {
        let text = format!(" {} more lines by suite: a taller window shows them", lines.len() - shown);
        Row::new(buf, area, shown as u16 + 1).put(text, dim);
    }
    if columns.bar > 0 {
        let mut row = Row::new(buf, area, (shown + usize::from(shown < lines.len())) as u16 + 1);
        row.skip(before_bar(&columns));
        interval_bar::axis(&mut row, columns.bar, scale, dim);
    }
}

fn before_bar(columns: &Columns) -> usize {
    1 + NAME + 1 + 7 + if columns.speed { 8 } else { 0 } + if columns.interval { 12 } else { 0 }
}

fn heading(row: &mut Row<'_>, columns: &Columns, baseline: &str, dim: Style) {
    row.put(format!(" {:<NAME$} ", "mode"), dim);
    if columns.speed {
        row.put(format!("{:>7} ", "tok/s"), dim);
    }
    row.put(format!("{:>6} ", "ratio"), dim);
    if columns.interval {
        row.put(format!("{:<12}", "95 %"), dim);
    }
    if columns.bar > 0 {
        let label = format!("decoding speed against {baseline}");
        let label = if text::width(&label) > columns.bar { format!("against {baseline}") } else { label };
        let label = if text::width(&label) > columns.bar { String::new() } else { label };
        row.put(format!("{label:<width$} ", width = columns.bar), dim);
    }
    if columns.tau {
        row.put(format!("{:>5} ", "τ"), dim);
    }
    if columns.n {
        row.put(format!("{:>4} ", "n"), dim);
    }
    if columns.equal {
        row.put(format!("{:<8} ", "equal"), dim);
    }
    if columns.verdict {
        row.put("verdict", dim);
    }
}

fn mode(
    row: &mut Row<'_>,
    columns: &Columns,
    scale: Scale,
    s: &ModeSummary,
    c: Option<&Comparison>,
    (theme, normal, dim): (&Theme, Style, Style),
) {
    let ink = theme.style(role(&s.mode));
    let value = |known: bool| if known { normal } else { dim };
    let name: String = s.mode.chars().take(NAME).collect();
    row.put(" ", dim).put(format!("{name:<NAME$} "), ink);
    if columns.speed {
        row.put(format!("{:>7} ", short(s.decode_tok_s.mean)), value(s.decode_tok_s.mean.is_some()));
    }
    let figure = c.map_or_else(|| "×1".into(), |c| ratio(c.ratio));
    row.put(
        format!("{figure:>6} "),
        if c.is_some_and(|c| c.ratio.is_some()) { theme.style(Role::TextStrong) } else { dim },
    );
    if columns.interval {
        let text = c.map_or_else(String::new, |c| interval(c.interval));
        row.put(format!("{text:<12}"), value(c.is_some_and(|c| c.interval.is_some())));
    }
    if columns.bar > 0 {
        let (point, span) = c.map_or((None, None), |c| (c.ratio, c.interval));
        interval_bar::draw(row, columns.bar, scale, point, span, (ink, dim));
        row.put(" ", dim);
    }
    if columns.tau {
        row.put(format!("{:>5} ", short(s.tau_pooled)), value(s.tau_pooled.is_some()));
    }
    if columns.n {
        let n = c.map_or_else(String::new, |c| format::count(c.prompts as u64));
        row.put(format!("{n:>4} "), normal);
    }
    if columns.equal {
        let (text, role) = c.map_or((String::new(), Role::TextDim), |c| equal(&c.lossless));
        row.put(format!("{text:<8} "), theme.style(role));
    }
    if columns.verdict {
        let (word, role) = c.map_or(("baseline", Role::TextDim), |c| verdict(c.verdict));
        row.put(word, theme.style(role));
    }
}
