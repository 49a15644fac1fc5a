//! Model and messages. [`Model::update`] does no I/O and reads no clock: time comes in messages, deeds go out as effects.

mod copy;
mod keys;
mod look;
mod message;
mod overlays;
mod playground;
mod pointer;
mod race;
mod runs;
mod tree;

use crate::protocol::event::{Event, Level, Sample};
use crate::source::{Connection, Update};

pub use look::Look;
pub use pointer::{MouseMode, Pointed};

use super::action::{Context, Keymap};
use super::data::{Data, Urgency};
use super::editor::{self, Editor};
use super::filter::Filter;
use super::log::Entry;
use super::mode_switch::Switch;
use super::playground::Playground;
use super::playground::walk::Walk;
use super::race::Race;
use super::run::Bench;
use super::run::library::Compare;
use super::screen::Screen;
use super::stream::Stream;
use super::theme::Role;
use super::tree::Zoom;
use super::wrap::Rejects;

pub use message::{Answer, Effect, EffectResult, Msg, Prompt};

/// Milliseconds that a message stays on screen.
const TOAST_MS: u64 = 6_000;

/// What lies over the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overlay {
    /// The mode menu, with the selected entry.
    ModeMenu(usize),
    /// The prompt editor.
    Prompt,
    /// The help, scrolled down by so many rows.
    Help(usize),
    /// The command palette, with the selected entry.
    Palette(usize),
    /// The list of themes, with the selected one and the name of the one to go back to.
    Themes(usize, String),
    /// The formats to export in, with the selected one.
    Export(usize),
    /// Two outputs side by side: which difference.
    Difference(usize),
}

/// Panels that can have the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Focus {
    /// The generated text.
    #[default]
    Text,
    /// The log.
    Log,
}

/// A message to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    /// The message.
    pub text: String,
    /// Colour.
    pub role: Role,
    /// When it goes.
    pub until_ms: u64,
}

/// Everything that the screen shows and everything that a key can change.
#[derive(Debug, Clone)]
pub struct Model {
    /// Our clock, as of the last message that carried it.
    pub now_ms: u64,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Address of the server.
    pub url: String,
    /// Colours and characters.
    pub look: Look,
    /// What is known, up to date.
    pub data: Data,
    /// What was known when the view was paused.
    pub frozen: Option<Box<Data>>,
    /// The screen that is shown.
    pub screen: Screen,
    /// Which keys do what.
    pub keys: Keymap,
    /// What lies over the screen.
    pub overlay: Option<Overlay>,
    /// What is typed into the command palette.
    pub palette: Editor,
    /// The bench screen.
    pub bench: Bench,
    /// The compare screen.
    pub compare: Compare,
    /// Least level of the lines on the log screen.
    pub log_level: Level,
    /// What log lines must contain.
    pub log_filter: Filter,
    /// What lines of the help must contain.
    pub help_filter: Filter,
    /// What the terminal reports of the mouse.
    pub mouse: MouseMode,
    /// The token that the user points at.
    pub pointed: Option<Pointed>,
    /// Panel that scroll keys move.
    pub focus: Focus,
    /// Rows that the text is scrolled up.
    pub text_scroll: usize,
    /// Lines that the log is scrolled up.
    pub log_scroll: usize,
    /// True while the log takes most of the screen.
    pub log_big: bool,
    /// Which rejected drafts are shown.
    pub rejects: Rejects,
    /// Request that the user follows instead of the newest.
    pub follow: Option<String>,
    /// The prompt editor.
    pub editor: Editor,
    /// Limit on generated tokens of prompts sent from here.
    pub max_tokens: usize,
    /// Temperature of prompts sent from here.
    pub temperature: f32,
    /// Mode changes under way.
    pub switch: Switch,
    /// Message on screen.
    pub toast: Option<Toast>,
    /// Generations started from here that run.
    pub own_running: usize,
    /// The playground.
    pub playground: Playground,
    /// Which round of which request playground and tree look at.
    pub walk: Walk,
    /// What of a tree is shown.
    pub zoom: Zoom,
    /// The race.
    pub race: Race,
    /// The GPU that is looked at.
    pub gpu: usize,
    /// True while what is shown is being written to a file.
    pub recording: bool,
    tags: u64,
    dirty: bool,
}

