//! The run in time: a drifting machine shows here.

use crate::protocol::run::{Purpose, RequestRecord, Run};

use super::super::svg::{Scale, Svg, axes, labelled, range};
use super::super::words;
use super::{Plot, WIDTH, at_level, legend, looks};

const BOTTOM: f64 = 320.0;

pub fn plot(run: &Run, level: usize) -> Option<Plot> {
    let drawn: Vec<(&RequestRecord, f64)> = run
        .requests
        .iter()
        .filter(|r| r.concurrency == level)
        .filter_map(|r| Some((r, r.decode_tok_s.filter(|rate| rate.is_finite())?)))
        .collect();
    let end = drawn.iter().map(|(r, _)| r.sent_ms + r.e2e_ms).fold(0.0, f64::max);
    // Imported files may not say when a request was sent; without times there is no timeline.
    if drawn.iter().all(|(r, _)| r.sent_ms == 0.0) {
        return None;
    }
    let up = range(drawn.iter().map(|(_, rate)| *rate), true)?;
    let looks = looks(run);
    let mut svg = Svg::new(WIDTH, BOTTOM + 46.0, "Decode speed of every request over the run");
    let legend = legend(&mut svg, looks.iter());
    let x = Scale::linear((0.0, end / 1000.0), (54.0, WIDTH - 16.0));
    let y = Scale::linear(up, (BOTTOM, legend + 26.0));
    axes(&mut svg, &x, &labelled(&x, 8), "seconds since the start", &y, "decode, tok/s");
    for (record, rate) in drawn {
        let Some(look) = looks.iter().find(|look| look.label == record.mode) else { continue };
        let measured = record.purpose == Purpose::Measure;
        let (from, to) = (x.at(record.sent_ms / 1000.0), x.at((record.sent_ms + record.e2e_ms) / 1000.0));
        let what = match record.purpose {
            Purpose::Warmup => "warm-up",
            Purpose::Bracket => "bracket",
            Purpose::Measure => "measured",
        };
        let tip = format!(
            "{what}: {}, {}/{}, repeat {}: {} tok/s",
            look.label,
            record.suite,
            record.prompt_id,
            record.repeat + 1,
            words::number(rate)
        );
        let class = format!("{} {}", look.class, if measured { "soft" } else { "faint" });
        if record.purpose == Purpose::Bracket {
            svg.point(&look.class, 3, (f64::midpoint(from, to), y.at(rate)), 5.0, &tip);
        } else {
            svg.rect(&class, (from, y.at(rate) - 1.5), ((to - from).max(2.0), 3.0), &tip);
        }
    }
    Some(Plot {
        id: "timeline",
        title: "The run in time".into(),
        caption: format!(
            "Every request as a dash from sent to end at its decode speed; warm-up faint, brackets (the baseline at the \
             start and the end) as diamonds. Level rows mean a steady machine.{}",
            at_level(run, level)
        ),
        svg: svg.finish(),
    })
}
