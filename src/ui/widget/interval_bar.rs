//! A ratio with its interval on a logarithmic scale, one row each: the "forest plot" of benchmark results.

use ratatui::style::Style;

use crate::ui::paint::Row;

/// Ratios that a scale can show at most.
const LIMITS: [f64; 2] = [0.01, 100.0];
/// Ticks that a scale may carry, those first that people read most easily: what comes later takes only the room left.
const TICKS: [f64; 15] = [0.5, 2.0, 0.1, 10.0, 0.2, 5.0, 0.33, 3.0, 0.75, 1.5, 7.0, 0.05, 20.0, 0.02, 50.0];

/// From which ratio to which; always holds 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
}

/// Where a ratio falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Below,
    At(usize),
    Above,
}

impl Scale {
    /// A scale that shows all these ratios, 1, and some room at both sides. What is no positive number is left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut low, mut high) = (1.0f64, 1.0f64);
        for v in values.into_iter().filter(|v| v.is_finite() && *v > 0.0) {
            (low, high) = (low.min(v), high.max(v));
        }
        let room = ((high / low).powf(0.08)).max(1.08);
        Self { low: (low / room).max(LIMITS[0]), high: (high * room).min(LIMITS[1]) }
    }

    fn place(self, value: f64, columns: usize) -> Option<Place> {
        if !value.is_finite() || columns == 0 {
            return None;
        }
        if value < self.low {
            return Some(Place::Below);
        }
        if value > self.high {
            return Some(Place::Above);
        }
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        Some(Place::At(((share * (columns - 1) as f64).round() as usize).min(columns - 1)))
    }
}

/// Draws a point and its interval into the next `columns` of a row. A missing interval leaves the point alone, a missing
/// point nothing but the line at 1. What lies beyond the scale ends in an arrow.
pub fn draw(
    row: &mut Row<'_>,
    columns: usize,
    scale: Scale,
    point: Option<f64>,
    interval: Option<[f64; 2]>,
    (ink, dim): (Style, Style),
) {
    let columns = columns.min(row.left());
    if columns == 0 {
        return;
    }
    let mut cells: Vec<(&str, Style)> = vec![(" ", dim); columns];
    let one = scale.place(1.0, columns);
    if let Some(Place::At(x)) = one {
        cells[x] = ("┊", dim);
    }
    let ends = interval.and_then(|[a, b]| Some((scale.place(a.min(b), columns)?, scale.place(a.max(b), columns)?)));
    if let Some((low, high)) = ends {
        let (from, from_mark) = match low {
            Place::Below => (0, "◂"),
            Place::At(x) => (x, "├"),
            Place::Above => (columns - 1, "▸"),
        };
        let (to, to_mark) = match high {
            Place::Below => (0, "◂"),
            Place::At(x) => (x, "┤"),
            Place::Above => (columns - 1, "▸"),
        };
        for (x, cell) in cells.iter_mut().enumerate().take(to + 1).skip(from) {
            // The interval holds 1: no difference was shown, and the crossing says so.
            let crossing = one == Some(Place::At(x));
            *cell = (if crossing { "┼" } else { "─" }, ink);
        }
        cells[to] = (to_mark, ink);
        cells[from] = (from_mark, ink);
        if from == to && low == high && matches!(low, Place::At(_)) {
            cells[from] = ("│", ink);
        }
    }
    match point.and_then(|p| scale.place(p, columns)) {
        Some(Place::At(x)) => cells[x] = ("●", ink),
        Some(Place::Below) => cells[0] = ("◂", ink),
        Some(Place::Above) => cells[columns - 1] = ("▸", ink),
        None => {}
    }
    for (symbol, style) in cells {
        row.put(symbol, style);
    }
}

