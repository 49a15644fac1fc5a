//! One request, measured. Definitions of the metrics: `docs/metrics.md` and the fields of [`RequestRecord`].

mod count;

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use self::count::Counted;
use super::plan::{Plan, Planned};
use crate::protocol::event::RequestMetrics;
use crate::protocol::run::{ChunkRecord, CountKind, RequestRecord, RequestStatus};
use crate::source::{ChatDelta, ChatEnd, ChatRequest, Client, SourceError};

/// How often a request that failed is sent again.
pub const RETRIES: usize = 2;

/// Pause before the first repetition; the second waits twice as long.
const PAUSE: Duration = Duration::from_millis(500);

/// What is written around thinking in [`RequestRecord::text`].
const THINKING: (&str, &str) = ("<think>", "</think>");

/// A piece of the answer as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// When.
    pub at: Instant,
    /// Its text.
    pub text: String,
    /// Whether it is thinking.
    pub reasoning: bool,
    /// Its tokens, where the server tells.
    pub ids: Vec<u32>,
    /// Gap between the two best logits before each of them, where the server tells.
    pub margins: Vec<f32>,
    /// Tokens so far, where the server tells with every piece.
    pub total: Option<u64>,
}

/// Everything that was seen of one attempt.
#[derive(Debug)]
pub struct Seen {
    /// When it was sent.
    pub sent: Instant,
    /// What came.
    pub pieces: Vec<Piece>,
    /// How it ended.
    pub end: Result<ChatEnd, Broken>,
    /// When that was known.
    pub ended: Instant,
}

/// Why there is no regular end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// An error.
    Source(SourceError),
    /// It took too long.
    TimedOut,
}

/// How a request is sent.
#[derive(Debug, Clone)]
pub struct Sender {
    /// To whom.
    pub client: Client,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// Repetitions of a request that failed.
    pub retries: usize,
    /// Model that must answer, where it is known.
    pub model: Option<String>,
}

/// A request and all its attempts.
#[derive(Debug)]
pub struct Measured {
    /// The last attempt.
    pub seen: Seen,
    /// What was wrong with the attempts before.
    pub failures: Vec<String>,
    /// What is wrong with an answer that came to its end: another model spoke.
    pub refused: Option<String>,
}

impl Sender {
    /// Sends and measures. Dropping the future closes the connection, which cancels the request on the server.
    pub async fn send(&self, request: &ChatRequest) -> Measured {
        let mut failures = Vec::new();
        loop {
            let seen = attempt(&self.client, request, self.timeout).await;
            let retry = match &seen.end {
                Err(Broken::Source(error)) if failures.len() < self.retries && may_pass(error) => error.to_string(),
                Ok(end) => {
                    let refused = self.check_model(end.model.as_deref());
                    return Measured { seen, failures, refused };
                }
                Err(_) => return Measured { seen, failures, refused: None },
            };
            failures.push(retry);
            tokio::time::sleep(PAUSE * failures.len() as u32).await;
        }
    }

    fn check_model(&self, answered: Option<&str>) -> Option<String> {
        let (asked, answered) = (self.model.as_deref()?, answered.filter(|name| !name.is_empty())?);
        (!same_model(asked, answered)).then(|| format!("asked for the model \"{asked}\", but \"{answered}\" answered"))
    }
}

/// Names may be longer by a date or an owner, but not something else.
fn same_model(asked: &str, answered: &str) -> bool {
    let (asked, answered) = (asked.to_lowercase(), answered.to_lowercase());
    let last = |name: &str| name.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let (asked, answered) = (last(&asked), last(&answered));
    answered.strip_prefix(&asked).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
}

/// Whether the same request may go well a moment later.
fn may_pass(error: &SourceError) -> bool {
    match error {
        SourceError::Unreachable { .. } => true,
        SourceError::Server { status, .. } => matches!(status, 200 | 408 | 425 | 429 | 500..),
        SourceError::Auth | SourceError::BadUrl { .. } | SourceError::BadKey | SourceError::Malformed(_) => false,
    }
}

