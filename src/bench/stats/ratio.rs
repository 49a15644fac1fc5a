//! How much faster: ratio, interval, p-value and the word for them.

use crate::protocol::run::Verdict;

use super::{cluster_bootstrap, mean, t_interval};

/// Logarithms closer to 0 than this are rounding, not a difference.
const ROUNDING: f64 = 1e-12;

/// A ratio over prompts with what may be said about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioEstimate {
    /// Prompts that have at least one pair.
    pub prompts: usize,
    /// Geometric mean over prompts.
    pub ratio: Option<f64>,
    /// 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// Two-sided p-value of ratio = 1.
    pub p: Option<f64>,
    /// The word, by the interval.
    pub verdict: Verdict,
}

/// Estimates a ratio from log ratios by prompt: `log_ratios[i]` are ln(mode / baseline) of prompt i, one a repeat (and
/// turn).
///
/// Every prompt counts once. The interval is the wider, side by side, of two: the cluster bootstrap over prompts, which
/// follows skewed ratios but is far too narrow over few prompts (with three prompts it has 10 different sets to draw),
/// and Student's t on the prompts' means, which is honest over few. p is the larger of the two. `docs/benchmarks.md`
/// has the coverage of this choice.
pub fn ratio(log_ratios: &[Vec<f64>], draws: usize, seed: u64) -> RatioEstimate {
    let clusters: Vec<Vec<f64>> = log_ratios
        .iter()
        .map(|values| values.iter().copied().filter(|value| value.is_finite()).collect::<Vec<f64>>())
        .filter(|values| !values.is_empty())
        .collect();
    let means: Vec<f64> = clusters.iter().filter_map(|values| mean(values)).collect();
    let estimate = RatioEstimate {
        prompts: means.len(),
        ratio: mean(&means).map(f64::exp),
        interval: None,
        p: None,
        verdict: Verdict::NotEnoughData,
    };
    let (Some((student, student_p)), Some((drawn, drawn_p))) =
        (t_interval(&means, 0.95), cluster_bootstrap(&clusters, draws, seed, 0.95))
    else {
        return estimate;
    };
    let [low, high] = [student[0].min(drawn[0]), student[1].max(drawn[1])];
    let verdict = if low > ROUNDING {
        Verdict::Faster
    } else if high < -ROUNDING {
        Verdict::Slower
    } else {
        Verdict::NoDifferenceShown
    };
    RatioEstimate { interval: Some([low.exp(), high.exp()]), p: Some(student_p.max(drawn_p)), verdict, ..estimate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_prompt_is_not_enough() {
        let estimate = ratio(&[vec![0.5; 20], vec![f64::NAN]], 100, 1);
        assert_eq!((estimate.prompts, estimate.verdict), (1, Verdict::NotEnoughData));
        assert_eq!((estimate.interval, estimate.p), (None, None));
        assert!((estimate.ratio.unwrap() - 0.5_f64.exp()).abs() < 1e-12);
        assert_eq!(ratio(&[], 100, 1).ratio, None);
    }

    #[test]
    fn the_word_follows_the_interval() {
        let by =
            |center: f64| ratio(&(0..8).map(|i| vec![center + 0.01 * f64::from(i); 3]).collect::<Vec<_>>(), 500, 1);
        assert_eq!(by(0.2).verdict, Verdict::Faster);
        assert_eq!(by(-0.3).verdict, Verdict::Slower);
        assert_eq!(by(-0.035).verdict, Verdict::NoDifferenceShown);
        let [low, high] = by(-0.035).interval.unwrap();
        assert!(low < 1.0 && high > 1.0);
    }

    #[test]
    fn equal_speeds_are_no_difference() {
        let estimate = ratio(&vec![vec![0.0, 1e-16]; 5], 500, 1);
        assert_eq!(estimate.verdict, Verdict::NoDifferenceShown);
    }

    #[test]
    fn two_prompts_are_wide() {
        // Two prompts with ratios 1.10 and 1.14: the point is far from 1, the interval is not.
        let estimate = ratio(&[vec![1.10_f64.ln(); 3], vec![1.14_f64.ln(); 3]], 2_000, 1);
        assert_eq!(estimate.verdict, Verdict::NoDifferenceShown);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let data: Vec<Vec<f64>> = (0..6).map(|i| vec![0.03 * f64::from(i), 0.02 * f64::from(i) - 0.05]).collect();
        assert_eq!(ratio(&data, 1_000, 5), ratio(&data, 1_000, 5));
    }
}
