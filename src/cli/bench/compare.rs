//! `spectop bench compare`: each run against its baseline, and every mode against itself in the first run.

use std::fmt::Write as _;

use serde_json::json;

use super::{CompareArgs, output, runs, table};
use crate::bench::summary;
use crate::cli::{Exit, Failure};
use crate::protocol::run::{Comparison, ModeSpec, RequestRecord, Run, RunPlan};

/// Runs the subcommand.
pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let loaded: Vec<Run> = args.runs.iter().map(|name| runs::load(name)).collect::<Result<_, _>>()?;
    let across: Vec<Comparison> = loaded[1..].iter().flat_map(|run| against(&loaded[0], run)).collect();
    let failures: Vec<String> = args.fail_if.iter().flat_map(|gate| gate.check(&loaded, &across)).collect();
    if args.json {
        let runs: Vec<_> = loaded
            .iter()
            .map(|run| json!({"meta": run.meta, "summary": run.summary, "compare": run.compare, "warnings": run.warnings}))
            .collect();
        let all = json!({"runs": runs, "across": across, "gates_failed": failures});
        let text = serde_json::to_string_pretty(&all).unwrap_or_default();
        output::print(&format!("{text}\n"))?;
    } else {
        output::print(&text(&loaded, &across))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Gate, failures.join("\n"))) }
}

fn text(loaded: &[Run], across: &[Comparison]) -> String {
    let mut out = String::new();
    for run in loaded {
        let _ = writeln!(out, "{}", table::verdicts(run));
    }
    if !across.is_empty() {
        let head = ["suite", "mode", "×", "prompts", "against the first run [95 %]", "verdict", "same output"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for compare in across {
            rows.push(vec![
                compare.suite.clone(),
                compare.mode.clone(),
                compare.concurrency.to_string(),
                compare.prompts.to_string(),
                table::ratio(compare),
                table::verdict(compare.verdict).to_owned(),
                table::equal(compare),
            ]);
        }
        out.push_str(&table::align(&rows));
    } else if loaded.len() > 1 {
        out.push_str("the runs share no mode with prompts in common: they are not compared with one another\n");
    }
    out
}

/// A run's modes against the same modes of the first run, paired by prompt like modes of one run.
pub(super) fn against(first: &Run, other: &Run) -> Vec<Comparison> {
    let shared = first.plan.modes.iter().filter(|mode| other.plan.modes.iter().any(|m| m.label == mode.label));
    let mut all = Vec::new();
    for ModeSpec { label, .. } in shared {
        let names = [format!("{label} @ {}", first.meta.id), format!("{label} @ {}", other.meta.id)];
        let mut requests: Vec<RequestRecord> = Vec::new();
        for (run, name) in [first, other].into_iter().zip(&names) {
            let of_mode = run.requests.iter().filter(|record| record.mode == *label);
            requests.extend(of_mode.map(|record| RequestRecord { mode: name.clone(), ..record.clone() }));
        }
        let modes = names.iter().map(|name| ModeSpec { label: name.clone(), ..ModeSpec::clone(&first.plan.modes[0]) });
        let plan = RunPlan {
            modes: modes.collect(),
            // What was sampled in one of them cannot be compared word for word.
            temperature: first.plan.temperature.max(other.plan.temperature),
            ..first.plan.clone()
        };
        all.extend(summary::compare(&plan, &requests).into_iter().filter(|compare| compare.mode == names[1]));
    }
    all
}
