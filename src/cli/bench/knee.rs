//! Where more stops paying.

/// Share of the best that is good enough.
const ENOUGH: f64 = 0.98;

/// The first value (from the smallest) that is within 2 % of the best; none where nothing is known.
pub(super) fn knee(points: &[(f64, Option<f64>)]) -> Option<usize> {
    let known = || points.iter().enumerate().filter_map(|(at, (x, y))| Some((at, *x, (*y)?)));
    let best = known().map(|(.., y)| y).max_by(f64::total_cmp)?;
    known().filter(|(.., y)| *y >= ENOUGH * best).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, ..)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_is_good_enough() {
        let points = [(4.0, Some(1.2)), (8.0, Some(1.75)), (16.0, Some(1.78)), (32.0, Some(1.6)), (64.0, None)];
        assert_eq!(knee(&points), Some(1));
        assert_eq!(knee(&[(2.0, Some(1.0)), (1.0, Some(1.0))]), Some(1));
        assert_eq!(knee(&[(2.0, None)]), None);
        assert_eq!(knee(&[]), None);
    }
}
