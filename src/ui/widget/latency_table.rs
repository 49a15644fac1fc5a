//! Latency percentiles.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::{Latencies, Percentiles};
use crate::ui::format;
use crate::ui::paint::Row;
use crate::ui::theme::{Role, Theme};

/// A percentile, or why there is none.
pub fn figure(value: Option<f64>, n: u64, least: u64) -> (String, bool) {
    match value {
        Some(_) => (format::ms(value), true),
        None if n == 0 || n >= least => (format::ABSENT.into(), false),
        None => (format!("n<{least}"), false),
    }
}

/// Draws the table: as many rows as fit, the most telling first.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, latency: Option<&Latencies>) {
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let none = Latencies::default();
    let l = latency.unwrap_or(&none);
    let column = ((area.width as usize).saturating_sub(6) / 3).clamp(7, 12);
    let mut row = Row::new(buf, area, 0);
    row.put("      ", dim);
    for name in ["p50", "p95", "p99"] {
        row.put(format!("{name:>column$}"), dim);
    }
    let lines: [(&str, &Percentiles); 4] = [("ttft", &l.ttft), ("itl", &l.itl), ("step", &l.step), ("e2e", &l.e2e)];
    for (line, (name, p)) in lines.into_iter().enumerate() {
        let mut row = Row::new(buf, area, line as u16 + 1);
        row.put(format!(" {name:<5}"), dim);
        for (value, least) in [(p.p50, 1), (p.p95, 20), (p.p99, 100)] {
            let (text, known) = figure(value, p.n, least);
            row.put(format!("{text:>column$}"), if known { normal } else { dim });
        }
        row.put_whole(format!("  n {}", format::count(p.n)), dim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_samples_are_said() {
        assert_eq!(figure(None, 12, 20), ("n<20".into(), false));
        assert_eq!(figure(None, 0, 20), ("—".into(), false));
        assert_eq!(figure(Some(3.0), 40, 20), ("3.00 ms".into(), true));
    }
}
