//! How many tokens a round brought, a panel a mode.

use crate::bench::summary::ALL;
use crate::protocol::run::{ModeSummary, Run};

use super::super::svg::{Anchor, Scale, Svg, tick};
use super::super::words;
use super::{Look, Plot, WIDTH, at_level, looks};

const COLUMNS: usize = 3;
const PANEL: (f64, f64) = (WIDTH / COLUMNS as f64, 178.0);
/// Bars in a panel; what is longer is gathered in the last.
const MOST: usize = 17;

pub fn plot(run: &Run, level: usize) -> Option<Plot> {
    let panels: Vec<(Look, &ModeSummary)> = looks(run)
        .into_iter()
        .filter_map(|look| Some((look.clone(), words::summary(run, ALL, &look.label, level)?)))
        .filter(|(_, s)| s.accepted_hist.iter().skip(1).any(|rounds| *rounds > 0))
        .collect();
    let longest = panels.iter().map(|(_, s)| s.accepted_hist.len()).max()?.min(MOST);
    let shares: Vec<Vec<f64>> = panels.iter().map(|(_, s)| shares(&s.accepted_hist, longest)).collect();
    let most = shares.iter().flatten().copied().fold(0.0, f64::max);
    let rows = panels.len().div_ceil(COLUMNS);
    let mut svg = Svg::new(WIDTH, rows as f64 * PANEL.1 + 8.0, "Rounds by acceptance length, one panel a mode");
    for (index, ((look, summary), shares)) in panels.iter().zip(&shares).enumerate() {
        let origin = ((index % COLUMNS) as f64 * PANEL.0, (index / COLUMNS) as f64 * PANEL.1);
        panel(&mut svg, origin, look, summary, shares, most);
    }
    Some(Plot {
        id: "acceptance",
        title: "Acceptance length".into(),
        caption: format!(
            "Share of rounds by tokens committed (accepted drafts and the bonus token), all suites; the line is the mean, \
             τ. All panels have one scale.{}",
            at_level(run, level)
        ),
        svg: svg.finish(),
    })
}

fn shares(hist: &[u64], bars: usize) -> Vec<f64> {
    let rounds = hist.iter().sum::<u64>().max(1) as f64;
    let mut shares = vec![0.0; bars];
    for (accepted, count) in hist.iter().enumerate() {
        shares[accepted.min(bars - 1)] += *count as f64 / rounds;
    }
    shares
}

fn panel(svg: &mut Svg, (left, top): (f64, f64), look: &Look, summary: &ModeSummary, shares: &[f64], most: f64) {
    let (left, right, bottom, top) = (left + 38.0, left + PANEL.0 - 14.0, top + PANEL.1 - 34.0, top + 34.0);
    let y = Scale::linear((0.0, most * 100.0), (bottom, top));
    for value in y.ticks(3) {
        svg.line("grid", (left, y.at(value)), (right, y.at(value)));
        svg.text("t dim", Anchor::End, (left - 6.0, y.at(value) + 4.0), &format!("{}%", tick(value)));
    }
    let wide = (right - left) / shares.len() as f64;
    for (index, share) in shares.iter().enumerate() {
        let over = index + 1 == shares.len() && summary.accepted_hist.len() > shares.len();
        let label = format!("{}{}", index + 1, if over { "+" } else { "" });
        let tip = format!("{}: {label} tokens in {:.1} % of rounds", look.label, share * 100.0);
        let height = bottom - y.at(share * 100.0);
        svg.rect(&look.class, (left + index as f64 * wide + 1.0, bottom - height), (wide - 2.0, height), &tip);
        if index % 2 == 0 || shares.len() < 9 {
            let middle = left + (index as f64 + 0.5) * wide;
            svg.text("t dim small", Anchor::Middle, (middle, bottom + 15.0), &label);
        }
    }
    svg.line("axis", (left, bottom), (right, bottom));
    svg.text("t strong", Anchor::Start, (left, top - 14.0), &look.label);
    if let Some(tau) = summary.tau_pooled {
        let at = left + (tau - 0.5).clamp(0.0, shares.len() as f64) * wide;
        svg.line("one dash", (at, top - 4.0), (at, bottom));
        svg.text("t", Anchor::End, (right, top - 14.0), &format!("τ {tau:.2}"));
    }
}
