//! Themes: semantic roles from TOML files, never colours per widget.
//!
//! A file must define or inherit every role and nothing else; what is wrong is listed in one error. Where a theme leaves a colour
//! to the terminal (`default`), attributes take over, so that meaning never hangs on colour alone.

use ratatui::style::{Color, Modifier, Style};

mod catalog;

pub use catalog::{BUILT_IN, Themes};

use super::color::{self, Depth};
use crate::protocol::mode::Mode;

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident = $key:literal),+ $(,)?) => {
        /// What a colour means.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Role { $($(#[$doc])* $name),+ }
        impl Role {
            /// Every role.
            pub const ALL: &[Role] = &[$(Role::$name),+];
            /// Its place in a theme file: `section.key`.
            pub fn key(self) -> &'static str {
                match self { $(Role::$name => $key),+ }
            }
        }
    };
}

roles! {
    /// Plain text.
    TextNormal = "text.normal",
    /// Labels, units, what is old or absent.
    TextDim = "text.dim",
    /// Titles and headline numbers.
    TextStrong = "text.strong",
    /// Background of the screen.
    SurfaceBase = "surface.base",
    /// Background of popups.
    SurfacePopup = "surface.popup",
    /// Borders, and the empty part of bars.
    BorderIdle = "border.idle",
    /// Border of the panel with focus.
    BorderFocus = "border.focus",
    /// Text of the selected entry.
    SelectionText = "selection.text",
    /// Background of the selected entry.
    SelectionSurface = "selection.surface",
    /// All is well.
    StateOk = "state.ok",
    /// Look at this.
    StateWarn = "state.warn",
    /// This failed.
    StateCrit = "state.crit",
    /// Not in use.
    StateOff = "state.off",
    /// Mode `off`.
    ModeOff = "mode.off",
    /// Mode `dflash`.
    ModeDflash = "mode.dflash",
    /// Mode `ddtree`.
    ModeDdtree = "mode.ddtree",
    /// Mode `shadow`.
    ModeShadow = "mode.shadow",
    /// Draft tokens that the target took.
    TokenAccepted = "token.accepted",
    /// The target's own token at the end of a round.
    TokenBonus = "token.bonus",
    /// Draft tokens that the target refused.
    TokenRejected = "token.rejected",
    /// Not decided yet.
    TokenPending = "token.pending",
    /// A gauge with room.
    GaugeLow = "gauge.low",
    /// A gauge that fills up.
    GaugeMid = "gauge.mid",
    /// A gauge near its end.
    GaugeHigh = "gauge.high",
    /// Data series 1.
    SeriesA = "series.a",
    /// Data series 2.
    SeriesB = "series.b",
    /// Data series 3.
    SeriesC = "series.c",
    /// Data series 4.
    SeriesD = "series.d",
    /// Data series 5.
    SeriesE = "series.e",
    /// Data series 6.
    SeriesF = "series.f",
}

impl Role {
    /// The role of a mode.
    pub fn of_mode(mode: Mode) -> Self {
        match mode {
            // The rounds of `auto` are plain, chain or tree, and are drawn as such; its badge needs no colour of its own.
            Mode::Off | Mode::Auto => Role::ModeOff,
            Mode::Dflash => Role::ModeDflash,
            Mode::Ddtree => Role::ModeDdtree,
            Mode::Shadow => Role::ModeShadow,
        }
    }

    /// The role of a fill level, 0 to 1.
    pub fn of_level(fraction: f64) -> Self {
        match fraction {
            f if f >= 0.9 => Role::GaugeHigh,
            f if f >= 0.7 => Role::GaugeMid,
            _ => Role::GaugeLow,
        }
    }

    /// Attributes that the role always has: shape beside colour.
    fn shape(self) -> Modifier {
        match self {
            Role::TextStrong | Role::BorderFocus | Role::TokenBonus => Modifier::BOLD,
            Role::TokenRejected => Modifier::CROSSED_OUT.union(Modifier::DIM),
            Role::TokenPending => Modifier::UNDERLINED,
            _ => Modifier::empty(),
        }
    }

