//! The one table of actions. Key handling, the palette, the help, the footer and the README's key table all come from
//! it, through a [`Keymap`], which knows what the user changed.

use crossterm::event::KeyCode;

mod context;
mod key;
mod keymap;

pub use context::Context;
pub use key::Key;
use key::{alt, ch, ctrl, on};
pub use keymap::{Bound, Change, Keymap};

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
    FocusPrevious,
    ShowDashboard,
    ShowPlayground,
    ShowTree,
    ShowBench,
    ShowCompare,
    ShowGpu,
    ShowLog,
    ShowRace,
    NextScreen,
    PreviousScreen,
    Palette,
    EditPrompt,
    RunPrompt,
    Repeat,
    NextMode,
    StepBack,
    StepOn,
    FirstStep,
    LastStep,
    Newest,
    TreeOfStep,
    NextRequest,
    Zoom,
    LeftOut,
    StartRace,
    Replay,
    Slower,
    Faster,
    LeftLane,
    RightLane,
    Toggle,
    Remove,
    StartRun,
    DryRun,
    PauseRun,
    StopRun,
    Filter,
    Suite,
    Difference,
    Export,
    Reload,
    Level,
    Left,
    Right,
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
    Copy,
    CopyView,
    Mouse,
    Characters,
    Motion,
    Quit,
}

impl Action {
    /// Its name in the configuration: `mode-off`.
    pub fn name(self) -> String {
        key::kebab(&format!("{self:?}"))
    }
}

/// One line of the table.
#[derive(Debug)]
pub struct Binding {
    /// What happens.
    pub action: Action,
    /// Where.
    pub context: Context,
    /// On which keys, unless the user says otherwise. Without any it is in the palette only.
    pub keys: &'static [Key],
    /// One word for the footer; empty: not in the footer.
    pub footer: &'static str,
    /// One line for the help.
    pub description: &'static str,
}

