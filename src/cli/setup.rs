//! `spectop setup`: fetch and check the default target model, or a model of the hub.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::{EngineArgs, Exit, Failure, out};
use crate::engine::api::{ModelSource, PairSource};
use crate::engine::weights::hub::{self, SetupError};
use crate::protocol::state::Readiness;

/// Fetches the default target, showing progress on stderr; prints its path on stdout.
#[allow(clippy::needless_pass_by_value)] // subcommands own their arguments
pub fn run(from: Option<PathBuf>, force: bool) -> Result<(), Failure> {
    let mut view = View::new(std::io::stderr().is_terminal());
    let result = hub::fetch(from.as_deref(), force, &mut |progress| view.show(&progress));
    view.clear();
    let path = result.map_err(|error| {
        let exit = if matches!(error, SetupError::Given { .. }) { Exit::Usage } else { Exit::Failed };
        Failure::new(exit, error.to_string())
    })?;
    out::tell("The default model is ready and checked.");
    out::print_line(&path.display().to_string())?;
    Ok(())
}

/// Fetches the model of the hub that the command line names, and its drafter; `force` looks for newer ones. Prints the
/// paths on stdout.
pub fn run_pair(engine: &EngineArgs, from: Option<&Path>, force: bool) -> Result<(), Failure> {
    if from.is_some() {
        return Err(Failure::new(Exit::Usage, "--from is a file of the default model; leave it out with --target"));
    }
    let mut view = View::new(std::io::stderr().is_terminal());
    let pair = hub::resolve(hub::Ask { refresh: force, ..engine.ask() })(&mut |progress| view.show(&progress));
    view.clear();
    print_pair(pair.map_err(|e| Failure::new(Exit::Usage, e.to_string()))?)
}

fn print_pair(pair: PairSource) -> Result<(), Failure> {
    if let Some(notice) = &pair.notice {
        out::tell(notice);
    }
    for source in std::iter::once(pair.target).chain(pair.draft) {
        match source {
            ModelSource::Path(path) => out::print_line(&path.display().to_string())?,
            ModelSource::Embedded(embedded) => out::print_line(&format!("embedded {}", embedded.name))?,
        };
    }
    Ok(())
}

/// A bar on a terminal, lines elsewhere.
enum View {
    Bar(ProgressBar),
    Lines { what: String, tenths: u64 },
}

impl View {
    fn new(terminal: bool) -> Self {
        if !terminal {
            return Self::Lines { what: String::new(), tenths: 0 };
        }
        let bar = ProgressBar::new(1000);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %  {eta}") {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    fn show(&mut self, progress: &Readiness) {
        let Readiness::Loading { what, fraction } = progress else { return };
        match self {
            Self::Bar(bar) => {
                let position = (fraction.unwrap_or(0.0) * 1000.0) as u64;
                if bar.message() != *what {
                    bar.set_message(what.clone());
                }
                if position < bar.position() {
                    bar.reset_eta();
                }
                bar.set_position(position);
            }
            Self::Lines { what: shown, tenths } => {
                let now = (fraction.unwrap_or(0.0) * 10.0) as u64;
                if shown != what {
                    out::tell(what);
                    (*shown, *tenths) = (what.clone(), 0);
                } else if now > *tenths {
                    out::tell(&format!("{what}: {} %", now * 10));
                    *tenths = now;
                }
            }
        }
    }

    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
