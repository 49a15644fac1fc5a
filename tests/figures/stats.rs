//! Our statistics against NumPy and SciPy (`tests/fixtures/stats/make.py`), and how often the verdict errs.

use serde::Deserialize;
use serde_json::Value;

use spectop::bench::stats::{
    Rng, cluster_bootstrap, holm, mean, percentile, ratio, spread, spread_weighted, std, t_interval, t_quantile,
};
use spectop::protocol::run::Verdict;

use super::run::normal;

fn expected<T: for<'de> Deserialize<'de>>(part: &str) -> T {
    let all: Value = serde_json::from_str(include_str!("../fixtures/stats/expected.json")).unwrap();
    serde_json::from_value(all[part].clone()).unwrap()
}

/// Within 1e-6 of each other, relative above 1.
fn close(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= 1e-6 * theirs.abs().max(1.0)
}

#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    values: Vec<f64>,
    #[serde(default)]
    pairs: Vec<(f64, u64)>,
    mean: f64,
    std: Option<f64>,
    percentiles: std::collections::BTreeMap<String, f64>,
}

#[test]
fn percentiles_are_numpys() {
    for sample in expected::<Vec<Sample>>("percentiles") {
        let mut sorted = sample.values.clone();
        sorted.sort_by(f64::total_cmp);
        for (percent, theirs) in &sample.percentiles {
            let ours = percentile(&sorted, percent.parse().unwrap()).unwrap();
            assert!(close(ours, *theirs), "p{percent} of {}: {ours} {theirs}", sorted.len());
        }
        assert!(close(mean(&sample.values).unwrap(), sample.mean));
        assert_eq!(std(&sample.values).is_some(), sample.std.is_some());
        assert!(close(std(&sample.values).unwrap_or(0.0), sample.std.unwrap_or(0.0)));
        let spread = spread(&sample.values);
        let of = |percent: &str| sample.percentiles[percent];
        assert!(close(spread.p50.unwrap(), of("50")) && close(spread.max.unwrap(), of("100")));
        assert!(spread.p95.is_none_or(|p95| close(p95, of("95"))) && spread.p99.is_none_or(|p99| close(p99, of("99"))));
    }
}

#[test]
fn weighted_spreads_are_numpys_of_the_values_written_out() {
    for sample in expected::<Vec<Sample>>("weighted") {
        let spread = spread_weighted(&sample.pairs);
        assert_eq!(spread.n, sample.pairs.iter().map(|(_, n)| n).sum::<u64>());
        assert!(
            close(spread.mean.unwrap(), sample.mean) && close(spread.std.unwrap_or(0.0), sample.std.unwrap_or(0.0))
        );
        assert!(close(spread.p50.unwrap(), sample.percentiles["50"]));
        assert!(spread.p95.is_none_or(|p95| close(p95, sample.percentiles["95"])));
        assert!(spread.p99.is_none_or(|p99| close(p99, sample.percentiles["99"])));
    }
}

#[derive(Deserialize)]
struct Interval {
    #[serde(default)]
    values: Vec<f64>,
    #[serde(default)]
    clusters: Vec<Vec<f64>>,
    interval: [f64; 2],
    p: f64,
    #[serde(default)]
    std: f64,
}

#[test]
fn students_intervals_are_scipys() {
    for theirs in expected::<Vec<Interval>>("t") {
        let ([low, high], p) = t_interval(&theirs.values, 0.95).unwrap();
        assert!(close(low, theirs.interval[0]) && close(high, theirs.interval[1]) && close(p, theirs.p));
    }
    for (confidence, degrees, theirs) in expected::<Vec<(f64, usize, f64)>>("quantiles") {
        let ours = t_quantile(confidence, degrees).unwrap();
        assert!(close(ours, theirs), "{confidence} {degrees}: {ours} {theirs}");
    }
}

#[test]
fn the_bootstrap_agrees_within_its_monte_carlo_error() {
    for theirs in expected::<Vec<Interval>>("bootstrap") {
        let ([low, high], p) = cluster_bootstrap(&theirs.clusters, 40_000, 3, 0.95).unwrap();
        // A 2.5 % quantile over 40,000 normal draws has a standard error of 0.0134 deviations; over few clusters the
        // distribution is lumpy, so five of them.
        let tolerance = 5.0 * 0.0134 * theirs.std;
        assert!((low - theirs.interval[0]).abs() < tolerance, "{low} {}", theirs.interval[0]);
        assert!((high - theirs.interval[1]).abs() < tolerance, "{high} {}", theirs.interval[1]);
        let error = 5.0 * (theirs.p.max(1e-4) / 40_000.0).sqrt() + 2.0 / 40_000.0;
        assert!((p - theirs.p).abs() < 2.0 * error, "{p} {}", theirs.p);
    }
}

