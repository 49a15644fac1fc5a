//! How things look: colours, characters, motion.

use crate::ui::color::Depth;
use crate::ui::theme::{Theme, Themes};

/// How things look.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Colours.
    pub theme: Theme,
    /// The themes there are to choose from.
    pub themes: Themes,
    /// ASCII characters only.
    pub ascii: bool,
    /// Reduced motion: no effects, and at most two frames a second unless a key asks for one.
    pub still: bool,
    /// What the terminal can show.
    pub depth: Depth,
}

impl Look {
    /// A built-in theme, brought down to the terminal's colours; without a name the one that fits best.
    pub fn new(theme: Option<&str>, depth: Depth, ascii: bool) -> Result<Self, String> {
        Self::with(Themes::default(), theme, depth, ascii)
    }

    /// The same with themes of the user's own.
    pub fn with(themes: Themes, theme: Option<&str>, depth: Depth, ascii: bool) -> Result<Self, String> {
        // NO_COLOR wins over a named theme; the name is still checked.
        let found = themes.get(theme.unwrap_or(Theme::default_name(depth)))?;
        Ok(Self { theme: found.fit(depth), themes, ascii, still: false, depth })
    }

    /// The same with another of its themes.
    pub fn themed(&self, name: &str) -> Result<Self, String> {
        Ok(Self { theme: self.themes.get(name)?.fit(self.depth), ..self.clone() })
    }
}
