//! Conversations: what a turn sends depends on the answers that the same mode gave before.

use std::collections::HashMap;

use crate::bench::measure;
use crate::bench::plan::{Plan, Planned, PrefixCache};
use crate::protocol::run::{Purpose, RequestRecord, RequestStatus};
use crate::source::ChatMessage;

/// Prompt, mode, repeat and concurrency.
type Key = (usize, usize, usize, usize);

/// Answers of the conversations so far.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    answers: HashMap<Key, Vec<String>>,
}

impl Conversations {
    /// Those that a run to go on with has begun.
    pub fn recall(plan: &Plan, records: &[RequestRecord]) -> Self {
        let by_seq: HashMap<usize, &Planned> = plan.requests().map(|planned| (planned.seq, planned)).collect();
        let mut conversations = Self::default();
        for record in records.iter().filter(|record| record.purpose == Purpose::Measure) {
            if let Some(planned) = by_seq.get(&record.seq) {
                conversations.keep(planned, record);
            }
        }
        conversations
    }

    /// Keeps an answer for the turns after it.
    pub fn keep(&mut self, planned: &Planned, record: &RequestRecord) {
        let well = matches!(record.status, RequestStatus::Finished | RequestStatus::CutShort);
        if let Some(answer) = measure::answer_of(record).filter(|_| well) {
            let turns = self.answers.entry(key(planned)).or_default();
            if turns.len() == planned.turn {
                turns.push(answer.to_owned());
            }
        }
    }

    /// What a planned turn sends; `None` when the turn before it gave no answer.
    pub fn messages(&self, plan: &Plan, planned: &Planned, run_id: &str) -> Option<Vec<ChatMessage>> {
        let prompt = &plan.prompts[planned.prompt];
        let nonce = plan.run.prefix_cache == PrefixCache::Nonce.name();
        let mut messages = Vec::new();
        if let Some(system) = &prompt.system {
            messages.push(ChatMessage { role: "system".into(), content: system.clone() });
        }
        let nothing = Vec::new();
        let answers = self.answers.get(&key(planned)).unwrap_or(&nothing);
        for (turn, text) in prompt.turns.iter().take(planned.turn + 1).enumerate() {
            messages.push(ChatMessage::user(text.clone()));
            if turn < planned.turn {
                let content = answers.get(turn)?.clone();
                messages.push(ChatMessage { role: "assistant".into(), content });
            }
        }
        // It must be the very beginning: after a shared head the cache would still hit.
        if nonce && let Some(first) = messages.first_mut() {
            first.content = format!("[{run_id} {}]\n{}", planned.prompt, first.content);
        }
        Some(messages)
    }
}

fn key(planned: &Planned) -> Key {
    (planned.prompt, planned.mode, planned.repeat, planned.concurrency)
}
