//! The loop behind every dashboard: keys, updates, sensors, time and signals in; frames and effects out.

use std::future::Future;
use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossterm::event::{Event as TerminalEvent, EventStream, KeyCode};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::recorder::Recorder;
use super::run_host::{RunHost, Runs};
use super::screen_args::Environment;
use super::{Exit, Failure, ScreenArgs};
use crate::protocol::event::Level;
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::protocol::sensor::Sensors;
use crate::source::Update;
use crate::ui::app::{Answer, Effect, EffectResult, Look, Model, Msg, Prompt};
use crate::ui::terminal::{self, Terminal};
use crate::ui::view;

/// Time between ticks: fine enough for countdowns, coarse enough to cost nothing.
const TICK: Duration = Duration::from_millis(250);
/// Ticks between two looks at the sensors of this machine.
const TICKS_PER_LOOK: u32 = 4;
/// Least time between two frames when a key was pressed: a repeating key must not draw more than eyes can see.
const ANSWER: Duration = Duration::from_millis(10);
/// Least time between two frames with reduced motion.
const STILL: Duration = Duration::from_millis(500);
/// Updates taken in before keys get their turn again.
const BURST: usize = 256;

/// Pieces of answers that may wait to be taken in.
const ANSWERS: usize = 256;

/// An answer that is on its way.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the dashboard asks of the server that it is attached to. Errors are words for people.
pub trait Remote: Send + Sync {
    /// Switches the mode.
    fn set_mode(&self, request: ModeRequest) -> Pending<Result<ModeChange, String>>;
    /// Sends a prompt and reads the answer to its end, passing its text on. Dropping the future must cancel the request.
    fn generate(&self, prompt: Prompt, text: mpsc::Sender<Answer>) -> Pending<Result<(), String>>;
}

/// A server that somebody attached to.
pub struct Attachment {
    /// Its address, for the header.
    pub url: String,
    /// What can be asked of it.
    pub remote: Arc<dyn Remote>,
    /// What it says.
    pub updates: mpsc::Receiver<Update>,
    /// Who carries benchmarks out, if anybody does.
    pub runs: Option<Arc<dyn RunHost>>,
    /// The latest readings of this machine; called once a second, must not block.
    pub sensors: Box<dyn FnMut() -> Sensors + Send>,
    /// Races run by themselves.
    pub demo: bool,
}

/// Says why the dashboard could not open, before anything is started for it.
pub fn check(screen: &ScreenArgs) -> Result<(), Failure> {
    look(screen)?;
    let terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    match obstacle(terminal, std::env::var("TERM").ok().as_deref()) {
        Some(message) => Err(Failure::new(Exit::Usage, message)),
        None => Ok(()),
    }
}

/// Why there is nothing to draw on, and what to do.
fn obstacle(terminal: bool, term: Option<&str>) -> Option<&'static str> {
    if !terminal {
        return Some("the dashboard needs a terminal; `spectop snapshot` prints the state of a server without one");
    }
    (term == Some("dumb")).then_some(
        "the dashboard needs a terminal that can place its cursor, but TERM is \"dumb\"; use another one, or set TERM \
         to what this one is (such as xterm-256color)",
    )
}

/// Runs the dashboard until the user leaves.
pub async fn run_attached(attachment: Attachment, screen: &ScreenArgs) -> Result<(), Failure> {
    check(screen)?;
    let look = look(screen)?;
    // Listening to signals comes first: from the moment the terminal is ours, none may end us without giving it back.
    let signals = Signals::listen().map_err(|e| broken(&e))?;
    let mouse = screen.mouse.into();
    let mut recorder = screen.record.as_deref().map(Recorder::create).transpose()?;
    let terminal = Terminal::enter(mouse).map_err(|e| broken(&e))?;
    let mut model = Model::new(attachment.url.clone(), look, now_ms());
    (model.keys, model.mouse) = (screen.keys.clone(), mouse);
    let warned = |text: &String| Recorder::note(now_ms(), Level::Warn, "config", text);
    let first = screen.warnings.iter().map(warned).collect();
    let (runs, run_messages) = Runs::new(attachment.runs);
    if runs.hosted() {
        model.offer_runs();
    }
    if attachment.demo {
        model.demo();
    }
    if let Some(recorder) = &mut recorder {
        let (columns, rows) = terminal.size().map_err(|e| broken(&e))?;
        model.update(Msg::Resize(columns, rows));
        recorder.begin(&model)?;
    }
    let mut session = Session {
        terminal,
        model,
        recorder,
        first,
        remote: attachment.remote,
        runs,
        sensors: attachment.sensors,
        jobs: JoinSet::new(),
        cancel: CancellationToken::new(),
        answers: mpsc::channel(ANSWERS),
        frame: Duration::from_secs(1) / u32::from(screen.fps.max(1)),
        drawn: None,
        dirty: true,
        urgent: false,
        panic_on: screen.panic_on,
    };
    let result = session.run(attachment.updates, run_messages, signals).await;
    session.cancel.cancel();
    session.jobs.abort_all();
    let Session { terminal, runs, recorder, .. } = session;
    // This gives the terminal back, before anybody prints the result.
    drop(terminal);
    runs.close().await;
    let kept = recorder.map_or(Ok(()), Recorder::finish);
    result.and(kept)
}

