//! A line chart in braille dots: a few series over a common x axis with its own labels.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::ui::format::short;
use crate::ui::paint::Row;
use crate::ui::text;

/// One series.
pub struct Series {
    /// Points with x from 0 to 1.
    pub points: Vec<(f64, f64)>,
    /// Colour.
    pub style: Style,
    /// A level drawn across as a dashed line instead of points.
    pub level: bool,
}

/// Columns of the y labels.
const LABEL: u16 = 6;

/// Dots of an area, each cell two wide and four high.
struct Dots {
    columns: usize,
    rows: usize,
    bits: Vec<(u8, Style)>,
}

impl Dots {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, bits: vec![(0, Style::new()); columns * rows] }
    }

    fn set(&mut self, x: usize, y: usize, style: Style) {
        // Unicode's order of braille dots: down the left column, down the right one, then the bottom row.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if x < self.columns * 2 && y < self.rows * 4 {
            let cell = &mut self.bits[y / 4 * self.columns + x / 2];
            cell.0 |= BITS[y % 4][x % 2];
            cell.1 = style;
        }
    }

    fn line(&mut self, from: (usize, usize), to: (usize, usize), style: Style) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        for i in 0..=steps {
            let share = i as f64 / steps as f64;
            let mix = |a: usize, b: usize| (a as f64 + (b as f64 - a as f64) * share).round() as usize;
            self.set(mix(from.0, to.0), mix(from.1, to.1), style);
        }
    }
}

/// Draws the chart: y labels at the left, `ticks` (place from 0 to 1, label) below. `base` is a level that the scale must
/// hold, e.g. 1 for ratios.
pub fn draw(buf: &mut Buffer, area: Rect, series: &[Series], ticks: &[(f64, String)], base: f64, dim: Style) {
    let area = area.intersection(buf.area);
    if area.width < LABEL + 6 || area.height < 3 {
        return;
    }
    let finite = || series.iter().flat_map(|s| &s.points).filter(|p| p.0.is_finite() && p.1.is_finite());
    let (mut low, mut high) = (base, base);
    for (_, y) in finite() {
        (low, high) = (low.min(*y), high.max(*y));
    }
    let room = ((high - low) * 0.1).max(0.05);
    let (low, high) = ((low - room).max(0.0), high + room);
    if !(high - low).is_finite() || high <= low {
        return;
    }
    let inner = Rect { x: area.x + LABEL, width: area.width - LABEL, height: area.height - 1, ..area };
    let mut dots = Dots::new(inner.width as usize, inner.height as usize);
    let (right, bottom) = (inner.width as usize * 2 - 1, inner.height as usize * 4 - 1);
    // A little room at both sides, so that the first and the last point are not on the frame.
    let at_x = |x: f64| ((0.04 + 0.92 * x.clamp(0.0, 1.0)) * right as f64).round() as usize;
    let at_y = |y: f64| (((high - y) / (high - low)).clamp(0.0, 1.0) * bottom as f64).round() as usize;
    for x in (0..=right).step_by(4) {
        dots.set(x, at_y(base), dim);
    }
    for s in series {
        let points: Vec<_> = s.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).collect();
        if s.level {
            if let Some((_, y)) = points.first() {
                for x in (0..=right).filter(|x| x % 6 < 3) {
                    dots.set(x, at_y(*y), s.style);
                }
            }
            continue;
        }
        for pair in points.windows(2) {
            dots.line((at_x(pair[0].0), at_y(pair[0].1)), (at_x(pair[1].0), at_y(pair[1].1)), s.style);
        }
    }
    for row in 0..dots.rows {
        for column in 0..dots.columns {
            let (bits, style) = dots.bits[row * dots.columns + column];
            if bits > 0
                && let Some(symbol) = char::from_u32(0x2800 + u32::from(bits))
                && let Some(cell) = buf.cell_mut((inner.x + column as u16, inner.y + row as u16))
            {
                cell.set_char(symbol).set_style(style);
            }
        }
    }
    // The points themselves go over the dots: a single budget is still seen.
    for s in series.iter().filter(|s| !s.level) {
        for (x, y) in s.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()) {
            if let Some(cell) = buf.cell_mut((inner.x + (at_x(*x) / 2) as u16, inner.y + (at_y(*y) / 4) as u16)) {
                cell.set_symbol("●").set_style(s.style);
            }
        }
    }
    labels(buf, area, (low, high, base), at_y(base) / 4, dim);
    let mut free = 0;
    for (x, label) in ticks {
        let width = text::width(label);
        let at = (at_x(*x) / 2).saturating_sub(width / 2).min((inner.width as usize).saturating_sub(width));
        if at < free || width > inner.width as usize {
            continue;
        }
        free = at + width + 1;
        let place = Rect { x: inner.x + at as u16, y: area.bottom() - 1, width: width as u16, height: 1 };
        Row::new(buf, place, 0).put(label, dim);
    }
}

fn labels(buf: &mut Buffer, area: Rect, (low, high, base): (f64, f64, f64), base_row: usize, dim: Style) {
    let rows = area.height as usize - 1;
    let mut put = |row: usize, value: f64| {
        let width = LABEL as usize - 1;
        let text = format!("{:>width$}", short(Some(value)));
        Row::new(buf, Rect { width: LABEL, height: 1, y: area.y + row as u16, ..area }, 0).put(text, dim);
    };
    put(base_row, base);
    if base_row > 0 {
        put(0, high);
    }
    if base_row + 1 < rows && low > 0.0 {
        put(rows - 1, low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(columns: u16, rows: u16, series: &[Series]) -> Vec<String> {
        let area = Rect::new(0, 0, columns, rows);
        let mut buf = Buffer::empty(area);
        let ticks = [(0.0, "8".to_owned()), (0.5, "16".to_owned()), (1.0, "32".to_owned())];
        draw(&mut buf, area, series, &ticks, 1.0, Style::new());
        (0..rows).map(|y| (0..columns).map(|x| buf[(x, y)].symbol().to_owned()).collect()).collect()
    }

    fn line(points: Vec<(f64, f64)>) -> Series {
        Series { points, style: Style::new(), level: false }
    }

    #[test]
    fn points_lines_levels_and_labels() {
        let level = Series { points: vec![(0.0, 2.0)], style: Style::new(), level: true };
        let screen = drawn(40, 8, &[level, line(vec![(0.0, 1.5), (0.5, 3.0), (1.0, 2.5)])]).join("\n");
        assert_eq!(screen.matches('●').count(), 3, "{screen}");
        for part in ["1.00", "3.20", "8", "16", "32"] {
            assert!(screen.contains(part), "{part}\n{screen}");
        }
        assert!(screen.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)));
    }

    #[test]
    fn nothing_breaks_it() {
        let series = || [line(vec![(f64::NAN, 1.0), (0.3, f64::INFINITY), (7.0, -1e300), (0.5, 1e300)]), line(vec![])];
        for columns in 0..40 {
            for rows in 0..10 {
                drawn(columns, rows, &series());
                drawn(columns, rows, &[line(vec![(0.0, 1.0)])]);
            }
        }
    }
}
