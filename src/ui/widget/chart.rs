//! Bars over time: one column a moment, gaps left empty, a dashed line with a label where the mode changed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::protocol::mode::Mode;
use crate::ui::history::Column;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The next of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, … at or above the greatest value: a scale that does not jump with every sample.
pub fn ceiling(columns: &[Column]) -> f64 {
    let greatest = columns.iter().fold(0.0f64, |m, c| if let Column::Value(v, _) = c { m.max(*v) } else { m });
    if greatest <= 0.0 || !greatest.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(greatest.log10().floor());
    [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|s| s * power)
        .find(|c| *c >= greatest && c.is_finite())
        .unwrap_or(greatest)
}

fn style_of(theme: &Theme, mode: Option<Mode>) -> Style {
    theme.style(mode.map_or(Role::SeriesB, Role::of_mode))
}

/// Draws the columns, the newest at the right edge.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, columns: &[Column], ceiling: f64) {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return;
    }
    let columns = &columns[columns.len().saturating_sub(area.width as usize)..];
    let first = area.right() - columns.len() as u16;
    let marked = columns.iter().any(|c| matches!(c, Column::Mark(..)));
    // Labels get a row of their own where there is room for one.
    let labels = u16::from(marked && area.height >= 3);
    let bars = area.height - labels;
    for (x, column) in (first..).zip(columns) {
        match column {
            Column::Gap => {
                if let Some(cell) = buf.cell_mut((x, area.bottom() - 1)) {
                    cell.set_symbol("·").set_style(theme.style(Role::BorderIdle));
                }
            }
            Column::Value(value, mode) => {
                let share = if ceiling > 0.0 { (value / ceiling).clamp(0.0, 1.0) } else { 0.0 };
                // A value that is there is never drawn as nothing.
                let eighths = ((share * f64::from(bars) * 8.0).round() as usize).max(1);
                for level in 0..bars as usize {
                    let part = eighths.saturating_sub(level * 8).min(8);
                    if part > 0
                        && let Some(cell) = buf.cell_mut((x, area.bottom() - 1 - level as u16))
                    {
                        cell.set_symbol(EIGHTHS[part]).set_style(style_of(theme, *mode));
                    }
                }
            }
            Column::Mark(_, mode) => {
                for y in area.y..area.bottom() {
                    if let Some(cell) = buf.cell_mut((x, y)) {
                        cell.set_symbol("┊").set_style(style_of(theme, *mode));
                    }
                }
            }
        }
    }
    if labels == 0 {
        return;
    }
    let marks: Vec<(usize, &str, Option<Mode>)> = columns
        .iter()
        .enumerate()
        .filter_map(|(i, c)| if let Column::Mark(label, mode) = c { Some((i, label.as_str(), *mode)) } else { None })
        .collect();
    for (n, (at, label, mode)) in marks.iter().enumerate() {
        let end = marks.get(n + 1).map_or(columns.len(), |m| m.0);
        let width = text::width(label);
        let (from, to) = if at + 1 + width <= end {
            (at + 1, end)
        } else {
            // No room to the right: to the left of the line, if nothing is there.
            let before = if n == 0 { 0 } else { marks[n - 1].0 + 1 + text::width(marks[n - 1].1) };
            if at.saturating_sub(width) < before || *at < width {
                continue;
            }
            (at - width, *at)
        };
        let room = Rect { x: first + from as u16, width: (to - from) as u16, height: 1, ..area };
        Row::new(buf, room, 0).put(label, style_of(theme, *mode));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(columns: &[Column], width: u16, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        let theme = Theme::built_in("mono").expect("built in");
        draw(&mut buf, area, &theme, columns, ceiling(columns));
        (0..height).map(|y| (0..width).map(|x| buf[(x, y)].symbol().to_owned()).collect()).collect()
    }

    #[test]
    fn gaps_are_no_bars_and_marks_are_labelled() {
        let columns = [
            Column::Value(50.0, None),
            Column::Gap,
            Column::Mark("off".into(), None),
            Column::Value(100.0, None),
            Column::Value(0.0, None),
            Column::Value(100.0, None),
        ];
        assert_eq!(drawn(&columns, 8, 3), ["    ┊off", "    ┊█ █", "  █·┊█▁█"]);
        assert_eq!(drawn(&columns[..3], 3, 3)[0], "  ┊", "no room for the label");
    }

    #[test]
    fn the_scale_is_round() {
        let at = |v| ceiling(&[Column::Value(v, None)]);
        assert_eq!((at(0.0), at(70.0), at(230.0), at(412.0)), (1.0, 80.0, 300.0, 600.0));
        assert!((at(0.3) - 0.3).abs() < 1e-9);
        assert_eq!(ceiling(&[Column::Gap]), 1.0);
        assert!(at(f64::MAX).is_finite());
    }
}
