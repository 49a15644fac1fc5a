//! Where the time of a token goes, by stage.

use crate::bench::summary::ALL;
use crate::protocol::run::{ModeSummary, Run};
use crate::protocol::state::StageTimes;

use super::super::svg::{Anchor, Scale, Svg, labelled, range};
use super::super::words;
use super::{Look, Plot, WIDTH, at_level, looks};

const ROW: f64 = 28.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 120.0;

fn parts(stages: &StageTimes) -> [(&'static str, f64); 4] {
    [("draft", stages.draft), ("build", stages.build), ("verify", stages.verify), ("commit", stages.commit)]
}

pub fn plot(run: &Run, level: usize) -> Option<Plot> {
    let rows: Vec<(Look, StageTimes, f64)> = looks(run)
        .into_iter()
        .filter_map(|look| {
            let summary: &ModeSummary = words::summary(run, ALL, &look.label, level)?;
            let stages = summary.stages.filter(|stages| stages.total() > 0.0)?;
            (summary.tokens > 0).then_some((look, stages, summary.tokens as f64))
        })
        .collect();
    let (_, high) = range(rows.iter().map(|(_, stages, tokens)| stages.total() / tokens), true)?;
    let height = 34.0 + rows.len() as f64 * ROW + 48.0;
    let mut svg = Svg::new(WIDTH, height, "Milliseconds a token by stage");
    let mut at = LEFT;
    for (name, _) in parts(&StageTimes::default()) {
        svg.rect(&format!("st-{name}"), (at, 6.0), (11.0, 11.0), name);
        svg.text("t", Anchor::Start, (at + 16.0, 16.0), name);
        at += 80.0;
    }
    let x = Scale::linear((0.0, high), (LEFT, WIDTH - RIGHT));
    let bottom = height - 48.0;
    for (value, label) in labelled(&x, 6) {
        svg.line("grid", (x.at(value), 28.0), (x.at(value), bottom));
        svg.text("t dim", Anchor::Middle, (x.at(value), bottom + 17.0), &label);
    }
    svg.text("t", Anchor::Middle, (f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 36.0), "ms a token, server's clock");
    for (index, (look, stages, tokens)) in rows.iter().enumerate() {
        let y = 32.0 + index as f64 * ROW;
        svg.text("t", Anchor::End, (LEFT - 8.0, y + 15.0), &look.label);
        let mut from = 0.0;
        for (name, ms) in parts(stages) {
            let (share, wide) = (ms / stages.total(), x.at(ms / tokens) - LEFT);
            let left = x.at(from / tokens);
            let tip =
                format!("{}: {name} {:.1} %, {} ms a token", look.label, share * 100.0, words::number(ms / tokens));
            svg.rect(&format!("st-{name}"), (left, y), (wide, ROW - 8.0), &tip);
            if wide > 34.0 {
                svg.text("on", Anchor::Middle, (left + wide / 2.0, y + 14.0), &format!("{:.0}%", share * 100.0));
            }
            from += ms;
        }
        let total = format!("{} ms", words::number(stages.total() / tokens));
        svg.text("t", Anchor::Start, (x.at(from / tokens) + 8.0, y + 15.0), &total);
    }
    svg.line("axis", (LEFT, 28.0), (LEFT, bottom));
    Some(Plot {
        id: "stages",
        title: "Where the time goes".into(),
        caption: format!(
            "Time a token by stage, all suites, with each stage's share: the drafter's forward, the proposal built from it, \
             the target's forward that verifies it, acceptance and caches.{}",
            at_level(run, level)
        ),
        svg: svg.finish(),
    })
}
