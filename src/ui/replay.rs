//! Playing a recording: the same messages into the same model, at any speed, forwards and back.

use crossterm::event::{KeyCode, KeyEvent};

use super::action::{Action, Context, Key};
use super::app::{Look, Model, Msg};
use super::color::Depth;
use super::record::{self, Header};
use super::screen::Screen;
use super::theme::Theme;

/// Milliseconds that `[` and `]` jump.
pub const JUMP_MS: u64 = 10_000;
/// Speeds, in the order of `-` and `+`.
pub const SPEEDS: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// Milliseconds of recording between two places to jump back to.
const CHECKPOINT_MS: u64 = 20_000;
/// Such places kept; beyond, every other one is dropped.
const MAX_CHECKPOINTS: usize = 24;

#[derive(Debug, Clone)]
struct Line {
    at: u64,
    from: usize,
    to: usize,
}

/// A recording in memory: its lines as text, read when they are played.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The first line.
    pub header: Header,
    text: String,
    lines: Vec<Line>,
    /// Bytes at the end that are no whole line: the recording was cut off there.
    pub cut: usize,
}

/// The time of a line, without reading all of it.
fn time_of(line: &str) -> Option<u64> {
    let digits = line.strip_prefix("{\"at\":")?;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[..end].parse().ok()
}

impl Recording {
    /// Reads a recording up to its last whole line.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let cut = bytes.len() - whole;
        let mut bytes = bytes;
        bytes.truncate(whole);
        let text =
            String::from_utf8(bytes).map_err(|_| "this is no recording of spectop: it is not text".to_owned())?;
        let mut first = None;
        let mut lines: Vec<Line> = Vec::new();
        let mut from = 0;
        for line in text.split_inclusive('\n') {
            let to = from + line.len();
            let line = line.trim_end();
            if first.is_none() {
                first = Some(Header::parse(line)?);
            } else if let Some(at) = time_of(line) {
                // A clock that was set back in between must not send the player back.
                let at = lines.last().map_or(at, |l| at.max(l.at));
                lines.push(Line { at, from, to: from + line.len() });
            }
            from = to;
        }
        let header = first.ok_or("the recording is empty: not even its first line was written")?;
        Ok(Self { header, text, lines, cut })
    }

    /// Milliseconds from its beginning to its last line.
    pub fn length_ms(&self) -> u64 {
        self.lines.last().map_or(0, |l| l.at)
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True without messages.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn message(&self, index: usize) -> Result<Option<Msg>, String> {
        let line = &self.lines[index];
        record::parse(&self.text[line.from..line.to]).map(|read| read.map(|(_, msg)| msg))
    }

    /// The model after all messages up to `at_ms`, that one included.
    pub fn model_at(&self, at_ms: u64) -> Result<Model, String> {
        let mut model = self.header.model()?;
        for index in 0..self.lines.partition_point(|l| l.at <= at_ms) {
            if let Ok(Some(msg)) = self.message(index) {
                model.update(msg);
            }
        }
        Ok(model)
    }
}

/// What a key did to a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// It was taken.
    Taken,
    /// The user wants to leave.
    Quit,
    /// The process is to be stopped until `fg`.
    Suspend,
    /// The screen is to be drawn anew.
    Redraw,
}

/// A recording that is being played.
pub struct Player {
    recording: Recording,
    /// What was recorded, as of now.
    model: Model,
    /// What the user looks at instead, after keys of their own: the recording waits meanwhile.
    own: Option<Box<Model>>,
    /// Screen that the user chose.
    screen: Option<Screen>,
    /// Colours and characters of the terminal that it is played in, and whether they win over what was recorded.
    look: Option<Look>,
    next: usize,
    /// Place in the recording, milliseconds.
    at: f64,
    /// Index into [`SPEEDS`].
    speed: usize,
    /// True while it stands still.
    pub paused: bool,
    /// True when it begins again at its end.
    pub looping: bool,
    /// Lines that could not be read.
    pub unreadable: usize,
    checkpoints: Vec<(u64, usize, Model)>,
    every_ms: u64,
}