/// The look that the options and the environment ask for.
pub(super) fn look(screen: &ScreenArgs) -> Result<Look, Failure> {
    let var = |name: &str| std::env::var(name).ok();
    screen.look(&Environment { var: &var }).map_err(|e| Failure::new(Exit::Usage, e))
}

pub(super) fn broken(error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal cannot be used: {error}"))
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Whether the loop goes on.
enum Flow {
    On,
    Leave,
}

struct Session {
    terminal: Terminal,
    model: Model,
    recorder: Option<Recorder>,
    /// What it is told before anything else.
    first: Vec<Msg>,
    remote: Arc<dyn Remote>,
    runs: Runs,
    sensors: Box<dyn FnMut() -> Sensors + Send>,
    jobs: JoinSet<EffectResult>,
    cancel: CancellationToken,
    /// Text of the answers to our own prompts.
    answers: (mpsc::Sender<Answer>, mpsc::Receiver<Answer>),
    /// Least time between two frames.
    frame: Duration,
    /// When the last frame was drawn.
    drawn: Option<Instant>,
    dirty: bool,
    /// A key was pressed since then: its frame need not wait for its turn.
    urgent: bool,
    /// See [`ScreenArgs::panic_on`].
    panic_on: Option<char>,
}

impl Session {
    async fn run(
        &mut self,
        mut updates: mpsc::Receiver<Update>,
        mut run_messages: mpsc::Receiver<Msg>,
        mut signals: Signals,
    ) -> Result<(), Failure> {
        let mut keys = EventStream::new();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut look_in = 0;
        let mut updates_open = true;
        let (columns, rows) = self.terminal.size().map_err(|e| broken(&e))?;
        self.take(Msg::Resize(columns, rows))?;
        if self.recorder.is_some() {
            self.take(Msg::Recording(true))?;
        }
        for msg in std::mem::take(&mut self.first) {
            self.take(msg)?;
        }
        loop {
            self.dirty |= self.model.take_dirty();
            let next_frame = self.drawn.map_or_else(Instant::now, |at| at + self.pause());
            if self.dirty && next_frame <= Instant::now() {
                self.draw()?;
                continue;
            }
            let flow = tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    Signal::Leave(name) => return Err(Failure::new(Exit::Interrupted, format!("ended by {name}"))),
                    Signal::Continued => self.come_back()?,
                },
                event = keys.next() => match event {
                    Some(Ok(event)) => self.terminal_event(event)?,
                    Some(Err(e)) => return Err(broken(&e)),
                    None => return Err(Failure::new(Exit::Interrupted, "the terminal was closed")),
                },
                () = sleep_until(next_frame), if self.dirty || self.model.animated() => {
                    if self.dirty { Flow::On } else { self.take(Msg::Tick { now_ms: now_ms() })? }
                }
                _ = ticks.tick() => {
                    let flow = self.take(Msg::Tick { now_ms: now_ms() })?;
                    look_in = if look_in == 0 {
                        let sensors = (self.sensors)();
                        self.take(Msg::LocalSensors(sensors))?;
                        TICKS_PER_LOOK - 1
                    } else {
                        look_in - 1
                    };
                    flow
                }
                Some(done) = self.jobs.join_next() => {
                    let result = done.unwrap_or_else(|e| EffectResult::Generate {
                        tag: 0,
                        result: Err(e.to_string()),
                    });
                    self.take(Msg::EffectResult(result))?
                }
                Some(msg) = run_messages.recv() => self.take(msg)?,
                Some(answer) = self.answers.1.recv() => self.take(Msg::Answer(answer))?,
                update = updates.recv(), if updates_open => if let Some(update) = update {
                    self.burst(update, &mut updates)?
                } else {
                    updates_open = false;
                    Flow::On
                },
            };
            if matches!(flow, Flow::Leave) {
                return Ok(());
            }
        }
    }

    /// Least time between two frames, as things are.
    fn pause(&self) -> Duration {
        match (self.urgent, self.model.look.still) {
            (true, _) => self.frame.min(ANSWER),
            (false, true) => self.frame.max(STILL),
            (false, false) => self.frame,
        }
    }

    /// Takes in an update and whatever came with it: one frame shows them all.
    fn burst(&mut self, first: Update, more: &mut mpsc::Receiver<Update>) -> Result<Flow, Failure> {
        let mut next = Some(first);
        for _ in 0..BURST {
            let Some(update) = next else { break };
            if matches!(self.take(Msg::Source(update))?, Flow::Leave) {
                return Ok(Flow::Leave);
            }
            next = more.try_recv().ok();
        }
        if let Some(update) = next {
            return self.take(Msg::Source(update));
        }
        Ok(Flow::On)
    }

    fn terminal_event(&mut self, event: TerminalEvent) -> Result<Flow, Failure> {
        self.urgent = true;
        match event {
            TerminalEvent::Key(key) => {
                assert!(
                    self.panic_on.is_none_or(|c| key.code != KeyCode::Char(c)),
                    "the panic that --panic-on asked for"
                );
                self.take(Msg::Key(key))
            }
            TerminalEvent::Mouse(event) => self.take(Msg::Mouse(event)),
            TerminalEvent::Paste(text) => self.take(Msg::Paste(text)),
            TerminalEvent::Resize(columns, rows) => {
                // A terminal that was small for a moment cut what did not fit, even if it has its old size again.
                self.terminal.clear();
                self.take(Msg::Resize(columns, rows))
            }
            _ => Ok(Flow::On),
        }
    }

    fn take(&mut self, msg: Msg) -> Result<Flow, Failure> {
        if let Some(recorder) = &mut self.recorder
            && let Err(failure) = recorder.write(now_ms(), &msg)
        {
            self.recorder = None;
            self.model.update(Msg::Recording(false));
            self.model.update(Recorder::note(now_ms(), Level::Error, "record", &failure.message));
        }
        for effect in self.model.update(msg) {
            let Some(effect) = self.runs.take(effect) else { continue };
            match effect {
                Effect::Quit => return Ok(Flow::Leave),
                Effect::SetMode(request) => {
                    let answer = self.remote.set_mode(request);
                    self.jobs.spawn(async move { EffectResult::Mode(answer.await) });
                }
                Effect::Generate(prompt) => {
                    let tag = prompt.tag;
                    let answer = self.remote.generate(prompt, self.answers.0.clone());
                    let cancel = self.cancel.clone();
                    self.jobs.spawn(async move {
                        let ended = cancel.run_until_cancelled(answer).await;
                        EffectResult::Generate { tag, result: ended.unwrap_or(Ok(())) }
                    });
                }
                Effect::CancelGeneration => {
                    std::mem::take(&mut self.cancel).cancel();
                }
                Effect::Suspend => {
                    self.terminal.leave();
                    terminal::stop_process();
                    self.come_back()?;
                }
                Effect::Copy(text) => self.terminal.copy(&text).map_err(|e| broken(&e))?,
                Effect::Mouse(mouse) => self.terminal.report_mouse(mouse).map_err(|e| broken(&e))?,
                Effect::Redraw => {
                    self.terminal.clear();
                    self.dirty = true;
                }
                // Carried out above.
                Effect::StartRun(_)
                | Effect::PlanRun(_)
                | Effect::PauseRun(_)
                | Effect::StopRun
                | Effect::ListRuns
                | Effect::LoadRun(_)
                | Effect::Export { .. } => {}
            }
        }
        Ok(Flow::On)
    }

    /// After `fg`: the shell had the terminal and may have changed its modes and its size.
    fn come_back(&mut self) -> Result<Flow, Failure> {
        self.terminal.leave();
        self.terminal.reenter().map_err(|e| broken(&e))?;
        let (columns, rows) = self.terminal.size().map_err(|e| broken(&e))?;
        self.dirty = true;
        self.take(Msg::Resize(columns, rows))
    }

    fn draw(&mut self) -> Result<(), Failure> {
        if !terminal::is_ours() {
            // A panic in some thread gave the terminal back and printed its message there: drawing over it would hide it.
            return Err(Failure::new(Exit::Failed, "a part of the program panicked; its message is above"));
        }
        let model = &self.model;
        self.terminal.draw(|area, buf| view::draw(model, area, buf)).map_err(|e| broken(&e))?;
        self.drawn = Some(Instant::now());
        (self.dirty, self.urgent) = (false, false);
        Ok(())
    }
}

/// What a signal means here.
pub(super) enum Signal {
    Leave(&'static str),
    Continued,
}

#[cfg(unix)]
pub(super) struct Signals {
    term: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    cont: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
            int: signal(SignalKind::interrupt())?,
            cont: signal(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.term.recv() => Signal::Leave("SIGTERM"),
            _ = self.hup.recv() => Signal::Leave("SIGHUP"),
            _ = self.int.recv() => Signal::Leave("SIGINT"),
            _ = self.cont.recv() => Signal::Continued,
        }
    }
}

#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) async fn next(&mut self) -> Signal {
        // Without a console this never answers, and the loop must not spin.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Leave("Ctrl-C")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_real_terminal_is_drawn_on() {
        assert!(obstacle(false, Some("xterm")).is_some_and(|m| m.contains("snapshot")));
        assert!(obstacle(true, Some("dumb")).is_some_and(|m| m.contains("xterm-256color")));
        assert_eq!(obstacle(true, Some("screen")), None);
        assert_eq!(obstacle(true, None), None);
    }
}
