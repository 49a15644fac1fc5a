//! The one table of actions. Key handling, the help overlay, the footer and the README's key table all come from it.

use std::fmt::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Where keys are being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// Everywhere, text fields included.
    Global,
    /// The dashboard.
    Dashboard,
    /// The mode menu.
    ModeMenu,
    /// The prompt editor. Characters without a binding are typed.
    Prompt,
    /// The help overlay.
    Help,
}

impl Context {
    /// Every context, in the order of the help.
    pub const ALL: [Context; 5] =
        [Context::Dashboard, Context::ModeMenu, Context::Prompt, Context::Help, Context::Global];

    /// Heading in the help.
    pub fn title(self) -> &'static str {
        match self {
            Context::Global => "Everywhere",
            Context::Dashboard => "Dashboard",
            Context::ModeMenu => "Mode menu",
            Context::Prompt => "Prompt editor",
            Context::Help => "Help",
        }
    }
}

/// Something that a key can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table below describes each of them, for people and for the help alike")]
pub enum Action {
    ModeMenu,
    ModeOff,
    ModeDflash,
    ModeDdtree,
    ModeShadow,
    ModeAuto,
    Less,
    More,
    ChainSeed,
    Prompt,
    Rerun,
    CancelGeneration,
    Pause,
    Rejected,
    FollowNext,
    FollowNewest,
    ResetSpeeds,
    Theme,
    LogSize,
    FocusNext,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Confirm,
    Close,
    Newline,
    MaxTokens,
    Temperature,
    HistoryOlder,
    HistoryNewer,
    LineStart,
    LineEnd,
    DeleteWord,
    DeleteToStart,
    DeleteToEnd,
    Help,
    Redraw,
    Suspend,
    Quit,
}

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub KeyCode, pub KeyModifiers);

const fn ch(c: char) -> Key {
    Key(KeyCode::Char(c), KeyModifiers::NONE)
}
const fn ctrl(c: char) -> Key {
    Key(KeyCode::Char(c), KeyModifiers::CONTROL)
}
const fn on(code: KeyCode) -> Key {
    Key(code, KeyModifiers::NONE)
}
const fn alt(code: KeyCode) -> Key {
    Key(code, KeyModifiers::ALT)
}

impl Key {
    /// The key of an event, with the differences between terminals taken out: Shift is part of a character, and Ctrl
    /// does not know upper case. `None` for releases and repeats.
    pub fn of(event: &KeyEvent) -> Option<Self> {
        if event.kind != KeyEventKind::Press {
            return None;
        }
        let mut modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
        let code = match event.code {
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => KeyCode::Char(c.to_ascii_lowercase()),
            KeyCode::BackTab => {
                modifiers = KeyModifiers::NONE;
                KeyCode::BackTab
            }
            code => code,
        };
        Some(Self(code, modifiers))
    }

    /// For people: `Ctrl-X`, `PgUp`, `space`.
    pub fn label(self) -> String {
        let mut text = String::new();
        if self.1.contains(KeyModifiers::CONTROL) {
            text.push_str("Ctrl-");
        }
        if self.1.contains(KeyModifiers::ALT) {
            text.push_str("Alt-");
        }
        match self.0 {
            KeyCode::Char(' ') => text.push_str("space"),
            KeyCode::Char(c) if self.1.contains(KeyModifiers::CONTROL) => text.push(c.to_ascii_uppercase()),
            KeyCode::Char(c) => text.push(c),
            KeyCode::Up => text.push('↑'),
            KeyCode::Down => text.push('↓'),
            KeyCode::PageUp => text.push_str("PgUp"),
            KeyCode::PageDown => text.push_str("PgDn"),
            KeyCode::BackTab => text.push_str("Shift-Tab"),
            KeyCode::F(n) => {
                let _ = write!(text, "F{n}");
            }
            other => {
                let _ = write!(text, "{other:?}");
            }
        }
        text
    }
}

/// One line of the table.
#[derive(Debug)]
pub struct Binding {
    /// What happens.
    pub action: Action,
    /// Where.
    pub context: Context,
    /// On which keys.
    pub keys: &'static [Key],
    /// One word for the footer; empty: not in the footer.
    pub footer: &'static str,
    /// One line for the help.
    pub description: &'static str,
}

