//! The rounds of the newest requests, whole: what playground, tree and race walk through.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::protocol::event::{FinishReason, RequestEvent, RequestMetrics, RequestPhase};
use crate::protocol::mode::Mode;
use crate::protocol::trace::{Round, RoundEnd, Token};

/// Proposed nodes kept over all requests: about a hundred bytes each.
const MAX_NODES: usize = 60_000;
/// Requests kept.
const MAX_REQUESTS: usize = 12;

/// One request, from its arrival to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// Request id.
    pub id: String,
    /// End of the prompt as text.
    pub prompt: String,
    /// Where it is.
    pub phase: RequestPhase,
    /// When it was first heard of, server clock, milliseconds since the Unix epoch.
    pub begun_ms: u64,
    /// The first token, which the prefill gives, and when it came.
    pub first: Option<(Token, u64)>,
    /// Its rounds in order.
    pub rounds: Vec<Arc<Round>>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// Its metrics, at the end.
    pub metrics: Option<Box<RequestMetrics>>,
    /// Why it failed.
    pub error: Option<String>,
    nodes: usize,
}

impl Traced {
    fn new(id: &str, at_ms: u64) -> Self {
        Self {
            id: id.to_owned(),
            prompt: String::new(),
            phase: RequestPhase::Queued,
            begun_ms: at_ms,
            first: None,
            rounds: Vec::new(),
            ended_ms: None,
            finish: None,
            metrics: None,
            error: None,
            nodes: 0,
        }
    }

    /// True while tokens may come.
    pub fn active(&self) -> bool {
        matches!(self.phase, RequestPhase::Queued | RequestPhase::Started | RequestPhase::FirstToken)
    }

    /// True when no round is missing: neither at the beginning nor in between.
    pub fn whole(&self) -> bool {
        self.first.is_some() && self.rounds.iter().enumerate().all(|(i, r)| r.step == i as u64)
    }

    /// The tokens in order.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.first.iter().map(|f| &f.0).chain(self.rounds.iter().flat_map(|r| &r.committed))
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens().count()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.rounds.is_empty()
    }

    /// Times and numbers of the tokens as they came: `(milliseconds since it was begun, tokens until then)`.
    pub fn arrivals(&self) -> Vec<(u64, usize)> {
        let mut count = usize::from(self.first.is_some());
        let mut all: Vec<_> = self.first.iter().map(|(_, at)| (at.saturating_sub(self.begun_ms), count)).collect();
        for round in &self.rounds {
            count += round.committed.len();
            all.push((round.at_ms.saturating_sub(self.begun_ms), count));
        }
        all
    }

    /// The mode of most rounds.
    pub fn mode(&self) -> Option<Mode> {
        Mode::ALL.into_iter().max_by_key(|m| self.rounds.iter().filter(|r| r.mode == *m).count()).filter(|_| {
            // Without rounds every mode is as good as any other.
            !self.rounds.is_empty()
        })
    }

    /// Generated tokens per second from the first token on; the server's own figure where it gave one.
    pub fn decode_tok_s(&self) -> Option<f64> {
        if let Some(speed) = self.metrics.as_ref().and_then(|m| m.decode_tok_s) {
            return Some(speed);
        }
        let (from, to) = (self.first.as_ref()?.1, self.rounds.last()?.at_ms);
        let tokens: usize = self.rounds.iter().map(|r| r.committed.len()).sum();
        (to > from).then(|| tokens as f64 * 1e3 / (to - from) as f64)
    }

    /// Tokens per round.
    pub fn tau(&self) -> Option<f64> {
        let tokens: usize = self.rounds.iter().map(|r| r.committed.len()).sum();
        (!self.rounds.is_empty()).then(|| tokens as f64 / self.rounds.len() as f64)
    }

    /// The text so far; bytes that are no whole characters yet become `�`.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.tokens().flat_map(|t| t.as_bytes().iter().copied()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn request(&mut self, event: &RequestEvent) {
        self.phase = event.phase;
        if let Some(tail) = &event.prompt_tail {
            self.prompt.clone_from(tail);
        }
        if let Some(token) = &event.token {
            self.first = Some((token.clone(), event.at_ms));
        }
        if !self.active() {
            self.ended_ms = Some(event.at_ms);
            self.finish = event.finish_reason;
            self.metrics.clone_from(&event.metrics);
            self.error.clone_from(&event.error);
        }
    }
}

/// What a round did, in words that need no colour.
pub fn ending(round: &Round) -> &'static str {
    match round.end {
        RoundEnd::Plain => "nothing was drafted: one token a round",
        RoundEnd::Mismatch => "the target chose something else here",
        RoundEnd::FullBlock if round.accepted_drafts < round.proposed.len() => {
            "a branch was accepted to its end; the target adds one token of its own"
        }
        RoundEnd::FullBlock => "every draft was accepted; the target adds one token of its own",
        RoundEnd::Stop => "a stop token or stop text came: the answer is complete",
        RoundEnd::Length => "the limit on tokens was reached",
    }
}

/// The newest requests. Bounded by their proposed nodes; what is pinned goes last.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    requests: VecDeque<Traced>,
    pinned: Vec<String>,
    nodes: usize,
}

