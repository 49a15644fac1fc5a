//! The text of one request as it grows, token by token, with what happened to each token.

use std::collections::VecDeque;

use crate::protocol::event::{FinishReason, RequestEvent, RequestMetrics, RequestPhase};
use crate::protocol::trace::{Round, Token};

use super::rounds::Traced;

/// Pieces kept of one text; the oldest lines go first.
const MAX_PIECES: usize = 40_000;
/// Pieces of one line; a longer line is broken.
const MAX_LINE: usize = 2_000;
/// Rejected tokens shown of a round.
const MAX_REJECTED: usize = 4;

/// Characters of a prompt that are shown above its answer.
const PROMPT_TAIL: usize = 200;

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The end of the prompt.
    Prompt,
    /// Generated without drafts.
    Plain,
    /// An accepted draft.
    Accepted,
    /// The target's own token at the end of a round.
    Bonus,
    /// A draft that the target refused.
    Rejected,
    /// End of a verify round.
    Boundary,
    /// A remark of ours, e.g. that rounds were missed.
    Remark,
}

/// A piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Whole characters, line breaks excluded.
    pub text: String,
    /// What it is.
    pub kind: Kind,
    /// Round of the request that it belongs to.
    pub step: u64,
    /// True for marks that are not part of the text (`↵`, `│`).
    pub mark: bool,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Request id.
    pub id: String,
    /// Where it is.
    pub phase: RequestPhase,
    /// Prompt tokens.
    pub prompt_tokens: usize,
    /// Limit on generated tokens.
    pub max_tokens: usize,
    /// Generated tokens seen, from ids.
    pub tokens: usize,
    /// Tokens that rounds committed.
    pub round_tokens: usize,
    /// Rounds seen.
    pub rounds: u64,
    /// Step of the last round.
    pub last_step: u64,
    /// Why it ended.
    pub finish: Option<FinishReason>,
    /// Its metrics, at the end.
    pub metrics: Option<Box<RequestMetrics>>,
    /// Whether tokens are known as such; else there is only text, and their number is not known.
    pub counted: bool,
    /// Why it failed.
    pub error: Option<String>,
    /// The connection broke while it ran: its end is not known.
    pub interrupted: bool,
    lines: VecDeque<Vec<Piece>>,
    pieces: usize,
    /// Bytes of a character that is not whole yet.
    partial: Vec<u8>,
    next_step: Option<u64>,
}

