//! What is known about the server and this machine: everything that a pause freezes.

use crate::protocol::event::{Event, Level, LogLine, RequestEvent, RequestPhase, Sample};
use crate::protocol::mode::{Mode, ModeSettings};
use crate::protocol::sensor::Sensors;
use crate::protocol::state::{Readiness, State};
use crate::protocol::trace::Round;
use crate::source::{Connection, ServerKind, Update};

use super::history::History;
use super::log::Log;
use super::rounds::Traces;
use super::sensors::{SensorHistory, Whose, blank};
use super::speeds::Speeds;
use super::stream::Stream;

/// Requests whose text is kept.
const MAX_STREAMS: usize = 8;
/// Name of the answer to our own prompt, on servers that do not trace their requests.
const OWN: &str = "your prompt";
/// Milliseconds after which a sample is no longer shown as the present.
const STALE_MS: u64 = 3_000;
/// Milliseconds between samples, as the server sends them.
const SAMPLE_MS: u64 = 250;

/// How soon the screen should show what came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing to see.
    None,
    /// With the next second: gauges of an idle server.
    Idle,
    /// With the next frame.
    Now,
}

/// Everything known.
#[derive(Debug, Clone)]
pub struct Data {
    /// The connection.
    pub connection: Connection,
    /// When the next attempt is due, on our clock.
    pub retry_at_ms: u64,
    /// Last state sent by the server.
    pub state: Option<Box<State>>,
    /// Our clock when it came.
    pub state_at_ms: u64,
    /// Whether it can generate.
    pub readiness: Option<Readiness>,
    /// Mode in force.
    pub mode: Option<ModeSettings>,
    /// Last sample.
    pub sample: Option<Box<Sample>>,
    /// Our clock when it came.
    pub sample_at_ms: u64,
    /// Rates over time.
    pub history: History,
    /// Speed by mode.
    pub speeds: Speeds,
    /// Texts, oldest request first.
    pub streams: Vec<Stream>,
    /// The rounds of the newest requests.
    pub traces: Traces,
    /// Sensor readings over time.
    pub sensors: SensorHistory,
    /// The log.
    pub log: Log,
    /// This machine.
    pub local: Option<Sensors>,
    /// Events lost by us since attaching.
    pub lagged: u64,
    /// Why the connection was lost, until it is there again.
    lost: Option<String>,
    history_at_ms: u64,
}

impl Data {
    /// Nothing known yet.
    pub fn new(now_ms: u64) -> Self {
        Self {
            connection: Connection::Connecting,
            retry_at_ms: 0,
            state: None,
            state_at_ms: 0,
            readiness: None,
            mode: None,
            sample: None,
            sample_at_ms: 0,
            history: History::default(),
            speeds: Speeds::default(),
            streams: Vec::new(),
            traces: Traces::default(),
            sensors: SensorHistory::default(),
            log: Log::default(),
            local: None,
            lagged: 0,
            lost: None,
            history_at_ms: now_ms,
        }
    }

    /// Takes an update in.
    pub fn apply(&mut self, update: Update, now_ms: u64) -> Urgency {
        match update {
            Update::Connection(connection) => self.connection(connection, now_ms),
            Update::Event(event) => self.event(event, now_ms),
        }
    }

    /// True while events come in.
    pub fn connected(&self) -> bool {
        matches!(self.connection, Connection::Connected { .. })
    }

    /// Which server it is, while connected.
    pub fn kind(&self) -> Option<ServerKind> {
        match self.connection {
            Connection::Connected { kind } => Some(kind),
            _ => None,
        }
    }

    /// True when the server can generate now, as far as we know.
    pub fn ready(&self) -> bool {
        self.connected() && !matches!(self.readiness, Some(Readiness::Loading { .. } | Readiness::Failed { .. }))
    }

    /// The last sample if it is the present; never an old one.
    pub fn live(&self, now_ms: u64) -> Option<&Sample> {
        let fresh = self.connected() && now_ms.saturating_sub(self.sample_at_ms) <= STALE_MS;
        self.sample.as_deref().filter(|_| fresh)
    }

