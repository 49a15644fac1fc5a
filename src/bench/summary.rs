//! From requests to figures: one summary a suite (and `all`), mode and concurrency.

use crate::protocol::run::{ModeSummary, Purpose, RequestRecord, RequestStatus};
use crate::protocol::state::StageTimes;

use super::stats::{mean, spread, spread_weighted};

pub use super::compare::{compare, compare_with};

/// Name of the entry over all suites.
pub const ALL: &str = "all";

/// Summaries over the measured requests: suites in order of appearance, then `all`; concurrency and modes likewise.
/// Warm-up and bracket requests count for nothing but the order of the modes.
///
/// Speed statistics are over answers that came to an end, their own or the limit's; what failed is counted and left out
/// of them.
pub fn summarise(records: &[RequestRecord]) -> Vec<ModeSummary> {
    let measured: Vec<&RequestRecord> = records.iter().filter(|record| record.purpose == Purpose::Measure).collect();
    // Warm-up runs in the plan's order, measuring in a random one.
    let modes = distinct(records.iter().map(|record| record.mode.as_str()));
    let concurrency = distinct(measured.iter().map(|record| record.concurrency));
    let suites = distinct(measured.iter().map(|record| record.suite.as_str()));
    let mut summaries = Vec::new();
    for suite in suites.into_iter().map(Some).chain((!measured.is_empty()).then_some(None)) {
        for level in &concurrency {
            for mode in &modes {
                let group: Vec<&RequestRecord> = measured
                    .iter()
                    .copied()
                    .filter(|r| r.mode == *mode && r.concurrency == *level && suite.is_none_or(|s| r.suite == s))
                    .collect();
                if !group.is_empty() {
                    summaries.push(summarise_group(suite.unwrap_or(ALL), mode, *level, &group));
                }
            }
        }
    }
    summaries
}

/// Whether an answer's speed counts: it came to an end.
pub fn counts(record: &RequestRecord) -> bool {
    matches!(record.status, RequestStatus::Finished | RequestStatus::CutShort)
}

pub(super) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn summarise_group(suite: &str, mode: &str, concurrency: usize, group: &[&RequestRecord]) -> ModeSummary {
    let count = |status| group.iter().filter(|record| record.status == status).count();
    let good: Vec<&RequestRecord> = group.iter().copied().filter(|record| counts(record)).collect();
    let over = |value: fn(&RequestRecord) -> Option<f64>| {
        spread(&good.iter().filter_map(|record| value(record)).collect::<Vec<_>>())
    };
    let steps: Vec<Step> = good.iter().flat_map(|record| steps(record)).collect();
    let server = ServerSide::of(&good);
    let energy: Vec<(f64, usize)> = good.iter().filter_map(|r| Some((r.energy_j?, r.tokens))).collect();
    let energy_tokens: usize = energy.iter().map(|(_, tokens)| tokens).sum();
    ModeSummary {
        suite: suite.to_owned(),
        mode: mode.to_owned(),
        concurrency,
        finished: count(RequestStatus::Finished),
        cut_short: count(RequestStatus::CutShort),
        failed: count(RequestStatus::Failed),
        timed_out: count(RequestStatus::TimedOut),
        retries: group.iter().map(|record| record.retries).sum(),
        decode_tok_s: over(|r| r.decode_tok_s),
        e2e_tok_s: over(|r| r.e2e_tok_s),
        ttft_ms: over(|r| r.ttft_ms),
        ttfat_ms: over(|r| r.ttfat_ms),
        tpot_ms: over(|r| r.tpot_ms),
        itl_ms: spread_weighted(
            &steps.iter().map(|s| (s.gap_ms / s.tokens as f64, s.tokens as u64)).collect::<Vec<_>>(),
        ),
        step_gap_ms: spread(&steps.iter().map(|step| step.gap_ms).collect::<Vec<_>>()),
        e2e_ms: over(|r| Some(r.e2e_ms)),
        token_weighted_tok_s: pooled_speed(good.iter().filter_map(|record| decoded(record))),
        throughput_tok_s: throughput(group),
        tau_pooled: server.tau_pooled,
        tau_macro: server.tau_macro,
        per_pos: server.per_pos,
        accepted_hist: server.accepted_hist,
        stages: server.stages,
        server_decode_tok_s: server.decode_tok_s,
        server_ttft_ms: server.ttft_ms,
        j_per_token: (energy_tokens > 0)
            .then(|| energy.iter().map(|(joules, _)| joules).sum::<f64>() / energy_tokens as f64),
        tokens: good.iter().map(|record| record.tokens).sum(),
    }
}

/// A chunk after the first, and the time since the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Gap, ms.
    pub gap_ms: f64,
    /// Tokens that came with it, at least 1.
    pub tokens: usize,
}

