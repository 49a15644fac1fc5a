//! A benchmark run as it is kept and sent: format `run.v1` (JSON Schema in `schema/run.v1.json`).
//!
//! Times are milliseconds on the client's monotonic clock, counted from the start of the run, unless a name says
//! otherwise. What is not known is absent, never 0. Definitions of the metrics: `docs/metrics.md`.

mod ask;

use serde::{Deserialize, Serialize};

pub use ask::{RunOptions, RunProgress};

use super::event::RequestMetrics;
use super::mode::ModeRequest;
use super::sensor::Sensors;
use super::state::{DeviceInfo, ModelInfo, StageTimes};

/// Name of the format.
pub const RUN_SCHEMA: &str = "run.v1";

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// What, when, how it ended.
    pub meta: RunMeta,
    /// What was to be done.
    pub plan: RunPlan,
    /// Where it was done.
    pub env: Environment,
    /// Every request, warm-up included, in the order in which they were sent.
    pub requests: Vec<RequestRecord>,
    /// One entry a suite (and `all`), mode and concurrency.
    pub summary: Vec<ModeSummary>,
    /// One entry a suite (and `all`) and mode, against the baseline.
    pub compare: Vec<Comparison>,
    /// What a reader must know before they believe the numbers.
    pub warnings: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Under way, or the program was killed: `--resume` goes on.
    Unfinished,
    /// Everything in the plan was done.
    Complete,
    /// The user stopped it; what was measured is kept.
    Stopped,
    /// Read from another tool's file.
    Imported,
}

/// What, when, how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunMeta {
    /// Unique id: date, time and a few random characters.
    pub id: String,
    /// Short description, for lists.
    pub title: String,
    /// Milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Milliseconds since the Unix epoch; absent while unfinished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<u64>,
    /// How it ended.
    pub status: RunStatus,
    /// Tool and version that made it, e.g. `spectop 0.1.0`.
    pub made_by: String,
}

/// What was to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Suites in order.
    pub suites: Vec<SuiteInfo>,
    /// Modes; the first is the baseline.
    pub modes: Vec<ModeSpec>,
    /// Repeats of every prompt in every mode.
    pub repeats: usize,
    /// Requests in flight at once, one experiment each.
    pub concurrency: Vec<usize>,
    /// Sampling temperature.
    pub temperature: f32,
    /// Tokens an answer may have; a prompt of a suite may ask for its own.
    pub max_tokens: usize,
    /// Seed of the random order (and of sampling above temperature 0).
    pub seed: u64,
    /// What was done about prefix caches: `none` (our server has none), `nonce` (a random first line), `as_is`.
    pub prefix_cache: String,
    /// Hash over everything above, so that two runs can be told to be of one plan.
    pub hash: String,
}

/// One suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteInfo {
    /// Name.
    pub name: String,
    /// Prompts taken from it.
    pub prompts: usize,
    /// `built in` or a file name (no folders).
    pub source: String,
}

/// One mode under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeSpec {
    /// Label in tables, unique in the run: `off`, `dflash b8`, `ddtree r16`.
    pub label: String,
    /// What is asked of the server; empty for servers that cannot switch.
    pub request: ModeRequest,
    /// Base URL, where modes are told apart by server instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Where it was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// `spectop`, `vllm`, `sglang`, `openai`.
    pub server: String,
    /// Server version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Target, where the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<ModelInfo>,
    /// Drafter, where the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<ModelInfo>,
    /// Device, where the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceInfo>,
    /// Client's operating system and processor.
    pub client: String,
    /// Sensors at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensors_before: Option<Sensors>,
    /// Sensors at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensors_after: Option<Sensors>,
}

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Not measured.
    Warmup,
    /// Baseline at the start or the end, to see drift; not in the summary.
    Bracket,
    /// Measured.
    Measure,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// The model came to its own end.
    Finished,
    /// The token limit cut it short.
    CutShort,
    /// An error; `error` says which.
    Failed,
    /// No answer in time.
    TimedOut,
}

/// How tokens were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountKind {
    /// From token ids.
    Exact,
    /// Total from the server's usage, chunks estimated.
    Usage,
    /// From chunks alone.
    Estimated,
}

/// A piece of an answer as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChunkRecord {
    /// Since the request was sent, ms.
    pub at_ms: f64,
    /// Tokens in it.
    pub tokens: usize,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Number in the run's plan; unique, and stable under `--resume`.
    pub seq: usize,
    /// Why it was sent.
    pub purpose: Purpose,
    /// Suite.
    pub suite: String,
    /// Prompt in the suite.
    pub prompt_id: String,
    /// Turn of a conversation, from 0.
    pub turn: usize,
    /// Label of the mode.
    pub mode: String,
    /// Repeat, from 0.
    pub repeat: usize,
    /// Place among the modes in this prompt's random order, from 0.
    pub order: usize,
    /// Requests in flight at once.
    pub concurrency: usize,
    /// How it ended.
    pub status: RequestStatus,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Attempts that failed before.
    pub retries: usize,
    /// When it was sent, ms since the start of the run.
    pub sent_ms: f64,
    /// Sent to first token of any kind, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Sent to first token of the answer proper (reasoning left out), ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttfat_ms: Option<f64>,
    /// Sent to end, ms.
    pub e2e_ms: f64,
    /// Generated tokens.
    pub tokens: usize,
    /// Prompt tokens, where the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<usize>,
    /// How tokens were counted.
    pub count: CountKind,
    /// (tokens − tokens of the first chunk) / (last − first chunk).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_tok_s: Option<f64>,
    /// tokens / end to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_tok_s: Option<f64>,
    /// 1000 / `decode_tok_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// Every chunk.
    pub chunks: Vec<ChunkRecord>,
    /// The server's word for the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Token ids, where the server sends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
    /// Gap between the two best logits before each token, where the server sends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margins: Option<Vec<f32>>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// SHA-256 of the answer's text, hex.
    pub output_hash: String,
    /// The server's own metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<RequestMetrics>,
    /// Energy of the GPUs during the request, joules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
}

