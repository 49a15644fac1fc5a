//! What the routes need from an engine. [`Engine`] is the one that generates; the load generator of `bench-ui`
//! and the tests bring others.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use crate::engine::Engine;
use crate::engine::api::{EngineError, GenerateRequest, Generation};
use crate::engine::sampling::Suggested;
use crate::protocol::event::{Event, Sample};
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::protocol::state::State;

/// The engine as the server sees it. See the methods of the same names on [`Engine`].
pub trait Backend: Send + Sync + 'static {
    /// Queues a request.
    fn submit(&self, request: GenerateRequest) -> Result<Generation, EngineError>;
    /// Switches the mode; answers when it is in force.
    fn set_mode(&self, change: ModeRequest) -> BoxFuture<'_, Result<ModeChange, EngineError>>;
    /// Models, mode, limits, counters, readiness.
    fn state(&self) -> State;
    /// All events from now on.
    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>>;
    /// Publishes an event to all subscribers.
    fn publish(&self, event: Event);
    /// Rates and gauges now, without sensors.
    fn sample(&self) -> Sample;
    /// Token ids of a text.
    fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError>;
    /// Token ids of a conversation; `switches` are for the chat template.
    fn encode_chat(&self, messages: &[Value], switches: &Map<String, Value>) -> Result<Vec<u32>, EngineError>;
    /// What the model's publishers suggest where a request does not say how to choose tokens.
    fn suggested_sampling(&self) -> Suggested {
        Suggested::default()
    }
    /// Name of the target, once known.
    fn model_name(&self) -> Option<String>;
}

impl Backend for Engine {
    fn submit(&self, request: GenerateRequest) -> Result<Generation, EngineError> {
        Engine::submit(self, request)
    }
    fn set_mode(&self, change: ModeRequest) -> BoxFuture<'_, Result<ModeChange, EngineError>> {
        Box::pin(Engine::set_mode(self, change))
    }
    fn state(&self) -> State {
        Engine::state(self)
    }
    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        Engine::subscribe(self)
    }
    fn publish(&self, event: Event) {
        Engine::publish(self, event);
    }
    fn sample(&self) -> Sample {
        Engine::sample(self)
    }
    fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        Engine::encode(self, text)
    }
    fn encode_chat(&self, messages: &[Value], switches: &Map<String, Value>) -> Result<Vec<u32>, EngineError> {
        Engine::encode_chat_with(self, messages, switches)
    }
    fn suggested_sampling(&self) -> Suggested {
        Engine::suggested_sampling(self)
    }
    fn model_name(&self) -> Option<String> {
        Engine::model_name(self)
    }
}
