//! Comma-separated values (RFC 4180): one row a request, or one row a summary. Empty where nothing is known.

use crate::protocol::run::{Comparison, ModeSummary, RequestRecord, Run, Spread};

use super::words;

/// One row a request, warm-up included: `purpose` tells them apart.
pub fn csv(run: &Run) -> String {
    table(&run.requests, &request_cells)
}

/// One row a suite, mode and concurrency, with its comparison against the baseline.
pub fn csv_summary(run: &Run) -> String {
    let rows: Vec<(&Run, &ModeSummary)> = run.summary.iter().map(|summary| (run, summary)).collect();
    table(&rows, &summary_cells)
}

type Cells = Vec<(String, String)>;

fn table<T>(rows: &[T], cells: &dyn Fn(&T) -> Cells) -> String {
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        let (names, values): (Vec<String>, Vec<String>) = cells(row).into_iter().unzip();
        if index == 0 {
            out.push_str(&line(&names));
        }
        out.push_str(&line(&values));
    }
    out
}

fn line(cells: &[String]) -> String {
    let mut line = cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
    line.push_str("\r\n");
    line
}

fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The word that serde writes for a unit variant.
fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn request_cells(r: &RequestRecord) -> Cells {
    let server = r.server.as_ref();
    let stage = |pick: fn(&crate::protocol::state::StageTimes) -> f64| text(server.map(|m| pick(&m.stages)));
    [
        ("seq", r.seq.to_string()),
        ("purpose", word(r.purpose)),
        ("suite", r.suite.clone()),
        ("prompt_id", r.prompt_id.clone()),
        ("turn", r.turn.to_string()),
        ("mode", r.mode.clone()),
        ("repeat", r.repeat.to_string()),
        ("order", r.order.to_string()),
        ("concurrency", r.concurrency.to_string()),
        ("status", word(r.status)),
        ("error", text(r.error.as_ref())),
        ("retries", r.retries.to_string()),
        ("sent_ms", r.sent_ms.to_string()),
        ("ttft_ms", text(r.ttft_ms)),
        ("ttfat_ms", text(r.ttfat_ms)),
        ("e2e_ms", r.e2e_ms.to_string()),
        ("tokens", r.tokens.to_string()),
        ("prompt_tokens", text(r.prompt_tokens)),
        ("count", word(r.count)),
        ("decode_tok_s", text(r.decode_tok_s)),
        ("e2e_tok_s", text(r.e2e_tok_s)),
        ("tpot_ms", text(r.tpot_ms)),
        ("chunks", r.chunks.len().to_string()),
        ("finish_reason", text(r.finish_reason.as_ref())),
        ("rounds", text(server.map(|m| m.rounds))),
        ("drafted", text(server.map(|m| m.drafted))),
        ("accepted", text(server.map(|m| m.accepted))),
        ("tau", text(server.and_then(|m| m.tau))),
        ("draft_ms", stage(|s| s.draft)),
        ("build_ms", stage(|s| s.build)),
        ("verify_ms", stage(|s| s.verify)),
        ("commit_ms", stage(|s| s.commit)),
        ("energy_j", text(r.energy_j)),
        ("output_hash", r.output_hash.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn summary_cells((run, s): &(&Run, &ModeSummary)) -> Cells {
    let mut cells: Cells = [
        ("suite", s.suite.clone()),
        ("mode", s.mode.clone()),
        ("concurrency", s.concurrency.to_string()),
        ("finished", s.finished.to_string()),
        ("cut_short", s.cut_short.to_string()),
        ("failed", s.failed.to_string()),
        ("timed_out", s.timed_out.to_string()),
        ("retries", s.retries.to_string()),
        ("tokens", s.tokens.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    let spreads = [
        ("decode_tok_s", &s.decode_tok_s),
        ("e2e_tok_s", &s.e2e_tok_s),
        ("ttft_ms", &s.ttft_ms),
        ("ttfat_ms", &s.ttfat_ms),
        ("tpot_ms", &s.tpot_ms),
        ("itl_ms", &s.itl_ms),
        ("step_gap_ms", &s.step_gap_ms),
        ("e2e_ms", &s.e2e_ms),
    ];
    for (name, spread) in spreads {
        cells.extend(spread_cells(name, spread));
    }
    let rest = [
        ("token_weighted_tok_s", s.token_weighted_tok_s),
        ("throughput_tok_s", s.throughput_tok_s),
        ("tau_pooled", s.tau_pooled),
        ("tau_macro", s.tau_macro),
        ("server_decode_tok_s", s.server_decode_tok_s),
        ("server_ttft_ms", s.server_ttft_ms),
        ("j_per_token", s.j_per_token),
    ];
    cells.extend(rest.map(|(name, value)| (name.to_owned(), text(value))));
    for metric in crate::bench::compare::METRICS {
        let found = words::comparison(run, &s.suite, &s.mode, s.concurrency, metric);
        cells.extend(comparison_cells(metric, found));
    }
    cells
}

fn spread_cells(name: &str, s: &Spread) -> Cells {
    let parts = [("mean", s.mean), ("std", s.std), ("p50", s.p50), ("p95", s.p95), ("p99", s.p99)];
    let mut cells = vec![(format!("{name}_n"), s.n.to_string())];
    cells.extend(parts.map(|(part, value)| (format!("{name}_{part}"), text(value))));
    cells
}

fn comparison_cells(metric: &str, c: Option<&Comparison>) -> Cells {
    [
        ("ratio", text(c.and_then(|c| c.ratio))),
        ("ratio_low", text(c.and_then(|c| c.interval).map(|[low, _]| low))),
        ("ratio_high", text(c.and_then(|c| c.interval).map(|[_, high]| high))),
        ("p_holm", text(c.and_then(|c| c.p_holm))),
        ("verdict", c.map_or_else(String::new, |c| word(c.verdict))),
        ("token_weighted_ratio", text(c.and_then(|c| c.token_weighted_ratio))),
        ("identical", text(c.filter(|c| c.lossless.checked).map(|c| c.lossless.identical))),
        ("compared", text(c.filter(|c| c.lossless.checked).map(|c| c.lossless.compared))),
    ]
    .map(|(name, value)| (format!("{metric}_{name}"), value))
    .to_vec()
}
