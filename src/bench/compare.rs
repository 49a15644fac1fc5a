//! Every mode against the baseline, by prompt.

use std::collections::BTreeMap;

use crate::protocol::run::{Comparison, Losslessness, Purpose, RequestRecord, RunPlan};

use super::lossless::lossless;
use super::stats::{DRAWS, holm, mean, ratio};
use super::summary::{ALL, counts, decoded, distinct, pooled_speed};

/// Metrics that are compared.
pub const METRICS: [&str; 2] = ["decode_tok_s", "e2e_tok_s"];

/// Compares every mode of the plan with its first: one entry a concurrency, suite (and `all`), mode and metric, as far
/// as anything was measured there. `p_holm` corrects over the modes of one suite, concurrency and metric.
pub fn compare(plan: &RunPlan, records: &[RequestRecord]) -> Vec<Comparison> {
    compare_with(plan, records, DRAWS)
}

/// The same with another number of bootstrap draws: fewer while a run goes on, where the machine is being measured.
pub fn compare_with(plan: &RunPlan, records: &[RequestRecord], draws: usize) -> Vec<Comparison> {
    let Some((baseline, others)) = plan.modes.split_first() else { return Vec::new() };
    let measured: Vec<&RequestRecord> = records.iter().filter(|record| record.purpose == Purpose::Measure).collect();
    let planned = plan.suites.iter().map(|suite| suite.name.as_str());
    let suites = distinct(planned.chain(measured.iter().map(|record| record.suite.as_str())));
    let levels = distinct(plan.concurrency.iter().copied().chain(measured.iter().map(|record| record.concurrency)));
    let mut comparisons = Vec::new();
    for level in levels {
        for suite in suites.iter().copied().map(Some).chain([None]) {
            let here: Vec<&RequestRecord> = measured
                .iter()
                .copied()
                .filter(|r| r.concurrency == level && suite.is_none_or(|suite| r.suite == suite))
                .collect();
            if here.is_empty() {
                continue;
            }
            let mut family: Vec<Comparison> = Vec::new();
            for mode in others {
                let pairs = pairs(&here, &baseline.label, &mode.label);
                let lossless = lossless(plan.temperature, &here, &baseline.label, &mode.label);
                for metric in METRICS {
                    let estimate = estimate(metric, &pairs, suite.is_none(), draws, plan.seed);
                    family.push(Comparison {
                        suite: suite.unwrap_or(ALL).to_owned(),
                        mode: mode.label.clone(),
                        baseline: baseline.label.clone(),
                        concurrency: level,
                        metric: metric.to_owned(),
                        lossless: lossless.clone(),
                        ..estimate
                    });
                }
            }
            for metric in METRICS {
                let of_metric: Vec<usize> = (0..family.len()).filter(|i| family[*i].metric == metric).collect();
                let corrected = holm(&of_metric.iter().map(|i| family[*i].p).collect::<Vec<_>>());
                for (index, p_holm) in of_metric.into_iter().zip(corrected) {
                    family[index].p_holm = p_holm;
                }
            }
            comparisons.append(&mut family);
        }
    }
    comparisons
}

/// The same prompt, turn and repeat in both modes, both answered.
struct Pair<'a> {
    baseline: &'a RequestRecord,
    other: &'a RequestRecord,
}

/// In order of suite, prompt, turn and repeat: the order in which requests were sent must not move an interval.
fn pairs<'a>(records: &[&'a RequestRecord], baseline: &str, other: &str) -> Vec<Pair<'a>> {
    type Key<'a> = (&'a str, &'a str, usize, usize);
    let of = |mode: &str| -> BTreeMap<Key<'a>, &'a RequestRecord> {
        let key = |r: &'a RequestRecord| -> Key<'a> { (&r.suite, &r.prompt_id, r.turn, r.repeat) };
        records.iter().copied().filter(|r| r.mode == mode && counts(r)).map(|r| (key(r), r)).collect()
    };
    let others = of(other);
    of(baseline).into_iter().filter_map(|(key, baseline)| Some(Pair { baseline, other: others.get(&key)? })).collect()
}

/// A prompt with the speeds of its pairs: baseline, other.
struct Prompt<'a> {
    suite: &'a str,
    id: &'a str,
    speeds: Vec<(f64, f64)>,
}

fn speed(metric: &str, record: &RequestRecord) -> Option<f64> {
    let value = if metric == METRICS[0] { record.decode_tok_s } else { record.e2e_tok_s };
    value.filter(|value| value.is_finite() && *value > 0.0)
}

fn estimate(metric: &str, pairs: &[Pair<'_>], across: bool, draws: usize, seed: u64) -> Comparison {
    let mut prompts: Vec<Prompt<'_>> = Vec::new();
    let mut used: Vec<&Pair<'_>> = Vec::new();
    for pair in pairs {
        let (Some(before), Some(after)) = (speed(metric, pair.baseline), speed(metric, pair.other)) else { continue };
        used.push(pair);
        let (suite, id) = (pair.baseline.suite.as_str(), pair.baseline.prompt_id.as_str());
        match prompts.last_mut().filter(|prompt| (prompt.suite, prompt.id) == (suite, id)) {
            Some(prompt) => prompt.speeds.push((before, after)),
            None => prompts.push(Prompt { suite, id, speeds: vec![(before, after)] }),
        }
    }
    let logs: Vec<Vec<f64>> = prompts
        .iter()
        .map(|prompt| prompt.speeds.iter().map(|(before, after)| (after / before).ln()).collect())
        .collect();
    let estimate = ratio(&logs, draws, seed);
    let parts = |record: &RequestRecord| {
        if metric == METRICS[0] { decoded(record) } else { Some((record.tokens, record.e2e_ms)) }
    };
    let before = pooled_speed(used.iter().filter_map(|pair| parts(pair.baseline)));
    let after = pooled_speed(used.iter().filter_map(|pair| parts(pair.other)));
    Comparison {
        suite: String::new(),
        mode: String::new(),
        baseline: String::new(),
        concurrency: 0,
        metric: String::new(),
        prompts: estimate.prompts,
        ratio: estimate.ratio,
        interval: estimate.interval,
        p: estimate.p,
        p_holm: None,
        verdict: estimate.verdict,
        token_weighted_ratio: before
            .zip(after)
            .filter(|(before, _)| *before > 0.0)
            .map(|(before, after)| after / before),
        by_prompt: prompts
            .iter()
            .filter_map(|Prompt { suite, id, speeds }| {
                let name = if across { format!("{suite}/{id}") } else { (*id).to_owned() };
                let (before, after): (Vec<f64>, Vec<f64>) = speeds.iter().copied().unzip();
                Some((name, mean(&before)?, mean(&after)?))
            })
            .collect(),
        lossless: Losslessness::default(),
    }
}
