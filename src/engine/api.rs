//! What the engine takes and gives: requests, deltas, errors. No HTTP, no terminal.

use std::path::PathBuf;

use thiserror::Error;
use tokio::sync::mpsc;

use crate::protocol::event::{FinishReason, RequestMetrics};
use crate::protocol::mode::{ModeRequest, ModeSettings};
use crate::protocol::state::Readiness;

use super::device::Device;

/// Where one model's files are.
#[derive(Debug, Clone)]
pub enum ModelSource {
    /// A GGUF file, a safetensors file, or a folder with `config.json`.
    Path(PathBuf),
    /// Files compiled into the program.
    Embedded(&'static Embedded),
}

/// Model files compiled into the program.
#[derive(Debug)]
pub struct Embedded {
    /// Display name.
    pub name: &'static str,
    /// File name and contents.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// The pair to load.
#[derive(Debug, Clone)]
pub struct PairSource {
    /// The target.
    pub target: ModelSource,
    /// The drafter; without one only `off` is on offer.
    pub draft: Option<ModelSource>,
    /// Something the user must know about this choice.
    pub notice: Option<String>,
}

/// Finds the pair, fetching it if need be. Called on the engine's own thread; reports progress through the callback.
pub type Resolve = Box<dyn FnOnce(&mut dyn FnMut(Readiness)) -> Result<PairSource, EngineError> + Send>;

/// How weights are held in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// Quantised files stay quantised; the drafter is held in 8 bits beside a quantised target.
    #[default]
    Auto,
    /// Everything is dequantised to F32: the reference for conformance runs.
    F32,
    /// Matrices are requantised to 8 bits.
    Q8,
}

/// How to run the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where the models run.
    pub device: Device,
    /// Compute threads; 0 means one a physical core that this process may use.
    pub threads: usize,
    /// Devices that share the layers of the target (tensor parallelism); on the CPU they share its threads.
    pub tensor_parallel: usize,
    /// Weight format in memory.
    pub precision: Precision,
    /// Tokens a sequence may have; 0 means what the model allows, at most 8192.
    pub context: usize,
    /// Requests decoded at once.
    pub max_running: usize,
    /// Requests that may wait.
    pub max_waiting: usize,
    /// Mode at start. Absent fields take the defaults of the pair.
    pub mode: ModeRequest,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            device: Device::Auto,
            threads: 0,
            tensor_parallel: 1,
            precision: Precision::Auto,
            context: 0,
            max_running: 8,
            max_waiting: 64,
            mode: ModeRequest::default(),
        }
    }
}

/// How to choose the next token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0 means greedy.
    pub temperature: f32,
    /// Keep the smallest set of tokens whose probability before the next one is below this; 1 keeps all.
    pub top_p: f32,
    /// Keep this many most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Seed of the request's random stream; absent means a fresh one.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, top_k: 0, seed: None }
    }
}

/// One request to generate.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// Id used in events; made up when absent.
    pub id: Option<String>,
    /// Prompt token ids; at least one.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most; at least 1.
    pub max_tokens: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Go on after the model's own stop tokens.
    pub ignore_eos: bool,
    /// Mode for this request alone; an empty one follows the server's, also when that is switched.
    pub mode: ModeRequest,
}

/// What a generation sends.
#[derive(Debug, Clone)]
pub enum Delta {
    /// Tokens of one round (or the first token), with the text they complete. The text may be empty while a
    /// character or a possible stop string is incomplete.
    Tokens {
        /// Token ids, in order.
        ids: Vec<u32>,
        /// Text completed by them: always whole characters.
        text: String,
        /// Gap between the target's two best logits before each token.
        margins: Vec<f32>,
    },
    /// The end. Always the last message.
    Done {
        /// Why.
        reason: FinishReason,
        /// Text held back until now.
        text: String,
        /// Per-request metrics.
        metrics: Box<RequestMetrics>,
    },
    /// The engine gave up. Always the last message.
    Failed(EngineError),
}

/// A running generation. Dropping it cancels the request within one round.
#[derive(Debug)]
pub struct Generation {
    /// Request id.
    pub id: String,
    /// What comes out. Unbounded in type, bounded by `max_tokens` in fact.
    pub deltas: mpsc::UnboundedReceiver<Delta>,
}

/// What can go wrong, in words that say what to do next.
#[derive(Debug, Clone, Error, PartialEq)]
pub enum EngineError {
    /// The models are not loaded yet.
    #[error("the model is still loading ({0}); try again in a moment")]
    Loading(String),
    /// Loading failed.
    #[error("{0}")]
    Load(String),
    /// The queue is full.
    #[error("{waiting} requests are waiting already; try again later")]
    QueueFull {
        /// Requests in the queue.
        waiting: usize,
    },
    /// Prompt too long.
    #[error(
        "the prompt has {prompt} tokens but the context holds {context}, and at least one must be left for the answer; shorten the prompt or start with a larger --context"
    )]
    PromptTooLong {
        /// Prompt tokens.
        prompt: usize,
        /// Context size.
        context: usize,
    },
    /// A parameter is out of its range.
    #[error("{field}: {problem}")]
    Invalid {
        /// Name of the parameter.
        field: &'static str,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// The engine has been shut down.
    #[error("the engine has stopped; restart the server")]
    Stopped,
    /// A forward pass failed.
    #[error("the engine failed: {0}")]
    Internal(String),
}

/// A mode in force, and the first round under it.
pub type ModeAck = (ModeSettings, u64);
