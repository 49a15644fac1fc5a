//! Which keys do what: the table of actions with the user's changes.

use std::fmt::Write as _;
use std::sync::Arc;

use crossterm::event::KeyCode;

use super::{Action, Context, Key, TABLE};

/// One line of the table as it holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// What happens.
    pub action: Action,
    /// Where.
    pub context: Context,
    /// On which keys.
    pub keys: Vec<Key>,
    /// One word for the footer; empty: not in the footer.
    pub footer: &'static str,
    /// One line for the help.
    pub description: &'static str,
}

impl Bound {
    /// All keys: `↑ k`.
    pub fn label(&self) -> String {
        self.keys.iter().map(|k| k.label()).collect::<Vec<_>>().join(" ")
    }
}

/// Place, action and its keys.
pub type Change = (String, String, Vec<Key>);

/// All bindings, in table order. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keymap {
    lines: Arc<[Bound]>,
}

impl Default for Keymap {
    fn default() -> Self {
        let lines = TABLE.iter().map(|b| Bound {
            action: b.action,
            context: b.context,
            keys: b.keys.to_vec(),
            footer: b.footer,
            description: b.description,
        });
        Self { lines: lines.collect() }
    }
}

impl Keymap {
    /// The table changed by the `[keys]` section of a configuration: `[keys.dashboard]` holds `prompt = "F9"` or a list
    /// of keys; an empty list takes all keys away. The error lists everything that is wrong, clashes included.
    pub fn parse(section: &toml::Table) -> Result<Self, Vec<String>> {
        let mut keymap = Self::default();
        let mut lines = keymap.lines.to_vec();
        let mut problems = Vec::new();
        for (name, actions) in section {
            let Some(context) = Context::ALL.into_iter().find(|c| c.name() == *name) else {
                let known: Vec<_> = Context::ALL.into_iter().map(Context::name).collect();
                problems.push(format!("keys.{name}: no such place; there are {}", known.join(", ")));
                continue;
            };
            let Some(actions) = actions.as_table() else {
                problems.push(format!("keys.{name} must be a section: [keys.{name}]"));
                continue;
            };
            for (action, value) in actions {
                let place = format!("keys.{name}.{action}");
                let Some(line) = lines.iter_mut().find(|l| l.context == context && l.action.name() == *action) else {
                    let known: Vec<_> =
                        TABLE.iter().filter(|b| b.context == context).map(|b| b.action.name()).collect();
                    problems.push(format!("{place}: no such action there; there are {}", known.join(", ")));
                    continue;
                };
                match keys(value) {
                    Ok(keys) => line.keys = keys,
                    Err(why) => problems.push(format!("{place}: {why}")),
                }
            }
        }
        keymap.lines = lines.into();
        problems.extend(keymap.problems());
        if problems.is_empty() { Ok(keymap) } else { Err(problems) }
    }

    /// What cannot work: keys that mean two things, characters that could no longer be typed, no way out.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for context in Context::ALL {
            let lines: Vec<&Bound> = self.working(context).collect();
            for (i, line) in lines.iter().enumerate() {
                for key in &line.keys {
                    let other = lines[..i].iter().find(|l| l.keys.contains(key));
                    let own = line.context == context || other.is_some_and(|o| o.context == context);
                    // What clashes everywhere is said once, where it comes from.
                    if let Some(other) = other.filter(|_| own) {
                        problems.push(format!(
                            "{} on {} means both {}.{} ({}) and {}.{} ({})",
                            key.label(),
                            context.name(),
                            other.context.name(),
                            other.action.name(),
                            other.description,
                            line.context.name(),
                            line.action.name(),
                            line.description
                        ));
                    }
                    if context.is_text() && matches!(key, Key(KeyCode::Char(_), m) if m.is_empty()) {
                        problems.push(format!(
                            "{} on {} could no longer be typed: use it with Ctrl or Alt, or a function key",
                            key.label(),
                            context.name()
                        ));
                    }
                }
            }
        }
        if self.first(Context::Global, Action::Quit).is_none() {
            problems.push("keys.global.quit: one key must be left to quit with".into());
        }
        problems
    }

    /// What differs from the table: place, action and keys, by name.
    pub fn changes(&self) -> Vec<Change> {
        let lines = self.lines.iter().zip(TABLE).filter(|(line, b)| line.keys != b.keys);
        lines.map(|(line, _)| (line.context.name().into(), line.action.name(), line.keys.clone())).collect()
    }

    /// The table with such changes; names that are not known any more are left out.
    #[must_use]
    pub fn changed(changes: &[Change]) -> Self {
        let mut lines = Self::default().lines.to_vec();
        for (context, action, keys) in changes {
            let known = lines.iter_mut().find(|l| l.context.name() == *context && l.action.name() == *action);
            if let Some(line) = known {
                line.keys.clone_from(keys);
            }
        }
        Self { lines: lines.into() }
    }

    /// Every line.
    pub fn lines(&self) -> &[Bound] {
        &self.lines
    }

    /// Bindings of a context, in table order.
    pub fn of(&self, context: Context) -> impl Iterator<Item = &Bound> {
        self.lines.iter().filter(move |b| b.context == context)
    }

    /// Bindings that work in a context: its own, those of every screen where it is one, and those that work everywhere.
    pub fn working(&self, context: Context) -> impl Iterator<Item = &Bound> {
        let screens = self.of(Context::Screens).filter(move |_| context.is_screen());
        let global = self.of(Context::Global).filter(move |_| context != Context::Global);
        self.of(context).chain(screens).chain(global)
    }

    /// What a key does in a context, or everywhere.
    pub fn find(&self, context: Context, key: Key) -> Option<Action> {
        self.working(context).find(|b| b.keys.contains(&key)).map(|b| b.action)
    }

    /// The first key of an action that works in a context.
    pub fn first(&self, context: Context, action: Action) -> Option<Key> {
        self.working(context).find(|b| b.action == action).and_then(|b| b.keys.first()).copied()
    }

    /// The same in words; empty when it has none.
    pub fn label(&self, context: Context, action: Action) -> String {
        self.first(context, action).map_or_else(String::new, Key::label)
    }

    /// The key table of these places as Markdown, with the names for the configuration.
    pub fn markdown(&self, contexts: &[Context]) -> String {
        let mut out = String::new();
        for &context in contexts {
            let _ = writeln!(out, "**{}** (`[keys.{}]`)\n", context.title(), context.name());
            let _ = writeln!(out, "| key | action | name |\n|---|---|---|");
            for line in self.of(context) {
                let keys: Vec<_> = line.keys.iter().map(|k| format!("`{}`", k.label())).collect();
                let keys = if keys.is_empty() { "—".into() } else { keys.join(" ") };
                let _ = writeln!(out, "| {keys} | {} | `{}` |", line.description, line.action.name());
            }
            out.push('\n');
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }
}

