//! Figures and findings in words, the same in every report.

use crate::bench::summary::ALL;
use crate::protocol::run::{Comparison, Losslessness, ModeSummary, Run, RunStatus, Spread, Verdict};

/// What stands where nothing is known.
pub const UNKNOWN: &str = "—";

/// Three or four digits: 1234, 123, 12.3, 1.23, 0.012.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The same, or — where it is not known.
pub fn maybe(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| UNKNOWN.into(), number)
}

/// A percentile that needs samples: `n<20` says why it is missing.
pub fn tail(value: Option<f64>, spread: &Spread, least: u64) -> String {
    match value {
        Some(value) => number(value),
        None if spread.n > 0 && spread.n < least => format!("n<{least}"),
        None => UNKNOWN.into(),
    }
}

/// `×1.86`.
pub fn times(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.into(), |value| format!("×{value:.2}"))
}

/// `×1.86 [1.71, 2.02]`.
pub fn ratio(c: &Comparison) -> String {
    match c.interval {
        Some([low, high]) => format!("{} [{low:.2}, {high:.2}]", times(c.ratio)),
        None => times(c.ratio),
    }
}

/// A p-value.
pub fn p(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.into(),
        Some(value) if value < 0.001 => "<0.001".into(),
        Some(value) => format!("{value:.3}"),
    }
}

/// The verdict in words. A star marks what the interval of this mode alone shows, but not Holm's correction over all
/// modes of the run.
pub fn verdict(c: &Comparison) -> String {
    let word = match c.verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => return "no difference shown".into(),
        Verdict::NotEnoughData => {
            return format!("not enough data ({} prompt{})", c.prompts, if c.prompts == 1 { "" } else { "s" });
        }
    };
    let star = if c.p_holm.is_some_and(|p| p >= 0.05) { "*" } else { "" };
    format!("{word}{star}")
}

/// What the star of [`verdict`] means.
pub const STAR: &str = "* by this mode's own interval only: with Holm's correction over the modes of this run p ≥ 0.05, \
                        so take it as exploratory.";

/// The output against the baseline's.
pub fn output(l: &Losslessness) -> String {
    if !l.checked {
        "not checked".into()
    } else if l.compared == 0 {
        "nothing to compare".into()
    } else if l.identical == l.compared {
        format!("identical {}/{}", l.identical, l.compared)
    } else {
        let differing = l.compared - l.identical;
        format!("{differing} of {} differ{}", l.compared, if differing == 1 { "s" } else { "" })
    }
}

/// How the requests ended, only what happened: `66 finished, 9 cut short, 1 failed`.
pub fn ends(s: &ModeSummary) -> String {
    let parts =
        [(s.finished, "finished"), (s.cut_short, "cut short"), (s.failed, "failed"), (s.timed_out, "timed out")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

/// How a run ended.
pub fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Unfinished => "unfinished",
        RunStatus::Complete => "complete",
        RunStatus::Stopped => "stopped early",
        RunStatus::Imported => "imported",
    }
}

/// Suites that have entries: with one suite, `all` says the same again and is left out.
pub fn suites(run: &Run) -> Vec<&str> {
    let mut suites = crate::bench::summary::distinct(run.summary.iter().map(|s| s.suite.as_str()));
    if suites.len() == 2 {
        suites.retain(|suite| *suite != ALL);
    }
    suites
}

/// Concurrency levels that have entries.
pub fn levels(run: &Run) -> Vec<usize> {
    let mut levels = crate::bench::summary::distinct(run.summary.iter().map(|s| s.concurrency));
    levels.sort_unstable();
    levels
}

/// Labels of modes: the plan's, then any other that was measured.
pub fn modes(run: &Run) -> Vec<&str> {
    let planned = run.plan.modes.iter().map(|mode| mode.label.as_str());
    crate::bench::summary::distinct(planned.chain(run.summary.iter().map(|s| s.mode.as_str())))
}

/// The entry, if there is one.
pub fn summary<'a>(run: &'a Run, suite: &str, mode: &str, level: usize) -> Option<&'a ModeSummary> {
    run.summary.iter().find(|s| s.suite == suite && s.mode == mode && s.concurrency == level)
}

/// The entry, if there is one.
pub fn comparison<'a>(run: &'a Run, suite: &str, mode: &str, level: usize, metric: &str) -> Option<&'a Comparison> {
    run.compare.iter().find(|c| c.suite == suite && c.mode == mode && c.concurrency == level && c.metric == metric)
}

/// Year, month, day, hour, minute, second in UTC of milliseconds since the Unix epoch.
fn utc(ms: u64) -> [u64; 6] {
    let (mut days, second) = (ms / 86_400_000, ms / 1000 % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // Whole cycles of 400 years first, so that no date makes the loop long.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    [year, month as u64 + 1, days + 1, second / 3600, second / 60 % 60, second % 60]
}

/// `2026-12-01 11:20:00 UTC`.
pub fn date(ms: u64) -> String {
    let [year, month, day, hour, minute, second] = utc(ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `2026-12-01T11:20:00Z`.
pub fn iso_date(ms: u64) -> String {
    date(ms).replacen(' ', "T", 1).replace(" UTC", "Z")
}

/// `20261201-112000`, vLLM's way.
pub fn compact_date(ms: u64) -> String {
    let [year, month, day, hour, minute, second] = utc(ms);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_utc() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(iso_date(951_782_399_000), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(compact_date(1_796_124_000_000), "20261201-112000");
        assert_eq!(utc(u64::MAX)[1..], [4, 3, 14, 25, 51]);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let table =
            [(1234.5, "1234"), (99.96, "100"), (12.34, "12.3"), (1.234, "1.23"), (0.0123, "0.012"), (0.0, "0.00")];
        for (value, expected) in table {
            assert_eq!(number(value), expected);
        }
        assert_eq!(maybe(Some(f64::NAN)), UNKNOWN);
    }
}