macro_rules! table {
    ($($context:ident $action:ident [$($key:expr),+] $footer:literal $description:literal;)+) => {
        /// All bindings.
        pub const TABLE: &[Binding] = &[$(Binding {
            action: Action::$action,
            context: Context::$context,
            keys: &[$($key),+],
            footer: $footer,
            description: $description,
        }),+];
    };
}

table! {
    Dashboard Prompt [ch('p')] "prompt" "write a prompt and send it";
    Dashboard ModeMenu [ch('m')] "mode" "choose the decoding mode";
    Dashboard ModeOff [ch('o')] "off" "plain decoding, in the middle of a generation too";
    Dashboard ModeDflash [ch('d')] "dflash" "DFlash: verify a linear draft block";
    Dashboard ModeDdtree [ch('t')] "ddtree" "DDTree: verify a draft tree";
    Dashboard ModeShadow [ch('s')] "" "shadow: verify the chain, report what a tree would save";
    Dashboard ModeAuto [ch('a')] "" "auto: every round what pays on this machine, plain where nothing does";
    Dashboard Less [ch('[')] "less" "halve the tree budget (dflash: block size -1)";
    Dashboard More [ch(']')] "more" "double the tree budget (dflash: block size +1)";
    Dashboard ChainSeed [ch('c')] "" "start the tree from the whole top-1 chain, or not";
    Dashboard Rerun [ch('r')] "rerun" "send the last prompt again";
    Dashboard Pause [ch(' ')] "pause" "freeze the view; collecting goes on";
    Dashboard Rejected [ch('x')] "rejects" "rejected drafts: of the last round, of all rounds, clean text";
    Dashboard LogSize [ch('l')] "log" "bigger or smaller log";
    Dashboard FollowNext [ch('n')] "" "follow the next request";
    Dashboard FollowNewest [ch('f')] "" "follow the newest request";
    Dashboard ResetSpeeds [ch('R')] "" "start the comparison of modes afresh";
    Dashboard Theme [ch('T')] "" "next theme";
    Dashboard FocusNext [on(KeyCode::Tab), on(KeyCode::BackTab)] "" "next panel (text, log)";
    Dashboard Up [on(KeyCode::Up), ch('k')] "" "scroll up";
    Dashboard Down [on(KeyCode::Down), ch('j')] "" "scroll down";
    Dashboard PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    Dashboard PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    Dashboard Top [ch('g'), on(KeyCode::Home)] "" "to the beginning";
    Dashboard Bottom [ch('G'), on(KeyCode::End)] "" "to the end, and follow it";
    Dashboard Close [on(KeyCode::Esc)] "" "back to the end; dismiss messages";
    Dashboard Help [ch('?')] "help" "all keys";
    Dashboard Quit [ch('q')] "quit" "quit";
    ModeMenu Up [on(KeyCode::Up), ch('k')] "" "entry above";
    ModeMenu Down [on(KeyCode::Down), ch('j')] "" "entry below";
    ModeMenu Confirm [on(KeyCode::Enter)] "choose" "switch to the selected mode";
    ModeMenu ModeOff [ch('o')] "" "plain decoding";
    ModeMenu ModeDflash [ch('d')] "" "DFlash";
    ModeMenu ModeDdtree [ch('t')] "" "DDTree";
    ModeMenu ModeShadow [ch('s')] "" "shadow";
    ModeMenu ModeAuto [ch('a')] "" "auto";
    ModeMenu Less [ch('[')] "less" "halve the tree budget (dflash: block size -1)";
    ModeMenu More [ch(']')] "more" "double the tree budget (dflash: block size +1)";
    ModeMenu ChainSeed [ch('c')] "chain seed" "start the tree from the whole top-1 chain, or not";
    ModeMenu Close [on(KeyCode::Esc), ch('m'), ch('q')] "close" "close the menu";
    Prompt Confirm [on(KeyCode::Enter), on(KeyCode::F(5))] "send" "send the prompt";
    Prompt Newline [alt(KeyCode::Enter), ctrl('j')] "newline" "new line";
    Prompt MaxTokens [on(KeyCode::F(2))] "tokens" "tokens to generate at most: next choice";
    Prompt Temperature [on(KeyCode::F(3))] "temperature" "temperature: next choice";
    Prompt HistoryOlder [ctrl('p')] "older" "older prompt (also ↑ in the first line)";
    Prompt HistoryNewer [ctrl('n')] "newer" "newer prompt (also ↓ in the last line)";
    Prompt LineStart [ctrl('a'), on(KeyCode::Home)] "" "to the beginning of the line";
    Prompt LineEnd [ctrl('e'), on(KeyCode::End)] "" "to the end of the line";
    Prompt DeleteWord [ctrl('w'), alt(KeyCode::Backspace)] "" "delete the word before the cursor";
    Prompt DeleteToStart [ctrl('u')] "" "delete to the beginning of the line";
    Prompt DeleteToEnd [ctrl('k')] "" "delete to the end of the line";
    Prompt Close [on(KeyCode::Esc)] "close" "close; the text is kept";
    Help Up [on(KeyCode::Up), ch('k')] "" "scroll up";
    Help Down [on(KeyCode::Down), ch('j')] "" "scroll down";
    Help PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    Help PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    Help Top [ch('g'), on(KeyCode::Home)] "" "to the beginning";
    Help Bottom [ch('G'), on(KeyCode::End)] "" "to the end";
    Help Close [on(KeyCode::Esc), ch('?'), ch('q')] "close" "close the help";
    Global CancelGeneration [ctrl('x')] "" "cancel what was sent from here";
    Global Help [on(KeyCode::F(1))] "" "all keys";
    Global Redraw [ctrl('l')] "" "draw the whole screen again";
    Global Suspend [ctrl('z')] "" "suspend; fg comes back";
    Global Quit [ctrl('c')] "" "quit";
}

