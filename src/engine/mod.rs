//! The engine: a cloneable handle on the one thread that owns the models.

pub mod api;
pub mod chat_template;
pub mod model;
pub mod stop;
pub mod tokenizer;
pub mod weights;

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::protocol::event::{Event, Level, Sample};
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::protocol::state::State;
use api::{EngineConfig, EngineError, GenerateRequest, Generation, Resolve};

/// A handle on a running engine. Cloning is cheap; the engine stops when `shutdown` is called or all handles are gone.
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Starts the engine's thread and returns at once; models load in the background (see [`Engine::state`]).
    pub fn start(config: EngineConfig, resolve: Resolve) -> Self {
        let _ = (config, resolve);
        todo!()
    }
    /// Models, mode, limits, counters, readiness.
    pub fn state(&self) -> State {
        todo!()
    }
    /// Queues a request.
    pub fn submit(&self, request: GenerateRequest) -> Result<Generation, EngineError> {
        let _ = request;
        todo!()
    }
    /// Switches the mode at the next round boundary; answers when it is in force.
    pub async fn set_mode(&self, change: ModeRequest) -> Result<ModeChange, EngineError> {
        let _ = change;
        todo!()
    }
    /// All events from now on. Bounded: a slow reader gets `RecvError::Lagged(n)` and never slows the engine.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        todo!()
    }
    /// Publishes an event to all subscribers (the server adds `sample` and `log` events of its own).
    pub fn publish(&self, event: Event) {
        let _ = event;
        todo!()
    }
    /// Publishes a log line.
    pub fn log(&self, level: Level, source: &str, message: impl Into<String>) {
        let _ = (level, source, message.into());
    }
    /// Rates and gauges now; `sensors` is left empty for the caller to fill.
    pub fn sample(&self) -> Sample {
        todo!()
    }
    /// Token ids of a text, without chat template; special tokens in the text are read as text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let _ = text;
        todo!()
    }
    /// Token ids of a conversation through the model's chat template, ready for the answer.
    pub fn encode_chat(&self, messages: &[serde_json::Value]) -> Result<Vec<u32>, EngineError> {
        let _ = messages;
        todo!()
    }
    /// Name of the target, for `/v1/models` (`None` until it is known).
    pub fn model_name(&self) -> Option<String> {
        todo!()
    }
    /// Stops the thread; running requests end as cancelled.
    pub fn shutdown(&self) {}
}
