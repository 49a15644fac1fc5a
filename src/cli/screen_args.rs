//! Options of the screen.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};

use super::config::Config;
use crate::ui::action::Keymap;
use crate::ui::app::{Look, MouseMode};
use crate::ui::color::Depth;
use crate::ui::theme::Themes;

/// Options of the screen.
#[derive(Debug, Clone, Args)]
pub struct ScreenArgs {
    /// Theme (a name from themes/, or a file of your own).
    #[arg(long, global = true, value_name = "NAME", env = "SPECTOP_THEME", help_heading = "Screen")]
    pub theme: Option<String>,
    /// Colours; auto asks NO_COLOR, TERM and COLORTERM.
    #[arg(long, global = true, value_enum, default_value_t, env = "SPECTOP_COLOR", help_heading = "Screen")]
    pub color: ColorArg,
    /// Draw with ASCII characters only (by itself where the locale is not UTF-8, and on the Linux console).
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", env = "SPECTOP_ASCII", value_parser = BoolishValueParser::new(), help_heading = "Screen")]
    pub ascii: Option<bool>,
    /// No effects, and few frames a second.
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", env = "SPECTOP_REDUCED_MOTION", value_parser = BoolishValueParser::new(),
        help_heading = "Screen")]
    pub reduced_motion: Option<bool>,
    /// What the terminal reports of the mouse.
    #[arg(long, global = true, value_enum, default_value_t, env = "SPECTOP_MOUSE", help_heading = "Screen")]
    pub mouse: MouseArg,
    /// Frames a second at most.
    #[arg(long, global = true, default_value_t = 15, value_name = "N", env = "SPECTOP_FPS",
        value_parser = clap::value_parser!(u16).range(1..=60), help_heading = "Screen")]
    pub fps: u16,
    /// Write everything that is shown to FILE (.jsonl.zst); `spectop replay FILE` plays it.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Screen")]
    pub record: Option<PathBuf>,
    /// Panic when this key is pressed: shows that a panic gives the terminal back.
    #[arg(long, global = true, hide = true, value_name = "CHAR")]
    pub panic_on: Option<char>,
    /// The keys, from the configuration.
    #[arg(skip)]
    pub keys: Keymap,
    /// The themes there are.
    #[arg(skip)]
    pub themes: Themes,
    /// What the configuration has that means nothing.
    #[arg(skip)]
    pub warnings: Vec<String>,
    /// Whether the colours were asked for by name, so that NO_COLOR does not count.
    #[arg(skip)]
    pub color_is_asked: bool,
}

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorArg {
    /// What the terminal says that it can show.
    #[default]
    Auto,
    /// None.
    Never,
    /// The terminal's own 16.
    #[value(name = "16")]
    Ansi16,
    /// The 256-colour cube.
    #[value(name = "256")]
    Ansi256,
    /// 24 bits.
    Truecolor,
}

/// `--mouse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum MouseArg {
    /// Nothing: selecting text works as in the shell.
    Off,
    /// Buttons and wheel.
    #[default]
    Clicks,
    /// Motion too.
    Hover,
}

impl From<MouseArg> for MouseMode {
    fn from(arg: MouseArg) -> Self {
        match arg {
            MouseArg::Off => MouseMode::Off,
            MouseArg::Clicks => MouseMode::Clicks,
            MouseArg::Hover => MouseMode::Hover,
        }
    }
}

/// The environment that decides about looks.
pub struct Environment<'a> {
    /// A variable's value.
    pub var: &'a dyn Fn(&str) -> Option<String>,
}

impl ScreenArgs {
    /// Adds what the configuration file says beyond the options.
    pub fn configure(&mut self, config: &Config, matches: &ArgMatches) {
        self.keys = config.keys.clone();
        self.themes = config.themes.clone();
        self.warnings.clone_from(&config.warnings);
        let source = matches.value_source("color");
        self.color_is_asked = matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable));
    }

    /// The look that the options and the environment ask for.
    pub fn look(&self, environment: &Environment<'_>) -> Result<Look, String> {
        let var = environment.var;
        let no_color = var("NO_COLOR").filter(|v| !v.is_empty() && !self.color_is_asked);
        let depth = match (no_color, self.color) {
            (Some(_), _) | (None, ColorArg::Never) => Depth::None,
            (None, ColorArg::Ansi16) => Depth::Ansi16,
            (None, ColorArg::Ansi256) => Depth::Ansi256,
            (None, ColorArg::Truecolor) => Depth::True,
            (None, ColorArg::Auto) => Depth::of(None, var("TERM").as_deref(), var("COLORTERM").as_deref()),
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(var).find(|v| !v.is_empty());
        // The fonts of the Linux console have neither braille nor much else beyond ASCII.
        let plain = var("TERM").as_deref() == Some("linux") || locale.is_some_and(|l| !speaks_utf8(&l));
        let ascii = self.ascii.unwrap_or(plain);
        let look = Look::with(self.themes.clone(), self.theme.as_deref(), depth, ascii)?;
        Ok(Look { still: self.reduced_motion.unwrap_or(false), ..look })
    }
}

/// Whether a locale's characters are UTF-8.
fn speaks_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn look(args: &[&str], vars: &[(&str, &str)]) -> Look {
        let line = std::iter::once("spectop").chain(args.iter().copied());
        let mut screen = Cli::try_parse_from(line).expect("parses").screen;
        screen.color_is_asked = args.iter().any(|a| a.starts_with("--color"));
        let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        screen.look(&Environment { var: &var }).expect("a look")
    }

    #[test]
    fn locales() {
        assert!(speaks_utf8("en_GB.UTF-8") && speaks_utf8("C.utf8"));
        assert!(!speaks_utf8("C") && !speaks_utf8("de_DE.ISO-8859-1"));
        assert!(look(&[], &[("LANG", "C")]).ascii && !look(&["--ascii=false"], &[("LANG", "C")]).ascii);
        assert!(!look(&[], &[("LC_ALL", "C.UTF-8"), ("LANG", "C")]).ascii && look(&["--ascii"], &[]).ascii);
    }

    #[test]
    fn colours_follow_options_then_no_color_then_the_terminal() {
        let term = [("TERM", "xterm-256color")];
        assert_eq!(look(&[], &term).depth, Depth::Ansi256);
        let console = look(&[], &[("TERM", "linux")]);
        assert_eq!((console.theme.name(), console.ascii), ("ansi16", true));
        let none = look(&["--theme", "nord"], &[("NO_COLOR", "1"), ("TERM", "xterm")]);
        assert_eq!(none.depth, Depth::None);
        assert_eq!(look(&[], &[("NO_COLOR", "1")]).theme.name(), "mono");
        assert_eq!(look(&[], &[("NO_COLOR", ""), ("COLORTERM", "truecolor")]).depth, Depth::True);
        assert_eq!(look(&["--color", "256"], &[("NO_COLOR", "1")]).depth, Depth::Ansi256);
        assert_eq!(look(&["--color=never"], &[("COLORTERM", "truecolor")]).depth, Depth::None);
    }

    #[test]
    fn motion_and_mouse() {
        assert!(look(&["--reduced-motion"], &[]).still && !look(&[], &[]).still);
        let mouse = |args: &[&str]| {
            let line = std::iter::once("spectop").chain(args.iter().copied());
            MouseMode::from(Cli::try_parse_from(line).expect("parses").screen.mouse)
        };
        assert_eq!((mouse(&[]), mouse(&["--mouse", "hover"])), (MouseMode::Clicks, MouseMode::Hover));
        assert_eq!(MouseMode::ALL.map(MouseMode::name), ["off", "clicks", "hover"]);
    }
}
