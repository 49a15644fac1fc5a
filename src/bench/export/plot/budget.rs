//! Speed-up and τ against the tree budget, DFlash as a dashed line: the papers' figure.

use crate::bench::compare::METRICS;
use crate::bench::summary::ALL;
use crate::protocol::mode::Mode;
use crate::protocol::run::Run;

use super::super::svg::{Anchor, Scale, Svg, axes, range};
use super::super::words;
use super::{Look, Plot, WIDTH, at_level, looks};

const TOP: f64 = 34.0;
const BOTTOM: f64 = 280.0;

/// A mode's figure: the value, its interval where there is one.
type Point = (Look, f64, Option<[f64; 2]>);

pub fn plot(run: &Run, level: usize) -> Option<Plot> {
    let looks = looks(run);
    let request = |look: &Look| run.plan.modes.iter().find(|m| m.label == look.label).map(|m| m.request);
    let mut trees: Vec<(f64, Look)> = Vec::new();
    let mut chains: Vec<Look> = Vec::new();
    for look in looks {
        match request(&look).and_then(|r| Some((r.mode?, r.tree_budget))) {
            Some((Mode::Ddtree, Some(budget))) if budget > 0 => trees.push((budget as f64, look)),
            Some((Mode::Dflash, _)) => chains.push(look),
            _ => {}
        }
    }
    trees.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (trees.first()?.0, trees.last()?.0);
    if last <= first {
        return None;
    }
    let speed = |look: &Look| {
        let c = words::comparison(run, ALL, &look.label, level, METRICS[0])?;
        Some((look.clone(), c.ratio?, c.interval))
    };
    let tau = |look: &Look| {
        let tau = words::summary(run, ALL, &look.label, level)?.tau_pooled?;
        Some((look.clone(), tau, None))
    };
    let mut svg = Svg::new(WIDTH, BOTTOM + 44.0, "Speed-up and acceptance length against the tree budget");
    let half = WIDTH / 2.0;
    let budgets: Vec<f64> = trees.iter().map(|(budget, _)| *budget).collect();
    let mut any = false;
    for (left, name, figure) in [
        (46.0, "speed-up, decode (all suites)", &speed as &dyn Fn(&Look) -> Option<Point>),
        (half + 46.0, "τ, tokens a round", &tau),
    ] {
        let points: Vec<(f64, Point)> =
            trees.iter().filter_map(|(budget, look)| Some((*budget, figure(look)?))).collect();
        let dashed: Vec<Point> = chains.iter().filter_map(figure).collect();
        any |= panel(&mut svg, (left, left + half - 78.0), name, &budgets, &points, &dashed).is_some();
    }
    any.then(|| Plot {
        id: "budget",
        title: "Tree budget".into(),
        caption: format!(
            "Speed-up and acceptance length τ against the number of tree nodes (logarithmic); DFlash dashed. A larger tree \
             accepts more, until its verification costs more than it saves.{}",
            at_level(run, level)
        ),
        svg: svg.finish(),
    })
}

fn panel(
    svg: &mut Svg,
    (left, right): (f64, f64),
    name: &str,
    budgets: &[f64],
    points: &[(f64, Point)],
    dashed: &[Point],
) -> Option<()> {
    let values = points
        .iter()
        .map(|(_, point)| point)
        .chain(dashed)
        .flat_map(|(_, value, interval)| interval.map_or([*value; 2], |[low, high]| [low, high]));
    // The line that everything is measured from belongs in the picture.
    let (low, high) = range(values.chain([1.0]), false)?;
    points.first()?;
    let x = Scale::log2((budgets.first()? / 1.15, budgets.last()? * 1.15), (left, right));
    let y = Scale::linear((low, high), (BOTTOM, TOP));
    let ticks: Vec<(f64, String)> = budgets.iter().map(|budget| (*budget, format!("{budget}"))).collect();
    axes(svg, &x, &ticks, "tree nodes", &y, name);
    svg.line("one", (left, y.at(1.0)), (right, y.at(1.0)));
    for (look, value, _) in dashed {
        svg.line(&format!("series dash {}", look.class), (left, y.at(*value)), (right, y.at(*value)));
        svg.text("t small dim", Anchor::End, (right, y.at(*value) - 5.0), &format!("{} {value:.2}", look.label));
    }
    let line: Vec<(f64, f64)> = points.iter().map(|(budget, (_, value, _))| (x.at(*budget), y.at(*value))).collect();
    svg.path("line t2", &line);
    for (budget, (look, value, interval)) in points {
        let at = (x.at(*budget), y.at(*value));
        if let Some([low, high]) = interval {
            svg.line("whisker", (at.0, y.at(*low)), (at.0, y.at(*high)));
        }
        svg.point(&look.class, look.shape, at, 5.0, &format!("{}: {value:.2}", look.label));
    }
    Some(())
}
