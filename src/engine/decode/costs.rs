//! What the passes of a round cost on this machine, for mode `auto`: measured once, then kept current by every round.
//! Pure: times come in as numbers.
//!
//! Two corrections follow the machine. *Drift* is one factor for all passes: the machine got busy, or the clock slow. *Fit*
//! is a factor for each class of row counts beside a single row: the start-up measurement was disturbed, or rows of
//! real text cost other than rows of the measurement. Fit is learnt only while plain rounds say what drift is.

/// Times by size (rows of a verify pass, slots of a draft block): size and milliseconds, sizes rising, at least one entry.
pub type Curve = Vec<(usize, f64)>;

/// Share of a new observation in the corrections.
const STEP: f64 = 0.05;
/// Largest row count of each class that has a fit of its own; larger ones share the last.
const CLASSES: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 24];
/// Rounds for which the last plain round tells what drift is.
const MEMORY: u32 = 64;

/// What was measured before the first round, milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Drafter passes for one sequence by slots, seed included; a single entry where blocks cannot be cut.
    pub draft: Curve,
    /// What a feature row that waited adds to a drafter pass.
    pub feature: f64,
    /// Verify passes over a short context, by rows.
    pub verify: Curve,
    /// The two contexts that were measured, in tokens.
    pub contexts: [usize; 2],
    /// Verify passes over the long one; empty where it was not measured.
    pub deep: Curve,
}

/// Costs as they are believed to be now.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    measured: Measured,
    drift: Factor,
    fit: [Factor; CLASSES.len() + 1],
    draft_drift: Factor,
    since_plain: u32,
}

/// A running factor: a mean of what was measured and the first rounds, then an average that forgets.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Factor {
    value: f64,
    seen: u32,
}

impl Factor {
    const ONE: Self = Self { value: 1.0, seen: 1 };

    /// Takes in an observation; one that is far off counts as less far, since it says nothing about the next round.
    fn observe(&mut self, ratio: f64) {
        self.seen = self.seen.saturating_add(1);
        let ratio = ratio.clamp(self.value * 0.5, self.value * 2.0);
        self.value += STEP.max(1.0 / f64::from(self.seen)) * (ratio - self.value);
    }
}

/// Between measured points a straight line, beyond them the last slope.
fn read(points: &Curve, size: usize) -> f64 {
    let Some(after) = points.iter().position(|p| p.0 >= size) else {
        let n = points.len();
        let (x1, y1) = points[n - 1];
        let slope =
            if n > 1 { (y1 - points[n - 2].1).max(0.0) / (x1 - points[n - 2].0) as f64 } else { y1 / x1 as f64 };
        return y1 + slope * (size - x1) as f64;
    };
    if after == 0 || points[after].0 == size {
        return points[after].1;
    }
    let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
    y0 + (y1 - y0) * (size - x0) as f64 / (x1 - x0) as f64
}

fn class(rows: usize) -> usize {
    CLASSES.iter().position(|&most| rows <= most).unwrap_or(CLASSES.len())
}

impl Costs {
    /// Costs that have seen nothing but the measurement.
    pub fn new(measured: Measured) -> Self {
        Self {
            measured,
            drift: Factor::ONE,
            fit: [Factor::ONE; CLASSES.len() + 1],
            draft_drift: Factor::ONE,
            since_plain: MEMORY,
        }
    }

    /// Attention grows with rows and context, everything else with the rows only: a straight line over the context.
    fn as_measured(&self, rows: usize, context: usize) -> f64 {
        let near = read(&self.measured.verify, rows);
        let [short, long] = self.measured.contexts;
        if self.measured.deep.is_empty() || long <= short {
            return near;
        }
        let share = (context as f64 - short as f64) / (long - short) as f64;
        (near + (read(&self.measured.deep, rows) - near).max(0.0) * share).max(near * 0.5)
    }

    /// Time of a verify pass with `rows` rows over `context` cached tokens.
    pub fn verify_ms(&self, rows: usize, context: usize) -> f64 {
        self.as_measured(rows, context) * self.drift.value * self.fit[class(rows)].value
    }

    /// Time of a drafter pass for one sequence with a block of `slots` slots, the seed included.
    pub fn draft_ms(&self, slots: usize) -> f64 {
        match self.measured.draft.as_slice() {
            [only] => only.1 * self.draft_drift.value,
            _ => read(&self.measured.draft, slots) * self.draft_drift.value,
        }
    }

