//! One mode at one concurrency out of a run, as the formats of other tools want it, with the figures that they share.

use serde_json::{Map, Value, json};

use crate::bench::stats::percentile;
use crate::bench::summary::{busy_ms, counts, distinct};
use crate::protocol::run::{ModeSummary, Purpose, RequestRecord, Run};

use super::ExportError;

/// The measured requests of one mode.
pub struct OneMode<'a> {
    pub label: &'a str,
    pub concurrency: usize,
    /// All, failures included, in the order in which they were sent.
    pub all: Vec<&'a RequestRecord>,
    /// Those that came to an end.
    pub good: Vec<&'a RequestRecord>,
    /// Seconds in which at least one of them was in flight.
    pub duration_s: f64,
}

/// What can be asked for.
pub fn known(run: &Run) -> String {
    let measured = || run.requests.iter().filter(|r| r.purpose == Purpose::Measure);
    let several = distinct(measured().map(|r| r.concurrency)).len() > 1;
    let names =
        distinct(measured().map(|r| if several { format!("{}@{}", r.mode, r.concurrency) } else { r.mode.clone() }));
    if names.is_empty() { "none (nothing was measured)".into() } else { names.join(", ") }
}

impl<'a> OneMode<'a> {
    /// By label, or `label@concurrency`.
    pub fn of(run: &'a Run, asked: &str) -> Result<Self, ExportError> {
        let by = |label: &str, level: Option<usize>| -> Vec<&'a RequestRecord> {
            let fits = |r: &&RequestRecord| {
                r.purpose == Purpose::Measure && r.mode == label && level.is_none_or(|level| r.concurrency == level)
            };
            run.requests.iter().filter(fits).collect()
        };
        let mut all = by(asked, None);
        if all.is_empty()
            && let Some((label, level)) = asked.rsplit_once('@')
            && let Ok(level) = level.parse()
        {
            all = by(label, Some(level));
        }
        let Some(first) = all.first().copied() else {
            return Err(ExportError::UnknownMode { asked: asked.to_owned(), known: known(run) });
        };
        let levels = distinct(all.iter().map(|r| r.concurrency));
        if levels.len() > 1 {
            let known = levels.iter().map(|level| format!("{}@{level}", first.mode)).collect::<Vec<_>>().join(", ");
            return Err(ExportError::LevelNeeded { mode: first.mode.clone(), known });
        }
        all.sort_by(|a, b| a.sent_ms.total_cmp(&b.sent_ms));
        let good = all.iter().copied().filter(|r| counts(r)).collect();
        let duration_s = busy_ms(&all) / 1000.0;
        Ok(Self { label: &first.mode, concurrency: first.concurrency, all, good, duration_s })
    }

    pub fn output_tokens(&self) -> usize {
        self.good.iter().map(|r| r.tokens).sum()
    }

    /// Absent where the server did not tell for every request.
    pub fn input_tokens(&self) -> Option<usize> {
        self.good.iter().map(|r| r.prompt_tokens).sum()
    }

    pub fn per_second(&self, count: f64) -> Option<f64> {
        (self.duration_s > 0.0).then(|| count / self.duration_s)
    }

    pub fn ttfts_ms(&self) -> Vec<f64> {
        self.good.iter().filter_map(|r| r.ttft_ms).collect()
    }

    pub fn latencies_ms(&self) -> Vec<f64> {
        self.good.iter().map(|r| latency_ms(r)).collect()
    }

    /// As vLLM and SGLang define it: (latency − first token) / (tokens − 1).
    pub fn tpots_ms(&self) -> Vec<f64> {
        self.good.iter().filter_map(|r| tpot_ms(r)).collect()
    }

    pub fn summary(&self, run: &'a Run) -> Option<&'a ModeSummary> {
        run.summary.iter().find(|s| {
            s.suite == crate::bench::summary::ALL && s.mode == self.label && s.concurrency == self.concurrency
        })
    }

    /// Drafting rounds, draft tokens, accepted ones; absent where nothing was drafted or the server did not tell.
    pub fn drafting(&self) -> Option<(u64, u64, u64)> {
        let told = self.good.iter().filter_map(|r| r.server.as_ref()).filter(|m| m.drafted > 0);
        let sums = told.fold((0, 0, 0), |(r, d, a), m| (r + m.rounds, d + m.drafted, a + m.accepted));
        (sums.0 > 0).then_some(sums)
    }

    /// Most tokens that arrived within one second of the clock, and most requests in flight at once.
    pub fn peaks(&self) -> (usize, usize) {
        let mut by_second = std::collections::BTreeMap::<i64, usize>::new();
        let mut edges = Vec::new();
        for record in &self.good {
            for chunk in &record.chunks {
                *by_second.entry(((record.sent_ms + chunk.at_ms) / 1000.0).floor() as i64).or_default() += chunk.tokens;
            }
            edges.push((record.sent_ms, 1));
            edges.push((record.sent_ms + record.e2e_ms, -1));
        }
        edges.sort_by(|a: &(f64, i64), b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut running = 0_i64;
        let most = edges.iter().fold(0, |most, (_, change)| {
            running += change;
            most.max(running)
        });
        (by_second.values().copied().max().unwrap_or(0), most as usize)
    }
}

/// Sent to last token, which is where both tools stop their clocks.
pub fn latency_ms(record: &RequestRecord) -> f64 {
    record.chunks.last().map_or(record.e2e_ms, |chunk| chunk.at_ms)
}

/// See [`OneMode::tpots_ms`].
pub fn tpot_ms(record: &RequestRecord) -> Option<f64> {
    let ttft = record.ttft_ms.filter(|_| record.tokens > 1)?;
    Some((latency_ms(record) - ttft) / (record.tokens - 1) as f64)
}

/// `mean_x`, `median_x`, `std_x` and percentiles, as NumPy gives them to both tools: population deviation, percentiles
/// of any number of samples, 0 for none.
pub fn put_stats(into: &mut Map<String, Value>, name: &str, values: &[f64], percentiles: &[u32]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let std = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    let at = |percent: u32| percentile(&sorted, f64::from(percent)).unwrap_or(0.0);
    into.insert(format!("mean_{name}"), json!(mean));
    into.insert(format!("median_{name}"), json!(at(50)));
    into.insert(format!("std_{name}"), json!(std));
    for percent in percentiles {
        into.insert(format!("p{percent}_{name}"), json!(at(*percent)));
    }
}

/// Seconds.
pub fn seconds(ms: f64) -> f64 {
    ms / 1000.0
}
