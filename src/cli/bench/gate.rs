//! Gates for scripts: what must not be.

use crate::bench::compare::METRICS;
use crate::protocol::run::{Comparison, ModeSummary, Run, Verdict};

use super::runs;

/// A condition under which `bench compare` fails.
#[derive(Debug, Clone, PartialEq)]
pub enum Gate {
    /// A figure of a mode is below or above a number.
    Figure {
        /// Label, or the first word of one.
        mode: String,
        /// Which figure.
        metric: Metric,
        /// Fails when below, else when above.
        below: bool,
        /// The number.
        than: f64,
    },
    /// A mode is slower (or faster) than itself in the first run by this.
    Run {
        /// Fails when below, else when above.
        below: bool,
        /// The ratio.
        than: f64,
    },
    /// An output differs, or was not checked.
    Lossless,
    /// A request failed.
    Failed,
    /// The machine was not steady.
    Unstable,
    /// A mode is slower than the baseline.
    Slower,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Against the baseline.
    Ratio,
    /// Mean.
    DecodeTokS,
    /// Mean.
    E2eTokS,
    /// Median.
    TtftMs,
    /// Pooled.
    Tau,
    /// Joules a token.
    JPerToken,
}

impl Metric {
    fn words(self) -> &'static str {
        match self {
            Metric::Ratio => "the speed-up of decoding",
            Metric::DecodeTokS => "mean decode_tok_s",
            Metric::E2eTokS => "mean e2e_tok_s",
            Metric::TtftMs => "median ttft_ms",
            Metric::Tau => "pooled tau",
            Metric::JPerToken => "j_per_token",
        }
    }
}

/// Reads a gate.
pub(super) fn parse(text: &str) -> Result<Gate, String> {
    let text = text.trim();
    let gate = match text {
        "lossless" => Gate::Lossless,
        "failed" => Gate::Failed,
        "unstable" => Gate::Unstable,
        "slower" => Gate::Slower,
        _ => {
            let at = text.find(['<', '>']).ok_or(
                "a gate is MODE<N, MODE>N, MODE.METRIC<N, run<N, lossless, failed, unstable or slower, e.g. ddtree<1.1",
            )?;
            let below = text.as_bytes()[at] == b'<';
            let than: f64 = text[at + 1..].trim().parse().map_err(|_| "after < or > must be a number".to_owned())?;
            if !than.is_finite() {
                return Err("after < or > must be a number".into());
            }
            let (mode, metric) = match text[..at].trim().split_once('.') {
                None => (text[..at].trim(), Metric::Ratio),
                Some((mode, metric)) => (mode.trim(), metric_of(metric.trim())?),
            };
            match mode {
                "" => return Err("a mode must come before < or >".into()),
                "run" if metric == Metric::Ratio => Gate::Run { below, than },
                _ => Gate::Figure { mode: mode.to_owned(), metric, below, than },
            }
        }
    };
    Ok(gate)
}

fn metric_of(name: &str) -> Result<Metric, String> {
    Ok(match name {
        "ratio" => Metric::Ratio,
        "decode_tok_s" => Metric::DecodeTokS,
        "e2e_tok_s" => Metric::E2eTokS,
        "ttft_ms" => Metric::TtftMs,
        "tau" => Metric::Tau,
        "j_per_token" => Metric::JPerToken,
        _ => {
            let known = "ratio, decode_tok_s, e2e_tok_s, ttft_ms, tau, j_per_token";
            return Err(format!("\"{name}\" is no metric; use {known}"));
        }
    })
}

/// Over all suites, by the speed of decoding: what a gate without a metric is about.
fn overall(compare: &Comparison) -> bool {
    compare.suite == "all" && compare.metric == METRICS[0]
}

fn is_mode(label: &str, wanted: &str) -> bool {
    label == wanted || label.split_whitespace().next() == Some(wanted)
}