fn keys(value: &toml::Value) -> Result<Vec<Key>, String> {
    let one = |v: &toml::Value| {
        let text = v.as_str().ok_or_else(|| format!("{v} is no key: write it in quotes"))?;
        Key::parse(text).ok_or_else(|| {
            format!(
                "\"{text}\" is no key: write a character, F1 to F24, or a name such as ctrl-x, alt-enter, space, pgup"
            )
        })
    };
    match value {
        toml::Value::Array(list) => list.iter().map(one).collect(),
        other => one(other).map(|k| vec![k]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{ch, ctrl, on};
    use super::*;

    fn parse(text: &str) -> Result<Keymap, Vec<String>> {
        Keymap::parse(&text.parse().expect("TOML"))
    }

    #[test]
    fn keys_are_rebound_and_the_rest_stays() {
        let keymap = parse("[dashboard]\nprompt = \"F9\"\nrerun = [\"ctrl-r\", \"i\"]\npause = []").expect("valid");
        assert_eq!(keymap.find(Context::Dashboard, on(KeyCode::F(9))), Some(Action::Prompt));
        assert_eq!(keymap.find(Context::Dashboard, ch('p')), None);
        assert_eq!(keymap.find(Context::Dashboard, ctrl('r')), Some(Action::Rerun));
        assert_eq!(keymap.find(Context::Dashboard, ch(' ')), None);
        assert_eq!(keymap.find(Context::Dashboard, ch('m')), Some(Action::ModeMenu));
        assert_eq!(keymap.label(Context::Dashboard, Action::Rerun), "Ctrl-R");
        assert_eq!(parse("").expect("nothing changed"), Keymap::default());
    }

    #[test]
    fn two_actions_may_change_places() {
        let keymap = parse("[dashboard]\nprompt = \"r\"\nrerun = \"p\"").expect("valid");
        assert_eq!(keymap.find(Context::Dashboard, ch('r')), Some(Action::Prompt));
    }

    #[test]
    fn clashes_and_dead_ends_are_errors() {
        for (text, parts) in [
            ("[dashboard]\nprompt = \"m\"", vec!["dashboard.prompt", "dashboard.mode-menu", "m on dashboard"]),
            ("[dashboard]\nprompt = \"ctrl-c\"", vec!["global.quit"]),
            ("[screens]\nquit = \"p\"", vec!["p on dashboard", "screens.quit"]),
            ("[prompt]\nconfirm = \"x\"", vec!["could no longer be typed"]),
            ("[global]\nquit = []", vec!["one key must be left"]),
            ("[dashbord]\nprompt = \"x\"", vec!["keys.dashbord", "no such place", "dashboard"]),
            ("[dashboard]\npromt = \"z\"", vec!["keys.dashboard.promt", "mode-menu"]),
            ("[dashboard]\nprompt = 7", vec!["quotes"]),
            ("[dashboard]\nprompt = \"hyper-z\"", vec!["is no key"]),
            ("dashboard = 3", vec!["must be a section"]),
        ] {
            let problems = parse(text).expect_err(text).join("\n");
            for part in parts {
                assert!(problems.contains(part), "{text}: {problems}");
            }
        }
        assert_eq!(parse("[global]\nredraw = \"ctrl-c\"").expect_err("a clash").len(), 1, "said once");
    }

    #[test]
    fn the_table_has_every_binding() {
        let table = Keymap::default().markdown(&Context::ALL);
        for binding in TABLE {
            assert!(table.contains(&format!("| {} | `{}` |", binding.description, binding.action.name())));
        }
    }
}
