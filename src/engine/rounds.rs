//! Rounds: propose, verify all sequences in one target forward, accept, commit.
//!
//! ```text
//! features ─► drafter pass ─► slot logits ─► proposal (chain or tree)
//!                                               │ rows of all sequences, prefill chunks too
//!                                               ▼
//!                                        target forward ─► logits ─► walk ─► tokens
//!                                               └► features of the walked rows ─► next round's drafter pass
//! ```

use std::time::Instant;

use crate::engine::weights::{Checkpoint, WeightsError};
use crate::protocol::mode::{Mode, ModeSettings};
use crate::protocol::state::StageTimes;
use crate::protocol::trace::RoundEnd;

use super::api::{Precision, Sampling};
use super::backend::{Backend, Best, Row, Rows};
use super::decode::Proposal;
use super::decode::accept::accept;
use super::decode::controller::{Controller, Drafted, Setting};
use super::decode::propose::{Slate, propose};
use super::model::drafter::{Drafter, Job};
use super::model::load::{draft_store, target_store};
use super::model::target::Target;
use super::sequence::Sequence;
use super::tree::Walk;

/// The models on their device.
pub struct Core<B: Backend> {
    /// The device.
    pub backend: B,
    /// The target.
    pub target: Target<B>,
    /// The drafter, if any.
    pub drafter: Option<Drafter<B>>,
    /// Decides in mode `auto`; without one, `auto` decodes plainly.
    pub controller: Option<Controller>,
    rows: Rows,
}

/// What a sequence does in a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Task {
    /// Sends this many prompt tokens through the target; the last one yields the first token.
    Prefill(usize),
    /// Decodes under these settings.
    Decode(ModeSettings),
}

/// One sequence's part in a round.
pub struct Work<'a, B: Backend> {
    /// The sequence.
    pub sequence: &'a mut Sequence<B>,
    /// What it does.
    pub task: Task,
}

/// What a round did to one sequence.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was done: in `auto`, what the controller picked.
    pub mode: Mode,
    /// What was proposed (empty for prefill and plain decoding).
    pub proposal: Proposal,
    /// What was accepted; `None` while the prompt is not through.
    pub walk: Option<Walk>,
    /// Tokens appended to the sequence.
    pub committed: usize,
    /// Why it ended.
    pub end: RoundEnd,
    /// In shadow: whether the token that broke the chain stood in the tree.
    pub shadow_hit: Option<bool>,
    /// Rows in the target forward.
    pub rows: usize,
    /// Greedy choices and margins of the rows whose logits were asked for.
    pub best: Vec<Best>,
}

impl<B: Backend> Core<B> {
    /// Loads a pair.
    pub fn load(
        backend: B,
        target: &Checkpoint,
        draft: Option<&Checkpoint>,
        precision: Precision,
        progress: impl FnMut(f64),
    ) -> Result<Self, WeightsError> {
        let store = target_store(precision);
        let mut model = Target::load(&backend, target, store, progress)?;
        let drafter = match draft {
            Some(checkpoint) => {
                let own = draft_store(precision, &model.formats);
                let drafter = Drafter::load(&backend, checkpoint, &model, target, own, store)?;
                model.tap(&backend, &drafter.config.taps);
                Some(drafter)
            }
            None => None,
        };
        Ok(Self { backend, target: model, drafter, controller: None, rows: Rows::default() })
    }

    /// A new sequence.
    pub fn sequence(&self, prompt: Vec<u32>, max_len: usize, stop_tokens: Vec<u32>, sampling: Sampling) -> Sequence<B> {
        let cache = self.target.cache(&self.backend);
        let draft = self.drafter.as_ref().map(|d| d.cache(&self.backend, self.target.is_exact()));
        let features = self.backend.buf(self.drafter.as_ref().map_or(0, Drafter::feature_width));
        let mut sequence = Sequence::new(prompt, max_len, stop_tokens, sampling, cache, draft, features);
        if let Some(controller) = &self.controller {
            sequence.habit = controller.habit();
        }
        sequence
    }

