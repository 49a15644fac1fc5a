//! One request while it runs: its sequence, its client, its text, its measurements.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use crate::protocol::event::{Event, FinishReason, RequestEvent, RequestMetrics, RequestPhase};
use crate::protocol::mode::{Mode, ModeRequest, ModeSettings};
use crate::protocol::state::StageTimes;
use crate::protocol::trace::{Proposed, Round, RoundEnd, Token};

use super::api::{Delta, EngineError, GenerateRequest};
use super::backend::Backend;
use super::rounds::Outcome;
use super::sequence::Sequence;
use super::shared::{Shared, Text, lock, now_ms};
use super::stats::Step;
use super::stop::StopMatcher;
use super::tokenizer::TextJoiner;

/// Characters of the prompt's end that events carry.
const PROMPT_TAIL: usize = 200;

/// A request in the queue.
pub struct Queued {
    /// Request id.
    pub id: String,
    /// What was asked.
    pub request: GenerateRequest,
    /// Its client.
    pub client: UnboundedSender<Delta>,
    /// Engine clock at submission, ms.
    pub submitted: f64,
}

/// A running request.
pub struct Session<B: Backend> {
    /// Request id.
    pub id: String,
    /// Tokens and caches.
    pub sequence: Sequence<B>,
    /// Mode of this request alone; empty: the server's.
    pub wish: ModeRequest,
    client: UnboundedSender<Delta>,
    joiner: TextJoiner,
    matcher: StopMatcher,
    max_tokens: usize,
    submitted: f64,
    started: f64,
    first: Option<f64>,
    last: f64,
    step: u64,
    rounds: u64,
    drafted: u64,
    accepted: u64,
    committed: u64,
    histogram: Vec<u64>,
    modes: Vec<(Mode, u64)>,
    stages: StageTimes,
}

/// Times of the forward that a session took part in.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Engine round.
    pub round: u64,
    /// Engine clock at the end of the forward, ms.
    pub now: f64,
    /// Stages of the forward.
    pub stages: StageTimes,
}

impl<B: Backend> Session<B> {
    /// A request that leaves the queue.
    pub fn start(queued: Queued, sequence: Sequence<B>, now: f64) -> Self {
        Self {
            id: queued.id,
            sequence,
            wish: queued.request.mode,
            client: queued.client,
            joiner: TextJoiner::default(),
            matcher: StopMatcher::new(&queued.request.stop),
            max_tokens: queued.request.max_tokens,
            submitted: queued.submitted,
            started: now,
            first: None,
            last: now,
            step: 0,
            rounds: 0,
            drafted: 0,
            accepted: 0,
            committed: 0,
            histogram: Vec::new(),
            modes: Vec::new(),
            stages: StageTimes::default(),
        }
    }

    /// Whether the client has gone.
    pub fn abandoned(&self) -> bool {
        self.client.is_closed()
    }

    /// A request event about this session.
    pub fn event(&self, phase: RequestPhase) -> RequestEvent {
        RequestEvent {
            id: self.id.clone(),
            phase,
            at_ms: now_ms(),
            prompt_tokens: self.sequence.prompt,
            max_tokens: self.max_tokens,
            prompt_tail: None,
            token: None,
            finish_reason: None,
            metrics: None,
            error: None,
        }
    }

    /// The event that says it has started, with the end of its prompt.
    pub fn started_event(&self, text: &Text) -> RequestEvent {
        let mut bytes = Vec::new();
        for &id in &self.sequence.tokens[..self.sequence.prompt] {
            bytes.extend_from_slice(text.tokenizer.bytes(id));
        }
        let prompt = String::from_utf8_lossy(&bytes);
        let skip = prompt.chars().count().saturating_sub(PROMPT_TAIL);
        let cut = if skip > 0 { "…" } else { "" };
        let tail: String = cut.chars().chain(prompt.chars().skip(skip)).collect();
        RequestEvent { prompt_tail: Some(tail), ..self.event(RequestPhase::Started) }
    }

    /// Takes in what a round did: sends the text, counts, publishes. Returns what to count and, when the request is
    /// done, why.
    pub fn take(
        &mut self,
        outcome: &Outcome,
        mode: Option<ModeSettings>,
        clock: Clock,
        text: &Text,
        shared: &Shared,
    ) -> (Step, Option<FinishReason>) {
        let mut step = Step {
            rows: outcome.rows,
            prompt: if mode.is_none() { outcome.rows } else { 0 },
            drafted: outcome.proposal.shown().len(),
            shadow_hit: outcome.shadow_hit,
            ..Step::default()
        };
        let Some(walk) = &outcome.walk else { return (step, None) };
        let mut committed = outcome.committed;
        let mut end = outcome.end;
        let from = self.sequence.tokens.len() - committed;
        let mut out = String::new();
        for at in from..self.sequence.tokens.len() {
            let id = self.sequence.tokens[at];
            let piece = self.matcher.push(&self.joiner.push(text.tokenizer.bytes(id)));
            out.push_str(&piece.text);
            if piece.stopped {
                // Plain decoding would have stopped here, so what was drafted beyond goes.
                committed = at + 1 - from;
                self.sequence.tokens.truncate(at + 1);
                end = RoundEnd::Stop;
                break;
            }
        }
        let ids = self.sequence.tokens[from..].to_vec();
        // The logits that chose token i are those of the i-th row of the path.
        let margins: Vec<f32> = walk
            .path
            .iter()
            .filter_map(|&node| outcome.best.get(node))
            .map(|best| best.value - best.second)
            .take(committed)
            .collect();
        let accepted = (walk.path.len() - 1).min(committed);
        step.generated = committed;
        if self.first.is_some() {
            lock(&shared.stats).gap(clock.now, clock.now - self.last, committed);
        } else {
            self.first = Some(clock.now);
            lock(&shared.stats).first_token(clock.now, clock.now - self.submitted);
        }
        self.last = clock.now;
        if let Some(settings) = mode {
            step.committed = committed;
            step.accepted = accepted;
            let _ = settings;
            self.count(outcome.mode, &step, clock.stages);
            if shared.events.receiver_count() > 0 {
                shared.publish(Event::Round(self.trace(outcome, outcome.mode, clock, text, &ids, accepted, end)));
            }
            self.step += 1;
        } else if let Some(&id) = ids.first() {
            let token = Some(Token::new(id, text.tokenizer.bytes(id)));
            shared.publish(Event::Request(RequestEvent { token, ..self.event(RequestPhase::FirstToken) }));
        }
        // A client that has gone is noticed before the next round.
        let _ = self.client.send(Delta::Tokens { ids, text: out, margins });
        let done = match end {
            RoundEnd::Stop => Some(FinishReason::Stop),
            RoundEnd::Length => Some(FinishReason::Length),
            _ => None,
        };
        (step, done)
    }