impl Player {
    /// At the beginning, at its own speed.
    pub fn new(recording: Recording, looping: bool) -> Result<Self, String> {
        let model = recording.header.model()?;
        Ok(Self {
            recording,
            model,
            own: None,
            screen: None,
            look: None,
            next: 0,
            at: 0.0,
            speed: 2,
            paused: false,
            looping,
            unreadable: 0,
            checkpoints: Vec::new(),
            every_ms: CHECKPOINT_MS,
        })
    }

    /// What is to be drawn.
    pub fn model(&self) -> &Model {
        self.own.as_deref().unwrap_or(&self.model)
    }

    /// Draws at this size with the user's own choice of screen, whatever was recorded.
    pub fn with_view<T>(&mut self, size: (u16, u16), draw: impl FnOnce(&Model) -> T) -> T {
        if let Some(own) = &mut self.own {
            own.size = size;
            return draw(own);
        }
        let (recorded_size, recorded_screen) = (self.model.size, self.model.screen);
        self.model.size = size;
        self.model.screen = self.screen.unwrap_or(recorded_screen);
        let look = self.look.clone().map(|look| std::mem::replace(&mut self.model.look, look));
        let overlay = if self.screen.is_some() { self.model.overlay.take() } else { None };
        let drawn = draw(&self.model);
        self.model.size = recorded_size;
        self.model.screen = recorded_screen;
        if let Some(look) = look {
            self.model.look = look;
        }
        if overlay.is_some() {
            self.model.overlay = overlay;
        }
        drawn
    }

    /// The look of the terminal that it is played in. A theme that was asked for wins over the recorded one; what the
    /// terminal cannot show is never sent to it.
    pub fn set_look(&mut self, look: Look, asked: bool) {
        let recorded = &self.recording.header;
        let weaker = look.depth != Depth::True || look.ascii;
        if asked || weaker {
            let named = Look::new(Some(&recorded.theme), look.depth, look.ascii);
            self.look = Some(if asked { look } else { named.unwrap_or(look) });
        }
    }

    /// The theme that is shown.
    pub fn theme(&self) -> &Theme {
        let own = self.own.as_ref().map(|own| &own.look);
        &own.or(self.look.as_ref()).unwrap_or(&self.model.look).theme
    }

    /// Place and length, milliseconds.
    pub fn place(&self) -> (u64, u64) {
        (self.at as u64, self.recording.length_ms())
    }

    /// How many times faster than it was.
    pub fn speed(&self) -> f64 {
        SPEEDS[self.speed]
    }

    /// Chooses the speed nearest to this one.
    pub fn set_speed(&mut self, speed: f64) {
        let near = |s: f64| (s / speed.max(1e-3)).ln().abs();
        self.speed = (0..SPEEDS.len()).min_by(|a, b| near(SPEEDS[*a]).total_cmp(&near(SPEEDS[*b]))).unwrap_or(2);
    }

    /// True while the user looks at a copy of their own.
    pub fn exploring(&self) -> bool {
        self.own.is_some()
    }

    /// True when a screen of the user's choice is shown.
    pub fn chosen(&self) -> Option<Screen> {
        self.screen
    }

    /// True at the end.
    pub fn ended(&self) -> bool {
        self.next >= self.recording.len()
    }

    /// Time passes: `real_ms` milliseconds of it. True if the picture may have changed.
    pub fn pass(&mut self, real_ms: f64) -> bool {
        if self.paused || self.own.is_some() || self.recording.is_empty() {
            return false;
        }
        if self.ended() {
            if self.looping {
                self.seek(0);
                return true;
            }
            return false;
        }
        self.at += real_ms * self.speed();
        self.catch_up(self.at as u64)
    }

    /// Plays up to a place.
    fn catch_up(&mut self, to: u64) -> bool {
        let before = self.next;
        while let Some(line) = self.recording.lines.get(self.next).filter(|l| l.at <= to) {
            let at = line.at;
            if self.checkpoints.last().map_or(at >= self.every_ms, |c| at >= c.0 + self.every_ms) {
                self.checkpoint(at);
            }
            match self.recording.message(self.next) {
                Ok(Some(msg)) => {
                    // What it would have wanted done was done when it was recorded.
                    self.model.update(msg);
                }
                Ok(None) => {}
                Err(_) => self.unreadable += 1,
            }
            self.next += 1;
        }
        self.model.take_dirty() || self.next != before
    }

