//! The configuration file: found, read, checked, and laid under the command line. Flag > environment > file > default.

pub mod command;
pub mod settings;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use etcetera::BaseStrategy;

use self::settings::{Kind, SCHEMA, SETTINGS, Setting};
use super::{Cli, Exit, Failure};
use crate::ui::action::Keymap;
use crate::ui::theme::Themes;

/// Longest theme file that is read.
const MOST_BYTES: u64 = 256 * 1024;

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Values, as they would stand on the command line.
    pub values: Vec<(&'static Setting, String)>,
    /// The keys.
    pub keys: Keymap,
    /// The themes, the user's own included.
    pub themes: Themes,
    /// What is in the file but means nothing; what is worth a word.
    pub warnings: Vec<String>,
}

/// Where the file is: `--config`, else SPECTOP_CONFIG, else the place for configurations on this system.
pub fn path(args: &[std::ffi::OsString]) -> Result<PathBuf, Failure> {
    let mut given = None;
    let mut rest = args.iter().skip(1);
    while let Some(arg) = rest.next() {
        match arg.to_str() {
            Some("--") => break,
            Some("--config") => given = rest.next().map(PathBuf::from),
            Some(text) => {
                if let Some(path) = text.strip_prefix("--config=") {
                    given = Some(path.into());
                }
            }
            None => {}
        }
    }
    let given = given.or_else(|| std::env::var_os("SPECTOP_CONFIG").filter(|v| !v.is_empty()).map(PathBuf::from));
    match given {
        Some(path) => Ok(path),
        None => etcetera::choose_base_strategy()
            .map(|base| base.config_dir().join("spectop").join("config.toml"))
            .map_err(|e| Failure::new(Exit::Usage, format!("there is no folder for configurations: {e}; set HOME"))),
    }
}

/// Reads the file, if it is there, and the themes beside it. The error lists everything that is wrong with it.
pub fn load(path: &Path, given: bool) -> Result<Config, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {e}", path.display()));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound && !given => String::new(),
        Err(e) => return Err(wrong(&e)),
    };
    let mut config = parse(&text).map_err(|problems| wrong(&problems.join("\n  ")))?;
    let (themes, unread) = themes(path);
    config.themes = Themes::new(themes);
    config.warnings.extend(unread);
    Ok(config)
}

/// Reads the text of a file; the error lists everything that is wrong with it.
pub fn parse(text: &str) -> Result<Config, Vec<String>> {
    let mut file: toml::Table = text.parse().map_err(|e: toml::de::Error| vec![e.to_string()])?;
    let mut config = Config::default();
    let mut problems = Vec::new();
    match file.remove("schema_version") {
        Some(toml::Value::Integer(n)) if n == SCHEMA => {}
        Some(toml::Value::Integer(n)) if n > SCHEMA => config.warnings.push(format!(
            "schema_version {n} is newer than this spectop ({SCHEMA}): some of it may not be understood"
        )),
        Some(other) => problems.push(format!("schema_version = {other} must be {SCHEMA}")),
        None if text.trim().is_empty() => {}
        None => config.warnings.push(format!("schema_version is missing: write schema_version = {SCHEMA}")),
    }
    match file.remove("keys") {
        None => {}
        Some(toml::Value::Table(section)) => match Keymap::parse(&section) {
            Ok(keys) => config.keys = keys,
            Err(wrong) => problems.extend(wrong),
        },
        Some(_) => problems.push("keys must be sections: [keys.dashboard]".into()),
    }
    for (section, value) in &file {
        let Some(table) = value.as_table().filter(|_| SETTINGS.iter().any(|s| s.section == section)) else {
            config.warnings.push(format!("unknown key {section}"));
            continue;
        };
        for (key, value) in table {
            match SETTINGS.iter().find(|s| s.section == section && s.key == key) {
                None => config.warnings.push(unknown(section, key)),
                Some(setting) => match read(setting, value) {
                    Ok(value) => config.values.push((setting, value)),
                    Err(why) => problems.push(format!("{}: {why}", setting.name())),
                },
            }
        }
    }
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

fn unknown(section: &str, key: &str) -> String {
    let known: Vec<_> = SETTINGS.iter().filter(|s| s.section == section).map(|s| s.key).collect();
    format!("unknown key {section}.{key}; there are {}", known.join(", "))
}

/// A value as it would stand on the command line, judged by the command line.
fn read(setting: &Setting, value: &toml::Value) -> Result<String, String> {
    let text = match (setting.kind, value) {
        (Kind::Text, toml::Value::String(text)) => text.clone(),
        (Kind::Number, toml::Value::Integer(n)) => n.to_string(),
        (Kind::Flag, toml::Value::Boolean(on)) => on.to_string(),
        (Kind::Text, other) => return Err(format!("{other} must be a text in quotes")),
        (Kind::Number, other) => return Err(format!("{other} must be a whole number, without quotes")),
        (Kind::Flag, other) => return Err(format!("{other} must be true or false, without quotes")),
    };
    let mut line = vec!["spectop".to_owned()];
    line.extend(setting.commands().first().map(|c| (*c).to_owned()));
    line.push(match setting.key {
        "url" => text.clone(),
        key => format!("--{}={text}", key.replace('_', "-")),
    });
    match Cli::command().try_get_matches_from(line) {
        Ok(_) => Ok(text),
        Err(error) => {
            // The first paragraph says what is wrong and what is possible; the rest is about the command line.
            let error = error.to_string();
            let lines: Vec<&str> = error.lines().take_while(|l| !l.is_empty()).map(str::trim).collect();
            Err(lines.join(" ").trim_start_matches("error: ").to_owned())
        }
    }
}

/// The user's themes: every `.toml` in the folder `themes` beside the configuration. What cannot be read is told.
fn themes(config: &Path) -> (Vec<(String, String)>, Vec<String>) {
    let (mut themes, mut unread) = (Vec::new(), Vec::new());
    let folder = config.with_file_name("themes");
    let Ok(entries) = fs::read_dir(&folder) else { return (themes, unread) };
    for path in entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "toml")) {
        let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        let small = fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MOST_BYTES);
        match fs::read_to_string(&path) {
            Ok(text) if small => themes.push((name, text)),
            Ok(_) => unread.push(format!("{}: too long for a theme", path.display())),
            Err(e) => unread.push(format!("{}: {e}", path.display())),
        }
    }
    themes.sort();
    (themes, unread)
}