    /// Seconds without a sample although connected.
    pub fn silent_s(&self, now_ms: u64) -> Option<u64> {
        let silent = now_ms.saturating_sub(self.sample_at_ms);
        (self.connected() && self.sample.is_some() && silent > STALE_MS).then_some(silent / 1000)
    }

    /// Seconds that the server is up.
    pub fn uptime_s(&self, now_ms: u64) -> Option<f64> {
        let state = self.state.as_ref().filter(|_| self.connected())?;
        Some(state.uptime_s + now_ms.saturating_sub(self.state_at_ms) as f64 / 1000.0)
    }

    /// The newest request that runs, or else the newest.
    pub fn newest(&self) -> Option<&Stream> {
        let running = self.streams.iter().rev().find(|s| s.active() && s.phase != RequestPhase::Queued);
        running.or_else(|| self.streams.iter().rev().find(|s| s.phase != RequestPhase::Queued)).or(self.streams.last())
    }

    /// Keeps the time axis honest while nothing comes in. True if the picture moved.
    pub fn tick(&mut self, now_ms: u64) -> bool {
        if self.history.is_empty() || now_ms.saturating_sub(self.history_at_ms) < 2 * SAMPLE_MS {
            return false;
        }
        self.history_at_ms = now_ms;
        self.history.push(None, None, self.mode.map(|m| m.mode));
        self.history.push(None, None, self.mode.map(|m| m.mode));
        true
    }

    /// A prompt was sent from here to a server that does not trace its requests: its answer gets a text of its own.
    pub fn answer_begins(&mut self, prompt: &str) {
        if self.kind() != Some(ServerKind::Native) {
            self.streams.retain(|s| s.id != OWN);
            self.stream(OWN).own_begins(prompt);
        }
    }

    /// A piece of that answer. True if it is shown.
    pub fn answer(&mut self, text: &str) -> bool {
        let own = self.streams.iter_mut().find(|s| s.id == OWN);
        own.map(|stream| stream.own_text(text)).is_some()
    }

    /// That answer is over.
    pub fn answer_ended(&mut self, result: &Result<(), String>) {
        if let Some(stream) = self.streams.iter_mut().find(|s| s.id == OWN) {
            stream.own_ends(result.as_ref().err());
        }
    }

    /// A look at this machine's sensors: they stand in while the server tells of none.
    pub fn looked(&mut self, sensors: Sensors, now_ms: u64) {
        self.sensors.push(&sensors, Whose::Local, self.mode.map(|m| m.mode), now_ms);
        self.local = Some(sensors);
    }

    /// Adds a line to the log.
    pub fn note(&mut self, now_ms: u64, level: Level, source: &str, message: &str) {
        self.log.push(now_ms, level, source, message);
    }

    fn connection(&mut self, connection: Connection, now_ms: u64) -> Urgency {
        match &connection {
            Connection::Connecting => {}
            Connection::Connected { .. } => {
                self.lost = None;
                if !self.connected() {
                    self.note(now_ms, Level::Info, "link", "connected");
                }
            }
            Connection::Lost { reason, retry_in } => {
                self.retry_at_ms = now_ms.saturating_add(retry_in.as_millis().min(u128::from(u64::MAX)) as u64);
                // Attempts go on for as long as it takes: the same reason is worth one line.
                if self.lost.as_ref() != Some(reason) {
                    self.note(now_ms, Level::Error, "link", &format!("server gone: {reason}"));
                }
                self.lost = Some(reason.clone());
                self.sample = None;
                self.readiness = None;
                self.streams.iter_mut().for_each(Stream::interrupt);
                self.traces.interrupt();
            }
        }
        self.connection = connection;
        Urgency::Now
    }