    fn count(&mut self, mode: Mode, step: &Step, stages: StageTimes) {
        self.committed += step.committed as u64;
        self.rounds += 1;
        self.drafted += step.drafted as u64;
        self.accepted += step.accepted as u64;
        if self.histogram.len() <= step.accepted {
            self.histogram.resize(step.accepted + 1, 0);
        }
        self.histogram[step.accepted] += 1;
        match self.modes.iter_mut().find(|m| m.0 == mode) {
            Some(entry) => entry.1 += 1,
            None => self.modes.push((mode, 1)),
        }
        self.stages.draft += stages.draft;
        self.stages.build += stages.build;
        self.stages.verify += stages.verify;
        self.stages.commit += stages.commit;
    }

    #[allow(clippy::too_many_arguments)]
    fn trace(
        &self,
        outcome: &Outcome,
        mode: Mode,
        clock: Clock,
        text: &Text,
        ids: &[u32],
        accepted_drafts: usize,
        end: RoundEnd,
    ) -> Round {
        let token = |id: u32| Token::new(id, text.tokenizer.bytes(id));
        let tree = outcome.proposal.shown();
        let walk = outcome.walk.as_ref();
        Round {
            request: self.id.clone(),
            round: clock.round,
            step: self.step,
            mode,
            proposed: (0..tree.len())
                .map(|i| Proposed {
                    token: token(tree.tokens[i]),
                    logprob: tree.logprobs[i],
                    parent: tree.parents[i],
                    depth: tree.depths[i],
                })
                .collect(),
            left_out: tree
                .left_out
                .iter()
                .map(|l| Proposed { token: token(l.token), logprob: l.logprob, parent: l.parent, depth: l.depth })
                .collect(),
            accepted: walk.map(|w| w.path.clone()).unwrap_or_default(),
            bonus: token(walk.map_or(0, |w| w.bonus)),
            committed: ids.iter().map(|&id| token(id)).collect(),
            accepted_drafts,
            end,
            shadow_hit: outcome.shadow_hit,
            stages: clock.stages,
            rows: outcome.rows,
            context: self.sequence.tokens.len(),
            at_ms: now_ms(),
        }
    }

    /// Per-request metrics at the end.
    fn metrics(&self, settings: ModeSettings, now: f64) -> RequestMetrics {
        let tokens = self.sequence.generated();
        let span = self.first.map(|first| self.last - first).filter(|ms| *ms > 0.0);
        RequestMetrics {
            mode: settings.with(self.wish),
            modes: self.modes.clone(),
            prompt_tokens: self.sequence.prompt,
            tokens,
            rounds: self.rounds,
            drafted: self.drafted,
            accepted: self.accepted,
            tau: (self.rounds > 0).then(|| self.committed as f64 / self.rounds as f64),
            accepted_hist: self.histogram.clone(),
            queue_ms: self.started - self.submitted,
            ttft_ms: self.first.map(|first| first - self.submitted),
            e2e_ms: now - self.submitted,
            decode_tok_s: span.map(|ms| tokens.saturating_sub(1) as f64 / ms * 1e3),
            prefill_tok_s: self
                .first
                .map(|first| first - self.started)
                .filter(|ms| *ms > 0.0)
                .map(|ms| self.sequence.prompt as f64 / ms * 1e3),
            stages: self.stages,
        }
    }

    /// Ends the request: tells the client and the readers.
    pub fn finish(mut self, reason: FinishReason, settings: ModeSettings, now: f64, shared: &Arc<Shared>) {
        let metrics = Box::new(self.metrics(settings, now));
        let mut rest = self.matcher.push(&self.joiner.finish()).text;
        rest.push_str(&self.matcher.finish());
        let phase = if reason == FinishReason::Cancelled { RequestPhase::Cancelled } else { RequestPhase::Finished };
        let mut stats = lock(&shared.stats);
        if reason == FinishReason::Cancelled {
            stats.counters.requests_cancelled += 1;
        } else {
            stats.counters.requests_finished += 1;
            stats.finished(now, now - self.submitted);
        }
        drop(stats);
        let event = RequestEvent { finish_reason: Some(reason), metrics: Some(metrics.clone()), ..self.event(phase) };
        shared.publish(Event::Request(event));
        let _ = self.client.send(Delta::Done { reason, text: rest, metrics });
    }

    /// Ends the request with an error.
    pub fn fail(self, error: EngineError, shared: &Shared) {
        lock(&shared.stats).counters.requests_failed += 1;
        shared.publish(Event::Request(RequestEvent {
            error: Some(error.to_string()),
            ..self.event(RequestPhase::Failed)
        }));
        let _ = self.client.send(Delta::Failed(error));
    }
}