/// Draws the ticks under the bars: `×1` always, others where there is room.
pub fn axis(row: &mut Row<'_>, columns: usize, scale: Scale, style: Style) {
    let columns = columns.min(row.left());
    let mut line = vec![' '; columns];
    for tick in std::iter::once(1.0).chain(TICKS) {
        let Some(Place::At(x)) = scale.place(tick, columns) else { continue };
        let label: Vec<char> = format!("×{tick}").chars().collect();
        let from = x.saturating_sub(label.len() / 2).min(columns.saturating_sub(label.len()));
        let to = from + label.len();
        // One column of room to its neighbours.
        let free = to <= columns && line[from.saturating_sub(1)..(to + 1).min(columns)].iter().all(|c| *c == ' ');
        if free {
            line[from..to].copy_from_slice(&label);
        }
    }
    row.put(line.into_iter().collect::<String>(), style);
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    use super::*;

    fn drawn(columns: u16, scale: Scale, point: Option<f64>, interval: Option<[f64; 2]>) -> String {
        let area = Rect::new(0, 0, columns, 1);
        let mut buf = Buffer::empty(area);
        let style = (Style::new(), Style::new());
        draw(&mut Row::new(&mut buf, area, 0), 99, scale, point, interval, style);
        (0..columns).map(|x| buf[(x, 0)].symbol().to_owned()).collect()
    }

    const QUARTER_TO_FOUR: Scale = Scale { low: 0.25, high: 4.0 };

    #[test]
    fn slower_faster_and_no_difference_look_different() {
        let bar = |point, interval| drawn(17, QUARTER_TO_FOUR, Some(point), Some(interval));
        // Four columns an octave: 0.4, 0.5 and 0.6 lie 5.3, 4 and 2.9 columns left of 1.
        assert_eq!(bar(0.5, [0.4, 0.6]), "   ├●┤  ┊        ");
        assert_eq!(bar(2.0, [1.6, 2.6]), "        ┊  ├●─┤  ");
        assert_eq!(bar(1.1, [0.8, 1.5]), "       ├┼●┤      ");
        assert_eq!(bar(1.0, [1.0, 1.0]), "        ●        ");
        assert_eq!(bar(0.9, [0.5, 1.0]), "    ├──●┤        ", "an interval that ends at 1 covers the line");
    }

    #[test]
    fn what_is_off_the_scale_ends_in_arrows() {
        assert_eq!(drawn(9, QUARTER_TO_FOUR, Some(9.0), Some([8.0, 10.0])), "    ┊   ▸");
        assert_eq!(drawn(9, QUARTER_TO_FOUR, Some(0.01), Some([0.001, 0.02])), "◂   ┊    ");
        assert_eq!(drawn(9, QUARTER_TO_FOUR, Some(1.0), Some([0.1, 50.0])), "◂───●───▸");
        assert_eq!(drawn(9, QUARTER_TO_FOUR, None, Some([2.0, f64::INFINITY])), "    ┊    ", "no number, no bar");
        assert_eq!(drawn(9, QUARTER_TO_FOUR, None, None), "    ┊    ");
        assert_eq!(drawn(9, QUARTER_TO_FOUR, Some(2.0), None), "    ┊ ●  ");
    }

    #[test]
    fn any_width_will_do() {
        for columns in 0..40 {
            for point in [None, Some(f64::NAN), Some(0.0), Some(-1.0), Some(0.7), Some(f64::MAX)] {
                for interval in [None, Some([0.5, 0.9]), Some([2.0, 1.0]), Some([f64::NAN, 1.0]), Some([0.0, 1e300])] {
                    drawn(columns, QUARTER_TO_FOUR, point, interval);
                    drawn(columns, Scale::of(point.into_iter().chain(interval.into_iter().flatten())), point, interval);
                }
            }
        }
        assert_eq!(drawn(1, QUARTER_TO_FOUR, Some(0.5), Some([0.4, 0.6])), "●");
        assert_eq!(drawn(2, QUARTER_TO_FOUR, Some(0.5), Some([0.4, 0.6])), "●┊");
    }

    #[test]
    fn the_scale_holds_everything_and_one() {
        let scale = Scale::of([0.4, 0.6, f64::NAN, -3.0]);
        assert!(scale.low < 0.4 && scale.high > 1.0);
        let extreme = Scale::of([1e-9, 1e9]);
        assert_eq!((extreme.low, extreme.high), (LIMITS[0], LIMITS[1]));
        let area = Rect::new(0, 0, 24, 1);
        let mut buf = Buffer::empty(area);
        axis(&mut Row::new(&mut buf, area, 0), 24, QUARTER_TO_FOUR, Style::new());
        let line: String = (0..24).map(|x| buf[(x, 0)].symbol().to_owned()).collect();
        assert!(line.contains("×1") && line.contains("×0.5") && line.contains("×2"), "{line:?}");
        for columns in 0..24 {
            axis(&mut Row::new(&mut buf, area, 0), columns, scale, Style::new());
        }
    }
}
