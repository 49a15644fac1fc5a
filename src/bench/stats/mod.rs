//! Numbers about samples, and what may be said from them. Pure: the same input and seed give the same output.
//!
//! What each figure means and how often the verdict errs: `docs/benchmarks.md`.

mod bootstrap;
mod ratio;
mod student;

pub use bootstrap::{DRAWS, Rng, cluster_bootstrap};
pub use ratio::{RatioEstimate, ratio};
pub use student::{t_interval, t_p, t_quantile};

use crate::protocol::run::Spread;

/// Samples that a 95th percentile needs: with fewer it is the maximum or made up.
pub const LEAST_FOR_P95: u64 = 20;
/// Samples that a 99th percentile needs.
pub const LEAST_FOR_P99: u64 = 100;

/// Arithmetic mean; absent without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation (divided by n − 1); absent below two values.
pub fn std(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Percentile (0 to 100) of values in ascending order, interpolated linearly between the two order statistics around
/// rank `q (n − 1)`: definition 7 of Hyndman and Fan (1996), the default of NumPy.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    between(percent, last as u64, |index| sorted[(index as usize).min(last)])
}

fn between(percent: f64, last: u64, value: impl Fn(u64) -> f64) -> Option<f64> {
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let rank = percent / 100.0 * last as f64;
    let below = rank.floor();
    let (low, high) = (value(below as u64), value((below as u64 + 1).min(last)));
    Some(low + (high - low) * (rank - below))
}

/// Mean, spread and percentiles of a sample. Values that are no numbers are left out.
pub fn spread(values: &[f64]) -> Spread {
    let pairs: Vec<(f64, u64)> = values.iter().map(|value| (*value, 1)).collect();
    spread_weighted(&pairs)
}

/// The same where every value stands for a number of equal ones: a gap of 12 ms that brought three tokens is three
/// tokens of 4 ms each, `(4.0, 3)`. Equal to [`spread`] of the values written out.
pub fn spread_weighted(pairs: &[(f64, u64)]) -> Spread {
    let mut pairs: Vec<(f64, u64)> =
        pairs.iter().copied().filter(|(value, weight)| value.is_finite() && *weight > 0).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n: u64 = pairs.iter().map(|(_, weight)| weight).sum();
    let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return Spread::default() };
    let mean = pairs.iter().map(|(value, weight)| value * *weight as f64).sum::<f64>() / n as f64;
    let squares: f64 = pairs.iter().map(|(value, weight)| (value - mean).powi(2) * *weight as f64).sum();
    // Where each value's copies end, to find the copy at a rank without writing them out.
    let ends: Vec<u64> = pairs
        .iter()
        .scan(0, |end, (_, weight)| {
            *end += weight;
            Some(*end)
        })
        .collect();
    let at = |percent| {
        between(percent, n - 1, |index| pairs[ends.partition_point(|end| *end <= index).min(pairs.len() - 1)].0)
    };
    Spread {
        n,
        mean: Some(mean),
        std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
        min: Some(first.0),
        max: Some(last.0),
        p50: at(50.0),
        p95: at(95.0).filter(|_| n >= LEAST_FOR_P95),
        p99: at(99.0).filter(|_| n >= LEAST_FOR_P99),
    }
}

/// Holm's step-down correction (Holm 1979): the i-th smallest of m p-values is multiplied by m − i (i from 0), made
/// monotone and cut at 1. In the order of the input; what is absent stays absent and does not count.
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        p.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).filter(|(_, p)| p.is_finite()).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; p.len()];
    let mut least = 0.0_f64;
    for (rank, (index, p)) in order.iter().enumerate() {
        least = least.max(((order.len() - rank) as f64 * p).min(1.0));
        corrected[*index] = Some(least);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_copies() {
        let pairs = [(4.0, 3), (1.0, 2), (9.0, 1), (2.5, 20), (f64::NAN, 5), (7.0, 0)];
        let copies: Vec<f64> = pairs[..4].iter().flat_map(|(value, n)| vec![*value; *n as usize]).collect();
        assert_eq!(spread_weighted(&pairs), spread(&copies));
        assert_eq!(spread(&copies).n, 26);
    }

    #[test]
    fn percentiles_wait_for_enough_samples() {
        let of = |n: usize| spread(&(0..n).map(|i| i as f64).collect::<Vec<_>>());
        assert_eq!((of(19).p95, of(20).p95), (None, Some(18.05)));
        assert_eq!((of(99).p99, of(100).p99.is_some()), (None, true));
        assert_eq!(of(1), Spread { n: 1, mean: Some(0.0), min: Some(0.0), max: Some(0.0), p50: Some(0.0), ..of(0) });
        assert_eq!(of(0), Spread::default());
    }

    #[test]
    fn percentile_of_nothing_or_out_of_range_is_absent() {
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[1.0], 101.0), None);
        assert_eq!(percentile(&[1.0], f64::NAN), None);
        assert_eq!(percentile(&[1.0, 2.0], 100.0), Some(2.0));
    }

    #[test]
    fn holm_steps_down_and_leaves_gaps() {
        let corrected = holm(&[Some(0.01), None, Some(0.04), Some(0.03)]);
        assert_eq!(corrected, vec![Some(0.03), None, Some(0.06), Some(0.06)]);
        assert_eq!(holm(&[Some(0.7), Some(0.9)]), vec![Some(1.0), Some(1.0)]);
        assert!(holm(&[]).is_empty());
    }
}