#[test]
fn holm_is_the_papers() {
    #[derive(Deserialize)]
    struct Case {
        p: Vec<f64>,
        corrected: Vec<f64>,
    }
    for case in expected::<Vec<Case>>("holm") {
        let ours = holm(&case.p.iter().copied().map(Some).collect::<Vec<_>>());
        for (ours, theirs) in ours.iter().zip(&case.corrected) {
            assert!(close(ours.unwrap(), *theirs), "{ours:?} {theirs}");
        }
    }
}

/// How log ratios scatter in a run.
#[derive(Clone, Copy)]
pub struct Noise {
    /// Standard deviation between prompts: a drafter is better on some.
    between: f64,
    /// Whether prompts scatter to one side (few prompts gain much, as code does).
    skewed: bool,
    /// Standard deviation of one measurement, of each of both modes.
    within: f64,
    /// Share of measurements that something else on the machine slowed down by up to a fifth.
    hiccups: f64,
}

/// What this project's own runs look like: 2 % from repeat to repeat, 10 % from prompt to prompt, one hiccup in twenty.
pub const REALISTIC: Noise = Noise { between: 0.10, skewed: false, within: 0.02, hiccups: 0.05 };

fn log_ratios(rng: &mut Rng, prompts: usize, repeats: usize, truth: f64, noise: Noise) -> Vec<Vec<f64>> {
    let one = |rng: &mut Rng| {
        let hiccup = if rng.unit() < noise.hiccups { 0.2 * rng.unit() } else { 0.0 };
        noise.within * normal(rng) - hiccup
    };
    (0..prompts)
        .map(|_| {
            // The exponential distribution less its mean: skewness 2, mean 0, deviation 1.
            let own = if noise.skewed { -(1.0 - rng.unit()).ln() - 1.0 } else { normal(rng) };
            (0..repeats).map(|_| truth.ln() + noise.between * own + one(rng) - one(rng)).collect()
        })
        .collect()
}

/// Shares of simulated runs whose verdict is faster, slower and no difference shown.
pub fn verdicts(runs: usize, draws: usize, prompts: usize, truth: f64, noise: Noise) -> [f64; 3] {
    let mut rng = Rng::new(prompts as u64 * 7_919 + (truth * 1_000.0) as u64);
    let mut counts = [0.0; 3];
    for run in 0..runs {
        match ratio(&log_ratios(&mut rng, prompts, 3, truth, noise), draws, run as u64).verdict {
            Verdict::Faster => counts[0] += 1.0,
            Verdict::Slower => counts[1] += 1.0,
            Verdict::NoDifferenceShown => counts[2] += 1.0,
            Verdict::NotEnoughData => panic!("{prompts} prompts are enough"),
        }
    }
    counts.map(|count| count / runs as f64)
}

#[test]
fn equal_modes_rarely_get_a_word() {
    for prompts in [3, 10, 60] {
        for noise in [REALISTIC, Noise { between: 0.0, ..REALISTIC }] {
            let [_, _, none] = verdicts(300, 2_000, prompts, 1.0, noise);
            assert!(none >= 0.93, "{prompts} prompts: {none}");
        }
    }
}

#[test]
fn ten_percent_are_found() {
    assert!(verdicts(300, 2_000, 60, 1.10, REALISTIC)[0] > 0.99);
    assert!(verdicts(300, 2_000, 60, 1.0 / 1.10, REALISTIC)[1] > 0.99);
    assert!(verdicts(300, 2_000, 10, 1.10, REALISTIC)[0] > 0.6);
    // Over three prompts only where prompts agree with each other.
    assert!(verdicts(300, 2_000, 3, 1.10, Noise { between: 0.01, ..REALISTIC })[0] > 0.5);
}

/// The table in docs/benchmarks.md: `cargo test --release --test figures coverage -- --ignored --nocapture`.
#[test]
#[ignore = "a minute of simulation; it prints the table of docs/benchmarks.md"]
fn coverage_table() {
    println!(
        "| true ratio | prompts differ | prompts | no difference shown | faster | slower |\n|---|---|---|---|---|---|"
    );
    let alike = Noise { between: 0.0, ..REALISTIC };
    let skewed = Noise { skewed: true, ..REALISTIC };
    for truth in [1.0, 1.05, 1.10] {
        for (name, noise) in [("not at all", alike), ("by 10 %", REALISTIC), ("by 10 %, skewed", skewed)] {
            for prompts in [3, 10, 60] {
                let [faster, slower, none] = verdicts(1_000, 10_000, prompts, truth, noise).map(|share| share * 100.0);
                println!("| {truth:.2} | {name} | {prompts} | {none:.1} % | {faster:.1} % | {slower:.1} % |");
                if truth == 1.0 && !noise.skewed {
                    assert!(none >= 93.0, "{prompts} prompts, {name}: {none}");
                }
            }
        }
    }
}
