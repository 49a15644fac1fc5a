//! What a run is asked for, and what it tells while it goes on.

use serde::{Deserialize, Serialize};

use super::{Comparison, ModeSummary, RequestRecord, Run, RunPlan};

/// What a person asks for when they start a run; the command line and the bench screen both make one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Suite names (`story`, `builtin`, …) or paths of JSON-lines files.
    pub suites: Vec<String>,
    /// Prompts taken from each suite at most; absent: all.
    pub prompts: Option<usize>,
    /// Modes in words: `off`, `dflash`, `dflash:8`, `ddtree:32`, `ddtree:32:seed`, `ddtree:32:noseed`. The first is the
    /// baseline.
    pub modes: Vec<String>,
    /// Repeats.
    pub repeats: usize,
    /// Concurrency ladder.
    pub concurrency: Vec<usize>,
    /// Temperature.
    pub temperature: f32,
    /// Tokens an answer may have.
    pub max_tokens: usize,
    /// Seed.
    pub seed: u64,
    /// Seconds until a request counts as timed out.
    pub timeout_s: f64,
}

/// What a run tells while it goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum RunProgress {
    /// The plan stands; nothing has been sent.
    Planned {
        /// The plan.
        plan: Box<RunPlan>,
        /// Requests to send, warm-up included.
        total: usize,
        /// Estimated seconds.
        estimate_s: Option<f64>,
    },
    /// A request is under way.
    Sending {
        /// What for, for people: `warm-up dflash b8`, `story/code rep 2 → ddtree r16 (order 3 of 3)`.
        what: String,
        /// Requests done.
        done: usize,
        /// Requests in all.
        total: usize,
        /// Estimated seconds left.
        eta_s: Option<f64>,
    },
    /// A request ended.
    Done(Box<RequestRecord>),
    /// Summaries and comparisons over what is there so far.
    Interim {
        /// By suite and mode.
        summary: Vec<ModeSummary>,
        /// Against the baseline.
        compare: Vec<Comparison>,
        /// Guards that tripped, in words.
        warnings: Vec<String>,
    },
    /// Paused or going on.
    Paused(bool),
    /// It ended; the run as kept, and where.
    Ended {
        /// The run.
        run: Box<Run>,
        /// File it was written to.
        file: Option<String>,
    },
    /// It could not start or go on.
    Failed(String),
}