/// Bindings of a context, in table order.
pub fn of(context: Context) -> impl Iterator<Item = &'static Binding> {
    TABLE.iter().filter(move |b| b.context == context)
}

/// What a key does in a context, or everywhere.
pub fn find(context: Context, key: Key) -> Option<Action> {
    of(context).chain(of(Context::Global)).find(|b| b.keys.contains(&key)).map(|b| b.action)
}

/// All keys of a binding: `↑ k`.
pub fn keys_label(binding: &Binding) -> String {
    binding.keys.iter().map(|k| k.label()).collect::<Vec<_>>().join(" ")
}

/// The key table of the README.
pub fn key_table_markdown() -> String {
    let mut out = String::new();
    for context in Context::ALL {
        let _ = writeln!(out, "**{}**\n\n| key | action |\n|---|---|", context.title());
        for binding in of(context) {
            let keys: Vec<_> = binding.keys.iter().map(|k| format!("`{}`", k.label())).collect();
            let _ = writeln!(out, "| {} | {} |", keys.join(" "), binding.description);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn no_key_means_two_things() {
        for context in Context::ALL {
            let mut seen: HashMap<Key, Action> = HashMap::new();
            let global = if context == Context::Global { None } else { Some(of(Context::Global)) };
            for binding in of(context).chain(global.into_iter().flatten()) {
                for key in binding.keys {
                    let before = seen.insert(*key, binding.action);
                    assert!(before.is_none(), "{} in {context:?}: {before:?} and {:?}", key.label(), binding.action);
                }
            }
        }
    }

    #[test]
    fn in_a_text_field_plain_characters_are_text() {
        for binding in of(Context::Prompt).chain(of(Context::Global)) {
            for Key(code, modifiers) in binding.keys {
                assert!(!matches!(code, KeyCode::Char(_)) || !modifiers.is_empty(), "{binding:?}");
            }
        }
    }

    #[test]
    fn keys_are_normalised() {
        let event = |code, modifiers| KeyEvent::new(code, modifiers);
        assert_eq!(Key::of(&event(KeyCode::Char('T'), KeyModifiers::SHIFT)), Some(ch('T')));
        assert_eq!(Key::of(&event(KeyCode::Char('C'), KeyModifiers::CONTROL)), Some(ctrl('c')));
        assert_eq!(Key::of(&event(KeyCode::BackTab, KeyModifiers::SHIFT)), Some(on(KeyCode::BackTab)));
        let mut release = event(KeyCode::Char('q'), KeyModifiers::NONE);
        release.kind = KeyEventKind::Release;
        assert_eq!(Key::of(&release), None);
        assert_eq!(ctrl('x').label(), "Ctrl-X");
        assert_eq!(alt(KeyCode::Enter).label(), "Alt-Enter");
    }

    #[test]
    fn the_readme_table_has_every_binding() {
        let table = key_table_markdown();
        for binding in TABLE {
            assert!(table.contains(binding.description) && !binding.description.is_empty());
        }
    }
}
