//! The tables: every comparison, every mode's figures.

use std::fmt::Write as _;

use crate::bench::compare::METRICS;
use crate::bench::stats::{LEAST_FOR_P95, LEAST_FOR_P99};
use crate::protocol::run::{Comparison, ModeSummary, Run};

use super::super::svg::escape;
use super::super::words::{self, UNKNOWN, maybe, tail};
use super::table;

/// Every comparison with its interval, p-values and word.
pub fn comparisons(run: &Run, out: &mut String) {
    if run.compare.is_empty() {
        return;
    }
    out.push_str("<section id=\"comparisons\">\n<h2>Comparisons</h2>\n");
    let head = [
        "suite",
        "mode",
        "verdict",
        "decode, 95 % interval",
        "p",
        "p, Holm",
        "token-weighted",
        "end to end",
        "prompts",
        "output",
    ];
    for level in levels(run) {
        level.title(out);
        let mut rows = Vec::new();
        for suite in words::suites(run) {
            for mode in words::modes(run) {
                let [decode, e2e] = METRICS.map(|metric| words::comparison(run, suite, mode, level.level, metric));
                if let Some(decode) = decode {
                    rows.push(comparison_row(decode, e2e));
                }
            }
        }
        table(out, &head, 3, &rows);
    }
    out.push_str(
        "<p class=\"note\">The interval is the wider of a cluster bootstrap over prompts (repeats drawn within) and \
         Student's t on the prompts' mean log ratios; the word follows the interval, never the point. Token-weighted is \
         the ratio of Σ tokens / Σ time, where long answers count more.</p>\n</section>\n",
    );
}

/// Figure and interval in one cell.
fn ratio(c: Option<&Comparison>) -> String {
    let interval = c
        .and_then(|c| c.interval)
        .map_or_else(String::new, |[low, high]| format!(" <span class=\"sub\">{low:.3} – {high:.3}</span>"));
    format!("<b>{}</b>{interval}", words::times(c.and_then(|c| c.ratio)))
}

fn comparison_row(c: &Comparison, e2e: Option<&Comparison>) -> Vec<String> {
    vec![
        escape(&c.suite),
        escape(&c.mode),
        words::verdict(c),
        ratio(Some(c)),
        escape(&words::p(c.p)),
        escape(&words::p(c.p_holm)),
        words::times(c.token_weighted_ratio),
        ratio(e2e),
        c.prompts.to_string(),
        words::output(&c.lossless),
    ]
}

/// Speeds, latencies, acceptance and energy of every mode.
pub fn figures(run: &Run, out: &mut String) {
    out.push_str("<section id=\"figures\">\n<h2>Figures</h2>\n");
    for level in levels(run) {
        level.title(out);
        let entries: Vec<&ModeSummary> = words::suites(run)
            .into_iter()
            .flat_map(|suite| words::modes(run).into_iter().map(move |mode| (suite, mode)))
            .filter_map(|(suite, mode)| words::summary(run, suite, mode, level.level))
            .collect();
        let speed = [
            "suite",
            "mode",
            "requests",
            "decode tok/s",
            "± std",
            "token-weighted",
            "e2e tok/s",
            "throughput",
            "server's",
        ];
        table(out, &speed, 3, &entries.iter().map(|s| speed_row(s)).collect::<Vec<_>>());
        let acceptance = [
            "suite",
            "mode",
            "τ pooled",
            "τ macro",
            "rounds",
            "tokens",
            "J/token",
            "accepted at position 1, 2, … of the draft",
        ];
        out.push_str("<h3>Acceptance and energy</h3>\n");
        table(out, &acceptance, 2, &entries.iter().map(|s| acceptance_row(s)).collect::<Vec<_>>());
        let latency = [
            "suite",
            "mode",
            "TTFT p50",
            "p95",
            "server's",
            "ITL p50",
            "p95",
            "p99",
            "step p50",
            "p95",
            "p99",
            "TPOT mean",
            "e2e p50",
            "p95",
        ];
        out.push_str("<h3>Latencies, ms</h3>\n");
        table(out, &latency, 2, &entries.iter().map(|s| latency_row(s)).collect::<Vec<_>>());
    }
    let _ = writeln!(
        out,
        "<p class=\"note\">Speeds are means over answers that came to an end (their own or the limit's). ITL is per token: \
         a gap between chunks divided among the tokens it brought; step is the gap itself. A 95th percentile needs \
         {LEAST_FOR_P95} samples, a 99th {LEAST_FOR_P99}.</p>\n</section>"
    );
}

fn speed_row(s: &ModeSummary) -> Vec<String> {
    let mut requests = words::ends(s);
    if s.retries > 0 {
        let _ = write!(requests, " ({} retries)", s.retries);
    }
    vec![
        escape(&s.suite),
        escape(&s.mode),
        requests,
        maybe(s.decode_tok_s.mean),
        maybe(s.decode_tok_s.std),
        maybe(s.token_weighted_tok_s),
        maybe(s.e2e_tok_s.mean),
        maybe(s.throughput_tok_s),
        maybe(s.server_decode_tok_s),
    ]
}

/// Positions that are written out.
const POSITIONS: usize = 8;

fn acceptance_row(s: &ModeSummary) -> Vec<String> {
    let rounds: u64 = s.accepted_hist.iter().sum();
    let mut positions: Vec<String> =
        s.per_pos.iter().take(POSITIONS).map(|share| format!("{:.0} %", share * 100.0)).collect();
    if s.per_pos.len() > POSITIONS {
        positions.push("…".into());
    }
    vec![
        escape(&s.suite),
        escape(&s.mode),
        maybe(s.tau_pooled),
        maybe(s.tau_macro),
        if rounds > 0 { rounds.to_string() } else { UNKNOWN.into() },
        s.tokens.to_string(),
        maybe(s.j_per_token),
        if positions.is_empty() { UNKNOWN.into() } else { positions.join(" · ") },
    ]
}

fn latency_row(s: &ModeSummary) -> Vec<String> {
    vec![
        escape(&s.suite),
        escape(&s.mode),
        maybe(s.ttft_ms.p50),
        tail(s.ttft_ms.p95, &s.ttft_ms, LEAST_FOR_P95),
        maybe(s.server_ttft_ms),
        maybe(s.itl_ms.p50),
        tail(s.itl_ms.p95, &s.itl_ms, LEAST_FOR_P95),
        tail(s.itl_ms.p99, &s.itl_ms, LEAST_FOR_P99),
        maybe(s.step_gap_ms.p50),
        tail(s.step_gap_ms.p95, &s.step_gap_ms, LEAST_FOR_P95),
        tail(s.step_gap_ms.p99, &s.step_gap_ms, LEAST_FOR_P99),
        maybe(s.tpot_ms.mean),
        maybe(s.e2e_ms.p50),
        tail(s.e2e_ms.p95, &s.e2e_ms, LEAST_FOR_P95),
    ]
    .into_iter()
    .map(|cell| cell.replace('<', "&lt;"))
    .collect()
}

/// A concurrency with its heading, where there are several.
struct Level {
    level: usize,
    several: bool,
}

impl Level {
    fn title(&self, out: &mut String) {
        if self.several {
            let _ = writeln!(out, "<h3>{} in flight</h3>", self.level);
        }
    }
}

fn levels(run: &Run) -> Vec<Level> {
    let levels = words::levels(run);
    let several = levels.len() > 1;
    levels.into_iter().map(|level| Level { level, several }).collect()
}
