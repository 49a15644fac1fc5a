//! Writing a run in the formats that were asked for.

use std::path::{Path, PathBuf};

use super::OutputArgs;
use crate::bench::{export, journal};
use crate::cli::{Exit, Failure};
use crate::protocol::run::Run;

/// A run as a text.
type Format = fn(&Run) -> String;

fn json(run: &Run) -> String {
    serde_json::to_string_pretty(run).unwrap_or_default()
}

/// Writes the files, and the table unless something else goes to the standard output.
pub(super) fn write(run: &Run, args: &OutputArgs, table: &str) -> Result<(), Failure> {
    let formats: [(&Option<PathBuf>, Format); 7] = [
        (&args.json, json),
        (&args.markdown, export::markdown),
        (&args.html, export::html),
        (&args.csv, export::csv),
        (&args.vllm, export::vllm),
        (&args.sglang, export::sglang),
        (&args.aiperf, export::aiperf),
    ];
    let mut quiet = false;
    for (file, format) in formats {
        let Some(file) = file else { continue };
        let mut text = format(run);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if file == Path::new("-") {
            if quiet {
                return Err(Failure::new(Exit::Usage, "only one format can go to the standard output"));
            }
            quiet = true;
            print(&text)?;
        } else {
            journal::write_whole(file, text.as_bytes())?;
        }
    }
    if quiet { Ok(()) } else { print(table) }
}

/// Prints to the standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `spectop bench list | head` is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}