async fn attempt(client: &Client, request: &ChatRequest, timeout: Duration) -> Seen {
    let mut pieces = Vec::new();
    let sent = Instant::now();
    let reading = async {
        let mut answer = client.chat(request).await.map_err(Broken::Source)?;
        loop {
            match answer.next().await {
                Some(Ok(ChatDelta::Text { text, reasoning, at, token_ids, margins, total_tokens })) => {
                    pieces.push(Piece { at, text, reasoning, ids: token_ids, margins, total: total_tokens });
                }
                Some(Ok(ChatDelta::End(end))) => return Ok(*end),
                Some(Err(error)) => return Err(Broken::Source(error)),
                None => {
                    let error = SourceError::Malformed("the answer has no end".into());
                    return Err(Broken::Source(error));
                }
            }
        }
    };
    let end = tokio::time::timeout(timeout, reading).await.unwrap_or(Err(Broken::TimedOut));
    let ended = end.as_ref().map_or_else(|_| Instant::now(), |end| end.at);
    Seen { sent, pieces, end, ended }
}

/// The figures of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// How it ended.
    pub status: RequestStatus,
    /// What went wrong.
    pub error: Option<String>,
    /// Sent to first token of any kind, ms.
    pub ttft_ms: Option<f64>,
    /// Sent to first token of the answer proper, ms.
    pub ttfat_ms: Option<f64>,
    /// Sent to end, ms.
    pub e2e_ms: f64,
    /// Generated tokens.
    pub tokens: usize,
    /// How they were counted.
    pub count: CountKind,
    /// What one read brought, with its tokens.
    pub chunks: Vec<ChunkRecord>,
    /// (tokens − tokens of the first chunk) / (last − first chunk).
    pub decode_tok_s: Option<f64>,
}

impl Figures {
    /// Mean time between chunks, where there are at least two.
    pub fn step_ms(chunks: &[ChunkRecord]) -> Option<f64> {
        let (first, last) = (chunks.first()?, chunks.last()?);
        (chunks.len() > 1).then(|| (last.at_ms - first.at_ms) / (chunks.len() - 1) as f64)
    }
}

/// Works out the figures of what was seen.
pub fn figures(seen: &Seen, refused: Option<String>) -> Figures {
    let since = |at: Instant| at.saturating_duration_since(seen.sent).as_secs_f64() * 1e3;
    let usage = seen.end.as_ref().ok().and_then(|end| end.usage);
    let Counted { tokens, kind, by_piece } =
        count::count(&seen.pieces, usage.map(|usage| usage.completion_tokens as usize));
    let mut chunks: Vec<(Instant, usize)> = Vec::new();
    for (piece, tokens) in seen.pieces.iter().zip(&by_piece) {
        // The rest of a text that was held back brings no token, and is no step of the server.
        if *tokens == 0 {
            continue;
        }
        match chunks.last_mut() {
            // What one read brought together came together.
            Some((at, sum)) if *at == piece.at => *sum += tokens,
            _ => chunks.push((piece.at, *tokens)),
        }
    }
    let (status, error) = outcome(seen, refused);
    let well = matches!(status, RequestStatus::Finished | RequestStatus::CutShort);
    let first_of = |wanted: fn(&Piece) -> bool| seen.pieces.iter().find(|piece| wanted(piece)).map(|p| since(p.at));
    let decode_tok_s = match (chunks.first(), chunks.last()) {
        (Some((first, _)), Some((last, _))) if well && last > first => {
            let after: usize = chunks[1..].iter().map(|(_, tokens)| tokens).sum();
            Some(after as f64 / last.saturating_duration_since(*first).as_secs_f64())
        }
        _ => None,
    };
    Figures {
        status,
        error,
        ttft_ms: first_of(|_| true),
        ttfat_ms: first_of(|piece| !piece.reasoning),
        e2e_ms: since(seen.ended),
        tokens,
        count: kind,
        chunks: chunks.iter().map(|(at, tokens)| ChunkRecord { at_ms: since(*at), tokens: *tokens }).collect(),
        decode_tok_s,
    }
}

fn outcome(seen: &Seen, refused: Option<String>) -> (RequestStatus, Option<String>) {
    match &seen.end {
        Err(Broken::TimedOut) => {
            let waited = seen.ended.saturating_duration_since(seen.sent).as_secs_f64();
            (RequestStatus::TimedOut, Some(format!("no end within {waited:.1} s")))
        }
        Err(Broken::Source(error)) => (RequestStatus::Failed, Some(error.to_string())),
        Ok(_) if refused.is_some() => (RequestStatus::Failed, refused),
        Ok(end) => match end.finish_reason.as_str() {
            "length" | "max_tokens" => (RequestStatus::CutShort, None),
            "cancelled" | "abort" | "error" => {
                (RequestStatus::Failed, Some(format!("the server ended it: {}", end.finish_reason)))
            }
            _ => (RequestStatus::Finished, None),
        },
    }
}

