//! The engine: a cloneable handle on the one thread that owns the models. It knows neither HTTP nor terminals.

pub mod api;
pub mod backend;
pub mod chat_template;
pub mod decode;
pub mod device;
pub mod inspect;
pub mod lattice;
mod load;
mod measure;
pub mod model;
mod plan;
pub mod profile;
pub mod rounds;
pub mod sampler;
pub mod sampling;
mod scheduler;
pub mod sequence;
mod session;
mod shared;
mod stats;
pub mod stop;
pub mod tokenizer;
pub mod tree;
pub mod weights;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use tokio::sync::{broadcast, oneshot};

use crate::protocol::SCHEMA_VERSION;
use crate::protocol::event::{Event, Level, Sample};
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::protocol::state::{Readiness, State};
use api::{EngineConfig, EngineError, GenerateRequest, Generation, Resolve};
use sampling::Suggested;
use scheduler::Command;
use session::Queued;
use shared::{Shared, Text, lock};

/// Numbers requests that come without an id.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A handle on a running engine. Cloning is cheap; the engine stops when `shutdown` is called or all handles are gone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl Engine {
    /// Starts the engine's thread and returns at once; models load in the background (see [`Engine::state`]).
    pub fn start(config: EngineConfig, resolve: Resolve) -> Self {
        let shared = Arc::new(Shared::new(config.max_running, config.max_waiting));
        let (commands, receiver) = mpsc::channel();
        let for_thread = Arc::clone(&shared);
        let spawned = std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || load::run(&config, resolve, &for_thread, &receiver));
        if let Err(error) = spawned {
            shared.ready(Readiness::Failed { reason: format!("the system refuses to start a thread: {error}") });
        }
        Self { shared, commands }
    }

    /// Models, mode, limits, counters, readiness.
    pub fn state(&self) -> State {
        let facts = lock(&self.shared.facts).clone();
        State {
            schema: SCHEMA_VERSION,
            server: "spectop".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.shared.started.elapsed().as_secs_f64(),
            readiness: facts.readiness,
            target: facts.target,
            draft: facts.draft,
            device: facts.device,
            mode: facts.mode,
            limits: facts.limits,
            counters: lock(&self.shared.stats).counters.clone(),
            running: self.shared.running.load(Ordering::Relaxed),
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            notice: facts.notice,
        }
    }

    fn text(&self) -> Result<&Text, EngineError> {
        self.shared.text.get().ok_or_else(|| match &lock(&self.shared.facts).readiness {
            Readiness::Loading { what, .. } => EngineError::Loading(what.clone()),
            Readiness::Failed { reason } => EngineError::Load(reason.clone()),
            Readiness::Ready => EngineError::Stopped,
        })
    }

    /// Queues a request.
    pub fn submit(&self, mut request: GenerateRequest) -> Result<Generation, EngineError> {
        self.text()?;
        let facts = lock(&self.shared.facts).clone();
        match facts.readiness {
            Readiness::Ready => {}
            Readiness::Loading { what, .. } => return Err(EngineError::Loading(what)),
            Readiness::Failed { reason } => return Err(EngineError::Load(reason)),
        }
        let refused = check(&mut request, &facts).and_then(|()| {
            self.shared
                .waiting
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < facts.limits.max_waiting).then_some(n + 1))
                .map_err(|waiting| EngineError::QueueFull { waiting })
        });
        if let Err(error) = refused {
            lock(&self.shared.stats).counters.requests_failed += 1;
            return Err(error);
        }
        let id = request.id.take().unwrap_or_else(|| format!("req-{}", NEXT_ID.fetch_add(1, Ordering::Relaxed)));
        let (client, deltas) = tokio::sync::mpsc::unbounded_channel();
        let queued = Queued { id: id.clone(), request, client, submitted: self.shared.clock() };
        self.commands.send(Command::Submit(Box::new(queued))).map_err(|_| EngineError::Stopped)?;
        Ok(Generation { id, deltas })
    }

    /// Switches the mode at the next round boundary; answers when it is in force.
    pub async fn set_mode(&self, change: ModeRequest) -> Result<ModeChange, EngineError> {
        self.text()?;
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Mode(change, answer)).map_err(|_| EngineError::Stopped)?;
        answered.await.map_err(|_| EngineError::Stopped)?
    }

    /// All events from now on. Bounded: a slow reader gets `RecvError::Lagged(n)` and never slows the engine.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.shared.events.subscribe()
    }

    /// Publishes an event to all subscribers (the server adds `sample` and `log` events of its own).
    pub fn publish(&self, event: Event) {
        self.shared.publish(event);
    }

    /// Publishes a log line.
    pub fn log(&self, level: Level, source: &str, message: impl Into<String>) {
        self.shared.log(level, source, message);
    }

    /// Rates and gauges now; `sensors` is left empty for the caller to fill.
    pub fn sample(&self) -> Sample {
        let (kv_used, limits, auto) = {
            let facts = lock(&self.shared.facts);
            (facts.kv_used, facts.limits.clone(), facts.auto.clone())
        };
        let mut sample = lock(&self.shared.stats).sample(self.shared.clock());
        sample.at_ms = shared::now_ms();
        sample.running = self.shared.running.load(Ordering::Relaxed);
        sample.waiting = self.shared.waiting.load(Ordering::Relaxed);
        sample.kv_used = kv_used;
        sample.auto = auto;
        sample.kv_capacity = limits.context * limits.max_running;
        sample
    }

    /// Token ids of a text, without chat template; special tokens in the text are read as text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        Ok(self.text()?.tokenizer.encode(text, false))
    }

    /// Token ids of a conversation through the model's chat template, ready for the answer.
    pub fn encode_chat(&self, messages: &[serde_json::Value]) -> Result<Vec<u32>, EngineError> {
        self.encode_chat_with(messages, &serde_json::Map::new())
    }

    /// The same, with switches for the template, such as `enable_thinking`.
    pub fn encode_chat_with(
        &self,
        messages: &[serde_json::Value],
        switches: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Vec<u32>, EngineError> {
        let text = self.text()?;
        text.encode_chat(messages, switches)
    }

    /// What the model's publishers suggest where a request does not say how to choose tokens.
    pub fn suggested_sampling(&self) -> Suggested {
        self.shared.text.get().map_or_else(Suggested::default, |text| text.sampling)
    }

    /// Bytes of a token, for showing it.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        self.shared.text.get().map_or_else(Vec::new, |text| text.tokenizer.bytes(id).to_vec())
    }

    /// Name of the target, for `/v1/models` (`None` until it is known).
    pub fn model_name(&self) -> Option<String> {
        lock(&self.shared.facts).target.as_ref().map(|t| t.name.clone())
    }

    /// Stops the thread; running requests end as cancelled.
    pub fn shutdown(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // An error means that the thread has ended already.
        let _ = self.commands.send(Command::Stop);
    }
}

