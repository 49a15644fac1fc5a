//! Counters since start, and rates over sliding windows. Pure: time comes in as milliseconds.

use std::collections::VecDeque;

use crate::protocol::event::{Latencies, Percentiles, Sample};
use crate::protocol::state::{Counters, StageTimes};

/// Window of rates, ms.
const RATE_WINDOW: f64 = 5_000.0;
/// Window of latencies, ms.
const LATENCY_WINDOW: f64 = 60_000.0;
/// Interval of [`Sample::tok_s`], ms.
const INTERVAL: f64 = 250.0;
/// Latency samples kept at most; above it the oldest go before their time.
const MAX_SAMPLES: usize = 8_192;
/// Fewest samples for a 95th percentile.
const P95_SAMPLES: u64 = 20;
/// Fewest samples for a 99th percentile.
const P99_SAMPLES: u64 = 100;

/// What one sequence did in a forward.
#[derive(Debug, Clone, Copy, Default)]
pub struct Step {
    /// Draft tokens proposed (nodes).
    pub drafted: usize,
    /// Draft tokens accepted.
    pub accepted: usize,
    /// Tokens committed by a decode round; the first token of an answer is not counted here.
    pub committed: usize,
    /// Tokens that came out, the first token of an answer included.
    pub generated: usize,
    /// Rows in the forward.
    pub rows: usize,
    /// Prompt tokens prefilled.
    pub prompt: usize,
    /// In shadow, after a mismatch.
    pub shadow_hit: Option<bool>,
}

/// One forward.
#[derive(Debug, Clone, Default)]
struct Forward {
    at: f64,
    wall: f64,
    stages: StageTimes,
    steps: Vec<Step>,
}

/// A series of values in a time window, weighted.
#[derive(Debug, Default)]
struct Series(VecDeque<(f64, f64, u32)>);

impl Series {
    fn add(&mut self, at: f64, value: f64, weight: u32) {
        if self.0.len() == MAX_SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((at, value, weight));
    }