    fn event(&mut self, event: Event, now_ms: u64) -> Urgency {
        match event {
            Event::Hello(state) => self.hello(state, now_ms),
            // The engine logs the change itself; here it becomes a mark on the charts.
            Event::Mode(change) => self.in_force(change.settings),
            Event::Request(event) => self.request(&event, now_ms),
            Event::Round(round) => return self.round(round),
            Event::Sample(sample) => return self.sampled(sample, now_ms),
            Event::Progress(readiness) => self.progress(readiness, now_ms),
            Event::Log(LogLine { at_ms, level, source, message }) => self.log.push(at_ms, level, &source, &message),
            Event::Lagged(lagged) => {
                self.lagged = self.lagged.saturating_add(lagged.dropped);
                let text = format!("{} events lost: this reader was too slow", lagged.dropped);
                self.note(now_ms, Level::Warn, "link", &text);
            }
        }
        Urgency::Now
    }

    fn hello(&mut self, state: Box<State>, now_ms: u64) {
        if self.state.as_ref().is_some_and(|s| s.pid != state.pid) {
            self.note(now_ms, Level::Warn, "link", "the server was restarted: its counters begin anew");
            self.speeds.reset();
        }
        self.progress(state.readiness.clone(), now_ms);
        self.in_force(state.mode);
        self.state = Some(state);
        self.state_at_ms = now_ms;
    }

    fn progress(&mut self, readiness: Readiness, now_ms: u64) {
        if self.readiness.as_ref() != Some(&readiness) {
            match (&self.readiness, &readiness) {
                (_, Readiness::Failed { reason }) => {
                    self.note(now_ms, Level::Error, "server", &format!("loading failed: {reason}"));
                }
                (Some(Readiness::Loading { .. }), Readiness::Ready) => {
                    self.note(now_ms, Level::Info, "server", "models loaded");
                }
                _ => {}
            }
        }
        self.readiness = Some(readiness);
    }

    fn in_force(&mut self, settings: ModeSettings) {
        if self.mode.is_some_and(|m| m != settings) {
            self.history.mark(settings.label());
            self.sensors.mark(settings.label());
        }
        self.mode = Some(settings);
    }

    fn stream(&mut self, id: &str) -> &mut Stream {
        let known = self.streams.iter().position(|s| s.id == id);
        let at = known.unwrap_or_else(|| {
            if self.streams.len() >= MAX_STREAMS {
                let oldest = self.streams.iter().position(|s| !s.active()).unwrap_or(0);
                self.streams.remove(oldest);
            }
            self.streams.push(Stream::new(id));
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }

    fn request(&mut self, event: &RequestEvent, now_ms: u64) {
        self.stream(&event.id).request(event);
        self.traces.request(event);
        if event.phase == RequestPhase::Failed {
            let reason = event.error.as_deref().unwrap_or("no reason given");
            self.note(now_ms, Level::Error, "engine", &format!("request {} failed: {reason}", event.id));
        }
    }

    fn round(&mut self, round: Round) -> Urgency {
        let label = match self.mode {
            Some(m) if m.mode == round.mode => m.label(),
            _ => round.mode.name().to_owned(),
        };
        // Shadow decodes like the chain but pays for the tree: its speed is no mode's speed.
        if round.mode != Mode::Shadow {
            self.speeds.add(&label, &round);
        }
        self.stream(&round.request).round(&round);
        self.traces.round(round);
        Urgency::Now
    }

    fn sampled(&mut self, sample: Box<Sample>, now_ms: u64) -> Urgency {
        let busy = sample.running > 0 || sample.waiting > 0 || sample.tok_s.is_some();
        let was_busy = self.sample.as_ref().is_none_or(|s| s.running > 0 || s.waiting > 0 || s.tok_s.is_some());
        self.history.push(sample.tok_s, sample.tau.filter(|_| sample.tok_s.is_some()), self.mode.map(|m| m.mode));
        self.history_at_ms = now_ms;
        if !blank(&sample.sensors) {
            self.sensors.push(&sample.sensors, Whose::Server, self.mode.map(|m| m.mode), now_ms);
        }
        self.sample = Some(sample);
        self.sample_at_ms = now_ms;
        if busy || was_busy { Urgency::Now } else { Urgency::Idle }
    }
}
