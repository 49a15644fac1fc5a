//! Speed-up by suite: a bar a mode, with its interval and its word.

use crate::bench::compare::METRICS;
use crate::protocol::run::Run;

use super::super::svg::{Anchor, Scale, Svg, labelled, range};
use super::super::words;
use super::{Plot, WIDTH, at_level, looks};

const ROW: f64 = 20.0;
const LEFT: f64 = 190.0;
/// Room for figure and verdict.
const RIGHT: f64 = 250.0;

pub fn plot(run: &Run, level: usize) -> Option<Plot> {
    let looks = looks(run);
    let rows = |suite: &str| {
        looks
            .iter()
            .filter_map(|look| Some((look, words::comparison(run, suite, &look.label, level, METRICS[0])?)))
            .filter(|(_, c)| c.ratio.is_some())
            .collect::<Vec<_>>()
    };
    let groups: Vec<_> = words::suites(run).into_iter().map(|s| (s, rows(s))).filter(|(_, r)| !r.is_empty()).collect();
    let reach = groups
        .iter()
        .flat_map(|(_, rows)| rows)
        .flat_map(|(_, c)| [c.ratio, c.interval.map(|[_, high]| high)].into_iter().flatten());
    // Intervals over two or three prompts may reach to the moon; the axis does not follow them there.
    let most = groups.iter().flat_map(|(_, rows)| rows).filter_map(|(_, c)| c.ratio).fold(1.0, f64::max) * 2.0;
    let (_, high) = range(reach.map(|value| value.min(most)).chain([1.0]), true)?;
    if groups.is_empty() {
        return None;
    }
    let lines: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
    let height = 34.0 + lines as f64 * ROW + groups.len() as f64 * 14.0 + 34.0;
    let mut svg = Svg::new(WIDTH, height, "Speed-up over the baseline by suite and mode, with 95 % intervals");
    let x = Scale::linear((0.0, high), (LEFT, WIDTH - RIGHT));
    let bottom = height - 34.0;
    for (value, label) in labelled(&x, 6) {
        svg.line("grid", (x.at(value), 14.0), (x.at(value), bottom));
        svg.text("t dim", Anchor::Middle, (x.at(value), bottom + 17.0), &format!("×{label}"));
    }
    let mut y = 20.0;
    for (suite, rows) in &groups {
        svg.text("t strong", Anchor::Start, (4.0, y + 14.0), suite);
        for (look, c) in rows {
            let Some(ratio) = c.ratio else { continue };
            let tip = format!("{suite}, {}: {} over {} prompts", look.label, words::ratio(c), c.prompts);
            svg.text("t", Anchor::End, (LEFT - 8.0, y + 14.0), &look.label);
            svg.rect(&format!("{} soft", look.class), (LEFT, y + 3.0), (x.at(ratio) - LEFT, ROW - 6.0), &tip);
            if let Some([low, high]) = c.interval {
                let (from, to, middle) = (x.at(low.max(0.0)), x.at(high.min(x.range().1)), y + ROW / 2.0);
                svg.line("whisker", (from, middle), (to, middle));
                svg.line("whisker", (from, middle - 4.0), (from, middle + 4.0));
                if high <= x.range().1 {
                    svg.line("whisker", (to, middle - 4.0), (to, middle + 4.0));
                }
            }
            svg.text("t small", Anchor::Start, (WIDTH - RIGHT + 12.0, y + 14.0), &words::ratio(c));
            svg.text("t small dim", Anchor::Start, (WIDTH - RIGHT + 128.0, y + 14.0), &words::verdict(c));
            y += ROW;
        }
        y += 14.0;
    }
    svg.line("one", (x.at(1.0), 14.0), (x.at(1.0), bottom));
    svg.text("t dim", Anchor::Middle, (x.at(1.0), 10.0), "baseline");
    Some(Plot {
        id: "speedup",
        title: "Speed-up by suite".into(),
        caption: format!(
            "Decode speed over the baseline's, geometric mean over prompts; whiskers are 95 % intervals. Where they touch \
             the line at 1, no difference is shown.{}",
            at_level(run, level)
        ),
        svg: svg.finish(),
    })
}
