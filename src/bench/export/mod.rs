//! A run as text in the formats that people and other tools read. Pure: a run in, a string out.
//!
//! Which keys each format has, and where a figure of ours is not quite theirs: `docs/benchmarks.md`.

mod aiperf;
mod csv;
mod html;
mod markdown;
mod one_mode;
pub mod plot;
mod sglang;
mod svg;
mod vllm;
mod words;

use std::fmt;
use std::str::FromStr;

use crate::protocol::run::Run;

pub use aiperf::{aiperf, aiperf_records};
pub use csv::{csv, csv_summary};
pub use html::html;
pub use markdown::markdown;
pub use sglang::sglang;
pub use vllm::vllm;

/// JSON Schema (2020-12) of `run.v1`.
pub const RUN_JSON_SCHEMA: &str = include_str!("../../../schema/run.v1.json");

/// Why a run could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A one-mode format was asked for a mode that is not there.
    #[error("no mode \"{asked}\" was measured in this run; there are: {known}")]
    UnknownMode {
        /// What was asked for.
        asked: String,
        /// Labels that can be asked for.
        known: String,
    },
    /// A one-mode format needs a mode and none was named.
    #[error("{format} holds one mode; name one of: {known}")]
    ModeNeeded {
        /// The format.
        format: Format,
        /// Labels that can be asked for.
        known: String,
    },
    /// A one-mode format holds one concurrency, and the mode has several.
    #[error("\"{mode}\" was measured at several concurrencies; name one: {known}")]
    LevelNeeded {
        /// The mode.
        mode: String,
        /// Labels that can be asked for.
        known: String,
    },
    /// A value has no JSON.
    #[error("the run cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// No format of this name.
    #[error("no format \"{0}\"; there are: {list}", list = Format::list())]
    UnknownFormat(String),
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `run.v1`, everything.
    Json,
    /// A report with plots, in one file.
    Html,
    /// Tables for chat and pull requests.
    Markdown,
    /// One row a request.
    Csv,
    /// One row a suite, mode and concurrency.
    CsvSummary,
    /// A result file of `vllm bench serve`; one mode.
    Vllm,
    /// A line of SGLang's `bench_serving`; one mode.
    Sglang,
    /// AIPerf's aggregate JSON; one mode.
    Aiperf,
    /// AIPerf's records, JSON lines; one mode.
    AiperfRecords,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 9] = [
        Format::Json,
        Format::Html,
        Format::Markdown,
        Format::Csv,
        Format::CsvSummary,
        Format::Vllm,
        Format::Sglang,
        Format::Aiperf,
        Format::AiperfRecords,
    ];

    /// Name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Html => "html",
            Format::Markdown => "markdown",
            Format::Csv => "csv",
            Format::CsvSummary => "csv-summary",
            Format::Vllm => "vllm",
            Format::Sglang => "sglang",
            Format::Aiperf => "aiperf",
            Format::AiperfRecords => "aiperf-records",
        }
    }

    /// Extension of a file in it.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Json | Format::Vllm | Format::Aiperf => "json",
            Format::Html => "html",
            Format::Markdown => "md",
            Format::Csv | Format::CsvSummary => "csv",
            Format::Sglang | Format::AiperfRecords => "jsonl",
        }
    }

    /// Whether a file holds one mode only.
    pub fn one_mode(self) -> bool {
        matches!(self, Format::Vllm | Format::Sglang | Format::Aiperf | Format::AiperfRecords)
    }

    fn list() -> String {
        Format::ALL.map(Format::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = ExportError;

    fn from_str(name: &str) -> Result<Self, ExportError> {
        let short = match name {
            "md" => "markdown",
            "run" | "run.v1" => "json",
            "aiperf-jsonl" => "aiperf-records",
            other => other,
        };
        Format::ALL.into_iter().find(|f| f.name() == short).ok_or_else(|| ExportError::UnknownFormat(name.to_owned()))
    }
}

/// Writes a run. `mode` is the label of the mode for formats that hold one (`label@4` where it was measured at several
/// concurrencies); the others do not look at it.
pub fn write(format: Format, run: &Run, mode: Option<&str>) -> Result<String, ExportError> {
    let one = || mode.ok_or_else(|| ExportError::ModeNeeded { format, known: one_mode::known(run) });
    match format {
        Format::Json => run_json(run),
        Format::Html => Ok(html(run)),
        Format::Markdown => Ok(markdown(run)),
        Format::Csv => Ok(csv(run)),
        Format::CsvSummary => Ok(csv_summary(run)),
        Format::Vllm => vllm(run, one()?),
        Format::Sglang => sglang(run, one()?),
        Format::Aiperf => aiperf(run, one()?),
        Format::AiperfRecords => aiperf_records(run, one()?),
    }
}

/// The run in its own format, indented: what `import::read` reads back.
pub fn run_json(run: &Run) -> Result<String, ExportError> {
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    Ok(text)
}
