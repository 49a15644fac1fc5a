//! Student's t, for the interval over few prompts.

use std::f64::consts::PI;

use super::{mean, std};

/// P(|T| ≤ t) with whole degrees of freedom: the finite sums of Abramowitz and Stegun, 26.7.3 (odd) and 26.7.4 (even),
/// with θ = atan(t / √ν). Whole degrees are all that a number of prompts gives, and the sums need no gamma function.
fn inside(t: f64, degrees: usize) -> f64 {
    let theta = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let squared = cos * cos;
    // Terms of both series: each is the one before times cos²θ · (even or odd) / (odd or even).
    let series = |first: f64, from: usize, to: usize| {
        let (mut term, mut sum, mut k) = (first, first, from);
        while k <= to {
            term *= squared * k as f64 / (k + 1) as f64;
            sum += term;
            k += 2;
        }
        sum
    };
    if degrees == 1 {
        2.0 * theta / PI
    } else if degrees % 2 == 1 {
        2.0 / PI * (theta + sin * series(cos, 2, degrees - 3))
    } else if degrees == 2 {
        sin
    } else {
        sin * series(1.0, 1, degrees - 3)
    }
}

/// Two-sided p-value of `t`.
pub fn t_p(t: f64, degrees: usize) -> Option<f64> {
    (degrees > 0 && !t.is_nan()).then(|| (1.0 - inside(t, degrees)).clamp(0.0, 1.0))
}

/// The t that a share `confidence` of the distribution lies within on both sides: 12.706 for 0.95 and one degree.
pub fn t_quantile(confidence: f64, degrees: usize) -> Option<f64> {
    if degrees == 0 || !(0.0..1.0).contains(&confidence) {
        return None;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while inside(high, degrees) < confidence {
        high *= 2.0;
    }
    // Bisection: `inside` grows with t. 200 halvings leave nothing of a double's 53 bits.
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if inside(middle, degrees) < confidence { low = middle } else { high = middle }
    }
    Some(f64::midpoint(low, high))
}

/// Student's interval for the mean of a sample, and the two-sided p-value of mean = 0. Absent below two values.
pub fn t_interval(values: &[f64], confidence: f64) -> Option<([f64; 2], f64)> {
    let (mean, std) = (mean(values)?, std(values)?);
    let degrees = values.len() - 1;
    let error = std / (values.len() as f64).sqrt();
    let half = t_quantile(confidence, degrees)? * error;
    let p = if error > 0.0 {
        t_p(mean / error, degrees)?
    } else if mean == 0.0 {
        1.0
    } else {
        0.0
    };
    Some(([mean - half, mean + half], p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_values() {
        // The classical table of two-sided 95 % points.
        for (degrees, expected) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (59, 2.001)] {
            let t = t_quantile(0.95, degrees).unwrap();
            assert!((t - expected).abs() < 1e-3, "{degrees}: {t}");
            assert!((t_p(t, degrees).unwrap() - 0.05).abs() < 1e-9);
        }
    }

    #[test]
    fn odd_inputs_have_no_answer() {
        assert_eq!(t_quantile(0.95, 0), None);
        assert_eq!(t_quantile(1.0, 3), None);
        assert_eq!(t_p(f64::NAN, 3), None);
        assert_eq!(t_interval(&[1.0], 0.95), None);
        assert_eq!(t_interval(&[0.0, 0.0], 0.95), Some(([0.0, 0.0], 1.0)));
    }
}
