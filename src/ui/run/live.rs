//! A run under way, as its progress tells it, and what stays of it when it has ended.

use std::collections::{HashMap, VecDeque};

use crate::protocol::run::{
    Comparison, ModeSummary, Purpose, RequestRecord, RequestStatus, RunPlan, RunProgress, RunStatus,
};

/// Requests kept for the table.
const RECENT: usize = 200;
/// Prompts whose baseline is remembered, so that a run without end does not grow.
const BASELINES: usize = 100_000;

/// Where the run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Asked for; the plan is being made.
    Starting,
    /// Requests are being sent.
    Running,
    /// Held by the user.
    Paused,
    /// Everything was done.
    Complete,
    /// The user stopped it.
    Stopped,
    /// It could not start or go on.
    Failed(String),
}

/// What the table shows of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// Number in the plan.
    pub seq: usize,
    /// Why it was sent.
    pub purpose: Purpose,
    /// Suite.
    pub suite: String,
    /// Prompt.
    pub prompt: String,
    /// Turn.
    pub turn: usize,
    /// Mode.
    pub mode: String,
    /// Repeat.
    pub repeat: usize,
    /// How it ended.
    pub status: RequestStatus,
    /// What went wrong.
    pub error: Option<String>,
    /// Generated tokens.
    pub tokens: usize,
    /// Milliseconds.
    pub ttft_ms: Option<f64>,
    /// Tokens a second.
    pub decode_tok_s: Option<f64>,
    /// Acceptance length.
    pub tau: Option<f64>,
    /// Hash of the output.
    hash: String,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Live {
    /// Where it is.
    pub phase: Phase,
    /// The plan, once made.
    pub plan: Option<Box<RunPlan>>,
    /// Requests done.
    pub done: usize,
    /// Requests in all, warm-up included.
    pub total: usize,
    /// Estimated seconds left, and when that was said.
    pub eta: Option<(f64, u64)>,
    /// What is being sent.
    pub what: String,
    /// Our clock at the start.
    pub started_ms: u64,
    /// Our clock at the end.
    pub ended_ms: Option<u64>,
    /// By suite and mode.
    pub summary: Vec<ModeSummary>,
    /// Against the baseline.
    pub compare: Vec<Comparison>,
    /// Guards that tripped.
    pub warnings: Vec<String>,
    /// Requests that failed or timed out.
    pub failed: usize,
    /// The last requests, oldest first.
    pub recent: VecDeque<Brief>,
    /// File that it was written to.
    pub file: Option<String>,
    /// Id under which it was kept.
    pub id: Option<String>,
    /// First output of the baseline by suite, prompt and turn.
    baseline: HashMap<(String, String, usize), String>,
}

impl Live {
    /// A run that was just asked for.
    pub fn new(now_ms: u64) -> Self {
        Self {
            phase: Phase::Starting,
            plan: None,
            done: 0,
            total: 0,
            eta: None,
            what: String::new(),
            started_ms: now_ms,
            ended_ms: None,
            summary: Vec::new(),
            compare: Vec::new(),
            warnings: Vec::new(),
            failed: 0,
            recent: VecDeque::new(),
            file: None,
            id: None,
            baseline: HashMap::new(),
        }
    }

    /// True until it has ended.
    pub fn running(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running | Phase::Paused)
    }

    /// Takes progress in.
    pub fn apply(&mut self, progress: RunProgress, now_ms: u64) {
        match progress {
            RunProgress::Planned { plan, total, estimate_s } => {
                self.plan = Some(plan);
                self.total = total;
                self.eta = estimate_s.map(|s| (s, now_ms));
                self.phase = Phase::Running;
            }
            RunProgress::Sending { what, done, total, eta_s } => {
                (self.what, self.done, self.total) = (what, done, total);
                self.eta = eta_s.map(|s| (s, now_ms));
            }
            RunProgress::Done(record) => {
                self.done = self.done.saturating_add(1).min(self.total.max(1));
                self.record(&record);
            }
            RunProgress::Interim { summary, compare, warnings } => {
                (self.summary, self.compare, self.warnings) = (summary, compare, warnings);
            }
            RunProgress::Paused(paused) => {
                if self.running() {
                    self.phase = if paused { Phase::Paused } else { Phase::Running };
                }
            }
            RunProgress::Ended { run, file } => {
                self.phase = if run.meta.status == RunStatus::Stopped { Phase::Stopped } else { Phase::Complete };
                self.summary.clone_from(&run.summary);
                self.compare.clone_from(&run.compare);
                self.warnings.clone_from(&run.warnings);
                self.id = Some(run.meta.id.clone());
                self.plan = Some(Box::new(run.plan.clone()));
                self.file = file;
                self.end(now_ms);
            }
            RunProgress::Failed(why) => {
                self.phase = Phase::Failed(why);
                self.end(now_ms);
            }
        }
    }

    fn end(&mut self, now_ms: u64) {
        self.ended_ms = Some(now_ms);
        self.eta = None;
        self.what.clear();
    }

    fn record(&mut self, r: &RequestRecord) {
        let bad = matches!(r.status, RequestStatus::Failed | RequestStatus::TimedOut);
        self.failed += usize::from(bad);
        let baseline = self.plan.as_ref().and_then(|p| p.modes.first()).is_some_and(|m| m.label == r.mode);
        if baseline && !bad && r.purpose == Purpose::Measure && self.baseline.len() < BASELINES {
            let key = (r.suite.clone(), r.prompt_id.clone(), r.turn);
            self.baseline.entry(key).or_insert_with(|| r.output_hash.clone());
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Brief {
            seq: r.seq,
            purpose: r.purpose,
            suite: r.suite.clone(),
            prompt: r.prompt_id.clone(),
            turn: r.turn,
            mode: r.mode.clone(),
            repeat: r.repeat,
            status: r.status,
            error: r.error.clone(),
            tokens: r.tokens,
            ttft_ms: r.ttft_ms,
            decode_tok_s: r.decode_tok_s,
            tau: r.server.as_ref().and_then(|s| s.tau),
            hash: r.output_hash.clone(),
        });
    }

    /// Whether a request's output is the baseline's; `None` while that cannot be said.
    pub fn equal(&self, brief: &Brief) -> Option<bool> {
        let greedy = self.plan.as_ref().is_some_and(|p| p.temperature == 0.0);
        let usable = matches!(brief.status, RequestStatus::Finished | RequestStatus::CutShort);
        if !greedy || !usable || brief.purpose != Purpose::Measure {
            return None;
        }
        let key = (brief.suite.clone(), brief.prompt.clone(), brief.turn);
        self.baseline.get(&key).map(|hash| *hash == brief.hash)
    }

    /// Share done, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { (self.done as f64 / self.total as f64).min(1.0) }
    }

    /// Seconds left as of now.
    pub fn left_s(&self, now_ms: u64) -> Option<f64> {
        let (seconds, said_ms) = self.eta?;
        // Nothing gets done in a pause: the estimate stands still then.
        let since = if self.phase == Phase::Paused { 0 } else { now_ms.saturating_sub(said_ms) };
        Some((seconds - since as f64 / 1000.0).max(0.0))
    }

    /// Seconds since the start, up to the end.
    pub fn elapsed_s(&self, now_ms: u64) -> f64 {
        self.ended_ms.unwrap_or(now_ms).saturating_sub(self.started_ms) as f64 / 1000.0
    }
}