    /// What it takes to bring `waiting` committed tokens into the drafter's cache.
    pub fn catch_up_ms(&self, waiting: usize) -> f64 {
        self.measured.feature * waiting as f64 * self.draft_drift.value
    }

    /// Whether a shorter block costs less.
    pub fn blocks_can_be_cut(&self) -> bool {
        self.measured.draft.len() > 1
    }

    /// Whether no plain round has told for long what the machine does.
    pub fn plain_is_stale(&self) -> bool {
        self.since_plain >= MEMORY
    }

    /// A verify pass with `rows` rows over `context` tokens took this long.
    pub fn verified(&mut self, rows: usize, context: usize, ms: f64) {
        let ratio = ms / self.as_measured(rows, context);
        let fit = &mut self.fit[class(rows)];
        if rows == 1 {
            self.since_plain = 0;
            self.drift.observe(ratio);
            return;
        }
        self.since_plain = self.since_plain.saturating_add(1);
        // Where plain rounds are at hand, they alone say what the machine does.
        if self.since_plain <= MEMORY {
            fit.observe(ratio / self.drift.value);
        } else {
            self.drift.observe(ratio / fit.value);
        }
    }

    /// A drafter pass with `slots` slots that also brought `waiting` tokens in took this long.
    pub fn drafted(&mut self, slots: usize, waiting: usize, ms: f64) {
        let expected = (self.draft_ms(slots) + self.catch_up_ms(waiting)) / self.draft_drift.value;
        if expected > 0.0 {
            self.draft_drift.observe(ms / expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        Costs::new(Measured {
            draft: vec![(2, 1.0), (8, 4.0)],
            feature: 0.1,
            verify: vec![(1, 5.0), (8, 7.0), (16, 10.0), (32, 20.0)],
            contexts: [64, 1024],
            deep: Vec::new(),
        })
    }

    #[test]
    fn curves_interpolate_and_extrapolate() {
        let costs = costs();
        assert_eq!((costs.verify_ms(1, 64), costs.verify_ms(8, 64), costs.verify_ms(12, 64)), (5.0, 7.0, 8.5));
        assert_eq!(costs.verify_ms(48, 64), 30.0);
        assert!((costs.verify_ms(4, 64) - (5.0 + 3.0 * 2.0 / 7.0)).abs() < 1e-12);
        assert_eq!((costs.draft_ms(2), costs.draft_ms(5), costs.draft_ms(8)), (1.0, 2.5, 4.0));
        assert_eq!(costs.catch_up_ms(10), 1.0);
    }

    #[test]
    fn a_block_that_cannot_be_cut_costs_the_same_at_every_length() {
        let costs = Costs::new(Measured { draft: vec![(8, 4.0)], ..costs().measured });
        assert!(!costs.blocks_can_be_cut());
        assert_eq!((costs.draft_ms(2), costs.draft_ms(8)), (4.0, 4.0));
    }

    #[test]
    fn long_contexts_cost_more() {
        let costs = Costs::new(Measured { deep: vec![(1, 6.0), (32, 52.0)], ..costs().measured });
        assert_eq!((costs.verify_ms(1, 64), costs.verify_ms(1, 1024), costs.verify_ms(32, 1984)), (5.0, 6.0, 84.0));
    }

    #[test]
    fn a_busy_machine_slows_all_row_counts_alike() {
        let mut costs = costs();
        for _ in 0..200 {
            costs.verified(1, 64, 10.0);
        }
        assert!((costs.verify_ms(1, 64) - 10.0).abs() < 0.1);
        assert!((costs.verify_ms(8, 64) - 14.0).abs() < 0.2);
    }

    #[test]
    fn rows_that_cost_more_than_measured_are_found_out_beside_plain_rounds() {
        let mut costs = costs();
        for _ in 0..200 {
            costs.verified(1, 64, 5.0);
            costs.verified(8, 64, 21.0);
        }
        assert!((costs.verify_ms(1, 64) - 5.0).abs() < 0.1);
        assert!((costs.verify_ms(8, 64) - 21.0).abs() < 0.5);
        assert_eq!(costs.verify_ms(16, 64), 10.0 * costs.drift.value, "other row counts keep what was measured");
    }

    #[test]
    fn one_outlier_moves_little() {
        let mut costs = costs();
        for _ in 0..40 {
            costs.verified(1, 64, 5.0);
            costs.drafted(8, 0, 4.0);
        }
        costs.verified(1, 64, 5_000.0);
        costs.drafted(8, 2, 5_000.0);
        assert!(costs.verify_ms(1, 64) < 5.5 && costs.draft_ms(8) < 4.5);
    }
}
