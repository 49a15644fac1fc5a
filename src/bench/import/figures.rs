//! What a result says in figures: all there is in a file of totals, and what single requests cannot tell otherwise.

use serde_json::{Map, Value};

use crate::bench::summary::ALL;
use crate::protocol::run::{ModeSummary, Spread};

use super::{Tool, number};

/// The figures of one result.
pub struct Figures {
    suite: String,
    mode: String,
    concurrency: usize,
    completed: usize,
    failed: usize,
    tokens: usize,
    throughput: Option<f64>,
    tau: Option<f64>,
    per_pos: Vec<f64>,
    ttft: Spread,
    tpot: Spread,
    itl: Spread,
    e2e: Spread,
}

impl Figures {
    pub fn of(tool: Tool, result: &Map<String, Value>, suite: &str, mode: &str, concurrency: usize) -> Self {
        let count = |key: &str| number(result, key).map_or(0, |value| value.max(0.0) as usize);
        let completed = count("completed");
        let (end, tau) = match tool {
            Tool::Vllm => ("e2el_ms", "spec_decode_acceptance_length"),
            Tool::Sglang => ("e2e_latency_ms", "accept_length"),
        };
        let rates = result.get("spec_decode_per_position_acceptance_rates").and_then(Value::as_array);
        let sent = number(result, "num_prompts").map_or(completed, |sent| sent as usize);
        Self {
            suite: suite.to_owned(),
            mode: mode.to_owned(),
            concurrency,
            completed,
            failed: number(result, "failed").map_or(sent.saturating_sub(completed), |failed| failed as usize),
            tokens: count("total_output_tokens"),
            throughput: number(result, "output_throughput"),
            tau: number(result, tau),
            per_pos: rates.map(|rates| rates.iter().filter_map(Value::as_f64).collect()).unwrap_or_default(),
            ttft: spread(result, "ttft_ms", Some(completed)),
            tpot: spread(result, "tpot_ms", Some(completed)),
            itl: spread(result, "itl_ms", None),
            e2e: spread(result, end, Some(completed)),
        }
    }

    /// Puts into summaries of single requests what only the file knows, or adds the entries where there are none.
    pub fn complete(&self, summary: &mut Vec<ModeSummary>) {
        let mine = |s: &&mut ModeSummary| s.mode == self.mode && s.concurrency == self.concurrency;
        let mut found = false;
        for entry in summary.iter_mut().filter(mine) {
            found = true;
            entry.tau_pooled = self.tau;
            entry.per_pos.clone_from(&self.per_pos);
            entry.throughput_tok_s = self.throughput.or(entry.throughput_tok_s);
        }
        if !found {
            summary.extend([self.suite.as_str(), ALL].map(|suite| self.alone(suite)));
        }
    }

    fn alone(&self, suite: &str) -> ModeSummary {
        // A median survives 1000 / x, a mean does not: the one speed that totals give.
        let decode = Spread {
            n: self.tpot.n,
            p50: self.tpot.p50.filter(|tpot| *tpot > 0.0).map(|tpot| 1000.0 / tpot),
            ..Spread::default()
        };
        ModeSummary {
            suite: suite.to_owned(),
            mode: self.mode.clone(),
            concurrency: self.concurrency,
            finished: self.completed,
            cut_short: 0,
            failed: self.failed,
            timed_out: 0,
            retries: 0,
            decode_tok_s: decode,
            e2e_tok_s: Spread::default(),
            ttft_ms: self.ttft,
            ttfat_ms: Spread::default(),
            tpot_ms: self.tpot,
            itl_ms: Spread::default(),
            step_gap_ms: self.itl,
            e2e_ms: self.e2e,
            token_weighted_tok_s: None,
            throughput_tok_s: self.throughput,
            tau_pooled: self.tau,
            tau_macro: None,
            per_pos: self.per_pos.clone(),
            accepted_hist: Vec::new(),
            stages: None,
            server_decode_tok_s: None,
            server_ttft_ms: None,
            j_per_token: None,
            tokens: self.tokens,
        }
    }
}

/// A metric's figures. Both tools divide the deviation by n; ours is the sample's, so it is only known where n is. A
/// percentile over too few samples stays out, as in our own summaries.
fn spread(result: &Map<String, Value>, name: &str, n: Option<usize>) -> Spread {
    let of = |statistic: &str| number(result, &format!("{statistic}_{name}"));
    let enough = |least: u64| n.is_none_or(|n| n as u64 >= least);
    let mean = of("mean");
    let sample = n.filter(|n| *n > 1).map(|n| (n as f64 / (n - 1) as f64).sqrt());
    Spread {
        n: n.filter(|_| mean.is_some()).unwrap_or(0) as u64,
        mean,
        std: sample.zip(of("std")).map(|(sample, std)| std * sample),
        min: None,
        max: of("max"),
        p50: of("median").or_else(|| of("p50")),
        p95: of("p95").filter(|_| enough(crate::bench::stats::LEAST_FOR_P95)),
        p99: of("p99").filter(|_| enough(crate::bench::stats::LEAST_FOR_P99)),
    }
}
