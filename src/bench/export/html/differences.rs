//! Where outputs part from the baseline's.

use std::fmt::Write as _;

use crate::bench::compare::METRICS;
use crate::bench::summary::ALL;
use crate::protocol::run::{Divergence, Losslessness, Run, RunStatus};

use super::super::svg::escape;
use super::super::words;

/// A gap between the two best logits below this points to a near tie, which another order of summation may flip.
const NEAR_TIE: f64 = 0.01;

/// First differences of every mode, or the word that there are none.
pub fn section(run: &Run, out: &mut String) {
    let found: Vec<(String, &Losslessness)> = run
        .compare
        .iter()
        .filter(|c| c.suite == ALL && c.metric == METRICS[0])
        .map(|c| {
            let at =
                if words::levels(run).len() > 1 { format!(", {} in flight", c.concurrency) } else { String::new() };
            (format!("{}{at}", c.mode), &c.lossless)
        })
        .collect();
    if found.is_empty() {
        return;
    }
    out.push_str("<section id=\"differences\">\n<h2>Is it the same text?</h2>\n");
    if found.iter().all(|(_, l)| !l.checked) {
        let why = if run.meta.status == RunStatus::Imported {
            "imported files do not say at which temperature they were made"
        } else {
            "above temperature 0 outputs may differ by right, and only their distribution could be tested"
        };
        let _ = writeln!(out, "<p>Not checked: {why}.</p>\n</section>");
        return;
    }
    let by = found.iter().map(|(_, l)| l.by.as_str()).find(|by| !by.is_empty()).unwrap_or("text");
    let _ =
        writeln!(out, "<p>Every answer was compared with the baseline's of the same repeat, by {}.</p>", escape(by));
    out.push_str("<ul>\n");
    for (mode, l) in &found {
        let _ = writeln!(out, "<li><b>{}</b>: {}</li>", escape(mode), words::output(l));
    }
    out.push_str("</ul>\n");
    for (mode, l) in &found {
        for divergence in &l.divergences {
            difference(mode, divergence, out);
        }
    }
    out.push_str("</section>\n");
}

fn difference(mode: &str, d: &Divergence, out: &mut String) {
    let ids = match (d.baseline_id, d.other_id) {
        (None, None) => String::new(),
        (a, b) => {
            let id = |id: Option<u32>| id.map_or_else(|| "the end".into(), |id| id.to_string());
            format!(", {} against {}", id(a), id(b))
        }
    };
    let margin = match d.margin {
        Some(margin) if margin < NEAR_TIE => format!("; top-2 margin {margin:.4}, a near tie"),
        Some(margin) => format!("; top-2 margin {margin:.3}, no near tie"),
        None => String::new(),
    };
    let end = if d.same_end { "" } else { "; they ended for different reasons" };
    let turn = if d.turn > 0 { format!(", turn {}", d.turn + 1) } else { String::new() };
    let _ = writeln!(
        out,
        "<div class=\"diff\"><h3>{}: {}/{}{turn}, repeat {}</h3><p class=\"sub\">first different {} {}{ids}{margin}{end}</p>",
        escape(mode),
        escape(&d.suite),
        escape(&d.prompt_id),
        d.repeat + 1,
        escape(&d.unit),
        d.index,
    );
    if !d.baseline.is_empty() || !d.other.is_empty() {
        let same: usize =
            d.baseline.chars().zip(d.other.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
        for (who, text) in [("baseline", &d.baseline), (mode, &d.other)] {
            let (before, after) = text.split_at(same.min(text.len()));
            let _ = writeln!(
                out,
                "<p class=\"side\"><span class=\"who\">{}</span><code>{}<mark>{}</mark></code></p>",
                escape(who),
                escape(before),
                escape(after)
            );
        }
    }
    out.push_str("</div>\n");
}