    fn checkpoint(&mut self, at: u64) {
        self.checkpoints.push((at, self.next, self.model.clone()));
        if self.checkpoints.len() > MAX_CHECKPOINTS {
            let mut keep = false;
            self.checkpoints.retain(|_| {
                keep = !keep;
                !keep
            });
            self.every_ms *= 2;
        }
    }

    /// Goes to a place, forwards or back.
    pub fn seek(&mut self, to: u64) {
        let to = to.min(self.recording.length_ms());
        self.own = None;
        if (to as f64) < self.at {
            self.checkpoints.retain(|c| c.0 <= to);
            match self.checkpoints.last() {
                Some((_, next, model)) => (self.next, self.model) = (*next, model.clone()),
                None => {
                    if let Ok(model) = self.recording.header.model() {
                        (self.next, self.model) = (0, model);
                    }
                }
            }
        }
        self.at = to as f64;
        self.catch_up(to);
    }

    /// A key of the user.
    pub fn key(&mut self, event: &KeyEvent) -> Pressed {
        let Some(key) = Key::of(event) else { return Pressed::Taken };
        // In a text, or in something that lies over the screen, keys mean what they mean there.
        let text = self.own.as_ref().is_some_and(|own| own.context().is_text() || own.overlay.is_some());
        let find = |context| self.model.keys.find(context, key);
        match (find(Context::Screens), find(Context::Global)) {
            (Some(Action::Quit), _) if !text => return Pressed::Quit,
            (_, Some(Action::Quit)) => return Pressed::Quit,
            (_, Some(Action::Suspend)) => return Pressed::Suspend,
            (_, Some(Action::Redraw)) => return Pressed::Redraw,
            _ => {}
        }
        if !text && self.control(key.0) {
            return Pressed::Taken;
        }
        // A change of screen lets the recording go on; anything else is done to a copy of this moment.
        if self.own.is_none()
            && let Some(action) = self.model.keys.find(Context::Screens, key)
            && let Some(screen) = self.screen_of(action)
        {
            self.screen = Some(screen);
            return Pressed::Taken;
        }
        let mut own = self.own.take().unwrap_or_else(|| {
            let mut own = Box::new(self.model.clone());
            if let Some(screen) = self.screen {
                own.screen = screen;
                own.overlay = None;
            }
            if let Some(look) = &self.look {
                own.look = look.clone();
            }
            own
        });
        own.update(Msg::Key(*event));
        self.screen = Some(own.screen);
        self.own = Some(own);
        Pressed::Taken
    }

    fn screen_of(&self, action: Action) -> Option<Screen> {
        let now = self.screen.unwrap_or(self.model.screen);
        Some(match action {
            Action::ShowDashboard => Screen::Dashboard,
            Action::ShowPlayground => Screen::Playground,
            Action::ShowTree => Screen::Tree,
            Action::ShowBench => Screen::Bench,
            Action::ShowCompare => Screen::Compare,
            Action::ShowGpu => Screen::Gpu,
            Action::ShowLog => Screen::Log,
            Action::ShowRace => Screen::Race,
            Action::NextScreen => now.beside(true),
            Action::PreviousScreen => now.beside(false),
            _ => return None,
        })
    }

    /// The keys of the player itself. True if it was one.
    fn control(&mut self, code: KeyCode) -> bool {
        let (at, length) = self.place();
        match code {
            KeyCode::Char(' ') if self.own.is_some() => self.own = None,
            KeyCode::Char(' ') if self.ended() => {
                self.seek(0);
                self.paused = false;
            }
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('[') => self.seek(at.saturating_sub(JUMP_MS)),
            KeyCode::Char(']') => self.seek((at + JUMP_MS).min(length)),
            KeyCode::Char('+' | '=') => self.speed = (self.speed + 1).min(SPEEDS.len() - 1),
            KeyCode::Char('-') => self.speed = self.speed.saturating_sub(1),
            KeyCode::Char('g') => self.seek(0),
            KeyCode::Char('G') => self.seek(length),
            KeyCode::Char('L') => self.looping = !self.looping,
            KeyCode::Char('0') => {
                self.screen = None;
                self.own = None;
            }
            _ => return false,
        }
        true
    }
}