    /// Attributes that stand in when the theme leaves the colour to the terminal.
    fn stand_in(self) -> Modifier {
        match self {
            Role::TextDim | Role::BorderIdle | Role::StateOff | Role::ModeOff => Modifier::DIM,
            Role::SelectionText | Role::SelectionSurface => Modifier::REVERSED,
            Role::StateWarn | Role::ModeDflash | Role::ModeDdtree | Role::ModeShadow | Role::GaugeHigh => {
                Modifier::BOLD
            }
            Role::StateCrit => Modifier::BOLD.union(Modifier::REVERSED),
            _ => Modifier::empty(),
        }
    }
}

/// A theme, ready to use.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    name: String,
    colors: Vec<Color>,
}

impl Theme {
    /// Reads a theme file; the error lists everything that is wrong with it. Roles that it leaves out are those of the
    /// theme it inherits from, which `parent` finds by name.
    pub fn parse(
        name: &str,
        source: &str,
        parent: &mut dyn FnMut(&str) -> Result<Theme, String>,
    ) -> Result<Self, String> {
        let mut file: toml::Table = source.parse().map_err(|e| format!("theme {name}: {e}"))?;
        let parent = match file.remove("inherits") {
            None => None,
            Some(toml::Value::String(from)) => Some(parent(&from).map_err(|e| format!("theme {name} inherits: {e}"))?),
            Some(other) => return Err(format!("theme {name}: inherits = {other} must be the name of a theme")),
        };
        let mut problems = Vec::new();
        let mut colors = Vec::with_capacity(Role::ALL.len());
        for role in Role::ALL {
            let (section, key) = role.key().split_once('.').unwrap_or((role.key(), ""));
            let value = file.get(section).and_then(|s| s.get(key));
            let parsed = value.and_then(toml::Value::as_str).and_then(color::parse);
            match (value, parsed) {
                (None, _) if parent.is_none() => problems.push(format!("missing {}", role.key())),
                (Some(v), None) => problems.push(format!("{} = {v} is no colour", role.key())),
                _ => {}
            }
            colors.push(parsed.or_else(|| Some(parent.as_ref()?.color(*role))).unwrap_or_default());
        }
        for (section, value) in &file {
            let Some(table) = value.as_table() else {
                problems.push(format!("unknown {section}"));
                continue;
            };
            for key in table.keys() {
                let full = format!("{section}.{key}");
                if !Role::ALL.iter().any(|r| r.key() == full) {
                    problems.push(format!("unknown {full}"));
                }
            }
        }
        if problems.is_empty() {
            Ok(Self { name: name.to_owned(), colors })
        } else {
            Err(format!("theme {name}: {}", problems.join(", ")))
        }
    }

    /// A built-in theme by name; the error lists the names.
    pub fn built_in(name: &str) -> Result<Self, String> {
        Themes::default().get(name)
    }

