//! The plots of a run, one file a kind. Each draws the lowest concurrency, where the papers measure; the ladder has a
//! plot of its own.

mod budget;
mod histogram;
mod ladder;
mod ratios;
mod scatter;
mod stages;
mod timeline;

use crate::protocol::mode::Mode;
use crate::protocol::run::Run;

use super::{svg, words};

/// A plot with what is said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// File name without extension, and anchor in the report.
    pub id: &'static str,
    /// Heading.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The picture, to stand in a page.
    pub svg: String,
}

impl Plot {
    /// The picture as a file of its own, with its colours.
    pub fn standalone(&self) -> String {
        svg::standalone(&self.svg)
    }
}

/// Every plot for which the run has data.
pub fn plots(run: &Run) -> Vec<Plot> {
    let Some(level) = words::levels(run).first().copied() else { return Vec::new() };
    [
        ratios::plot(run, level),
        budget::plot(run, level),
        histogram::plot(run, level),
        scatter::plot(run, level),
        stages::plot(run, level),
        ladder::plot(run),
        timeline::plot(run, level),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Width of every plot.
const WIDTH: f64 = 880.0;

/// A mode as it is drawn.
#[derive(Debug, Clone, PartialEq)]
struct Look {
    label: String,
    /// Colour class: grey for the baseline, warm for DFlash, a ramp over tree budgets, one of its own for
    /// auto, others by number.
    class: String,
    /// Number of its shape.
    shape: usize,
}

fn looks(run: &Run) -> Vec<Look> {
    let modes = words::modes(run);
    let kind = |label: &str| run.plan.modes.iter().find(|m| m.label == label).and_then(|m| m.request.mode);
    let trees = modes.iter().skip(1).filter(|label| kind(label) == Some(Mode::Ddtree)).count();
    let (mut chain, mut tree, mut other) = (0, 0, 0);
    let mut class = |index: usize, label: &str| -> String {
        if index == 0 {
            return "base".into();
        }
        match kind(label) {
            Some(Mode::Dflash) => {
                chain += 1;
                format!("f{}", (chain - 1) % 3)
            }
            Some(Mode::Ddtree) => {
                tree += 1;
                let step = if trees > 1 { (tree - 1) as f64 / (trees - 1) as f64 * 5.0 } else { 2.0 };
                format!("t{}", step.round())
            }
            // Away from the ramp of the trees.
            Some(Mode::Auto) => "x3".into(),
            _ => {
                other += 1;
                format!("x{}", (other - 1) % 6)
            }
        }
    };
    modes
        .iter()
        .enumerate()
        .map(|(index, label)| Look { label: (*label).to_owned(), class: class(index, label), shape: index })
        .collect()
}

/// What a caption says about the level, where there are several.
fn at_level(run: &Run, level: usize) -> String {
    if words::levels(run).len() > 1 { format!(" {level} in flight.") } else { String::new() }
}

/// The modes' names above a plot. Returns its height.
fn legend<'a>(svg: &mut svg::Svg, looks: impl Iterator<Item = &'a Look>) -> f64 {
    let entries: Vec<_> = looks.map(|look| (look.class.clone(), look.shape, look.label.clone())).collect();
    svg.legend((54.0, 4.0), WIDTH - 60.0, &entries)
}
