//! One sequence being decoded: tokens, caches, random stream. Its bookkeeping holds between rounds:
//!
//! * `tokens[cached]` is the *seed*, the newest committed token; it has no K or V anywhere;
//! * the target cache has slots `0..cached`;
//! * the drafter cache has slots `0..draft_cached`, and `features` has the rows for `draft_cached..cached`.

use rand::rngs::StdRng;

use super::api::Sampling;
use super::backend::Backend;
use super::decode::habit::Habit;
use super::sampler;

/// Feature rows that may wait before they are projected into the drafter's cache although nothing is drafted: bounds
/// the memory of long answers in mode `off`, and still leaves the work to large, cheap batches.
const MAX_WAITING_FEATURES: usize = 256;

/// One sequence.
pub struct Sequence<B: Backend> {
    /// Prompt and answer.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens that prompt and answer may have together.
    pub max_len: usize,
    /// Ids that end the answer.
    pub stop_tokens: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Random stream.
    pub random: StdRng,
    /// Committed slots of the target cache.
    pub cached: usize,
    /// Target cache.
    pub cache: B::Cache,
    /// Drafter cache, where there is a drafter.
    pub draft_cache: Option<B::Cache>,
    /// Slots of the drafter cache.
    pub draft_cached: usize,
    /// Feature rows that the drafter has not seen yet, [`Sequence::waiting_features`] of them, on the device.
    pub features: B::Buf,
    /// In `auto`: whether drafting pays for this text.
    pub habit: Habit,
}

impl<B: Backend> Sequence<B> {
    /// A new sequence with empty caches.
    pub fn new(
        prompt: Vec<u32>,
        max_len: usize,
        stop_tokens: Vec<u32>,
        sampling: Sampling,
        cache: B::Cache,
        draft_cache: Option<B::Cache>,
        features: B::Buf,
    ) -> Self {
        Self {
            prompt: prompt.len(),
            tokens: prompt,
            max_len,
            stop_tokens,
            random: sampler::stream(sampling.seed),
            sampling,
            cached: 0,
            cache,
            draft_cache,
            draft_cached: 0,
            features,
            habit: Habit::default(),
        }
    }

    /// Prompt tokens that have not been through the target.
    pub fn unfilled(&self) -> usize {
        self.prompt.saturating_sub(self.cached)
    }

    /// The newest committed token.
    pub fn seed(&self) -> u32 {
        self.tokens[self.cached]
    }

    /// Tokens generated so far.
    pub fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Drafts that can still become tokens: a round adds one token of the target's own to those it accepts.
    pub fn useful_drafts(&self) -> usize {
        self.max_len.saturating_sub(self.tokens.len() + 1)
    }

    /// Whether no token may follow.
    pub fn full(&self) -> bool {
        self.tokens.len() >= self.max_len
    }

    /// Tokens that the drafter has not seen yet, each with a row of features.
    pub fn waiting_features(&self) -> usize {
        if self.draft_cache.is_some() { self.cached - self.draft_cached } else { 0 }
    }

    /// Whether so many features wait that they should be projected now.
    pub fn must_flush(&self) -> bool {
        self.waiting_features() >= MAX_WAITING_FEATURES
    }

    /// Appends tokens up to the length limit or the first stop token, whichever comes first. Returns how many were
    /// appended and whether the last one is a stop token.
    pub fn append(&mut self, tokens: impl IntoIterator<Item = u32>) -> (usize, bool) {
        let before = self.tokens.len();
        for token in tokens {
            if self.full() {
                break;
            }
            self.tokens.push(token);
            if self.stop_tokens.contains(&token) {
                return (self.tokens.len() - before, true);
            }
        }
        (self.tokens.len() - before, false)
    }
}
