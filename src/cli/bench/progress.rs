//! How a run goes, on stderr: a bar on a terminal, lines otherwise.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

use super::table::duration;
use crate::protocol::run::{Purpose, RequestRecord, RequestStatus, RunProgress};

/// Tells of progress.
pub(super) struct Reporter {
    bar: Option<ProgressBar>,
    /// Done, in all, and seconds left, as last told.
    at: (usize, usize, Option<f64>),
    what: String,
    warned: Vec<String>,
}

impl Reporter {
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, at: (0, 0, None), what: String::new(), warned: Vec::new() }
    }

    pub fn tell(&mut self, progress: &RunProgress) {
        match progress {
            RunProgress::Planned { total, estimate_s, .. } => {
                let time = estimate_s.map_or_else(String::new, |s| format!(", up to {}", duration(s)));
                self.line(&format!("{total} requests{time}"));
            }
            RunProgress::Sending { what, done, total, eta_s } => {
                self.at = (*done, *total, *eta_s);
                what.clone_into(&mut self.what);
                if let Some(bar) = &self.bar {
                    bar.set_length(*total as u64);
                    bar.set_position(*done as u64);
                    let eta = eta_s.map_or_else(String::new, |s| format!(" · {} left", duration(s)));
                    bar.set_message(format!("{what}{eta}"));
                }
            }
            RunProgress::Done(record) => {
                if self.bar.is_none() || !is_well(record) {
                    self.line(&line(record, self.at));
                }
            }
            RunProgress::Interim { warnings, .. } => {
                for warning in warnings {
                    if !self.warned.contains(warning) {
                        self.warned.push(warning.clone());
                    }
                }
            }
            RunProgress::Paused(paused) => self.line(if *paused { "paused" } else { "going on" }),
            RunProgress::Ended { file, .. } => {
                self.clear();
                if let Some(file) = file {
                    crate::cli::out::tell(&format!("kept in {file}"));
                }
            }
            RunProgress::Failed(_) => self.clear(),
        }
    }

    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::cli::out::tell(line)),
            None => crate::cli::out::tell(line),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn is_well(record: &RequestRecord) -> bool {
    matches!(record.status, RequestStatus::Finished | RequestStatus::CutShort)
}

fn line(record: &RequestRecord, (done, total, eta_s): (usize, usize, Option<f64>)) -> String {
    let what = match record.purpose {
        Purpose::Warmup => "warm-up ".to_owned(),
        Purpose::Bracket => "baseline check ".to_owned(),
        Purpose::Measure => format!("{}/{} rep {} → ", record.suite, record.prompt_id, record.repeat + 1),
    };
    let result = match (&record.error, record.decode_tok_s) {
        (Some(error), _) => error.clone(),
        (None, Some(speed)) => format!("{speed:.1} tok/s, {} tokens", record.tokens),
        (None, None) => format!("{} tokens in {:.0} ms", record.tokens, record.e2e_ms),
    };
    let eta = eta_s.map_or_else(String::new, |s| format!(" ({} left)", duration(s)));
    format!("{}/{total} {what}{}: {result}{eta}", done + 1, record.mode)
}
