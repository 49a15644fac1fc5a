//! Runs that are kept.

use std::path::Path;

use serde_json::json;

use super::{output, table};
use crate::bench::{import, journal, runner};
use crate::cli::{Exit, Failure};
use crate::protocol::run::{Purpose, RequestStatus, Run, RunStatus};

/// Requests that were measured.
pub(super) fn measured(run: &Run) -> usize {
    run.requests.iter().filter(|record| record.purpose == Purpose::Measure).count()
}

/// Those of them that failed.
pub(super) fn failed(run: &Run) -> usize {
    let bad = |status| matches!(status, RequestStatus::Failed | RequestStatus::TimedOut);
    run.requests.iter().filter(|record| record.purpose == Purpose::Measure && bad(record.status)).count()
}

/// A run by id (`last`: the latest) or file: ours, a journal, or another tool's.
pub(in crate::cli) fn load(name: &str) -> Result<Run, Failure> {
    let path = Path::new(name);
    let file = if path.is_file() {
        path.to_owned()
    } else if name.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some() {
        return Err(Failure::new(Exit::Usage, format!("{name}: there is no such file")));
    } else {
        journal::find(&journal::default_folder()?, name, |_| true)?.file
    };
    // SGLang writes JSON lines as well.
    if file.extension().is_some_and(|extension| extension == "jsonl")
        && let Ok(contents) = journal::Contents::read(&file)
    {
        return Ok(runner::from_journal(contents));
    }
    let shown = file.display().to_string();
    let text =
        std::fs::read_to_string(&file).map_err(|error| Failure::new(Exit::Usage, format!("{shown}: {error}")))?;
    import::read(&shown, &text).map_err(|error| Failure::new(Exit::Usage, error.to_string()))
}

/// `spectop bench list`.
pub(super) fn list(as_json: bool) -> Result<(), Failure> {
    let folder = journal::default_folder()?;
    let runs = journal::list(&folder)?;
    if as_json {
        let runs: Vec<_> = runs
            .iter()
            .map(|run| json!({"meta": run.meta, "requests": run.requests, "file": run.file.display().to_string()}))
            .collect();
        let text = serde_json::to_string_pretty(&runs).unwrap_or_default();
        return output::print(&format!("{text}\n"));
    }
    if runs.is_empty() {
        return output::print(&format!("no runs in {}\n", folder.display()));
    }
    let mut rows = vec![["run", "status", "requests", "title"].map(str::to_owned).to_vec()];
    for run in &runs {
        let status = match run.meta.status {
            RunStatus::Unfinished => "unfinished",
            RunStatus::Complete => "complete",
            RunStatus::Stopped => "stopped",
            RunStatus::Imported => "imported",
        };
        rows.push(vec![run.meta.id.clone(), status.into(), run.requests.to_string(), run.meta.title.clone()]);
    }
    output::print(&table::align(&rows))
}
