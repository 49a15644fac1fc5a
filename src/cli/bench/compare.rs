//! `spectop bench compare`: each run against its baseline, and every mode against itself in the first run.

use std::fmt::Write as _;

use serde_json::json;

use super::{CompareArgs, output, runs, table};
use crate::bench::across;
use crate::bench::compare::METRICS;
use crate::cli::{Exit, Failure};
use crate::protocol::run::{Comparison, Run};

/// Runs the subcommand.
pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let loaded: Vec<Run> = args.runs.iter().map(|name| runs::load(name)).collect::<Result<_, _>>()?;
    let (mut across, mut notes) = (Vec::new(), Vec::new());
    for run in &loaded[1..] {
        let against = across::across(&loaded[0], run);
        across.extend(against.comparisons);
        notes.extend(against.notes);
    }
    let failures: Vec<String> = args.fail_if.iter().flat_map(|gate| gate.check(&loaded, &across)).collect();
    if args.json {
        let runs: Vec<_> = loaded
            .iter()
            .map(|run| json!({"meta": run.meta, "summary": run.summary, "compare": run.compare, "warnings": run.warnings}))
            .collect();
        let all = json!({"runs": runs, "across": across, "notes": notes, "gates_failed": failures});
        let text = serde_json::to_string_pretty(&all).unwrap_or_default();
        output::print(&format!("{text}\n"))?;
    } else {
        output::print(&text(&loaded, &across, &notes))?;
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Gate, failures.join("\n"))) }
}

fn text(loaded: &[Run], across: &[Comparison], notes: &[String]) -> String {
    let mut out = String::new();
    for run in loaded {
        let _ = writeln!(out, "{}", table::verdicts(run));
    }
    if !across.is_empty() {
        let head =
            ["suite", "mode", "×", "prompts", "decode tok/s against the first run [95 %]", "verdict", "same output"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for compare in across.iter().filter(|compare| compare.metric == METRICS[0] && shown(loaded, compare)) {
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
    for note in notes {
        let _ = writeln!(out, "! {note}");
    }
    out
}

/// `all` says nothing that a single suite does not.
fn shown(loaded: &[Run], compare: &Comparison) -> bool {
    compare.suite == "all" || loaded.iter().any(|run| run.plan.suites.len() > 1)
}