/// Mean, spread and percentiles. A 95th percentile needs 20 samples, a 99th 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Samples.
    pub n: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Sample standard deviation.
    pub std: Option<f64>,
    /// Least.
    pub min: Option<f64>,
    /// Greatest.
    pub max: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// One mode on one suite at one concurrency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModeSummary {
    /// Suite, or `all`.
    pub suite: String,
    /// Label of the mode.
    pub mode: String,
    /// Requests in flight.
    pub concurrency: usize,
    /// Requests that came to their own end.
    pub finished: usize,
    /// Requests that the limit cut short.
    pub cut_short: usize,
    /// Requests that failed.
    pub failed: usize,
    /// Requests that timed out.
    pub timed_out: usize,
    /// Attempts that failed and were repeated.
    pub retries: usize,
    /// Over requests.
    pub decode_tok_s: Spread,
    /// Over requests.
    pub e2e_tok_s: Spread,
    /// Over requests.
    pub ttft_ms: Spread,
    /// Over requests; where there is reasoning it differs from `ttft_ms`.
    pub ttfat_ms: Spread,
    /// Over requests.
    pub tpot_ms: Spread,
    /// Over tokens: gap / tokens of the chunk.
    pub itl_ms: Spread,
    /// Over chunks.
    pub step_gap_ms: Spread,
    /// Over requests.
    pub e2e_ms: Spread,
    /// Σ tokens / Σ decode time: long answers weigh more.
    pub token_weighted_tok_s: Option<f64>,
    /// Tokens of all requests / wall time of the mode's requests at this concurrency.
    pub throughput_tok_s: Option<f64>,
    /// Tokens committed per round, over all rounds.
    pub tau_pooled: Option<f64>,
    /// Mean of the requests' τ.
    pub tau_macro: Option<f64>,
    /// Share of rounds that accepted at least k + 1 drafts.
    pub per_pos: Vec<f64>,
    /// Rounds by accepted drafts.
    pub accepted_hist: Vec<u64>,
    /// Milliseconds by stage, summed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageTimes>,
    /// The server's own decode tok/s, mean over requests.
    pub server_decode_tok_s: Option<f64>,
    /// The server's own time to first token, mean, ms.
    pub server_ttft_ms: Option<f64>,
    /// Energy a token, joules.
    pub j_per_token: Option<f64>,
    /// Generated tokens.
    pub tokens: usize,
}

/// What the interval says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is above 1.
    Faster,
    /// The whole interval is below 1.
    Slower,
    /// The interval holds 1.
    NoDifferenceShown,
    /// Too few prompts for an interval.
    NotEnoughData,
}

/// Where two outputs part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// Suite.
    pub suite: String,
    /// Prompt.
    pub prompt_id: String,
    /// Turn.
    pub turn: usize,
    /// Repeat.
    pub repeat: usize,
    /// First token (or byte, where only texts are known) that differs.
    pub index: usize,
    /// `token` or `byte`.
    pub unit: String,
    /// Baseline's output around it.
    pub baseline: String,
    /// This mode's output around it.
    pub other: String,
    /// Baseline's token there.
    pub baseline_id: Option<u32>,
    /// This mode's token there.
    pub other_id: Option<u32>,
    /// Gap between the baseline's two best logits there: tiny means a near tie, wide means a bug.
    pub margin: Option<f64>,
    /// Whether both ended for the same reason.
    pub same_end: bool,
}

/// Whether the output is that of the baseline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Losslessness {
    /// False above temperature 0, where outputs may differ by right.
    pub checked: bool,
    /// Answers compared.
    pub compared: usize,
    /// Equal to the baseline's.
    pub identical: usize,
    /// Answers of the baseline that differ from its own first repeat: the noise floor.
    pub baseline_differs: usize,
    /// `token ids` or `text`.
    pub by: String,
    /// First differences (at most 20).
    pub divergences: Vec<Divergence>,
}

/// One mode against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Suite, or `all`.
    pub suite: String,
    /// Label of the mode.
    pub mode: String,
    /// Label of the baseline.
    pub baseline: String,
    /// Requests in flight.
    pub concurrency: usize,
    /// `decode_tok_s` or `e2e_tok_s`.
    pub metric: String,
    /// Prompts with both measured.
    pub prompts: usize,
    /// Geometric mean over prompts of mode / baseline.
    pub ratio: Option<f64>,
    /// 95 % interval by bootstrap over prompts.
    pub interval: Option<[f64; 2]>,
    /// Two-sided bootstrap p-value of ratio = 1.
    pub p: Option<f64>,
    /// The same after Holm's correction over the modes of this run.
    pub p_holm: Option<f64>,
    /// What may be said.
    pub verdict: Verdict,
    /// Ratio of the token-weighted speeds.
    pub token_weighted_ratio: Option<f64>,
    /// Ratio by prompt, for the scatter: `[prompt_id, baseline, mode]` as means over repeats.
    pub by_prompt: Vec<(String, f64, f64)>,
    /// Whether the output is the same.
    pub lossless: Losslessness,
}
