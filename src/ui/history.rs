//! Rates over time, in a ring: gaps stay gaps, and a change of mode leaves a mark.

use std::collections::VecDeque;

use crate::protocol::mode::Mode;

/// Points kept: ten minutes at four a second.
const CAPACITY: usize = 2_400;

/// Points that one column of a chart shows together.
const BUCKET: u64 = 2;

/// One moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Generated tokens per second; absent when nothing was generated.
    pub tok_s: Option<f64>,
    /// Acceptance length; absent without rounds.
    pub tau: Option<f64>,
    /// Mode in force.
    pub mode: Option<Mode>,
    /// Label of the mode that began here.
    pub mark: Option<String>,
}

/// One column of a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Nothing was measured.
    Gap,
    /// A value, measured in a mode.
    Value(f64, Option<Mode>),
    /// Here the mode changed; the label names the new one.
    Mark(String, Option<Mode>),
}

/// The ring.
#[derive(Debug, Clone, Default)]
pub struct History {
    points: VecDeque<Point>,
    /// Points ever pushed: buckets are cut by it, so that columns do not jitter as the ring moves.
    pushed: u64,
    mark: Option<String>,
    /// True once something was measured.
    measured: bool,
}

impl History {
    /// Adds a moment.
    pub fn push(&mut self, tok_s: Option<f64>, tau: Option<f64>, mode: Option<Mode>) {
        let finite = |v: Option<f64>| v.filter(|v| v.is_finite() && *v >= 0.0);
        if self.points.len() == CAPACITY {
            self.points.pop_front();
        }
        self.points.push_back(Point { tok_s: finite(tok_s), tau: finite(tau), mode, mark: self.mark.take() });
        self.pushed += 1;
        self.measured |= tok_s.is_some();
    }

    /// Marks the next moment as the beginning of a mode. Before anything was measured there is nothing to set apart.
    pub fn mark(&mut self, label: String) {
        if self.measured {
            self.mark = Some(label);
        }
    }

    /// Moments kept.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// True before the first moment.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The last `width` columns of a chart of `pick`, oldest first.
    pub fn columns(&self, width: usize, pick: impl Fn(&Point) -> Option<f64>) -> Vec<Column> {
        let mut columns = VecDeque::new();
        let mut end = self.points.len();
        while end > 0 && columns.len() < width {
            let last = self.pushed - (self.points.len() - end) as u64 - 1;
            let size = ((last % BUCKET + 1) as usize).min(end);
            let bucket = self.points.range(end - size..end);
            let values: Vec<f64> = bucket.clone().filter_map(&pick).collect();
            let mode = bucket.clone().next_back().and_then(|p| p.mode);
            columns.push_front(if values.is_empty() {
                Column::Gap
            } else {
                Column::Value(values.iter().sum::<f64>() / values.len() as f64, mode)
            });
            if let Some(label) = bucket.rev().find_map(|p| p.mark.clone()) {
                columns.push_front(Column::Mark(label, mode));
            }
            end -= size;
        }
        while columns.len() > width {
            columns.pop_front();
        }
        columns.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_stay_gaps_and_marks_stand_before_their_mode() {
        let mut history = History::default();
        for v in [Some(10.0), Some(20.0), None, None] {
            history.push(v, None, Some(Mode::Off));
        }
        history.mark("dflash b8".into());
        history.push(Some(50.0), None, Some(Mode::Dflash));
        let columns = history.columns(10, |p| p.tok_s);
        assert_eq!(
            columns,
            [
                Column::Value(15.0, Some(Mode::Off)),
                Column::Gap,
                Column::Mark("dflash b8".into(), Some(Mode::Dflash)),
                Column::Value(50.0, Some(Mode::Dflash)),
            ]
        );
        assert_eq!(history.columns(1, |p| p.tok_s).len(), 1);
        assert!(history.columns(0, |p| p.tok_s).is_empty());
    }

    #[test]
    fn it_is_bounded_and_columns_do_not_jitter() {
        let mut history = History::default();
        for i in 0..CAPACITY * 2 {
            history.push(Some(i as f64), None, None);
        }
        assert_eq!(history.len(), CAPACITY);
        let before = history.columns(50, |p| p.tok_s);
        history.push(Some(1.0), None, None);
        let after = history.columns(51, |p| p.tok_s);
        assert_eq!(before, after[..50]);
    }

    #[test]
    fn what_is_no_number_is_a_gap() {
        let mut history = History::default();
        history.push(Some(f64::NAN), Some(f64::INFINITY), None);
        assert_eq!(history.columns(3, |p| p.tok_s), [Column::Gap]);
        assert_eq!(history.columns(3, |p| p.tau), [Column::Gap]);
    }
}