/// The steps of an answer. A chunk without a token (a role, a usage report) is no step: its time belongs to the next.
pub fn steps(record: &RequestRecord) -> Vec<Step> {
    let mut tokens = record.chunks.iter().filter(|chunk| chunk.tokens > 0);
    let Some(first) = tokens.next() else { return Vec::new() };
    let mut before = first.at_ms;
    tokens
        .map(|chunk| {
            let gap_ms = chunk.at_ms - before;
            before = chunk.at_ms;
            Step { gap_ms, tokens: chunk.tokens }
        })
        .collect()
}

/// Tokens after the first chunk and the milliseconds they took. Without chunks, from the record's own rate, with one
/// token as the first chunk.
pub fn decoded(record: &RequestRecord) -> Option<(usize, f64)> {
    let steps = steps(record);
    if steps.is_empty() {
        let tokens = record.tokens.checked_sub(1).filter(|tokens| *tokens > 0)?;
        let rate = record.decode_tok_s.filter(|rate| *rate > 0.0 && record.chunks.is_empty())?;
        return Some((tokens, tokens as f64 / rate * 1000.0));
    }
    let (tokens, ms) = steps.iter().fold((0, 0.0), |(n, ms), step| (n + step.tokens, ms + step.gap_ms));
    (ms > 0.0).then_some((tokens, ms))
}

/// Σ tokens / Σ time, per second.
pub fn pooled_speed(parts: impl Iterator<Item = (usize, f64)>) -> Option<f64> {
    let (tokens, ms) = parts.fold((0, 0.0), |(n, sum), (tokens, ms)| (n + tokens, sum + ms));
    (ms > 0.0).then(|| tokens as f64 / ms * 1000.0)
}

/// Milliseconds during which at least one of these requests was in flight. Modes take turns, so the time from the
/// first to the last request of a mode would hold the others' time too.
pub fn busy_ms(records: &[&RequestRecord]) -> f64 {
    let mut spans: Vec<(f64, f64)> = records.iter().map(|r| (r.sent_ms, r.sent_ms + r.e2e_ms)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut busy, mut until) = (0.0, f64::NEG_INFINITY);
    for (from, to) in spans {
        busy += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    busy
}

fn throughput(group: &[&RequestRecord]) -> Option<f64> {
    let busy = busy_ms(group);
    let tokens: usize = group.iter().map(|record| record.tokens).sum();
    (busy > 0.0).then(|| tokens as f64 / busy * 1000.0)
}

/// What the server told about the requests.
#[derive(Default)]
struct ServerSide {
    tau_pooled: Option<f64>,
    tau_macro: Option<f64>,
    per_pos: Vec<f64>,
    accepted_hist: Vec<u64>,
    stages: Option<StageTimes>,
    decode_tok_s: Option<f64>,
    ttft_ms: Option<f64>,
}

impl ServerSide {
    fn of(records: &[&RequestRecord]) -> Self {
        let told: Vec<_> = records.iter().filter_map(|record| record.server.as_ref()).collect();
        if told.is_empty() {
            return Self::default();
        }
        let taus: Vec<(f64, u64)> = told.iter().filter_map(|m| Some((m.tau?, m.rounds))).collect();
        let rounds: u64 = taus.iter().map(|(_, rounds)| rounds).sum();
        // A request's τ is committed / rounds, so weighting by rounds gives committed tokens back.
        let committed: f64 = taus.iter().map(|(tau, rounds)| tau * *rounds as f64).sum();
        let mut accepted_hist = vec![0; told.iter().map(|m| m.accepted_hist.len()).max().unwrap_or(0)];
        for metrics in &told {
            for (sum, rounds) in accepted_hist.iter_mut().zip(&metrics.accepted_hist) {
                *sum += rounds;
            }
        }
        let mut stages = StageTimes::default();
        for metrics in &told {
            stages.draft += metrics.stages.draft;
            stages.build += metrics.stages.build;
            stages.verify += metrics.stages.verify;
            stages.commit += metrics.stages.commit;
        }
        Self {
            tau_pooled: (rounds > 0).then(|| committed / rounds as f64),
            tau_macro: mean(&taus.iter().map(|(tau, _)| *tau).collect::<Vec<_>>()),
            per_pos: per_pos(&accepted_hist),
            accepted_hist,
            stages: (stages.total() > 0.0).then_some(stages),
            decode_tok_s: mean(&told.iter().filter_map(|m| m.decode_tok_s).collect::<Vec<_>>()),
            ttft_ms: mean(&told.iter().filter_map(|m| m.ttft_ms).collect::<Vec<_>>()),
        }
    }
}

/// Share of rounds that accepted at least k + 1 drafts, from rounds by accepted drafts; up to the last position that
/// was ever reached.
pub fn per_pos(accepted_hist: &[u64]) -> Vec<f64> {
    let rounds: u64 = accepted_hist.iter().sum();
    let reached = accepted_hist.iter().rposition(|rounds| *rounds > 0).unwrap_or(0);
    (1..=reached).map(|k| accepted_hist[k..].iter().sum::<u64>() as f64 / rounds as f64).collect()
}
