//! How far a run has come, and how long it will still take.

use std::collections::HashMap;

use crate::bench::plan::{Plan, Planned, Stage};
use crate::bench::warmup;

/// Mode and concurrency: requests of one kind take about the same time.
type Kind = (usize, usize);

/// Requests done and to do.
#[derive(Debug)]
pub(super) struct Pace {
    left: HashMap<Kind, usize>,
    /// Seconds and requests.
    spent: HashMap<Kind, (f64, usize)>,
    done: usize,
    /// Warm-up requests that are expected still.
    warmups: HashMap<Kind, usize>,
    /// Seconds for everything, before anything was measured.
    estimate_s: Option<f64>,
}

impl Pace {
    pub fn new(plan: &Plan, is_done: impl Fn(&Planned) -> bool, estimate_s: Option<f64>) -> Self {
        let mut pace =
            Self { left: HashMap::new(), spent: HashMap::new(), done: 0, warmups: HashMap::new(), estimate_s };
        for stage in &plan.stages {
            match stage {
                Stage::Warmup { mode, rounds } => {
                    let concurrency = rounds.first().map_or(1, |round| round.concurrency);
                    pace.warmups.insert((*mode, concurrency), warmup::LEAST * concurrency);
                }
                Stage::Batch(batch) => {
                    for planned in batch.chains.iter().flatten() {
                        if is_done(planned) {
                            pace.done += 1;
                        } else {
                            *pace.left.entry((planned.mode, planned.concurrency)).or_default() += 1;
                        }
                    }
                }
            }
        }
        pace
    }

    /// A planned request ended.
    pub fn done(&mut self, planned: &Planned, e2e_ms: f64) {
        self.done += 1;
        let kind = (planned.mode, planned.concurrency);
        if let Some(left) = self.left.get_mut(&kind) {
            *left = left.saturating_sub(1);
        }
        let (seconds, requests) = self.spent.entry(kind).or_default();
        *seconds += e2e_ms / 1e3;
        *requests += 1;
    }

    /// A request of the warm-up ended. Its answer is shorter than those to come, so it tells nothing of them.
    pub fn warmed(&mut self, planned: &Planned) {
        self.done += 1;
        if let Some(left) = self.warmups.get_mut(&(planned.mode, planned.concurrency)) {
            *left = left.saturating_sub(1);
        }
    }

    /// A mode is warm; no more of its warm-up is sent.
    pub fn warm(&mut self, mode: usize, concurrency: usize) {
        self.warmups.remove(&(mode, concurrency));
    }

    /// Requests done.
    pub fn count(&self) -> usize {
        self.done
    }

    /// Requests in all, as far as can be told.
    pub fn total(&self) -> usize {
        self.done + self.left.values().sum::<usize>() + self.warmups.values().sum::<usize>()
    }

    /// Seconds left.
    pub fn eta_s(&self) -> Option<f64> {
        let (seconds, requests) = self.spent.values().fold((0.0, 0), |sum, spent| (sum.0 + spent.0, sum.1 + spent.1));
        if requests == 0 {
            let total = self.total();
            return self.estimate_s.map(|all| all * (total - self.done) as f64 / total.max(1) as f64);
        }
        let overall = seconds / requests as f64;
        let left = self.left.iter().map(|(kind, left)| {
            let mean = self.spent.get(kind).map_or(overall, |(seconds, requests)| seconds / *requests as f64);
            mean * *left as f64 / kind.1.max(1) as f64
        });
        Some(left.sum())
    }
}