impl Gate {
    /// What fails, in words; nothing when the gate is met. A figure that is not there fails: a gate that measures
    /// nothing guards nothing.
    pub(super) fn check(&self, loaded: &[Run], across: &[Comparison]) -> Vec<String> {
        match self {
            Gate::Run { below, than } => {
                if across.is_empty() {
                    return vec!["gate run: there is no mode to compare with the first run".into()];
                }
                let all = across.iter().filter(|compare| overall(compare));
                all.filter_map(|compare| {
                    fails(&compare.mode, "decode_tok_s against the first run", compare.ratio, *below, *than)
                })
                .collect()
            }
            _ => loaded.iter().flat_map(|run| self.check_run(run)).collect(),
        }
    }

    fn check_run(&self, run: &Run) -> Vec<String> {
        let id = &run.meta.id;
        let all = || run.compare.iter().filter(|compare| overall(compare));
        match self {
            Gate::Run { .. } => Vec::new(),
            Gate::Failed => match runs::failed(run) {
                0 => Vec::new(),
                n => vec![format!("gate failed: {n} requests of {id} failed")],
            },
            Gate::Unstable => {
                let unstable = run.warnings.iter().filter(|warning| warning.starts_with("unstable"));
                unstable.map(|warning| format!("gate unstable: {id}: {warning}")).collect()
            }
            Gate::Slower => {
                let slower = all().filter(|compare| compare.verdict == Verdict::Slower);
                slower.map(|compare| format!("gate slower: {id}: {} is slower", compare.mode)).collect()
            }
            Gate::Lossless if all().next().is_none() => vec![format!("gate lossless: {id} compares no modes")],
            Gate::Lossless => all()
                .filter(|compare| {
                    let lossless = &compare.lossless;
                    !lossless.checked || lossless.compared == 0 || lossless.identical < lossless.compared
                })
                .map(|compare| {
                    let (mode, lossless) = (&compare.mode, &compare.lossless);
                    if lossless.checked && lossless.compared > 0 {
                        let differ = lossless.compared - lossless.identical;
                        format!("gate lossless: {id}: {mode}: {differ} of {} outputs differ", lossless.compared)
                    } else {
                        format!("gate lossless: {id}: {mode}: outputs were not compared")
                    }
                })
                .collect(),
            Gate::Figure { mode, metric, below, than } => {
                let figures = figures(run, mode, *metric);
                if figures.is_empty() {
                    return vec![format!("gate {mode}: {id} has no such mode (or only as the baseline)")];
                }
                figures
                    .iter()
                    .filter_map(|(label, value)| fails(label, metric.words(), *value, *below, *than))
                    .collect()
            }
        }
    }
}

fn fails(label: &str, name: &str, value: Option<f64>, below: bool, than: f64) -> Option<String> {
    let Some(value) = value else { return Some(format!("gate {label}: {name} is not known")) };
    let bad = if below { value < than } else { value > than };
    let sign = if below { '<' } else { '>' };
    bad.then(|| format!("gate {label}: {name} is {value:.3} {sign} {than}"))
}

fn figures(run: &Run, mode: &str, metric: Metric) -> Vec<(String, Option<f64>)> {
    let of: fn(&ModeSummary) -> Option<f64> = match metric {
        Metric::Ratio => {
            let all = run.compare.iter().filter(|compare| overall(compare) && is_mode(&compare.mode, mode));
            return all.map(|compare| (compare.mode.clone(), compare.ratio)).collect();
        }
        Metric::DecodeTokS => |summary| summary.decode_tok_s.mean,
        Metric::E2eTokS => |summary| summary.e2e_tok_s.mean,
        Metric::TtftMs => |summary| summary.ttft_ms.p50,
        Metric::Tau => |summary| summary.tau_pooled,
        Metric::JPerToken => |summary| summary.j_per_token,
    };
    let all = run.summary.iter().filter(|summary| summary.suite == "all" && is_mode(&summary.mode, mode));
    all.map(|summary| (summary.mode.clone(), of(summary))).collect()
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
