//! The themes there are: those that come with the program, and the user's own.

use std::sync::Arc;

use super::Theme;

/// The files that come with the program, in the order in which `T` lists them.
pub const BUILT_IN: [(&str, &str); 16] = [
    ("default-dark", include_str!("../../../themes/default-dark.toml")),
    ("default-light", include_str!("../../../themes/default-light.toml")),
    ("high-contrast", include_str!("../../../themes/high-contrast.toml")),
    ("colorblind", include_str!("../../../themes/colorblind.toml")),
    ("ansi16", include_str!("../../../themes/ansi16.toml")),
    ("mono", include_str!("../../../themes/mono.toml")),
    ("catppuccin-mocha", include_str!("../../../themes/catppuccin-mocha.toml")),
    ("catppuccin-latte", include_str!("../../../themes/catppuccin-latte.toml")),
    ("gruvbox-dark", include_str!("../../../themes/gruvbox-dark.toml")),
    ("gruvbox-light", include_str!("../../../themes/gruvbox-light.toml")),
    ("nord", include_str!("../../../themes/nord.toml")),
    ("tokyo-night", include_str!("../../../themes/tokyo-night.toml")),
    ("dracula", include_str!("../../../themes/dracula.toml")),
    ("solarized-dark", include_str!("../../../themes/solarized-dark.toml")),
    ("solarized-light", include_str!("../../../themes/solarized-light.toml")),
    ("rose-pine", include_str!("../../../themes/rose-pine.toml")),
];

/// Themes that may inherit from each other in a row.
const MOST_PARENTS: usize = 8;

/// Name and text of each theme, in the order of the list. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Themes {
    files: Arc<[(String, String)]>,
}

impl Default for Themes {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Themes {
    /// The built-in themes and these (name and text). One with the name of a built-in theme takes its place.
    pub fn new(own: Vec<(String, String)>) -> Self {
        let mut files: Vec<(String, String)> = Vec::new();
        for (name, source) in BUILT_IN {
            files.push((name.to_owned(), source.to_owned()));
        }
        for (name, source) in own {
            match files.iter_mut().find(|(n, _)| *n == name) {
                Some(file) => file.1 = source,
                None => files.push((name, source)),
            }
        }
        Self { files: files.into() }
    }

    /// How many there are; never none.
    #[expect(clippy::len_without_is_empty, reason = "the built-in ones are always there")]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| name.as_str())
    }

    /// The name at a place of the list; the last one behind its end.
    pub fn name(&self, at: usize) -> &str {
        &self.files[at.min(self.files.len() - 1)].0
    }

    /// The place of a name; 0 if there is none of that name.
    pub fn position(&self, name: &str) -> usize {
        self.names().position(|n| n == name).unwrap_or(0)
    }

    /// A theme by name; the error lists the names.
    pub fn get(&self, name: &str) -> Result<Theme, String> {
        self.find(name, &mut Vec::new())
    }

    fn find(&self, name: &str, below: &mut Vec<String>) -> Result<Theme, String> {
        // A user's file that inherits from its own name means the built-in one that it replaces.
        let built_in = BUILT_IN.iter().find(|(n, _)| *n == name).map(|(_, source)| *source);
        let own = self.files.iter().find(|(n, _)| n == name).map(|(_, source)| source.as_str());
        let again = below.iter().any(|n| n == name);
        let source = if again { built_in.filter(|b| Some(*b) != own) } else { own };
        let Some(source) = source else {
            if again {
                return Err(format!("themes inherit in a circle: {} → {name}", below.join(" → ")));
            }
            let names: Vec<_> = self.names().collect();
            return Err(format!("there is no theme \"{name}\"; use one of {}", names.join(", ")));
        };
        if below.len() >= MOST_PARENTS {
            return Err(format!("themes inherit too deeply: {} → {name}", below.join(" → ")));
        }
        below.push(name.to_owned());
        Theme::parse(name, source, &mut |from| self.find(from, below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::theme::Role;

    fn own(files: &[(&str, &str)]) -> Themes {
        Themes::new(files.iter().map(|(n, s)| ((*n).to_owned(), (*s).to_owned())).collect())
    }

    #[test]
    fn a_theme_of_ones_own_says_only_what_differs() {
        let themes = own(&[
            ("mine", "inherits = \"nord\"\n[state]\nok = \"#123456\""),
            ("nord", "inherits = \"nord\"\n[state]\nwarn = \"red\""),
            ("deep", "inherits = \"mine\""),
        ]);
        let (deep, nord) = (themes.get("deep").expect("whole"), Theme::built_in("nord").expect("built in"));
        assert_eq!(deep.color(Role::StateOk), ratatui::style::Color::Rgb(0x12, 0x34, 0x56));
        assert_eq!(deep.color(Role::StateWarn), ratatui::style::Color::Red, "a file replaces the built-in one");
        assert_eq!(deep.color(Role::TextNormal), nord.color(Role::TextNormal));
        assert_eq!(themes.len(), BUILT_IN.len() + 2);
        assert_eq!(themes.name(themes.position("mine")), "mine");
        assert_eq!(deep.name(), "deep");
    }

    #[test]
    fn what_cannot_be_inherited_is_said() {
        let themes = own(&[
            ("a", "inherits = \"b\""),
            ("b", "inherits = \"a\""),
            ("c", "inherits = \"nope\""),
            ("d", "inherits = 3"),
            ("e", "[state]\nok = \"red\""),
        ]);
        for (name, part) in
            [("a", "circle"), ("c", "default-dark"), ("d", "name of a theme"), ("e", "missing text.normal")]
        {
            let error = themes.get(name).expect_err(name);
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
    }
}
