//! What the engine's thread and its handles share.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::broadcast;

use crate::protocol::event::{Event, Forecast, Level, LogLine};
use crate::protocol::mode::{Limits, Mode, ModeSettings};
use crate::protocol::state::{DeviceInfo, ModelInfo, Readiness};

use super::chat_template::ChatTemplate;
use super::sampling::Suggested;
use super::stats::Stats;
use super::tokenizer::Tokenizer;

/// Events kept for readers that are behind; one that falls further behind is told how many it lost.
const EVENT_BACKLOG: usize = 2_048;

/// Text side of the target.
pub struct Text {
    /// Text to ids and back.
    pub tokenizer: Tokenizer,
    /// Chat template, where the model has one.
    pub template: Option<ChatTemplate>,
    /// What the model's publishers suggest where a request does not say how to choose tokens.
    pub sampling: Suggested,
}

/// What is known about the loaded pair.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Whether it can generate.
    pub readiness: Readiness,
    /// Target.
    pub target: Option<ModelInfo>,
    /// Drafter.
    pub draft: Option<ModelInfo>,
    /// Device.
    pub device: Option<DeviceInfo>,
    /// Mode in force.
    pub mode: ModeSettings,
    /// What may be asked for.
    pub limits: Limits,
    /// Something the user must know.
    pub notice: Option<String>,
    /// Cache rows in use, over all sessions.
    pub kv_used: usize,
    /// In `auto`: what is expected of each choice.
    pub auto: Option<Forecast>,
}

/// Shared state.
pub struct Shared {
    /// Start of the engine.
    pub started: Instant,
    /// Facts, for [`super::Engine::state`].
    pub facts: Mutex<Facts>,
    /// Counters and windows.
    pub stats: Mutex<Stats>,
    /// Events to all readers.
    pub events: broadcast::Sender<Arc<Event>>,
    /// Tokenizer and template, once loaded.
    pub text: OnceLock<Text>,
    /// Requests in the queue.
    pub waiting: AtomicUsize,
    /// Requests being decoded.
    pub running: AtomicUsize,
    /// Set to stop the thread.
    pub stop: AtomicBool,
}

/// A poisoned lock only means that another thread panicked while it held it; the data are counters and facts, each
/// valid by itself.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

impl Shared {
    /// Shared state of an engine that is about to load.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            started: Instant::now(),
            facts: Mutex::new(Facts {
                readiness: Readiness::Loading { what: "starting".into(), fraction: None },
                target: None,
                draft: None,
                device: None,
                mode: ModeSettings { mode: Mode::Off, block_size: 0, tree_budget: 0, chain_seed: true },
                limits: Limits {
                    modes: vec![Mode::Off],
                    block_size: [0, 0],
                    tree_budget: [0, 0],
                    context: 0,
                    max_running,
                    max_waiting,
                },
                notice: None,
                kv_used: 0,
                auto: None,
            }),
            stats: Mutex::new(Stats::default()),
            events: broadcast::channel(EVENT_BACKLOG).0,
            text: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Milliseconds since the engine's start.
    pub fn clock(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1e3
    }

    /// Sends an event to whoever listens.
    pub fn publish(&self, event: Event) {
        // An error means that nobody listens.
        let _ = self.events.send(Arc::new(event));
    }

    /// Sends a log line.
    pub fn log(&self, level: Level, source: &str, message: impl Into<String>) {
        let message = message.into();
        match level {
            Level::Info => tracing::info!(target: "spectop", source, "{message}"),
            Level::Warn => tracing::warn!(target: "spectop", source, "{message}"),
            Level::Error => tracing::error!(target: "spectop", source, "{message}"),
        }
        self.publish(Event::Log(LogLine { at_ms: now_ms(), level, source: source.into(), message }));
    }

    /// Notes the readiness and tells the readers.
    pub fn ready(&self, readiness: Readiness) {
        lock(&self.facts).readiness = readiness.clone();
        self.publish(Event::Progress(readiness));
    }
}