    fn percentiles(&mut self, now: f64) -> Percentiles {
        while self.0.front().is_some_and(|s| s.0 < now - LATENCY_WINDOW) {
            self.0.pop_front();
        }
        let mut sorted: Vec<(f64, u32)> = self.0.iter().map(|s| (s.1, s.2)).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let n: u64 = sorted.iter().map(|s| u64::from(s.1)).sum();
        let at = |share: f64, least: u64| {
            if n < least.max(1) {
                return None;
            }
            let mut left = (share * n as f64).ceil().max(1.0) as u64;
            for &(value, weight) in &sorted {
                if left <= u64::from(weight) {
                    return Some(value);
                }
                left -= u64::from(weight);
            }
            None
        };
        Percentiles { n, p50: at(0.5, 1), p95: at(0.95, P95_SAMPLES), p99: at(0.99, P99_SAMPLES) }
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Stats {
    /// Since start.
    pub counters: Counters,
    forwards: VecDeque<Forward>,
    ttft: Series,
    itl: Series,
    step: Series,
    e2e: Series,
}

impl Stats {
    /// Records one forward that ended at `at` ms and took `wall` ms.
    pub fn forward(&mut self, at: f64, wall: f64, stages: StageTimes, steps: Vec<Step>) {
        let c = &mut self.counters;
        c.stage_seconds.draft += stages.draft / 1e3;
        c.stage_seconds.build += stages.build / 1e3;
        c.stage_seconds.verify += stages.verify / 1e3;
        c.stage_seconds.commit += stages.commit / 1e3;
        for s in &steps {
            c.prompt_tokens += s.prompt as u64;
            c.generated_tokens += s.generated as u64;
            if s.prompt > 0 {
                continue;
            }
            c.committed += s.committed as u64;
            c.verified_rows += s.rows as u64;
            if s.drafted == 0 {
                c.plain_rounds += 1;
                continue;
            }
            c.rounds += 1;
            c.drafted += s.drafted as u64;
            c.accepted += s.accepted as u64;
            if c.accepted_per_pos.len() < s.accepted {
                c.accepted_per_pos.resize(s.accepted, 0);
            }
            c.accepted_per_pos[..s.accepted].iter_mut().for_each(|n| *n += 1);
            match s.shadow_hit {
                Some(true) => {
                    c.shadow_hits += 1;
                    c.shadow_misses += 1;
                }
                Some(false) => c.shadow_misses += 1,
                None => {}
            }
        }
        self.forwards.push_back(Forward { at, wall, stages, steps });
        while self.forwards.front().is_some_and(|f| f.at < at - RATE_WINDOW) {
            self.forwards.pop_front();
        }
    }

    /// A request's first token came `ms` after its submission.
    pub fn first_token(&mut self, at: f64, ms: f64) {
        self.ttft.add(at, ms, 1);
    }

    /// A request got `tokens` tokens `gap` ms after the ones before.
    pub fn gap(&mut self, at: f64, gap: f64, tokens: usize) {
        if tokens > 0 {
            self.step.add(at, gap, 1);
            self.itl.add(at, gap / tokens as f64, tokens as u32);
        }
    }

    /// A request ended `ms` after its submission.
    pub fn finished(&mut self, at: f64, ms: f64) {
        self.e2e.add(at, ms, 1);
    }

    /// Rates and latencies at `now` ms. Gauges and sensors are left to the caller.
    pub fn sample(&mut self, now: f64) -> Sample {
        while self.forwards.front().is_some_and(|f| f.at < now - RATE_WINDOW) {
            self.forwards.pop_front();
        }
        let mut sample = Sample {
            at_ms: now as u64,
            window_s: RATE_WINDOW / 1e3,
            generated_total: self.counters.generated_tokens,
            latency: Latencies {
                ttft: self.ttft.percentiles(now),
                itl: self.itl.percentiles(now),
                step: self.step.percentiles(now),
                e2e: self.e2e.percentiles(now),
            },
            ..Sample::default()
        };
        let recent: usize =
            self.forwards.iter().filter(|f| f.at > now - INTERVAL).flat_map(|f| &f.steps).map(|s| s.generated).sum();
        sample.tok_s = (recent > 0).then(|| recent as f64 / INTERVAL * 1e3);

        // A forward that only prefills is prefill time; one with decode rows is decode time, prefill riding along.
        let (mut decode_ms, mut prefill_ms) = (0.0, 0.0);
        let (mut tokens, mut prompt) = (0, 0);
        let (mut rounds, mut drafting, mut committed, mut rows) = (0usize, 0usize, 0usize, 0usize);
        let (mut saved, mut missed) = (0usize, 0usize);
        let mut stages = StageTimes::default();
        let mut forwards = 0usize;
        for f in &self.forwards {
            let decodes = f.steps.iter().any(|s| s.prompt == 0);
            prompt += f.steps.iter().map(|s| s.prompt).sum::<usize>();
            if f.steps.iter().any(|s| s.prompt > 0) {
                prefill_ms += f.wall;
            }
            if !decodes {
                continue;
            }
            decode_ms += f.wall;
            forwards += 1;
            stages.draft += f.stages.draft;
            stages.build += f.stages.build;
            stages.verify += f.stages.verify;
            stages.commit += f.stages.commit;
            for s in f.steps.iter().filter(|s| s.prompt == 0) {
                tokens += s.committed;
                rounds += 1;
                rows += s.rows;
                if s.drafted > 0 {
                    drafting += 1;
                    committed += s.committed;
                    for k in 0..s.accepted {
                        if sample.per_pos.len() <= k {
                            sample.per_pos.push(0.0);
                        }
                        sample.per_pos[k] += 1.0;
                    }
                }
                if let Some(hit) = s.shadow_hit {
                    missed += 1;
                    saved += usize::from(hit);
                }
            }
        }
        sample.per_pos.iter_mut().for_each(|p| *p /= drafting.max(1) as f64);
        sample.decode_tok_s = (tokens > 0 && decode_ms > 0.0).then(|| tokens as f64 / decode_ms * 1e3);
        sample.prefill_tok_s = (prompt > 0 && prefill_ms > 0.0).then(|| prompt as f64 / prefill_ms * 1e3);
        sample.rounds_s = (rounds > 0 && decode_ms > 0.0).then(|| rounds as f64 / decode_ms * 1e3);
        sample.tau = (drafting > 0).then(|| committed as f64 / drafting as f64);
        sample.rows = (rounds > 0).then(|| rows as f64 / rounds as f64);
        sample.shadow_rescue = (missed > 0).then(|| saved as f64 / missed as f64);
        let n = forwards as f64;
        sample.stages = (forwards > 0).then(|| StageTimes {
            draft: stages.draft / n,
            build: stages.build / n,
            verify: stages.verify / n,
            commit: stages.commit / n,
        });
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(accepted: usize) -> Step {
        Step { drafted: 7, accepted, committed: accepted + 1, generated: accepted + 1, rows: 8, ..Step::default() }
    }

    #[test]
    fn rates_and_positions() {
        let mut stats = Stats::default();
        stats.forward(1_000.0, 10.0, StageTimes { verify: 8.0, ..StageTimes::default() }, vec![step(0)]);
        stats.forward(1_010.0, 10.0, StageTimes { verify: 6.0, ..StageTimes::default() }, vec![step(2), step(1)]);
        let sample = stats.sample(1_020.0);
        assert_eq!(sample.tau, Some(2.0));
        assert_eq!(sample.per_pos, [2.0 / 3.0, 1.0 / 3.0]);
        assert_eq!(sample.decode_tok_s, Some(300.0));
        assert_eq!(sample.rounds_s, Some(150.0));
        assert_eq!(sample.tok_s, Some(24.0));
        assert_eq!(sample.stages.map(|s| s.verify), Some(7.0));
        assert_eq!(stats.counters.accepted_per_pos, [2, 1]);
        assert_eq!((stats.counters.rounds, stats.counters.drafted, stats.counters.accepted), (3, 21, 3));
    }

    #[test]
    fn nothing_is_absent_not_zero() {
        let mut stats = Stats::default();
        let sample = stats.sample(50_000.0);
        assert_eq!((sample.tok_s, sample.tau, sample.decode_tok_s, sample.stages), (None, None, None, None));
        stats.forward(1_000.0, 10.0, StageTimes::default(), vec![step(3)]);
        assert_eq!(stats.sample(7_000.0).tau, None, "an old window is forgotten");
        assert_eq!(stats.counters.committed, 4, "counters are not");
    }

    #[test]
    fn plain_rounds_and_prefill_do_not_touch_tau() {
        let mut stats = Stats::default();
        let prefill = Step { prompt: 64, generated: 1, rows: 64, ..Step::default() };
        let plain = Step { committed: 1, generated: 1, rows: 1, ..Step::default() };
        stats.forward(100.0, 20.0, StageTimes::default(), vec![prefill]);
        stats.forward(110.0, 10.0, StageTimes::default(), vec![plain]);
        let sample = stats.sample(120.0);
        assert_eq!(sample.tau, None);
        assert_eq!(sample.decode_tok_s, Some(100.0));
        assert_eq!(sample.prefill_tok_s, Some(3_200.0));
        assert_eq!(stats.counters.plain_rounds, 1);
        assert_eq!(stats.counters.generated_tokens, 2);
    }

    #[test]
    fn percentiles_need_their_samples() {
        let mut stats = Stats::default();
        for i in 1..=19 {
            stats.gap(f64::from(i), f64::from(i), 1);
        }
        let step = stats.sample(100.0).latency.step;
        assert_eq!((step.n, step.p50, step.p95), (19, Some(10.0), None));
        stats.gap(20.0, 20.0, 4);
        let latency = stats.sample(100.0).latency;
        assert_eq!(latency.step.p95, Some(19.0));
        // Per token: 5 ms four times beside 1..19 once each.
        assert_eq!((latency.itl.n, latency.itl.p50), (23, Some(8.0)));
        assert_eq!(stats.sample(60_015.0).latency.step.n, 6);
    }
}
