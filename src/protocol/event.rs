//! `GET /spec/events`: server-sent events. The SSE event name is [`Event::name`], the data is the payload's JSON.

use serde::{Deserialize, Serialize};

use super::mode::{Mode, ModeChange, ModeSettings};
use super::sensor::Sensors;
use super::state::{Readiness, StageTimes, State};
use super::trace::{Round, Token};

/// Everything that the event stream says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// First event of every connection, and again when readiness changes.
    Hello(Box<State>),
    /// The mode was switched.
    Mode(ModeChange),
    /// A request changed its phase.
    Request(RequestEvent),
    /// A session finished a round.
    Round(Round),
    /// Rates and gauges, every 250 ms.
    Sample(Box<Sample>),
    /// Load progress, between `hello` events.
    Progress(Readiness),
    /// A log line.
    Log(LogLine),
    /// This reader was too slow and lost events.
    Lagged(Lagged),
}

impl Event {
    /// The SSE event name.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Hello(_) => "hello",
            Event::Mode(_) => "mode",
            Event::Request(_) => "request",
            Event::Round(_) => "round",
            Event::Sample(_) => "sample",
            Event::Progress(_) => "progress",
            Event::Log(_) => "log",
            Event::Lagged(_) => "lagged",
        }
    }

    /// The payload as JSON.
    pub fn data(&self) -> serde_json::Result<String> {
        match self {
            Event::Hello(v) => serde_json::to_string(v),
            Event::Mode(v) => serde_json::to_string(v),
            Event::Request(v) => serde_json::to_string(v),
            Event::Round(v) => serde_json::to_string(v),
            Event::Sample(v) => serde_json::to_string(v),
            Event::Progress(v) => serde_json::to_string(v),
            Event::Log(v) => serde_json::to_string(v),
            Event::Lagged(v) => serde_json::to_string(v),
        }
    }

    /// Back from name and data; `Ok(None)` for a name this version does not know.
    pub fn parse(name: &str, data: &str) -> serde_json::Result<Option<Self>> {
        Ok(Some(match name {
            "hello" => Event::Hello(serde_json::from_str(data)?),
            "mode" => Event::Mode(serde_json::from_str(data)?),
            "request" => Event::Request(serde_json::from_str(data)?),
            "round" => Event::Round(serde_json::from_str(data)?),
            "sample" => Event::Sample(serde_json::from_str(data)?),
            "progress" => Event::Progress(serde_json::from_str(data)?),
            "log" => Event::Log(serde_json::from_str(data)?),
            "lagged" => Event::Lagged(serde_json::from_str(data)?),
            _ => return Ok(None),
        }))
    }
}

/// Events this reader lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lagged {
    /// How many.
    pub dropped: u64,
}

/// How bad a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// Something is degraded.
    Warn,
    /// Something failed.
    Error,
}

/// One line of the server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// How bad.
    pub level: Level,
    /// Part that speaks: `engine`, `server`, `setup`, `gpu`.
    pub source: String,
    /// The message.
    pub message: String,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPhase {
    /// Waiting for a place.
    Queued,
    /// Its prompt is being prefilled.
    Started,
    /// The first token is out.
    FirstToken,
    /// Done; `metrics` is present.
    Finished,
    /// The client went away; `metrics` is present.
    Cancelled,
    /// The engine gave up; `error` says why.
    Failed,
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// A stop token or stop string.
    Stop,
    /// `max_tokens` or the context limit.
    Length,
    /// The client went away.
    Cancelled,
}

