//! Throughput over the concurrency ladder.

use crate::bench::summary::ALL;
use crate::protocol::run::Run;

use super::super::svg::{Scale, Svg, axes, range};
use super::super::words;
use super::{Plot, WIDTH, legend, looks};

const BOTTOM: f64 = 320.0;

pub fn plot(run: &Run) -> Option<Plot> {
    let levels = words::levels(run);
    let (first, last) = (*levels.first()?, *levels.last()?);
    if first == last || first == 0 {
        return None;
    }
    let looks = looks(run);
    let lines: Vec<Vec<(usize, f64)>> = looks
        .iter()
        .map(|look| {
            let at = |level: &usize| Some((*level, words::summary(run, ALL, &look.label, *level)?.throughput_tok_s?));
            levels.iter().filter_map(at).collect()
        })
        .collect();
    let up = range(lines.iter().flatten().map(|(_, value)| *value), true)?;
    let mut svg = Svg::new(WIDTH, BOTTOM + 46.0, "Throughput by requests in flight");
    let legend = legend(&mut svg, looks.iter());
    let x = Scale::log2((first as f64 / 1.1, last as f64 * 1.1), (54.0, WIDTH - 16.0));
    let y = Scale::linear(up, (BOTTOM, legend + 26.0));
    let ticks: Vec<(f64, String)> = levels.iter().map(|level| (*level as f64, level.to_string())).collect();
    axes(&mut svg, &x, &ticks, "requests in flight", &y, "throughput, tok/s");
    for (look, line) in looks.iter().zip(&lines) {
        let points: Vec<(f64, f64)> = line.iter().map(|(level, value)| (x.at(*level as f64), y.at(*value))).collect();
        svg.path(&format!("line {}", look.class), &points);
        for ((level, value), at) in line.iter().zip(points) {
            let tip = format!("{}: {} tok/s with {level} in flight", look.label, words::number(*value));
            svg.point(&look.class, look.shape, at, 4.5, &tip);
        }
    }
    Some(Plot {
        id: "concurrency",
        title: "Concurrency".into(),
        caption:
            "Tokens a second of all requests together. Speculation spends computation that a full batch needs itself, \
                  so its gain shrinks as requests are added."
                .into(),
        svg: svg.finish(),
    })
}
