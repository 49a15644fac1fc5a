//! `spectop config`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, Subcommand};

use super::settings::{SETTINGS, Setting, template};
use super::{Config, beneath, load};
use crate::cli::{Cli, Exit, Failure, out};
use crate::ui::action::Context;

/// What to do with the configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Write a file in which every setting stands, commented out.
    Init {
        /// Write over a file that is there.
        #[arg(long)]
        force: bool,
    },
    /// Print the settings that are in force, and where each comes from.
    Print,
    /// Check a file; exit code 2 when something in it is wrong.
    Validate {
        /// The file, instead of the one in use.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// Unknown keys are errors too.
        #[arg(long)]
        strict: bool,
    },
    /// Print where the file is looked for.
    Path,
    /// Print the keys as they are bound, with the names that [keys] sections use.
    Keys,
}

/// Does it. `matches` are those of the whole command line.
pub fn run(command: ConfigCommand, path: &Path, given: bool, matches: &ArgMatches) -> Result<(), Failure> {
    match command {
        ConfigCommand::Init { force } => init(path, force),
        ConfigCommand::Print => out::print(&effective(&load(path, given)?, path, matches)?).map(drop),
        ConfigCommand::Validate { file, strict } => {
            let (path, given) = file.map_or((path.to_owned(), given), |f| (f, true));
            validate(&path, given, strict)
        }
        ConfigCommand::Path => out::print_line(&path.display().to_string()).map(drop),
        ConfigCommand::Keys => out::print(&load(path, given)?.keys.markdown(&Context::ALL)).map(drop),
    }
}

fn init(path: &Path, force: bool) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::new(Exit::Failed, format!("{}: {e}", path.display()));
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = fs::OpenOptions::new();
    // Without --force the file must be a new one: nothing that somebody wrote is lost, whoever else writes now.
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    match options.write(true).open(path) {
        Ok(mut file) => std::io::Write::write_all(&mut file, template().as_bytes()).map_err(failed)?,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let message = format!("{} is there already; --force writes over it", path.display());
            return Err(Failure::new(Exit::Usage, message));
        }
        Err(e) => return Err(failed(e)),
    }
    out::print_line(&format!("wrote {}", path.display())).map(drop)
}

fn validate(path: &Path, given: bool, strict: bool) -> Result<(), Failure> {
    let config = load(path, given)?;
    let mut wrong: Vec<String> = config.themes.names().filter_map(|name| config.themes.get(name).err()).collect();
    // Themes are only known here, so their name is checked here.
    let named = config.values.iter().find(|(s, _)| s.name() == "screen.theme");
    wrong.extend(named.and_then(|(s, name)| Some(format!("{}: {}", s.name(), config.themes.get(name).err()?))));
    for warning in &config.warnings {
        if strict {
            wrong.push(warning.clone());
        } else {
            out::tell(&format!("warning: {warning}"));
        }
    }
    if !wrong.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("{}: {}", path.display(), wrong.join("\n  "))));
    }
    let state = if path.exists() { "valid" } else { "not there: every setting has its default" };
    out::print_line(&format!("{}: {state}", path.display())).map(drop)
}

/// The settings in force as a file, each with where it comes from.
fn effective(config: &Config, path: &Path, matches: &ArgMatches) -> Result<String, Failure> {
    let state = if path.exists() { "" } else { " (not there)" };
    let mut text = format!("# {}{state}\nschema_version = {}\n", path.display(), super::SCHEMA);
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = writeln!(text, "\n[{section}]");
        }
        let (value, from) = value(setting, config, matches)?;
        let line = match value {
            None => format!("# {} is not set", setting.key),
            Some(_) if setting.secret() => format!("# {} is set, and not shown", setting.key),
            Some(value) => {
                let value =
                    if setting.kind == super::Kind::Text { toml::Value::String(value).to_string() } else { value };
                format!("{} = {value}", setting.key)
            }
        };
        let _ = writeln!(text, "{line:<40} # {from}");
    }
    let changed =
        config.keys.lines().iter().zip(crate::ui::action::TABLE).filter(|(line, table)| line.keys != table.keys);
    let mut place = None;
    for (line, _) in changed {
        if place.replace(line.context) != Some(line.context) {
            let _ = writeln!(text, "\n[keys.{}]", line.context.name());
        }
        let keys: Vec<_> = line.keys.iter().map(|k| toml::Value::String(k.label())).collect();
        let _ = writeln!(text, "{:<40} # file", format!("{} = {}", line.action.name(), toml::Value::Array(keys)));
    }
    Ok(text)
}

fn value(setting: &Setting, config: &Config, root: &ArgMatches) -> Result<(Option<String>, &'static str), Failure> {
    let own;
    let matches = match setting.commands().first() {
        None => root,
        Some(name) => {
            let line = ["spectop", name];
            let parsed = beneath(Cli::command(), config).try_get_matches_from(line);
            let parsed = parsed.map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
            own = parsed.subcommand_matches(name).cloned().unwrap_or_default();
            &own
        }
    };
    let value = matches.get_raw(setting.key).and_then(|mut v| v.next()).map(|v| v.to_string_lossy().into_owned());
    let from = match matches.value_source(setting.key) {
        Some(ValueSource::CommandLine) => "command line",
        Some(ValueSource::EnvVariable) => "environment",
        _ if config.values.iter().any(|(s, _)| std::ptr::eq(*s, setting)) => "file",
        _ => "default",
    };
    Ok((value, from))
}
