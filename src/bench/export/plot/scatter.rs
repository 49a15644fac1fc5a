//! Every prompt: the baseline's speed against the mode's.

use crate::bench::compare::METRICS;
use crate::bench::summary::ALL;
use crate::protocol::run::Run;

use super::super::svg::{Anchor, Scale, Svg, axes, labelled, range};
use super::super::words;
use super::{Look, Plot, WIDTH, at_level, legend, looks};

const BOTTOM: f64 = 400.0;

/// A mode with its prompts: name, baseline, mode.
type Series<'a> = (Look, &'a [(String, f64, f64)]);

pub fn plot(run: &Run, level: usize) -> Option<Plot> {
    let series: Vec<Series<'_>> = looks(run)
        .into_iter()
        .filter_map(|look| {
            let c = words::comparison(run, ALL, &look.label, level, METRICS[0])?;
            (!c.by_prompt.is_empty()).then_some((look, c.by_prompt.as_slice()))
        })
        .collect();
    let all = || series.iter().flat_map(|(_, points)| points.iter());
    let across = range(all().map(|(_, x, _)| *x), false)?;
    let up = range(all().map(|(_, _, y)| *y).chain([across.0, across.1]), false)?;
    let mut svg = Svg::new(WIDTH, BOTTOM + 46.0, "Decode speed of every prompt, baseline against mode");
    let legend = legend(&mut svg, series.iter().map(|(look, _)| look));
    let x = Scale::linear(across, (54.0, WIDTH - 16.0));
    let y = Scale::linear(up, (BOTTOM, legend + 26.0));
    axes(&mut svg, &x, &labelled(&x, 8), "baseline, tok/s", &y, "mode, tok/s");
    let (from, to) = across;
    svg.line("one dash", (x.at(from), y.at(from)), (x.at(to), y.at(to)));
    svg.text("t small dim", Anchor::End, (x.at(to) - 4.0, y.at(to) - 6.0), "as fast as the baseline");
    for (look, points) in &series {
        for (prompt, before, after) in *points {
            let tip = format!(
                "{prompt}, {}: {} → {} tok/s (×{:.2})",
                look.label,
                words::number(*before),
                words::number(*after),
                after / before
            );
            svg.point(&format!("{} soft", look.class), look.shape, (x.at(*before), y.at(*after)), 4.5, &tip);
        }
    }
    Some(Plot {
        id: "prompts",
        title: "Prompt by prompt".into(),
        caption: format!(
            "Every point is a prompt, mean over repeats; above the dashed line the mode is faster. The axes have different \
             scales.{}",
            at_level(run, level)
        ),
        svg: svg.finish(),
    })
}