macro_rules! table {
    ($($context:ident $action:ident [$($key:expr),*] $footer:literal $description:literal;)+) => {
        /// All bindings.
        pub const TABLE: &[Binding] = &[$(Binding {
            action: Action::$action,
            context: Context::$context,
            keys: &[$($key),*],
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
    Dashboard ModeAuto [ch('a')] "" "auto: draft only where that pays here";
    Dashboard Less [ch('[')] "less" "halve the tree budget (dflash: block size -1)";
    Dashboard More [ch(']')] "more" "double the tree budget (dflash: block size +1)";
    Dashboard ChainSeed [ch('c')] "" "start the tree from the whole top-1 chain, or not";
    Dashboard Rerun [ch('r')] "rerun" "send the last prompt again";
    Dashboard Pause [ch(' ')] "pause" "freeze the view; collecting goes on";
    Dashboard Rejected [ch('x')] "rejects" "rejected drafts: of the last round, of all rounds, clean text";
    Dashboard LogSize [ch('l')] "log" "bigger or smaller log";
    Dashboard FollowNext [ch('n')] "" "follow the next request";
    Dashboard FollowNewest [ch('f')] "" "follow the newest request";
    Dashboard Filter [ch('/')] "" "show only log lines that contain a text";
    Dashboard ResetSpeeds [ch('R')] "" "start the comparison of modes afresh";
    Dashboard FocusNext [ch('w')] "" "next panel (text, log)";
    Dashboard Up [on(KeyCode::Up), ch('k')] "" "scroll up";
    Dashboard Down [on(KeyCode::Down), ch('j')] "" "scroll down";
    Dashboard PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    Dashboard PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    Dashboard Top [ch('g'), on(KeyCode::Home)] "" "to the beginning";
    Dashboard Bottom [ch('G'), on(KeyCode::End)] "" "to the end, and follow it";
    Dashboard Close [on(KeyCode::Esc)] "" "back to the end; dismiss messages";
    Playground EditPrompt [on(KeyCode::Enter), ch('p'), ch('i')] "prompt" "write the prompt";
    Playground RunPrompt [on(KeyCode::F(5))] "run" "send the prompt";
    Playground Repeat [ch('r')] "another mode" "repeat the prompt in a mode that was not tried yet, and compare";
    Playground StepBack [on(KeyCode::Left), ch('h')] "" "round before";
    Playground StepOn [on(KeyCode::Right), ch('l')] "round" "round after";
    Playground FirstStep [ch('g'), on(KeyCode::Home)] "" "first round";
    Playground LastStep [ch('G'), on(KeyCode::End)] "" "newest round, and follow it";
    Playground PageUp [on(KeyCode::PageUp), ctrl('u')] "" "ten rounds back";
    Playground PageDown [on(KeyCode::PageDown), ctrl('d')] "" "ten rounds on";
    Playground Up [on(KeyCode::Up), ch('k')] "attempt" "attempt before";
    Playground Down [on(KeyCode::Down), ch('j')] "" "attempt after";
    Playground TreeOfStep [ch('v')] "tree" "the tree of this round";
    Playground ModeOff [ch('o')] "" "repeat the prompt in plain decoding";
    Playground ModeDflash [ch('d')] "" "repeat the prompt with DFlash";
    Playground ModeDdtree [ch('t')] "" "repeat the prompt with DDTree";
    Playground ModeAuto [ch('a')] "" "repeat the prompt in auto";
    Playground Rejected [ch('x')] "rejects" "rejected drafts: of this round, of all rounds, clean text";
    Playground MaxTokens [on(KeyCode::F(2))] "" "tokens to generate at most: next choice";
    Playground Temperature [on(KeyCode::F(3))] "" "temperature: next choice";
    Playground NextMode [on(KeyCode::F(4))] "" "mode of the next run: the server's, or one of its own";
    Playground StartRace [ch('R')] "race" "race the prompt in two modes";
    Playground Close [on(KeyCode::Esc)] "" "back to the newest round; dismiss messages";
    PlaygroundEdit Confirm [on(KeyCode::Enter), on(KeyCode::F(5))] "run" "send the prompt";
    PlaygroundEdit Newline [alt(KeyCode::Enter), ctrl('j')] "newline" "new line";
    PlaygroundEdit MaxTokens [on(KeyCode::F(2))] "tokens" "tokens to generate at most: next choice";
    PlaygroundEdit Temperature [on(KeyCode::F(3))] "temperature" "temperature: next choice";
    PlaygroundEdit NextMode [on(KeyCode::F(4))] "mode" "mode of the next run: the server's, or one of its own";
    PlaygroundEdit HistoryOlder [ctrl('p')] "older" "older prompt (also ↑ in the first line)";
    PlaygroundEdit HistoryNewer [ctrl('n')] "" "newer prompt (also ↓ in the last line)";
    PlaygroundEdit LineStart [ctrl('a'), on(KeyCode::Home)] "" "to the beginning of the line";
    PlaygroundEdit LineEnd [ctrl('e'), on(KeyCode::End)] "" "to the end of the line";
    PlaygroundEdit DeleteWord [ctrl('w'), alt(KeyCode::Backspace)] "" "delete the word before the cursor";
    PlaygroundEdit DeleteToStart [ctrl('u')] "" "delete to the beginning of the line";
    PlaygroundEdit DeleteToEnd [ctrl('k')] "" "delete to the end of the line";
    PlaygroundEdit Close [on(KeyCode::Esc), on(KeyCode::Tab)] "to the answer" "leave the editor; the text is kept";
    Tree StepBack [on(KeyCode::Left), ch('h')] "" "round before";
    Tree StepOn [on(KeyCode::Right), ch('l')] "round" "round after";
    Tree FirstStep [ch('g'), on(KeyCode::Home)] "" "first round";
    Tree LastStep [ch('G'), on(KeyCode::End)] "newest" "newest round, and follow it";
    Tree PageUp [on(KeyCode::PageUp), ctrl('u')] "" "ten rounds back";
    Tree PageDown [on(KeyCode::PageDown), ctrl('d')] "" "ten rounds on";
    Tree Up [on(KeyCode::Up), ch('k')] "" "node above";
    Tree Down [on(KeyCode::Down), ch('j')] "node" "node below";
    Tree NextRequest [ch('n')] "request" "next request";
    Tree Newest [ch('f')] "" "follow the newest request";
    Tree Zoom [ch('z')] "zoom" "hide branches below a probability: all, .01, .05, .20";
    Tree LeftOut [ch('x')] "left out" "show candidates that the budget left out, or not";
    Tree Pause [ch(' ')] "pause" "freeze the view; collecting goes on";
    Tree ModeDdtree [ch('t')] "" "DDTree: switch the server to trees";
    Tree Less [ch('[')] "" "halve the tree budget";
    Tree More [ch(']')] "" "double the tree budget";
    Tree Close [on(KeyCode::Esc)] "" "drop the selected node; then back to the newest round";
    Gpu Pause [ch(' ')] "pause" "freeze the view; collecting goes on";
    Gpu Up [on(KeyCode::Up), ch('k')] "" "GPU above";
    Gpu Down [on(KeyCode::Down), ch('j')] "gpu" "GPU below";
    Gpu Close [on(KeyCode::Esc)] "" "dismiss messages";
    Race StartRace [ch('s'), on(KeyCode::F(5))] "start" "run both modes, then replay them side by side";
    Race Replay [ch('r')] "replay" "replay the race from its start";
    Race Slower [ch('-')] "slower" "replay at half the speed, and half again";
    Race Faster [ch('+')] "faster" "back towards the true speed";
    Race LeftLane [ch('[')] "left mode" "mode of the left lane: next on offer";
    Race RightLane [ch(']')] "right mode" "mode of the right lane: next on offer";
    Race EditPrompt [on(KeyCode::Enter), ch('p')] "prompt" "write the prompt in the playground";
    Race Close [on(KeyCode::Esc)] "" "end the unattended races; dismiss messages";
    BenchPlan StartRun [ch('s'), on(KeyCode::F(5))] "start" "start the run";
    BenchPlan DryRun [ch('n')] "dry run" "make the plan and estimate its time; nothing is sent";
    BenchPlan Toggle [ch(' ')] "choose" "take a suite or mode in, or leave it out";
    BenchPlan Confirm [on(KeyCode::Enter)] "edit" "type a value; press a button";
    BenchPlan Left [on(KeyCode::Left), ch('h'), ch('-')] "less" "previous choice";
    BenchPlan Right [on(KeyCode::Right), ch('l'), ch('+')] "more" "next choice";
    BenchPlan Remove [on(KeyCode::Delete), ch('x')] "" "remove a suite or mode of your own";
    BenchPlan FocusNext [ch('w')] "plan/results" "between plan and results";
    BenchPlan Up [on(KeyCode::Up), ch('k')] "" "entry above; scroll up";
    BenchPlan Down [on(KeyCode::Down), ch('j')] "" "entry below; scroll down";
    BenchPlan PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    BenchPlan PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    BenchPlan Top [ch('g'), on(KeyCode::Home)] "" "to the first";
    BenchPlan Bottom [ch('G'), on(KeyCode::End)] "" "to the last";
    BenchPlan Close [on(KeyCode::Esc)] "" "dismiss messages";
    BenchRun PauseRun [ch(' ')] "pause" "pause after the request under way, or go on";
    BenchRun StopRun [ch('x')] "stop and keep" "stop and keep what was measured (asks once)";
    BenchRun Up [on(KeyCode::Up), ch('k')] "" "older requests";
    BenchRun Down [on(KeyCode::Down), ch('j')] "" "newer requests";
    BenchRun PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    BenchRun PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    BenchRun Top [ch('g'), on(KeyCode::Home)] "" "to the oldest request kept";
    BenchRun Bottom [ch('G'), on(KeyCode::End)] "" "to the newest request, and follow";
    BenchRun Close [on(KeyCode::Esc)] "" "take a question back; dismiss messages";
    Compare Up [on(KeyCode::Up), ch('k')] "" "newer run";
    Compare Down [on(KeyCode::Down), ch('j')] "run" "older run";
    Compare Left [on(KeyCode::Left), ch('h')] "" "modes to the left";
    Compare Right [on(KeyCode::Right), ch('l')] "modes" "modes to the right";
    Compare FocusNext [ch('w')] "plot" "next plot";
    Compare FocusPrevious [ch('W')] "" "previous plot";
    Compare Suite [ch('s')] "suite" "next suite (and concurrency)";
    Compare Difference [ch('d')] "difference" "first differing outputs, side by side";
    Compare Export [ch('e')] "export" "write the run as Markdown, JSON, HTML or CSV";
    Compare Filter [ch('/')] "filter" "show only runs that contain a text";
    Compare Reload [ch('r')] "" "read the list of runs again";
    Compare PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    Compare PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    Compare Top [ch('g'), on(KeyCode::Home)] "" "newest run";
    Compare Bottom [ch('G'), on(KeyCode::End)] "" "oldest run";
    Compare Close [on(KeyCode::Esc)] "" "drop the filter; dismiss messages";
    Log Up [on(KeyCode::Up), ch('k')] "older" "older lines";
    Log Down [on(KeyCode::Down), ch('j')] "newer" "newer lines";
    Log PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    Log PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    Log Top [ch('g'), on(KeyCode::Home)] "oldest" "to the oldest line";
    Log Bottom [ch('G'), on(KeyCode::End)] "newest" "to the newest line, and follow";
    Log Filter [ch('/')] "filter" "show only lines that contain a text";
    Log Level [ch('L')] "level" "all lines, warnings and errors, errors only";
    Log Close [on(KeyCode::Esc)] "" "back to the end; dismiss messages";
    Screens ShowDashboard [ch('1')] "" "dashboard";
    Screens ShowPlayground [ch('2')] "" "playground: one prompt, round by round";
    Screens ShowTree [ch('3')] "" "tree: the draft tree of a round";
    Screens ShowBench [ch('4')] "" "bench: measure modes against each other";
    Screens ShowCompare [ch('5')] "" "compare: runs that were kept";
    Screens ShowGpu [ch('6')] "" "gpu: load, memory, power, clocks, temperature";
    Screens ShowLog [ch('7')] "" "log";
    Screens ShowRace [ch('8')] "" "race: two modes side by side";
    Screens NextScreen [on(KeyCode::Tab)] "" "next screen";
    Screens PreviousScreen [on(KeyCode::BackTab)] "" "screen before";
    Screens Palette [ch(':'), ctrl('p')] "" "find a command by its description";
    Screens Theme [ch('T')] "" "choose a theme";
    Screens Copy [ch('y')] "" "copy what this screen is about (OSC 52)";
    Screens CopyView [ch('Y')] "" "copy the whole view as text (OSC 52)";
    Screens Mouse [] "" "mouse: clicks, clicks and hover, off";
    Screens Characters [] "" "ASCII characters only, or not";
    Screens Motion [] "" "reduced motion, or not";
    Screens Help [ch('?')] "help" "all keys";
    Screens Quit [ch('q')] "quit" "quit (asks while a run is live)";
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
    Field Confirm [on(KeyCode::Enter), on(KeyCode::Tab)] "accept" "accept the text";
    Field Close [on(KeyCode::Esc)] "cancel" "leave it as it was";
    Field LineStart [ctrl('a'), on(KeyCode::Home)] "" "to the beginning";
    Field LineEnd [ctrl('e'), on(KeyCode::End)] "" "to the end";
    Field DeleteWord [ctrl('w'), alt(KeyCode::Backspace)] "" "delete the word before the cursor";
    Field DeleteToStart [ctrl('u')] "clear" "delete to the beginning";
    Field DeleteToEnd [ctrl('k')] "" "delete to the end";
    Palette Up [on(KeyCode::Up), ctrl('p')] "" "entry above";
    Palette Down [on(KeyCode::Down), ctrl('n'), on(KeyCode::Tab)] "" "entry below";
    Palette Confirm [on(KeyCode::Enter)] "do it" "do what is selected";
    Palette DeleteWord [ctrl('w'), alt(KeyCode::Backspace)] "" "delete the word before the cursor";
    Palette DeleteToStart [ctrl('u')] "" "delete to the beginning";
    Palette Close [on(KeyCode::Esc)] "close" "close the palette";
    Themes Up [on(KeyCode::Up), ch('k')] "" "theme above";
    Themes Down [on(KeyCode::Down), ch('j'), ch('T')] "" "theme below";
    Themes Confirm [on(KeyCode::Enter)] "keep" "keep the theme shown";
    Themes Close [on(KeyCode::Esc), ch('q')] "cancel" "back to the theme before";
    Export Up [on(KeyCode::Up), ch('k')] "" "format above";
    Export Down [on(KeyCode::Down), ch('j')] "" "format below";
    Export Confirm [on(KeyCode::Enter)] "write" "write the file";
    Export Close [on(KeyCode::Esc), ch('e'), ch('q')] "close" "close";
    Difference Left [on(KeyCode::Left), ch('h')] "previous" "previous difference";
    Difference Right [on(KeyCode::Right), ch('l')] "next" "next difference";
    Difference Close [on(KeyCode::Esc), ch('d'), ch('q')] "close" "close";
    Help Up [on(KeyCode::Up), ch('k')] "" "scroll up";
    Help Down [on(KeyCode::Down), ch('j')] "" "scroll down";
    Help PageUp [on(KeyCode::PageUp), ctrl('u')] "" "a page up";
    Help PageDown [on(KeyCode::PageDown), ctrl('d')] "" "a page down";
    Help Top [ch('g'), on(KeyCode::Home)] "" "to the beginning";
    Help Bottom [ch('G'), on(KeyCode::End)] "" "to the end";
    Help Filter [ch('/')] "filter" "show only lines that contain a text";
    Help Close [on(KeyCode::Esc), ch('?'), ch('q')] "close" "close the help";
    Global CancelGeneration [ctrl('x')] "" "cancel what was sent from here";
    Global Help [on(KeyCode::F(1))] "" "all keys";
    Global Redraw [ctrl('l')] "" "draw the whole screen again";
    Global Suspend [ctrl('z')] "" "suspend; fg comes back";
    Global Quit [ctrl('c')] "" "quit";
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crossterm::event::{KeyEvent, KeyEventKind, KeyModifiers};

    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let keymap = Keymap::default();
        for context in Context::ALL {
            let mut seen: HashMap<Key, Action> = HashMap::new();
            for binding in keymap.working(context) {
                for key in &binding.keys {
                    let before = seen.insert(*key, binding.action);
                    assert!(before.is_none(), "{} in {context:?}: {before:?} and {:?}", key.label(), binding.action);
                }
            }
        }
    }

    #[test]
    fn in_a_text_field_plain_characters_are_text() {
        let keymap = Keymap::default();
        for context in Context::ALL.into_iter().filter(|c| c.is_text()) {
            for binding in keymap.working(context) {
                for Key(code, modifiers) in &binding.keys {
                    assert!(!matches!(code, KeyCode::Char(_)) || !modifiers.is_empty(), "{binding:?}");
                }
            }
        }
    }

    #[test]
    fn every_context_and_action_of_the_table_is_reachable() {
        let keymap = Keymap::default();
        for context in Context::ALL {
            assert!(keymap.of(context).next().is_some(), "{context:?} has no keys");
        }
        assert!(TABLE.iter().all(|b| Context::ALL.contains(&b.context)));
        for context in Context::ALL.into_iter().filter(|c| c.is_screen()) {
            for action in [Action::Help, Action::Quit, Action::ShowDashboard, Action::Palette] {
                assert!(keymap.working(context).any(|b| b.action == action), "{action:?} in {context:?}");
            }
        }
    }

    #[test]
    fn an_action_has_one_line_in_a_context() {
        for (i, binding) in TABLE.iter().enumerate() {
            let twice = TABLE[..i].iter().any(|b| (b.context, b.action) == (binding.context, binding.action));
            assert!(!twice, "{binding:?}");
            assert!(!binding.description.is_empty(), "{binding:?}");
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
}