impl Model {
    /// The model before anything is known. The first frame can be drawn at once.
    pub fn new(url: impl Into<String>, look: Look, now_ms: u64) -> Self {
        Self {
            now_ms,
            size: (0, 0),
            url: url.into(),
            look,
            data: Data::new(now_ms),
            frozen: None,
            screen: Screen::default(),
            keys: Keymap::default(),
            overlay: None,
            palette: Editor::default(),
            bench: Bench::default(),
            compare: Compare::default(),
            log_level: Level::Info,
            log_filter: Filter::default(),
            help_filter: Filter::default(),
            mouse: MouseMode::default(),
            pointed: None,
            focus: Focus::default(),
            text_scroll: 0,
            log_scroll: 0,
            log_big: false,
            rejects: Rejects::default(),
            follow: None,
            editor: Editor::default(),
            max_tokens: 512,
            temperature: 0.0,
            switch: Switch::default(),
            toast: None,
            own_running: 0,
            playground: Playground::default(),
            walk: Walk::default(),
            zoom: Zoom::default(),
            race: Race::default(),
            gpu: 0,
            recording: false,
            tags: 0,
            dirty: true,
        }
    }

    /// What the panels show: the present, or what was frozen.
    pub fn shown(&self) -> &Data {
        self.frozen.as_deref().unwrap_or(&self.data)
    }

    /// The sample that may be shown as the present (or as the moment of the pause).
    pub fn sample(&self) -> Option<&Sample> {
        let data = self.shown();
        data.live(if self.frozen.is_some() { data.sample_at_ms } else { self.now_ms })
    }

    /// The request whose text is shown.
    pub fn stream(&self) -> Option<&Stream> {
        let data = self.shown();
        let followed = self.follow.as_ref().and_then(|id| data.streams.iter().find(|s| s.id == *id));
        followed.or_else(|| data.newest())
    }

    /// Where keys are read now.
    pub fn context(&self) -> Context {
        match self.overlay {
            None => self.screen_context(),
            Some(Overlay::ModeMenu(_)) => Context::ModeMenu,
            Some(Overlay::Prompt) => Context::Prompt,
            Some(Overlay::Help(_)) if self.help_filter.typing => Context::Field,
            Some(Overlay::Help(_)) => Context::Help,
            Some(Overlay::Palette(_)) => Context::Palette,
            Some(Overlay::Themes(..)) => Context::Themes,
            Some(Overlay::Export(_)) => Context::Export,
            Some(Overlay::Difference(_)) => Context::Difference,
        }
    }

    /// Where keys are read when nothing lies over the screen.
    pub fn screen_context(&self) -> Context {
        match self.screen {
            Screen::Dashboard | Screen::Log if self.log_filter.typing => Context::Field,
            Screen::Dashboard => Context::Dashboard,
            Screen::Bench if self.bench.form.edit.is_some() => Context::Field,
            Screen::Bench if self.bench.running() => Context::BenchRun,
            Screen::Bench => Context::BenchPlan,
            Screen::Compare if self.compare.filtering => Context::Field,
            Screen::Compare => Context::Compare,
            Screen::Log => Context::Log,
            Screen::Playground if self.playground.editing => Context::PlaygroundEdit,
            Screen::Playground => Context::Playground,
            Screen::Tree => Context::Tree,
            Screen::Gpu => Context::Gpu,
            Screen::Race => Context::Race,
        }
    }

    /// The log lines that the user wants to see, oldest first.
    pub fn log_lines(&self) -> Vec<&Entry> {
        // On the dashboard a level that was chosen elsewhere would hide lines without a word.
        let least = if self.screen == Screen::Log { self.log_level } else { Level::Info };
        self.shown().log.chosen(least, &self.log_filter.words())
    }

    /// The key that goes to a screen.
    pub fn tab_key(&self, screen: Screen) -> String {
        self.keys.label(Context::Dashboard, screen.action())
    }

