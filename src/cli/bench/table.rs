//! The table of verdicts.

use std::fmt::Write as _;

use crate::protocol::run::{Comparison, ModeSummary, Purpose, Run, Verdict};

/// What is shown where nothing is known.
const NOTHING: &str = "—";

/// Lines of cells with their columns aligned; the first line is the head.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |text: &str| unicode_width::UnicodeWidthStr::width(text);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, wide) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(wide - width(cell) + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A number, or nothing.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.decimals$}"))
}

/// A time span for people.
pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e9).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

/// Speed-up with its interval.
pub(super) fn ratio(compare: &Comparison) -> String {
    match (compare.ratio, compare.interval) {
        (Some(ratio), Some([low, high])) => format!("×{ratio:.2} [{low:.2}, {high:.2}]"),
        (Some(ratio), None) => format!("×{ratio:.2}"),
        (None, _) => NOTHING.to_owned(),
    }
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => "no difference shown",
        Verdict::NotEnoughData => "too few prompts",
    }
}

/// Answers equal to the baseline's.
pub(super) fn equal(compare: &Comparison) -> String {
    let lossless = &compare.lossless;
    if !lossless.checked {
        return "not checked".to_owned();
    }
    let mut text = format!("{}/{}", lossless.identical, lossless.compared);
    if lossless.by == "text" {
        text.push_str(" (text)");
    }
    if lossless.baseline_differs > 0 {
        let _ = write!(text, ", baseline itself differs {}×", lossless.baseline_differs);
    }
    text
}

/// The comparison that belongs to a summary.
pub(super) fn comparison<'a>(run: &'a Run, summary: &ModeSummary) -> Option<&'a Comparison> {
    run.compare.iter().find(|compare| {
        compare.suite == summary.suite && compare.mode == summary.mode && compare.concurrency == summary.concurrency
    })
}

/// The whole table, with what a reader must know below it.
pub(super) fn verdicts(run: &Run) -> String {
    let ladder = run.plan.concurrency.len() > 1;
    let mut head = vec!["suite", "mode"];
    if ladder {
        head.push("×");
    }
    head.extend([
        "n",
        "decode tok/s",
        "against baseline [95 %]",
        "verdict",
        "τ",
        "TTFT ms",
        "tok/s in all",
        "same output",
    ]);
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for summary in shown(run) {
        let compare = comparison(run, summary);
        let is_baseline = run.plan.modes.first().is_some_and(|mode| mode.label == summary.mode);
        let mut row = vec![summary.suite.clone(), summary.mode.clone()];
        if ladder {
            row.push(summary.concurrency.to_string());
        }
        let well = summary.finished + summary.cut_short;
        let all = well + summary.failed + summary.timed_out;
        row.push(if well == all { all.to_string() } else { format!("{well} of {all}") });
        row.push(number(summary.decode_tok_s.mean, 1));
        if is_baseline {
            row.extend(["baseline".to_owned(), String::new()]);
        } else {
            row.push(compare.map_or_else(|| NOTHING.to_owned(), ratio));
            row.push(compare.map_or(NOTHING, |compare| verdict(compare.verdict)).to_owned());
        }
        row.push(number(summary.tau_pooled, 2));
        row.push(number(summary.ttft_ms.p50, 0));
        row.push(number(summary.throughput_tok_s, 1));
        row.push(if is_baseline { String::new() } else { compare.map_or_else(|| NOTHING.to_owned(), equal) });
        rows.push(row);
    }
    let mut out = align(&rows);
    let measured = run.requests.iter().filter(|record| record.purpose == Purpose::Measure).count();
    let model = run.env.model.as_deref().unwrap_or("unknown model");
    let _ = writeln!(out, "\n{} · {model} on {} · {measured} requests measured", run.meta.id, run.env.server);
    for warning in &run.warnings {
        let _ = writeln!(out, "! {warning}");
    }
    out
}

/// `all` first; the suites only where there are several.
fn shown(run: &Run) -> Vec<&ModeSummary> {
    let several = run.plan.suites.len() > 1;
    let (all, suites): (Vec<_>, Vec<_>) = run.summary.iter().partition(|summary| summary.suite == "all");
    if all.is_empty() || several { all.into_iter().chain(suites).collect() } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_width() {
        let rows = vec![vec!["τ".to_owned(), "b".into()], vec!["日本".into(), "x".into()]];
        assert_eq!(align(&rows), "τ     b\n日本  x\n");
    }

    #[test]
    fn spans_are_short() {
        let texts: Vec<_> = [0.4, 59.0, 61.0, 3599.0, 7260.0, f64::NAN].iter().map(|s| duration(*s)).collect();
        assert_eq!(texts, ["0 s", "59 s", "1 min 01 s", "59 min 59 s", "2 h 01 min", "0 s"]);
    }
}