impl Traces {
    /// Requests, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Traced> {
        self.requests.iter()
    }

    /// A request by its id.
    pub fn get(&self, id: &str) -> Option<&Traced> {
        self.requests.iter().find(|t| t.id == id)
    }

    /// The newest request that has rounds; one that runs comes before one that ended.
    pub fn newest(&self) -> Option<&Traced> {
        let with_rounds = || self.requests.iter().rev().filter(|t| !t.rounds.is_empty());
        with_rounds().find(|t| t.active()).or_else(|| with_rounds().next())
    }

    /// These requests are looked at: they are dropped only when there is nothing else to drop.
    pub fn pin(&mut self, ids: Vec<String>) {
        self.pinned = ids;
    }

    /// Takes a phase change in.
    pub fn request(&mut self, event: &RequestEvent) {
        let at = self.of(&event.id, event.at_ms);
        self.requests[at].request(event);
    }

    /// Takes a round in.
    pub fn round(&mut self, round: Round) {
        let at = self.of(&round.request, round.at_ms);
        let nodes = round.proposed.len() + round.left_out.len() + round.committed.len() + 1;
        let traced = &mut self.requests[at];
        if matches!(traced.phase, RequestPhase::Queued | RequestPhase::Started) {
            traced.phase = RequestPhase::FirstToken;
        }
        traced.nodes += nodes;
        traced.rounds.push(Arc::new(round));
        self.nodes += nodes;
        while self.nodes > MAX_NODES && self.requests.len() > 1 {
            self.drop_one();
        }
        if self.nodes > MAX_NODES
            && let Some(only) = self.requests.back_mut()
        {
            // A single request as long as this: its first rounds go.
            let many = only.rounds.len() / 4 + 1;
            let freed: usize = only.rounds.drain(..many.min(only.rounds.len())).map(|r| r.proposed.len() + 2).sum();
            only.nodes = only.nodes.saturating_sub(freed);
            self.nodes = self.nodes.saturating_sub(freed);
        }
    }

    /// The connection broke: what runs is not known any more.
    pub fn interrupt(&mut self) {
        for traced in self.requests.iter_mut().filter(|t| t.active()) {
            traced.phase = RequestPhase::Cancelled;
        }
    }

    fn of(&mut self, id: &str, at_ms: u64) -> usize {
        if let Some(at) = self.requests.iter().position(|t| t.id == id) {
            return at;
        }
        while self.requests.len() >= MAX_REQUESTS {
            self.drop_one();
        }
        self.requests.push_back(Traced::new(id, at_ms));
        self.requests.len() - 1
    }

    fn drop_one(&mut self) {
        let last = self.requests.len().saturating_sub(1);
        let free = |t: &Traced| !t.active() && !self.pinned.contains(&t.id);
        let at = self.requests.iter().take(last).position(free).unwrap_or(0);
        if let Some(gone) = self.requests.remove(at) {
            self.nodes = self.nodes.saturating_sub(gone.nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::state::StageTimes;
    use crate::protocol::trace::Proposed;

    fn round(id: &str, step: u64, nodes: usize) -> Round {
        let token = || Token::new(1, b"a");
        let node = |i| Proposed { token: token(), logprob: -0.1, parent: i, depth: i + 1 };
        Round {
            request: id.into(),
            round: step,
            step,
            mode: Mode::Ddtree,
            proposed: (0..nodes).map(node).collect(),
            left_out: Vec::new(),
            accepted: vec![0],
            bonus: token(),
            committed: vec![token()],
            accepted_drafts: 0,
            end: RoundEnd::Mismatch,
            shadow_hit: None,
            stages: StageTimes::default(),
            rows: nodes + 1,
            context: 10,
            at_ms: 1_000 + step * 20,
        }
    }

    #[test]
    fn it_is_bounded_and_what_is_looked_at_stays() {
        let mut traces = Traces::default();
        for request in 0..40 {
            let id = format!("r{request}");
            traces.pin(vec!["r0".into()]);
            for step in 0..20 {
                traces.round(round(&id, step, 200));
            }
            traces.requests.back_mut().expect("there").phase = RequestPhase::Finished;
        }
        let nodes: usize = traces.iter().map(|t| t.nodes).sum();
        assert!(nodes <= MAX_NODES && traces.requests.len() <= MAX_REQUESTS, "{nodes}");
        assert!(traces.get("r0").is_some() && traces.get("r39").is_some() && traces.get("r5").is_none());
    }

    #[test]
    fn one_endless_request_loses_its_beginning_only() {
        let mut traces = Traces::default();
        for step in 0..2_000 {
            traces.round(round("r", step, 200));
        }
        let traced = traces.newest().expect("there");
        assert!(traced.rounds.len() * 200 <= MAX_NODES && traced.rounds.last().is_some_and(|r| r.step == 1_999));
        assert!(!traced.whole());
    }

    #[test]
    fn arrivals_are_counted_from_the_beginning() {
        let mut traces = Traces::default();
        traces.round(round("r", 0, 2));
        traces.round(round("r", 1, 2));
        let traced = traces.newest().expect("there");
        assert_eq!(traced.arrivals(), [(0, 1), (20, 2)]);
        assert_eq!((traced.tau(), traced.mode()), (Some(1.0), Some(Mode::Ddtree)));
    }
}
