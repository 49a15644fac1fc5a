//! The report: one HTML file that needs nothing else. Everything that comes from a server, a file or a person is escaped.

mod differences;
mod provenance;
mod tables;

use std::fmt::Write as _;

use crate::bench::compare::METRICS;
use crate::bench::summary::ALL;
use crate::protocol::run::{Comparison, Run, RunStatus, Verdict};

use super::plot;
use super::svg::{self, escape};
use super::words;

/// The report.
pub fn html(run: &Run) -> String {
    let mut body = String::new();
    head(run, &mut body);
    findings(run, &mut body);
    let plots = plot::plots(run);
    figure(&plots, "speedup", &mut body);
    tables::comparisons(run, &mut body);
    for id in ["budget", "acceptance", "prompts", "stages", "concurrency"] {
        figure(&plots, id, &mut body);
    }
    figure(&plots, "timeline", &mut body);
    differences::section(run, &mut body);
    tables::figures(run, &mut body);
    provenance::section(run, &mut body);
    page(&run.meta.title, &body)
}

fn page(title: &str, body: &str) -> String {
    let (title, colours, style) = (escape(title), svg::STYLE, include_str!("page.css"));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{colours}{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn head(run: &Run, out: &mut String) {
    let model = run.env.model.as_deref().or(run.env.target.as_ref().map(|model| model.name.as_str()));
    let device = run.env.device.as_ref().map_or(run.env.client.as_str(), |device| device.name.as_str());
    let server = [Some(run.env.server.as_str()), run.env.server_version.as_deref()];
    let server = server.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let date = words::date(run.meta.started_ms);
    let parts = [model.unwrap_or("unknown model"), device, &server, &date, words::status(run.meta.status)];
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| escape(part)).collect();
    let _ = writeln!(out, "<header>\n<h1>{}</h1>\n<p class=\"sub\">{}</p>", escape(&run.meta.title), parts.join(" · "));
    if matches!(run.meta.status, RunStatus::Unfinished | RunStatus::Stopped) {
        let _ = writeln!(
            out,
            "<p class=\"warn\">This run is {}: the figures are over what was measured until then.</p>",
            words::status(run.meta.status)
        );
    }
    out.push_str("</header>\n");
    if !run.warnings.is_empty() {
        out.push_str("<section class=\"warn\"><h2>Before you believe the numbers</h2><ul>\n");
        for warning in &run.warnings {
            let _ = writeln!(out, "<li>{}</li>", escape(warning));
        }
        out.push_str("</ul></section>\n");
    }
}

/// A card a mode: the word, the ratio, the output.
fn findings(run: &Run, out: &mut String) {
    let Some(level) = words::levels(run).first().copied() else {
        out.push_str("<p>Nothing was measured.</p>\n");
        return;
    };
    let baseline = words::modes(run).first().copied().unwrap_or_default();
    let cards: Vec<&Comparison> =
        words::modes(run).into_iter().filter_map(|mode| words::comparison(run, ALL, mode, level, METRICS[0])).collect();
    if cards.is_empty() {
        return;
    }
    let several = words::levels(run).len() > 1;
    let at = if several { format!(", {level} in flight") } else { String::new() };
    let _ = writeln!(
        out,
        "<section>\n<h2>Against {}{at}</h2>\n<p class=\"sub\">Decode speed, all suites; geometric mean over prompts with \
         its 95 % interval.</p>\n<div class=\"cards\">",
        escape(baseline)
    );
    let mut starred = false;
    for c in cards {
        let class = match c.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifferenceShown | Verdict::NotEnoughData => "open",
        };
        let verdict = words::verdict(c);
        starred |= verdict.ends_with('*');
        let interval = c.interval.map_or_else(String::new, |[low, high]| format!("{low:.2} – {high:.2}"));
        let same = if !c.lossless.checked || c.lossless.compared == 0 {
            "unchecked"
        } else if c.lossless.identical == c.lossless.compared {
            "same"
        } else {
            "differs"
        };
        let _ = writeln!(
            out,
            "<div class=\"card {class}\"><h3>{}</h3><p class=\"big\">{}</p><p class=\"sub\">{interval}</p>\
             <p class=\"word\">{verdict}</p><p class=\"{same}\">output: {}</p></div>",
            escape(&c.mode),
            words::times(c.ratio),
            words::output(&c.lossless)
        );
    }
    out.push_str("</div>\n");
    if starred {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", words::STAR);
    }
    let noise = run.compare.iter().filter(|c| c.suite == ALL).map(|c| c.lossless.baseline_differs).max().unwrap_or(0);
    if noise > 0 {
        let _ = writeln!(
            out,
            "<p class=\"warn\">The baseline's own repeats differ {noise} times: as many differences need no speculation.</p>"
        );
    }
    out.push_str("</section>\n");
}

fn figure(plots: &[plot::Plot], id: &str, out: &mut String) {
    if let Some(plot) = plots.iter().find(|plot| plot.id == id) {
        let _ = writeln!(
            out,
            "<section id=\"{id}\">\n<h2>{}</h2>\n<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n</section>",
            escape(&plot.title),
            plot.svg,
            escape(&plot.caption)
        );
    }
}

/// A table of a head and rows of cells that are already HTML; the first `names` columns are text.
fn table(out: &mut String, head: &[&str], names: usize, rows: &[Vec<String>]) {
    let class = |column: usize| if column < names { " class=\"name\"" } else { "" };
    out.push_str("<div class=\"wide\"><table>\n<thead><tr>");
    for (column, cell) in head.iter().enumerate() {
        let _ = write!(out, "<th{}>{cell}</th>", class(column));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{cell}</td>", class(column));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}
