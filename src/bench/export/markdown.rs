//! Tables for chat and pull requests.

use std::fmt::Write as _;

use crate::bench::compare::METRICS;
use crate::bench::summary::ALL;
use crate::protocol::run::Run;

use super::words::{self, maybe};

/// The findings first, then what they rest on.
pub fn markdown(run: &Run) -> String {
    let mut out = String::new();
    let model = run.env.model.as_deref().unwrap_or("unknown model");
    let device = run.env.device.as_ref().map_or_else(|| run.env.client.clone(), |d| d.name.clone());
    let _ = writeln!(out, "### {}\n", cell(&run.meta.title));
    let _ = writeln!(
        out,
        "{} on {}, {} {}, {}, {}\n",
        cell(model),
        cell(&device),
        cell(&run.env.server),
        cell(run.env.server_version.as_deref().unwrap_or("")),
        words::date(run.meta.started_ms),
        words::status(run.meta.status),
    );
    for warning in &run.warnings {
        let _ = writeln!(out, "> ⚠ {}", cell(warning));
    }
    if !run.warnings.is_empty() {
        out.push('\n');
    }
    let levels = words::levels(run);
    let mut starred = false;
    for level in &levels {
        if levels.len() > 1 {
            let _ = writeln!(out, "**{level} in flight**\n");
        }
        out.push_str(
            "| suite | mode | decode tok/s | against baseline | 95 % interval | verdict | e2e | τ | output |\n",
        );
        out.push_str("|---|---|--:|--:|---|---|--:|--:|---|\n");
        for suite in words::suites(run) {
            for mode in words::modes(run) {
                let Some(s) = words::summary(run, suite, mode, *level) else { continue };
                let [decode, e2e] = METRICS.map(|metric| words::comparison(run, suite, mode, *level, metric));
                let verdict = decode.map_or_else(|| "baseline".into(), words::verdict);
                starred |= verdict.ends_with('*');
                let interval = decode
                    .and_then(|c| c.interval)
                    .map_or_else(|| words::UNKNOWN.into(), |[low, high]| format!("{low:.2} – {high:.2}"));
                let bold = if suite == ALL { "**" } else { "" };
                let _ = writeln!(
                    out,
                    "| {bold}{}{bold} | {} | {} | {} | {interval} | {} | {} | {} | {} |",
                    cell(suite),
                    cell(mode),
                    maybe(s.decode_tok_s.mean),
                    decode.map_or_else(|| "×1".into(), |c| words::times(c.ratio)),
                    verdict.replace('*', "\\*"),
                    e2e.map_or_else(|| "×1".into(), |c| words::times(c.ratio)),
                    maybe(s.tau_pooled),
                    decode.map_or_else(|| words::UNKNOWN.into(), |c| words::output(&c.lossless)),
                );
            }
        }
        out.push('\n');
    }
    if starred {
        let _ = writeln!(out, "{}\n", words::STAR.replace('*', "\\*"));
    }
    let prompts: usize = run.plan.suites.iter().map(|suite| suite.prompts).sum();
    let _ = writeln!(
        out,
        "{prompts} prompts × {} repeats × {} modes, at most {} tokens, temperature {}, seed {}, prefix cache: {}. Ratios \
         are geometric means over prompts; the interval is the wider of a cluster bootstrap and Student's t. Run `{}`, \
         plan `{}`.",
        run.plan.repeats,
        run.plan.modes.len(),
        run.plan.max_tokens,
        run.plan.temperature,
        run.plan.seed,
        cell(&run.plan.prefix_cache),
        run.meta.id.replace(['`', '\n'], ""),
        run.plan.hash.chars().take(12).collect::<String>(),
    );
    out
}

/// Text that stays in its cell and is no markup.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
