//! Writing a run in the formats that were asked for.

use std::path::Path;

use super::OutputArgs;
use crate::bench::export::{self, Format};
use crate::bench::journal;
use crate::cli::{Exit, Failure, out};
use crate::protocol::run::Run;

/// Writes the files, and the table unless something else goes to the standard output.
pub(super) fn write(run: &Run, args: &OutputArgs, table: &str) -> Result<(), Failure> {
    let formats = [
        (&args.json, Format::Json),
        (&args.markdown, Format::Markdown),
        (&args.html, Format::Html),
        (&args.csv, Format::Csv),
        (&args.csv_summary, Format::CsvSummary),
        (&args.vllm, Format::Vllm),
        (&args.sglang, Format::Sglang),
        (&args.aiperf, Format::Aiperf),
        (&args.aiperf_records, Format::AiperfRecords),
    ];
    let mut quiet = false;
    for (file, format) in formats {
        let Some(file) = file else { continue };
        let mut text = export::write(format, run, args.export_mode.as_deref()).map_err(|error| {
            let advice = if format.one_mode() { " (see --export-mode)" } else { "" };
            Failure::new(Exit::Usage, format!("{error}{advice}"))
        })?;
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
    if let Some(folder) = &args.plots {
        plots(run, folder)?;
    }
    if quiet { Ok(()) } else { print(table) }
}

/// Writes every chart for which the run has data as `ID.svg`.
fn plots(run: &Run, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| {
        Failure::new(Exit::Failed, format!("{}: {e}; name a folder that can be written to", folder.display()))
    })?;
    for plot in export::plot::plots(run) {
        journal::write_whole(&folder.join(format!("{}.svg", plot.id)), plot.standalone().as_bytes())?;
    }
    Ok(())
}

/// Prints to the standard output. `spectop bench list | head` is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    out::print(text).map(|_| ())
}