    /// True when something visible changed since this was last asked.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// Takes a message in; returns what must be done.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        match msg {
            Msg::Source(update) => self.source(update),
            Msg::LocalSensors(sensors) => {
                // Seen only while the server's own readings are not; the next second is soon enough.
                self.data.looked(sensors, self.now_ms);
                Vec::new()
            }
            Msg::Key(key) => self.key(&key),
            Msg::Mouse(event) => self.pointer(event),
            Msg::Paste(text) => {
                self.paste(&text);
                Vec::new()
            }
            Msg::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.dirty = true;
                Vec::new()
            }
            Msg::Tick { now_ms } => {
                self.tick(now_ms);
                self.race_step()
            }
            Msg::Answer(answer) => {
                self.answer(&answer);
                Vec::new()
            }
            Msg::Recording(on) => {
                self.recording = on;
                self.dirty = true;
                Vec::new()
            }
            Msg::EffectResult(result) => self.result(result),
            Msg::Run(_) | Msg::Planned(_) | Msg::Runs(_) | Msg::RunLoaded(_) | Msg::Exported(_) => {
                self.dirty = true;
                self.run_msg(msg)
            }
        }
    }

    fn source(&mut self, update: Update) -> Vec<Effect> {
        let link = matches!(update, Update::Connection(_));
        if let Update::Connection(Connection::Lost { .. }) = &update
            && self.switch.give_up()
        {
            self.say(Role::StateCrit, "mode switch given up: the server is gone");
        }
        let before = self.data.mode;
        let urgency = self.data.apply(update, self.now_ms);
        if let Some(mode) = self.data.mode {
            if before != Some(mode) {
                self.switch.seen(mode);
            }
            if let Some(state) = &self.data.state {
                self.bench.form.offer(&state.limits, mode);
            }
        }
        // While the view is paused only the connection may change it.
        if urgency == Urgency::Now && (self.frozen.is_none() || link || before != self.data.mode) {
            self.dirty = true;
        }
        self.race_step()
    }

    fn tick(&mut self, now_ms: u64) {
        let before = self.now_ms;
        self.now_ms = now_ms;
        self.data.tick(now_ms);
        // Clocks, countdowns and the gauges of an idle server move once a second.
        if before / 1000 != now_ms / 1000 {
            self.dirty = true;
        }
        self.dirty |= self.animated();
        if self.toast.as_ref().is_some_and(|t| t.until_ms <= now_ms) {
            self.toast = None;
            self.dirty = true;
        }
    }

    fn result(&mut self, result: EffectResult) -> Vec<Effect> {
        self.dirty = true;
        match result {
            EffectResult::Mode(Ok(change)) => {
                self.data.apply(Update::Event(Event::Mode(change)), self.now_ms);
                self.switch.answered().map(Effect::SetMode).into_iter().collect()
            }
            EffectResult::Mode(Err(error)) => {
                self.switch.give_up();
                self.fail("mode", &format!("mode not switched: {error}"));
                Vec::new()
            }
            EffectResult::Generate { tag, result } => {
                self.own_running = self.own_running.saturating_sub(1);
                self.data.answer_ended(&result);
                self.attempt_ended(tag, &result);
                if let Err(error) = &result {
                    self.fail("prompt", error);
                }
                self.race_answered(tag, result)
            }
        }
    }

    /// True while the picture moves by itself and wants more frames than news bring.
    pub fn animated(&self) -> bool {
        self.screen == Screen::Race && self.overlay.is_none() && self.race.animated(self.now_ms)
    }

    /// Shows a message for a while.
    fn say(&mut self, role: Role, text: impl Into<String>) {
        self.toast = Some(Toast { text: text.into(), role, until_ms: self.now_ms.saturating_add(TOAST_MS) });
        self.dirty = true;
    }

    /// Says that the prompt editor is full; nothing may be left out silently.
    fn tell_overflow(&mut self) {
        if self.editor.take_overflow() {
            let limit = editor::MAX_BYTES / 1024;
            self.say(Role::StateWarn, format!("a prompt may have {limit} KiB: the rest was left out"));
        }
    }

    /// Shows an error and keeps it in the log.
    fn fail(&mut self, source: &str, text: &str) {
        self.data.note(self.now_ms, Level::Error, source, text);
        self.say(Role::StateCrit, text);
    }
}