/// The record of a planned request; `sent_ms` counts from the start of the run.
pub fn record(
    plan: &Plan,
    planned: &Planned,
    measured: Measured,
    sent_ms: f64,
    energy_j: Option<f64>,
) -> RequestRecord {
    let Measured { seen, failures, refused } = measured;
    let figures = figures(&seen, refused);
    let end = seen.end.ok();
    let server: Option<RequestMetrics> = end.as_ref().and_then(|end| end.metrics.clone());
    let prompt_tokens = server.as_ref().map(|metrics| metrics.prompt_tokens);
    let usage = end.as_ref().and_then(|end| end.usage);
    let has_ids = figures.count == CountKind::Exact;
    let ids: Vec<u32> = seen.pieces.iter().flat_map(|piece| piece.ids.iter().copied()).collect();
    let margins: Vec<f32> = seen.pieces.iter().flat_map(|piece| piece.margins.iter().copied()).collect();
    let text = join(&seen.pieces);
    let well = matches!(figures.status, RequestStatus::Finished | RequestStatus::CutShort);
    let seconds = figures.e2e_ms / 1e3;
    let e2e_tok_s = (well && figures.tokens > 0 && seconds > 0.0).then(|| figures.tokens as f64 / seconds);
    RequestRecord {
        retries: failures.len(),
        sent_ms,
        prompt_tokens: prompt_tokens.or(usage.map(|usage| usage.prompt_tokens as usize)),
        tpot_ms: figures.decode_tok_s.filter(|speed| *speed > 0.0).map(|speed| 1e3 / speed),
        e2e_tok_s,
        finish_reason: end.map(|end| end.finish_reason),
        margins: (has_ids && margins.len() == ids.len()).then_some(margins),
        token_ids: has_ids.then_some(ids),
        output_hash: hash(&text),
        text: Some(text),
        server,
        energy_j: energy_j.filter(|_| well),
        ..blank(plan, planned, figures)
    }
}

/// The record of a turn that cannot be sent because the one before it failed.
pub fn unsent(plan: &Plan, planned: &Planned, sent_ms: f64) -> RequestRecord {
    let figures = Figures {
        status: RequestStatus::Failed,
        error: Some("not sent: the turn before it failed".into()),
        ttft_ms: None,
        ttfat_ms: None,
        e2e_ms: 0.0,
        tokens: 0,
        count: CountKind::Estimated,
        chunks: Vec::new(),
        decode_tok_s: None,
    };
    RequestRecord { sent_ms, ..blank(plan, planned, figures) }
}

fn blank(plan: &Plan, planned: &Planned, figures: Figures) -> RequestRecord {
    let prompt = &plan.prompts[planned.prompt];
    RequestRecord {
        seq: planned.seq,
        purpose: planned.purpose,
        suite: prompt.suite.clone(),
        prompt_id: prompt.id.clone(),
        turn: planned.turn,
        mode: plan.run.modes[planned.mode].label.clone(),
        repeat: planned.repeat,
        order: planned.order,
        concurrency: planned.concurrency,
        status: figures.status,
        error: figures.error,
        retries: 0,
        sent_ms: 0.0,
        ttft_ms: figures.ttft_ms,
        ttfat_ms: figures.ttfat_ms,
        e2e_ms: figures.e2e_ms,
        tokens: figures.tokens,
        prompt_tokens: None,
        count: figures.count,
        decode_tok_s: figures.decode_tok_s,
        e2e_tok_s: None,
        tpot_ms: None,
        chunks: figures.chunks,
        finish_reason: None,
        token_ids: None,
        margins: None,
        text: None,
        output_hash: hash(""),
        server: None,
        energy_j: None,
    }
}

/// Thinking is kept with the answer, marked: two answers that differ in it are not the same output.
fn join(pieces: &[Piece]) -> String {
    let mut text = String::new();
    let mut thinking = false;
    for piece in pieces.iter().filter(|piece| !piece.text.is_empty()) {
        if piece.reasoning != thinking {
            text.push_str(if thinking { THINKING.1 } else { THINKING.0 });
            thinking = piece.reasoning;
        }
        text.push_str(&piece.text);
    }
    if thinking {
        text.push_str(THINKING.1);
    }
    text
}

/// What the next turn of a conversation quotes: the answer without the thinking before it.
pub fn answer_of(record: &RequestRecord) -> Option<&str> {
    let text = record.text.as_deref()?;
    match text.strip_prefix(THINKING.0).and_then(|rest| rest.split_once(THINKING.1)) {
        Some((_, answer)) => Some(answer),
        None => Some(text),
    }
}

fn hash(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
#[path = "measure/tests.rs"]
mod tests;