/// Refuses what cannot be generated.
fn check(request: &mut GenerateRequest, facts: &shared::Facts) -> Result<(), EngineError> {
    let invalid = |field, problem: &str| Err(EngineError::Invalid { field, problem: problem.into() });
    if request.prompt.is_empty() {
        return invalid("prompt", "it is empty; at least one token is needed");
    }
    if request.max_tokens == 0 {
        return invalid("max_tokens", "it is 0; ask for at least 1");
    }
    let vocab = facts.target.as_ref().map_or(0, |t| t.vocab);
    if let Some(id) = request.prompt.iter().find(|&&id| id as usize >= vocab) {
        return invalid("prompt", &format!("token id {id} is outside the vocabulary of {vocab}"));
    }
    let context = facts.limits.context;
    if request.prompt.len() >= context {
        return Err(EngineError::PromptTooLong { prompt: request.prompt.len(), context });
    }
    let s = &request.sampling;
    if !s.temperature.is_finite() || s.temperature < 0.0 {
        return invalid("temperature", "it must be 0 or greater");
    }
    if !(s.top_p > 0.0 && s.top_p <= 1.0) {
        return invalid("top_p", "it must be above 0 and at most 1");
    }
    request.stop.retain(|text| !text.is_empty());
    scheduler::check(&facts.mode.with(request.mode), &facts.limits)
}
