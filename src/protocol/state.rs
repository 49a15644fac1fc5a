//! `GET /spec/state`: what runs, on what, in which mode, and how far it has come.

use serde::{Deserialize, Serialize};

use super::mode::{Limits, ModeSettings};

/// Whether the server can generate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Readiness {
    /// Models are being fetched or loaded.
    Loading {
        /// What is happening, for people: "reading SmolLM2-135M-Instruct.Q4_1.gguf".
        what: String,
        /// 0 to 1, where it can be told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fraction: Option<f64>,
    },
    /// Requests are answered.
    Ready,
    /// Loading failed for good; the text says what to do.
    Failed {
        /// Why, and what to do next.
        reason: String,
    },
}

/// One loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Display name, e.g. `SmolLM2-135M-Instruct`.
    pub name: String,
    /// `llama`, `qwen3` or `dflash`.
    pub architecture: String,
    /// Where it was loaded from (a path, or `embedded`).
    pub source: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of the weights in memory.
    pub bytes: u64,
    /// Weight format in memory, e.g. `Q4_1+Q8_0`, `F32`.
    pub dtype: String,
    /// Decoder layers.
    pub layers: usize,
    /// Vocabulary rows.
    pub vocab: usize,
}

/// Where the engine computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `cpu` or `cuda`.
    pub kind: String,
    /// Processor or GPU name.
    pub name: String,
    /// Compute threads (CPU).
    pub threads: usize,
    /// Kernel family in use, e.g. `avx512-vnni`, `avx2`, `portable`.
    pub kernels: String,
}

/// Counters since the server started. They only grow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Verify rounds of a session that proposed at least one draft token.
    pub rounds: u64,
    /// Rounds without a proposal (plain decoding).
    pub plain_rounds: u64,
    /// Draft tokens proposed (nodes, for trees).
    pub drafted: u64,
    /// Draft tokens accepted; bonus tokens excluded.
    pub accepted: u64,
    /// Tokens committed by rounds, bonus included (the prefill token is not a round's).
    pub committed: u64,
    /// Rows that went through the target in verify passes.
    pub verified_rows: u64,
    /// `accepted_per_pos[k]`: rounds that accepted at least `k + 1` draft tokens.
    pub accepted_per_pos: Vec<u64>,
    /// Shadow rounds whose first mismatch was in the tree: each would have given exactly one more token.
    pub shadow_hits: u64,
    /// Shadow rounds that ended in a mismatch.
    pub shadow_misses: u64,
    /// Prompt tokens prefilled.
    pub prompt_tokens: u64,
    /// Tokens generated, first tokens included.
    pub generated_tokens: u64,
    /// Requests that ended with `stop` or `length`.
    pub requests_finished: u64,
    /// Requests cancelled by their client.
    pub requests_cancelled: u64,
    /// Requests refused or failed.
    pub requests_failed: u64,
    /// Seconds spent in each stage.
    pub stage_seconds: StageTimes,
}

/// Time by stage of a round, milliseconds in events, seconds in [`Counters`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTimes {
    /// Drafter forward.
    pub draft: f64,
    /// Tree construction.
    pub build: f64,
    /// Target forward.
    pub verify: f64,
    /// Acceptance, cache commit, text.
    pub commit: f64,
}

impl StageTimes {
    /// All stages together.
    pub fn total(&self) -> f64 {
        self.draft + self.build + self.verify + self.commit
    }
}

/// Answer of `GET /spec/state` and payload of the `hello` event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// [`super::SCHEMA_VERSION`].
    pub schema: u32,
    /// Always `spectop`.
    pub server: String,
    /// Crate version.
    pub version: String,
    /// Process id, to notice a restart.
    pub pid: u32,
    /// Seconds since the server started.
    pub uptime_s: f64,
    /// Whether it can generate.
    #[serde(flatten)]
    pub readiness: Readiness,
    /// Target model, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ModelInfo>,
    /// Drafter, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<ModelInfo>,
    /// Where it computes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceInfo>,
    /// Mode in force for requests that do not name one.
    pub mode: ModeSettings,
    /// What may be asked for.
    pub limits: Limits,
    /// Since start.
    pub counters: Counters,
    /// Requests being decoded.
    pub running: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Something the user must know, e.g. that the toy pair is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}