    /// Runs one round for all sequences.
    pub fn round(&mut self, work: &mut [Work<'_, B>]) -> (Vec<Outcome>, StageTimes) {
        let mut times = StageTimes::default();
        let started = Instant::now();
        let before: Vec<Before> = work
            .iter()
            .map(|w| Before { context: w.sequence.cached, waiting: w.sequence.waiting_features() })
            .collect();
        let rows_of = self.draft(work);
        times.draft = lap(started);
        let building = Instant::now();
        let proposals = self.build(work, &rows_of);
        times.build = lap(building);
        let verifying = Instant::now();
        let spans = self.verify(work, &proposals);
        times.verify = lap(verifying);
        let committing = Instant::now();
        let outcomes = self.commit(work, proposals, &spans);
        self.learn(work, &outcomes, &rows_of, &times, &before);
        times.commit = lap(committing);
        (outcomes, times)
    }

    /// Drafter pass. Returns for each sequence the range of its rows in the drafter's logits.
    fn draft(&mut self, work: &mut [Work<'_, B>]) -> Vec<std::ops::Range<usize>> {
        let mut ranges = vec![0..0; work.len()];
        let Some(drafter) = &mut self.drafter else { return ranges };
        let mut jobs = Vec::new();
        let mut caches = Vec::new();
        let mut next = 0;
        let sequences = work.len();
        for (w, range) in work.iter_mut().zip(&mut ranges) {
            let sequence = &mut *w.sequence;
            let most = match w.task {
                // A bidirectional drafter's predictions depend on the number of slots, so it gets its whole block even
                // where fewer tokens may follow; surplus slots are left out of the proposal.
                Task::Decode(settings) if drafter.config.is_causal() => {
                    settings.block_size.min(sequence.useful_drafts() + 1)
                }
                Task::Decode(settings) => settings.block_size,
                Task::Prefill(_) => 0,
            };
            let slots = match w.task {
                Task::Decode(settings) if settings.mode.drafts() && sequence.useful_drafts() > 0 => {
                    match (settings.mode, &self.controller) {
                        (Mode::Auto, None) => None,
                        (Mode::Auto, Some(controller)) => {
                            let at = Setting { others: sequences - 1, sequences, context: sequence.cached };
                            controller.slots(&sequence.habit, most, sequence.waiting_features(), at)
                        }
                        _ => Some(most),
                    }
                }
                _ => None,
            };
            let block = match slots {
                Some(slots) => Some((sequence.seed(), slots)),
                None if sequence.must_flush() => None,
                None => continue,
            };
            if let Some((_, size)) = block {
                *range = next..next + size - 1;
                next = range.end;
            }
            let (context, cached) = (sequence.waiting_features(), sequence.draft_cached);
            let Some(cache) = sequence.draft_cache.as_mut() else { continue };
            sequence.draft_cached += context;
            jobs.push(Job { features: &sequence.features, context, cached, block });
            caches.push(cache);
        }
        if !jobs.is_empty() {
            drafter.pass(&mut self.backend, &self.target, &jobs, &mut caches);
        }
        ranges
    }

    fn build(&mut self, work: &mut [Work<'_, B>], rows_of: &[std::ops::Range<usize>]) -> Vec<Proposal> {
        let sequences = work.iter().filter(|w| matches!(w.task, Task::Decode(_))).count();
        let mut others = work.len() - 1;
        work.iter_mut()
            .zip(rows_of)
            .map(|(w, range)| match (&self.drafter, w.task) {
                (Some(drafter), Task::Decode(settings)) if !range.is_empty() => {
                    let useful = range.start..range.end.min(range.start + w.sequence.useful_drafts());
                    let mut slate = Slate::new(&mut self.backend, drafter, useful);
                    if let (Mode::Auto, Some(controller)) = (settings.mode, &mut self.controller) {
                        let slots = slate.candidates(controller.most_nodes());
                        let at = Setting { others, sequences, context: w.sequence.cached };
                        let tree = controller.choose(&w.sequence.habit, &slots, at);
                        others += tree.len();
                        return Proposal { tree, ..Proposal::default() };
                    }
                    let sequence = &mut *w.sequence;
                    let sampling = sequence.sampling;
                    propose(&settings, &sampling, &mut sequence.random, &mut slate)
                }
                _ => Proposal::none(),
            })
            .collect()
    }

    /// Target forward over all rows. Returns for each sequence its first row, its rows, and its first logits row.
    fn verify(&mut self, work: &mut [Work<'_, B>], proposals: &[Proposal]) -> Vec<Span> {
        let sizes: Vec<usize> = work
            .iter()
            .zip(proposals)
            .map(|(w, p)| match w.task {
                Task::Prefill(count) => count.min(w.sequence.unfilled()),
                Task::Decode(_) => p.tree.rows(),
            })
            .collect();
        let words = sizes.iter().max().map_or(1, |n| n.div_ceil(64).max(1));
        self.rows.clear(words);
        let mut ids = Vec::new();
        let mut wanted = Vec::new();
        let mut spans = Vec::with_capacity(work.len());
        for (session, ((w, proposal), &size)) in work.iter_mut().zip(proposals).zip(&sizes).enumerate() {
            let sequence = &mut *w.sequence;
            let start = sequence.cached;
            self.backend.reserve(&mut sequence.cache, start + size);
            let span = Span { row: ids.len(), rows: size, logits: wanted.len() };
            match w.task {
                Task::Prefill(_) => {
                    ids.extend_from_slice(&sequence.tokens[start..start + size]);
                    self.rows.push_causal(session, start, size);
                    if size > 0 && start + size == sequence.prompt {
                        wanted.push(ids.len() - 1);
                    }
                }
                Task::Decode(_) => {
                    let tree = &proposal.tree;
                    let masks = tree.ancestor_masks(words);
                    ids.push(sequence.seed());
                    ids.extend_from_slice(&tree.tokens);
                    for node in 0..size {
                        let row =
                            Row { session, position: start + tree.depth(node), slot: start + node, prefix: 0..start };
                        self.rows.push(row, &masks[node * words..(node + 1) * words]);
                    }
                    wanted.extend(span.row..span.row + size);
                }
            }
            spans.push(span);
        }
        let mut caches: Vec<&mut B::Cache> = work.iter_mut().map(|w| &mut w.sequence.cache).collect();
        if !ids.is_empty() {
            self.target.forward(&mut self.backend, &ids, &self.rows, &mut caches, &wanted);
        }
        spans
    }

    fn commit(&mut self, work: &mut [Work<'_, B>], proposals: Vec<Proposal>, spans: &[Span]) -> Vec<Outcome> {
        let wanted = work
            .iter()
            .zip(spans)
            .map(|(w, s)| match w.task {
                Task::Prefill(_) => usize::from(s.rows > 0 && w.sequence.unfilled() == s.rows),
                Task::Decode(_) => s.rows,
            })
            .collect::<Vec<_>>();
        let best = self.backend.best(&self.target.logits, wanted.iter().sum());
        let mut outcomes = Vec::with_capacity(work.len());
        for (((w, proposal), span), &count) in work.iter_mut().zip(proposals).zip(spans).zip(&wanted) {
            let sequence = &mut *w.sequence;
            let best = best[span.logits..span.logits + count].to_vec();
            let sampling = sequence.sampling;
            let walk = (count > 0).then(|| {
                let row = |i: usize| self.backend.read(&self.target.logits, span.logits + i..span.logits + i + 1);
                accept(&proposal, &sampling, &mut sequence.random, &best, row)
            });
            // Rows whose K, V and features stay: all of a prefill chunk, the walked path of a decode round.
            let kept: Vec<usize> = match (w.task, &walk) {
                (Task::Decode(_), Some(walk)) => walk.path.clone(),
                _ => (0..span.rows).collect(),
            };
            if let Task::Decode(_) = w.task {
                self.backend.keep(&mut sequence.cache, sequence.cached, &kept);
            }
            if self.drafter.is_some() {
                let rows: Vec<usize> = kept.iter().map(|row| span.row + row).collect();
                let waiting = sequence.waiting_features();
                self.backend.gather(&self.target.features, &rows, &mut sequence.features, waiting);
            }
            sequence.cached += kept.len();
            let (committed, stopped) = match &walk {
                Some(walk) => {
                    let drafts = walk.path[1..].iter().map(|&node| proposal.tree.tokens[node - 1]);
                    sequence.append(drafts.chain([walk.bonus]))
                }
                None => (0, false),
            };
            let accepted = walk.as_ref().map_or(0, |walk| walk.path.len() - 1);
            let broken = walk.as_ref().is_some_and(|walk| {
                let last = walk.path[accepted];
                proposal.tree.parents.contains(&last)
            });
            let end = if stopped {
                RoundEnd::Stop
            } else if sequence.full() {
                RoundEnd::Length
            } else if proposal.tree.is_empty() {
                RoundEnd::Plain
            } else if broken {
                RoundEnd::Mismatch
            } else {
                RoundEnd::FullBlock
            };
            let shadow_hit = match (&proposal.shadow, &walk) {
                (Some(tree), Some(walk)) if broken => Some(tree.child(accepted, walk.bonus).is_some()),
                _ => None,
            };
            let mode = match w.task {
                Task::Decode(settings) if settings.mode != Mode::Auto => settings.mode,
                _ if proposal.tree.is_empty() => Mode::Off,
                _ if proposal.tree.is_chain() => Mode::Dflash,
                _ => Mode::Ddtree,
            };
            outcomes.push(Outcome { mode, walk, committed, end, shadow_hit, rows: span.rows, best, proposal });
        }
        outcomes
    }
}

impl<B: Backend> Core<B> {
    /// Tells the controller what the round cost and what its drafts were worth. `before` is how the sequences stood.
    fn learn(
        &mut self,
        work: &mut [Work<'_, B>],
        outcomes: &[Outcome],
        drafted: &[std::ops::Range<usize>],
        times: &StageTimes,
        before: &[Before],
    ) {
        let Some(controller) = &mut self.controller else { return };
        let decodes = |w: &Work<'_, B>| matches!(w.task, Task::Decode(_));
        let drafts = drafted.iter().filter(|r| !r.is_empty()).count();
        let total: usize = outcomes.iter().map(|o| o.rows).sum();
        let sequences = work.iter().filter(|w| decodes(w)).count();
        let draft_ms = times.draft + times.build;
        if let ([only], [range], [start]) = (&*work, drafted, before)
            && decodes(only)
        {
            controller.costs().verified(total, start.context, times.verify);
            if !range.is_empty() {
                controller.costs().drafted(range.len() + 1, start.waiting, draft_ms);
            }
        }
        for (((w, outcome), range), start) in work.iter_mut().zip(outcomes).zip(drafted).zip(before) {
            let (Task::Decode(settings), Some(walk)) = (w.task, &outcome.walk) else { continue };
            controller.saw(&outcome.proposal.tree, &walk.path);
            if settings.mode != Mode::Auto {
                continue;
            }
            let at = Setting { others: total - outcome.rows, sequences, context: start.context };
            let waiting = w.sequence.waiting_features();
            let habit = &mut w.sequence.habit;
            if range.is_empty() {
                controller.rested(habit, waiting, at);
                continue;
            }
            let round = Drafted {
                slots: range.len() + 1,
                waiting: start.waiting,
                rows: outcome.rows,
                tokens: walk.path.len(),
                draft_ms: (drafts > 1).then(|| draft_ms / drafts as f64),
            };
            controller.earned(habit, &round, at);
        }
    }
}

/// How a sequence stood before a round.
struct Before {
    /// Tokens in the target's cache.
    context: usize,
    /// Tokens that the drafter had not seen.
    waiting: usize,
}

/// Where a sequence's rows are in a forward.
struct Span {
    row: usize,
    rows: usize,
    logits: usize,
}

fn lap(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