impl Stream {
    /// A request that was just heard of.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            phase: RequestPhase::Queued,
            prompt_tokens: 0,
            max_tokens: 0,
            tokens: 0,
            round_tokens: 0,
            rounds: 0,
            last_step: 0,
            finish: None,
            metrics: None,
            counted: true,
            error: None,
            interrupted: false,
            lines: VecDeque::from([Vec::new()]),
            pieces: 0,
            partial: Vec::new(),
            next_step: None,
        }
    }

    /// The answer of a request whose rounds are known, without its prompt.
    pub fn of(traced: &Traced) -> Self {
        let mut stream = Self::new(&traced.id);
        stream.next_step = traced.rounds.first().map(|r| r.step);
        // The first token belongs to no round.
        stream.last_step = u64::MAX;
        if let Some((token, _)) = &traced.first {
            stream.token(token, Kind::Plain);
        }
        for round in &traced.rounds {
            stream.round(round);
        }
        stream
    }

    /// Lines of the text, oldest first.
    pub fn lines(&self) -> &VecDeque<Vec<Piece>> {
        &self.lines
    }

    /// The generated text alone: no prompt, no marks, no rejected drafts.
    pub fn answer(&self) -> String {
        let mut out = String::new();
        let mut begun = false;
        for line in &self.lines {
            let mut pieces = line.iter().filter(|p| !p.mark).peekable();
            // The prompt's own lines are no part of the answer, nor is the line break behind them.
            if !begun && pieces.peek().is_none_or(|p| matches!(p.kind, Kind::Prompt | Kind::Remark)) {
                continue;
            }
            if begun {
                out.push('\n');
            }
            begun = true;
            let text = pieces.filter(|p| matches!(p.kind, Kind::Plain | Kind::Accepted | Kind::Bonus));
            out.extend(text.map(|p| p.text.as_str()));
        }
        out
    }

    /// True while tokens may come.
    pub fn active(&self) -> bool {
        matches!(self.phase, RequestPhase::Queued | RequestPhase::Started | RequestPhase::FirstToken)
    }

    /// Takes a phase change in.
    pub fn request(&mut self, event: &RequestEvent) {
        self.phase = event.phase;
        self.prompt_tokens = event.prompt_tokens;
        self.max_tokens = event.max_tokens;
        if event.phase == RequestPhase::Started {
            if let Some(tail) = &event.prompt_tail {
                self.text(tail, Kind::Prompt);
                self.new_line();
            }
            self.next_step = Some(0);
        }
        if let Some(token) = &event.token {
            self.tokens += 1;
            self.token(token, Kind::Plain);
        }
        if !self.active() {
            self.flush(Kind::Plain);
            self.finish = event.finish_reason;
            self.metrics.clone_from(&event.metrics);
            self.error.clone_from(&event.error);
        }
    }

    /// Takes a round in.
    pub fn round(&mut self, round: &Round) {
        if self.phase == RequestPhase::Queued || self.phase == RequestPhase::Started {
            self.phase = RequestPhase::FirstToken;
        }
        match self.next_step {
            Some(expected) if round.step > expected => {
                self.remark(&format!("[{} rounds not seen]", round.step - expected));
            }
            None if round.step > 0 => self.remark("[joined in the middle]"),
            _ => {}
        }
        self.next_step = Some(round.step.saturating_add(1));
        self.last_step = round.step;
        self.rounds += 1;
        self.tokens += round.committed.len();
        self.round_tokens += round.committed.len();
        if round.proposed.is_empty() {
            for token in &round.committed {
                self.token(token, Kind::Plain);
            }
            return;
        }
        let drafts = round.accepted_drafts.min(round.committed.len());
        for token in &round.committed[..drafts] {
            self.token(token, Kind::Accepted);
        }
        self.rejected(round);
        for token in &round.committed[drafts..] {
            self.token(token, Kind::Bonus);
        }
        self.push("│", Kind::Boundary, true);
    }

    /// The connection broke: what comes next is unknown.
    pub fn interrupt(&mut self) {
        if self.active() {
            self.flush(Kind::Plain);
            self.remark("[connection lost]");
            self.phase = RequestPhase::Cancelled;
            self.interrupted = true;
        }
    }

    /// Begins the answer to a prompt of ours, on a server that only sends text.
    pub fn own_begins(&mut self, prompt: &str) {
        self.phase = RequestPhase::Started;
        self.counted = false;
        let from = prompt.char_indices().rev().nth(PROMPT_TAIL - 1).map_or(0, |(at, _)| at);
        if from > 0 {
            self.text("…", Kind::Prompt);
        }
        self.text(&prompt[from..], Kind::Prompt);
        self.new_line();
    }

    /// A piece of that answer.
    pub fn own_text(&mut self, text: &str) {
        if self.active() {
            self.phase = RequestPhase::FirstToken;
        }
        self.text(text, Kind::Plain);
    }

    /// The end of that answer.
    pub fn own_ends(&mut self, error: Option<&String>) {
        self.phase = if error.is_some() { RequestPhase::Failed } else { RequestPhase::Finished };
        self.error = error.cloned();
    }

    /// Tokens per round, over the rounds seen.
    pub fn tau(&self) -> Option<f64> {
        match self.metrics.as_ref().and_then(|m| m.tau) {
            Some(tau) => Some(tau),
            None if self.rounds > 0 => Some(self.round_tokens as f64 / self.rounds as f64),
            None => None,
        }
    }

    /// The most probable continuation that was proposed where the target turned away. In a chain that is the rest of
    /// the chain; in a tree the branch that the drafter believed in.
    fn rejected(&mut self, round: &Round) {
        let mut node = round.accepted.last().copied().unwrap_or(0);
        for shown in 0.. {
            let best = round
                .proposed
                .iter()
                .enumerate()
                .filter(|(i, p)| p.parent == node && !round.accepted.contains(&(i + 1)))
                .max_by(|(_, a), (_, b)| a.logprob.total_cmp(&b.logprob));
            let Some((index, proposed)) = best else { return };
            if shown == MAX_REJECTED {
                return self.push("…", Kind::Rejected, false);
            }
            let text = String::from_utf8_lossy(proposed.token.as_bytes()).replace('\n', "↵");
            self.push(&format!("‹{text}›"), Kind::Rejected, false);
            if index < node {
                return; // Parents come before their children; anything else could go round in circles.
            }
            node = index + 1;
        }
    }

    fn token(&mut self, token: &Token, kind: Kind) {
        if let (Some(text), true) = (&token.text, self.partial.is_empty()) {
            self.text(text, kind);
            return;
        }
        self.partial.extend_from_slice(token.as_bytes());
        let bytes = std::mem::take(&mut self.partial);
        let mut rest = bytes.as_slice();
        let mut whole = String::new();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    whole.push_str(text);
                    break;
                }
                Err(e) => {
                    let (good, bad) = rest.split_at(e.valid_up_to());
                    whole.push_str(&String::from_utf8_lossy(good));
                    let Some(n) = e.error_len() else {
                        self.partial = bad.to_vec();
                        break;
                    };
                    whole.push('\u{fffd}');
                    rest = &bad[n..];
                }
            }
        }
        self.text(&whole, kind);
    }

    fn flush(&mut self, kind: Kind) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.text("\u{fffd}", kind);
        }
    }

    fn remark(&mut self, text: &str) {
        // A remark is no part of the word before it.
        let apart = self.lines.back().is_some_and(|l| !l.is_empty());
        self.push(&format!("{}{text}", if apart { " " } else { "" }), Kind::Remark, false);
    }

    fn text(&mut self, text: &str, kind: Kind) {
        let mut parts = text.split('\n').peekable();
        while let Some(part) = parts.next() {
            let broken = parts.peek().is_some();
            let part = if broken { part.strip_suffix('\r').unwrap_or(part) } else { part };
            if !part.is_empty() {
                self.push(part, kind, false);
            }
            if broken {
                if matches!(kind, Kind::Accepted | Kind::Bonus) {
                    self.push("↵", kind, true);
                }
                self.new_line();
            }
        }
    }

    fn push(&mut self, text: &str, kind: Kind, mark: bool) {
        if self.lines.back().is_none_or(|l| l.len() >= MAX_LINE) {
            self.new_line();
        }
        // A boundary right after a line break belongs to the line that ended.
        let ended = mark && kind == Kind::Boundary && self.lines.back().is_some_and(Vec::is_empty);
        let at = self.lines.len() - if ended && self.lines.len() > 1 { 2 } else { 1 };
        self.lines[at].push(Piece { text: text.to_owned(), kind, step: self.last_step, mark });
        self.pieces += 1;
        while self.pieces > MAX_PIECES && self.lines.len() > 1 {
            self.pieces -= self.lines.pop_front().map_or(0, |l| l.len());
        }
    }

    fn new_line(&mut self) {
        self.lines.push_back(Vec::new());
        if self.lines.len() > MAX_PIECES {
            self.pieces -= self.lines.pop_front().map_or(0, |l| l.len());
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