/// Lays the file's values under the command line: they become the defaults of its options.
pub fn beneath(mut command: Command, config: &Config) -> Command {
    // The variable of the default target is read where it is looked for, and wins over the file.
    let target_in_environment = std::env::var_os("SPECTOP_TARGET").is_some_and(|v| !v.is_empty());
    for (setting, value) in &config.values {
        if setting.key == "target" && target_in_environment {
            continue;
        }
        let with = |command: Command| command.mut_arg(setting.key, |arg| arg.default_value(value.clone()));
        if setting.commands().is_empty() {
            command = with(command);
        }
        for name in setting.commands() {
            command = command.mut_subcommand(name, with);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::parser::ValueSource;

    use super::*;

    #[test]
    fn the_template_is_a_valid_file_with_every_setting() {
        let text = settings::template();
        let config = parse(&text).expect("valid");
        assert!(config.values.is_empty() && config.warnings.is_empty(), "{:?}", config.warnings);
        // With the marks of the comments gone, the examples are valid too.
        let bare: String = text
            .lines()
            .filter_map(|l| {
                l.strip_prefix("# ").map_or(Some(l), |l| (l.contains(" = ") || l.starts_with('[')).then_some(l))
            })
            .flat_map(|l| [l, "\n"])
            .collect();
        let config = parse(&bare).expect("valid examples");
        assert_eq!((config.values.len(), config.warnings), (SETTINGS.len(), Vec::new()), "{bare}");
    }

    #[test]
    fn every_problem_is_listed_with_its_place() {
        let problems = parse(
            "schema_version = 1\n[screen]\nfps = 99\nascii = \"yes\"\ncolor = \"mauve\"\n[server]\nport = 70000\n\
             [engine]\nmode = \"fast\"\n[keys.dashboard]\nprompt = \"m\"",
        )
        .expect_err("wrong")
        .join("\n");
        for part in [
            "screen.fps",
            "1..=60",
            "screen.ascii",
            "true or false",
            "screen.color",
            "truecolor",
            "server.port",
            "engine.mode",
            "m on dashboard",
        ] {
            assert!(problems.contains(part), "{part}: {problems}");
        }
        assert!(parse("[screen\n").expect_err("no TOML").join("").contains("line 1"));
        assert!(parse("schema_version = 0").is_err());
    }

    #[test]
    fn what_is_not_known_is_a_warning() {
        let config = parse("schema_version = 2\nfoo = 1\n[screen]\nthemes = \"nord\"").expect("readable");
        let warnings = config.warnings.join("\n");
        for part in ["schema_version 2 is newer", "unknown key foo", "unknown key screen.themes", "theme,"] {
            assert!(warnings.contains(part), "{part}: {warnings}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let config = parse(
            "schema_version = 1\n[screen]\nfps = 30\nascii = true\n[server]\nport = 9\n[attach]\nurl = \"http://h:1\"",
        )
        .expect("valid");
        let command = || beneath(Cli::command(), &config);
        let get = |line: &[&str], id: &str| {
            let matches = command().try_get_matches_from(line).expect("parses");
            let matches = matches.subcommand().map_or(matches.clone(), |(_, m)| m.clone());
            let text = matches.get_raw(id).map(|mut v| v.next().unwrap_or_default().to_string_lossy().into_owned());
            (text.unwrap_or_default(), matches.value_source(id))
        };
        assert_eq!(get(&["spectop"], "fps"), ("30".into(), Some(ValueSource::DefaultValue)));
        assert_eq!(get(&["spectop", "--fps", "5"], "fps").0, "5");
        assert_eq!(get(&["spectop"], "ascii").0, "true");
        assert_eq!(get(&["spectop", "--ascii=false"], "ascii").0, "false");
        assert_eq!(get(&["spectop", "serve"], "port").0, "9");
        assert_eq!(get(&["spectop", "attach"], "url").0, "http://h:1");
        assert_eq!(get(&["spectop", "attach", "http://x:2"], "url").0, "http://x:2");
    }

    #[test]
    fn the_path_can_be_given() {
        let args = |list: &[&str]| list.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        assert_eq!(path(&args(&["spectop", "--config", "a.toml", "attach"])).ok(), Some("a.toml".into()));
        assert_eq!(path(&args(&["spectop", "attach", "--config=b"])).ok(), Some("b".into()));
    }
}