    /// The theme to start with when none is asked for.
    pub fn default_name(depth: Depth) -> &'static str {
        match depth {
            Depth::None => "mono",
            Depth::Ansi16 => "ansi16",
            Depth::Ansi256 | Depth::True => "default-dark",
        }
    }

    /// The same theme with colours that the terminal can show.
    #[must_use]
    pub fn fit(mut self, depth: Depth) -> Self {
        for color in &mut self.colors {
            *color = depth.fit(*color);
        }
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The colour of a role.
    pub fn color(&self, role: Role) -> Color {
        self.colors[role as usize]
    }

    /// Foreground of a role with its attributes.
    pub fn style(&self, role: Role) -> Style {
        let color = self.color(role);
        let mut shape = role.shape();
        if color == Color::Reset {
            shape |= role.stand_in();
        }
        Style::new().fg(color).add_modifier(shape)
    }

    /// Plain text on the screen's background.
    pub fn base(&self) -> Style {
        Style::new().fg(self.color(Role::TextNormal)).bg(self.color(Role::SurfaceBase))
    }

    /// Plain text on a popup.
    pub fn popup(&self) -> Style {
        self.base().bg(self.color(Role::SurfacePopup))
    }

    /// The selected entry.
    pub fn selection(&self) -> Style {
        self.style(Role::SelectionText).bg(self.color(Role::SelectionSurface))
    }

    /// A block of a state colour with readable text on it (banners, toasts).
    pub fn banner(&self, role: Role) -> Style {
        match self.color(role) {
            Color::Reset => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            color => Style::new().bg(color).fg(self.ink_on(color)).add_modifier(Modifier::BOLD),
        }
    }

    /// Whichever of the theme's surface and strong text can be read better on `color`; black where both are the
    /// terminal's own.
    fn ink_on(&self, color: Color) -> Color {
        let Some(ground) = color::rgb(color) else { return Color::Reset };
        [Role::SurfaceBase, Role::TextStrong]
            .into_iter()
            .filter_map(|r| color::rgb(self.color(r)).map(|v| (color::contrast(v, ground), self.color(r))))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(Color::Black, |(_, color)| color)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that may not inherit.
    fn alone(name: &str, source: &str) -> Result<Theme, String> {
        Theme::parse(name, source, &mut |from| Err(format!("no {from} here")))
    }

    #[test]
    fn every_file_is_complete() {
        for (name, source) in BUILT_IN {
            let theme = alone(name, source).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(theme.name(), name);
        }
    }

    #[test]
    fn an_error_lists_all_that_is_wrong() {
        let broken = BUILT_IN[0].1.replace("normal =", "norml =").replace("crit =", "crit = \"mauve\" #");
        let error = alone("x", &broken).expect_err("broken");
        for part in ["missing text.normal", "unknown text.norml", "state.crit"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(alone("x", "series = 3").expect_err("broken").contains("unknown series"));
        assert!(alone("x", "[[").is_err());
        assert!(Theme::built_in("nope").expect_err("unknown").contains("default-dark"));
    }

    #[test]
    fn text_can_be_read_on_its_surface() {
        for (name, _) in BUILT_IN {
            let theme = Theme::built_in(name).expect("built in");
            let Some(base) = color::rgb(theme.color(Role::SurfaceBase)) else { continue };
            let popup = color::rgb(theme.color(Role::SurfacePopup)).expect("an RGB theme");
            for role in Role::ALL {
                let key = role.key();
                if key.starts_with("surface") || key.starts_with("border") || key.starts_with("selection") {
                    continue;
                }
                let ink = color::rgb(theme.color(*role)).expect("an RGB theme");
                let least = 4.5;
                for surface in [base, popup] {
                    let ratio = color::contrast(ink, surface);
                    assert!(ratio >= least, "{name} {key}: {ratio:.2}");
                }
            }
            let selection = [Role::SelectionText, Role::SelectionSurface].map(|r| color::rgb(theme.color(r)));
            if let [Some(ink), Some(ground)] = selection {
                assert!(color::contrast(ink, ground) >= 4.5, "{name} selection");
            }
        }
    }

    #[test]
    fn tokens_differ_by_colour_and_by_shape() {
        for (name, _) in BUILT_IN {
            let theme = Theme::built_in(name).expect("built in");
            let [a, b, r] = [Role::TokenAccepted, Role::TokenBonus, Role::TokenRejected].map(|x| theme.style(x));
            assert!(a.add_modifier != b.add_modifier && b.add_modifier != r.add_modifier, "{name}");
            assert!(a.add_modifier != r.add_modifier, "{name}");
            if name != "mono" {
                assert!(a.fg != b.fg && b.fg != r.fg && a.fg != r.fg, "{name}");
            }
        }
    }

    #[test]
    fn colours_can_be_taken_away_without_losing_meaning() {
        let theme = Theme::built_in("default-dark").expect("built in").fit(Depth::None);
        assert!(Role::ALL.iter().all(|r| theme.color(*r) == Color::Reset));
        assert!(theme.style(Role::TextDim).add_modifier.contains(Modifier::DIM));
        assert!(theme.selection().add_modifier.contains(Modifier::REVERSED));
        assert!(theme.style(Role::TokenRejected).add_modifier.contains(Modifier::CROSSED_OUT));
    }
}