impl FinishReason {
    /// The OpenAI word.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// Per-request metrics: the `spectop` object of the final chunk. Definitions: see `docs/metrics.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestMetrics {
    /// Mode at the end (modes may change in the middle; see `modes`).
    pub mode: ModeSettings,
    /// Rounds run in each mode, `[mode, rounds]`, in order of first use.
    pub modes: Vec<(Mode, u64)>,
    /// Prompt tokens.
    pub prompt_tokens: usize,
    /// Generated tokens, from ids.
    pub tokens: usize,
    /// Verify rounds (the prefill is none).
    pub rounds: u64,
    /// Draft tokens proposed (nodes, for trees).
    pub drafted: u64,
    /// Draft tokens accepted, bonus excluded.
    pub accepted: u64,
    /// Acceptance length: tokens committed per round, bonus included. Absent without rounds.
    pub tau: Option<f64>,
    /// `accepted_hist[a]`: rounds that accepted `a` draft tokens.
    pub accepted_hist: Vec<u64>,
    /// Milliseconds in the queue.
    pub queue_ms: f64,
    /// Submission to first token, ms.
    pub ttft_ms: Option<f64>,
    /// Submission to end, ms.
    pub e2e_ms: f64,
    /// (tokens − tokens of the first emission) / (last − first emission time). Absent with fewer than two emissions.
    pub decode_tok_s: Option<f64>,
    /// Prompt tokens over prefill time.
    pub prefill_tok_s: Option<f64>,
    /// Milliseconds by stage, summed over rounds.
    pub stages: StageTimes,
}

/// A request changed its phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestEvent {
    /// Request id.
    pub id: String,
    /// New phase.
    pub phase: RequestPhase,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Prompt tokens.
    pub prompt_tokens: usize,
    /// Limit on generated tokens.
    pub max_tokens: usize,
    /// End of the prompt as text (at most 200 characters, behind `…` where there is more), in `started`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tail: Option<String>,
    /// The first token, in `first_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// In `finished` and `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Box<RequestMetrics>>,
    /// In `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Percentiles over the last 60 s. `p95` needs 20 samples and `p99` needs 100: below that they are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Samples in the window.
    pub n: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// Latencies, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Submission to first token.
    pub ttft: Percentiles,
    /// Per token within a round: round gap / tokens, weighted by tokens.
    pub itl: Percentiles,
    /// Between rounds of one request.
    pub step: Percentiles,
    /// Submission to end.
    pub e2e: Percentiles,
}

/// Why mode `auto` does what it does: what it expected in the last round that drafted, from measured costs and
/// calibrated draft probabilities. Rates are tokens a second of one sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Plain decoding.
    pub off_tok_s: f64,
    /// The best chain.
    pub dflash_tok_s: f64,
    /// The best tree.
    pub ddtree_tok_s: f64,
    /// What the last round did.
    pub chosen: Mode,
    /// Draft tokens that it verified.
    pub nodes: usize,
    /// Plain rounds before drafting is tried again; 0 while it drafts.
    pub pause: u32,
    /// A drafter pass, milliseconds.
    pub draft_ms: f64,
    /// The verify pass that was chosen, milliseconds.
    pub verify_ms: f64,
}

/// Rates and gauges. Rates are over the last `window_s`; a rate is absent when nothing happened in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Length of the window, seconds.
    pub window_s: f64,
    /// Generated tokens per second in the last 250 ms interval (for the sparkline); absent when idle.
    pub tok_s: Option<f64>,
    /// Generated tokens per second of decoding time in the window, all requests together.
    pub decode_tok_s: Option<f64>,
    /// Prompt tokens per second of prefill time in the window.
    pub prefill_tok_s: Option<f64>,
    /// Rounds per second in the window.
    pub rounds_s: Option<f64>,
    /// Acceptance length, pooled over the window's rounds.
    pub tau: Option<f64>,
    /// `per_pos[k]`: share of the window's drafting rounds that accepted at least `k + 1` drafts.
    pub per_pos: Vec<f64>,
    /// Mean milliseconds a round by stage, over the window.
    pub stages: Option<StageTimes>,
    /// Mean rows of a verify pass, over the window.
    pub rows: Option<f64>,
    /// Share of shadow mismatches that a sibling would have saved, over the window.
    pub shadow_rescue: Option<f64>,
    /// In `auto`: what is expected of each choice, and what was chosen. Absent in other modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<Forecast>,
    /// Over the last 60 s.
    pub latency: Latencies,
    /// Requests being decoded.
    pub running: usize,
    /// Requests waiting.
    pub waiting: usize,
    /// Cache rows in use, in tokens.
    pub kv_used: usize,
    /// Cache rows that all sessions may use, in tokens.
    pub kv_capacity: usize,
    /// Generated tokens since start (counter).
    pub generated_total: u64,
    /// GPUs and host where the server runs.
    pub sensors: Sensors,
}
