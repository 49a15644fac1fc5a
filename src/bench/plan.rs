//! What is sent, and in which order. Pure: the same options, modes and prompts give the same plan.
//!
//! At concurrency 1 every prompt × repeat is a block in which the modes follow one another in a random order, so that
//! whatever drifts drifts for all of them. Above that, requests of one mode share the server with requests of the same
//! mode only: a block is a repeat, and in it the modes take turns in a random order, each with all prompts.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use super::suite::{Prompt, Suite};
use super::warmup;
use crate::protocol::run::{ModeSpec, Purpose, RunOptions, RunPlan};

/// Baseline requests at the start and at the end.
pub const BRACKET: usize = 3;

/// What is done about prefix caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixCache {
    /// The server has none.
    None,
    /// A random first line, other in every run and for every prompt.
    Nonce,
    /// Nothing.
    AsIs,
}

impl PrefixCache {
    /// The word in the plan.
    pub fn name(self) -> &'static str {
        match self {
            PrefixCache::None => "none",
            PrefixCache::Nonce => "nonce",
            PrefixCache::AsIs => "as_is",
        }
    }

    /// Back from the word.
    pub fn parse(word: &str) -> Option<Self> {
        [PrefixCache::None, PrefixCache::Nonce, PrefixCache::AsIs].into_iter().find(|policy| policy.name() == word)
    }
}

/// One request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Place in the plan.
    pub seq: usize,
    /// Why.
    pub purpose: Purpose,
    /// Index of the prompt in [`Plan::prompts`].
    pub prompt: usize,
    /// Turn of the conversation.
    pub turn: usize,
    /// Index of the mode in [`RunPlan::modes`].
    pub mode: usize,
    /// Repeat, or round of the warm-up.
    pub repeat: usize,
    /// Place of the mode in its block.
    pub order: usize,
    /// Requests in flight.
    pub concurrency: usize,
    /// Tokens that the answer may have.
    pub max_tokens: usize,
}

/// Requests that may be in flight together, up to a number. A chain is a conversation: its turns follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Conversations in the order in which they are begun.
    pub chains: Vec<Vec<Planned>>,
    /// How many at once.
    pub concurrency: usize,
    /// Whether it ends a block: a good moment to look at what there is.
    pub ends_block: bool,
}

/// A stage of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// A mode is warmed up: as many of these rounds as it takes.
    Warmup {
        /// Index of the mode.
        mode: usize,
        /// [`warmup::MOST`] rounds.
        rounds: Vec<Batch>,
    },
    /// Something is measured.
    Batch(Batch),
}

/// The whole plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// As it is kept.
    pub run: RunPlan,
    /// Every prompt of every suite.
    pub prompts: Vec<Prompt>,
    /// Stages in order.
    pub stages: Vec<Stage>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An option is out of range.
    #[error("{0}")]
    Option(String),
}

/// Largest number of requests that a plan may have: beyond it is a slip of the finger.
const MOST_REQUESTS: usize = 1_000_000;

impl Plan {
    /// Plans a run.
    pub fn new(
        options: &RunOptions,
        modes: Vec<ModeSpec>,
        suites: &[Suite],
        prefix_cache: PrefixCache,
    ) -> Result<Self, PlanError> {
        check(options)?;
        let mut infos = Vec::new();
        let mut prompts: Vec<Prompt> = Vec::new();
        for suite in suites {
            if let Some(info) = suite.infos.iter().find(|info| infos.contains(*info) || named(&infos, &info.name)) {
                return Err(PlanError::Option(format!("the suite \"{}\" is given twice", info.name)));
            }
            infos.extend(suite.infos.iter().cloned());
            prompts.extend(suite.prompts.iter().cloned());
        }
        if prompts.is_empty() || modes.is_empty() {
            return Err(PlanError::Option("there is nothing to send: no prompts or no modes".into()));
        }
        let turns: usize = prompts.iter().map(|prompt| prompt.turns.len()).sum();
        let requests = [turns, modes.len(), options.repeats, options.concurrency.len()]
            .iter()
            .try_fold(1_usize, |product, n| product.checked_mul(*n))
            .filter(|n| *n <= MOST_REQUESTS);
        if requests.is_none() {
            return Err(PlanError::Option(format!(
                "more than {MOST_REQUESTS} requests; take fewer prompts, modes or repeats"
            )));
        }
        let mut run = RunPlan {
            suites: infos,
            modes,
            repeats: options.repeats,
            concurrency: options.concurrency.clone(),
            temperature: options.temperature,
            max_tokens: options.max_tokens,
            seed: options.seed,
            prefix_cache: prefix_cache.name().to_owned(),
            hash: String::new(),
        };
        run.hash = hash(&run, &prompts);
        let stages = Builder { run: &run, prompts: &prompts, seq: 0, dice: StdRng::seed_from_u64(run.seed) }.stages();
        Ok(Self { run, prompts, stages })
    }

    /// Every planned request, in order, warm-up included.
    pub fn requests(&self) -> impl Iterator<Item = &Planned> {
        self.stages
            .iter()
            .flat_map(|stage| match stage {
                Stage::Warmup { rounds, .. } => rounds.as_slice(),
                Stage::Batch(batch) => std::slice::from_ref(batch),
            })
            .flat_map(|batch| batch.chains.iter().flatten())
    }

    /// The number after the last.
    pub fn end(&self) -> usize {
        self.requests().map(|planned| planned.seq + 1).max().unwrap_or(0)
    }

    /// Seconds that the whole takes when every answer has its full length, at this speed.
    pub fn estimate_s(&self, tok_s: f64) -> Option<f64> {
        if !(tok_s.is_finite() && tok_s > 0.0) {
            return None;
        }
        let tokens: f64 = self
            .stages
            .iter()
            .map(|stage| match stage {
                // Most modes are warm after the least number of rounds.
                Stage::Warmup { rounds, .. } => rounds.iter().take(warmup::LEAST).map(tokens_in_turn).sum(),
                Stage::Batch(batch) => tokens_in_turn(batch),
            })
            .sum();
        Some(tokens / tok_s)
    }

    /// A request in words: `warm-up dflash b8`, `story/code rep 2 → ddtree r16 (order 3 of 3)`.
    pub fn words(&self, planned: &Planned) -> String {
        let mode = self.run.modes.get(planned.mode).map_or("?", |mode| mode.label.as_str());
        let prompt = &self.prompts[planned.prompt];
        match planned.purpose {
            Purpose::Warmup => format!("warm-up {mode}"),
            Purpose::Bracket => format!("baseline check {} → {mode}", planned.repeat + 1),
            Purpose::Measure => {
                let mut words = format!("{}/{}", prompt.suite, prompt.id);
                if prompt.turns.len() > 1 {
                    let _ = write!(words, " turn {}", planned.turn + 1);
                }
                let _ = write!(words, " rep {} → {mode}", planned.repeat + 1);
                let _ = write!(words, " (order {} of {})", planned.order + 1, self.run.modes.len());
                if planned.concurrency > 1 {
                    let _ = write!(words, " ×{}", planned.concurrency);
                }
                words
            }
        }
    }
}

/// Tokens that one client has to wait for.
fn tokens_in_turn(batch: &Batch) -> f64 {
    let tokens: usize = batch.chains.iter().flatten().map(|planned| planned.max_tokens).sum();
    tokens as f64 / batch.concurrency.max(1) as f64
}

fn named(infos: &[crate::protocol::run::SuiteInfo], name: &str) -> bool {
    infos.iter().any(|info| info.name == name)
}

fn check(options: &RunOptions) -> Result<(), PlanError> {
    let bad = |text: &str| Err(PlanError::Option(text.to_owned()));
    if options.repeats == 0 || options.repeats > 1000 {
        return bad("repeats must be from 1 to 1000");
    }
    if options.max_tokens == 0 {
        return bad("max-tokens must be at least 1");
    }
    if options.prompts == Some(0) {
        return bad("prompts must be at least 1");
    }
    if options.concurrency.is_empty() || options.concurrency.iter().any(|n| *n == 0 || *n > 4096) {
        return bad("concurrency must be from 1 to 4096");
    }
    if (1..options.concurrency.len()).any(|at| options.concurrency[..at].contains(&options.concurrency[at])) {
        return bad("a concurrency is given twice");
    }
    if !(0.0..=5.0).contains(&options.temperature) {
        return bad("temperature must be from 0 to 5");
    }
    if !(options.timeout_s > 0.0 && options.timeout_s <= 86_400.0) {
        return bad("the timeout must be from above 0 to 86400 seconds");
    }
    Ok(())
}

/// Over the plan and the texts of the prompts: a suite whose file was changed is another one.
fn hash(run: &RunPlan, prompts: &[Prompt]) -> String {
    let mut hasher = Sha256::new();
    for part in [serde_json::to_vec(&RunPlan { hash: String::new(), ..run.clone() }), serde_json::to_vec(prompts)] {
        // Neither holds anything that JSON cannot say.
        hasher.update(part.unwrap_or_default());
        hasher.update([0]);
    }
    hasher.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

struct Builder<'a> {
    run: &'a RunPlan,
    prompts: &'a [Prompt],
    seq: usize,
    dice: StdRng,
}

impl Builder<'_> {
    fn stages(mut self) -> Vec<Stage> {
        let mut stages = Vec::new();
        for (rung, &concurrency) in self.run.concurrency.iter().enumerate() {
            for mode in 0..self.run.modes.len() {
                stages.push(self.warmup(mode, concurrency));
            }
            if rung == 0 {
                stages.push(self.bracket());
            }
            if concurrency == 1 { self.interleaved(&mut stages) } else { self.crowded(concurrency, &mut stages) }
        }
        stages.push(self.bracket());
        stages
    }

    fn planned(&mut self, purpose: Purpose, prompt: usize, mode: usize) -> Planned {
        let max_tokens =
            self.prompts[prompt].max_tokens.map_or(self.run.max_tokens, |own| own.min(self.run.max_tokens));
        let seq = self.seq;
        self.seq += 1;
        Planned { seq, purpose, prompt, turn: 0, mode, repeat: 0, order: 0, concurrency: 1, max_tokens }
    }

    fn warmup(&mut self, mode: usize, concurrency: usize) -> Stage {
        let rounds = (0..warmup::MOST)
            .map(|repeat| {
                let chains = (0..concurrency)
                    .map(|place| {
                        let prompt = (repeat * concurrency + place) % self.prompts.len().min(warmup::LEAST);
                        let planned = self.planned(Purpose::Warmup, prompt, mode);
                        let max_tokens = planned.max_tokens.min(warmup::TOKENS);
                        vec![Planned { repeat, concurrency, max_tokens, ..planned }]
                    })
                    .collect();
                Batch { chains, concurrency, ends_block: false }
            })
            .collect();
        Stage::Warmup { mode, rounds }
    }

    /// Always the same prompt, so that only the machine can make a difference: the one with the longest way to go.
    fn bracket(&mut self) -> Stage {
        let longest = |at: &usize| {
            let prompt = &self.prompts[*at];
            (prompt.max_tokens.unwrap_or(usize::MAX), std::cmp::Reverse(*at))
        };
        let prompt = (0..self.prompts.len()).max_by_key(longest).unwrap_or(0);
        let chains =
            (0..BRACKET).map(|repeat| vec![Planned { repeat, ..self.planned(Purpose::Bracket, prompt, 0) }]).collect();
        Stage::Batch(Batch { chains, concurrency: 1, ends_block: true })
    }

    fn permutation(&mut self) -> Vec<usize> {
        let mut modes: Vec<usize> = (0..self.run.modes.len()).collect();
        modes.shuffle(&mut self.dice);
        modes
    }

    fn chain(&mut self, prompt: usize, mode: usize, repeat: usize, order: usize, concurrency: usize) -> Vec<Planned> {
        (0..self.prompts[prompt].turns.len())
            .map(|turn| Planned { turn, repeat, order, concurrency, ..self.planned(Purpose::Measure, prompt, mode) })
            .collect()
    }

    /// Repeat by repeat, so that a run that is stopped early has seen every prompt.
    fn interleaved(&mut self, stages: &mut Vec<Stage>) {
        for repeat in 0..self.run.repeats {
            for prompt in 0..self.prompts.len() {
                let modes = self.permutation();
                let chains = modes.iter().enumerate().map(|(order, mode)| self.chain(prompt, *mode, repeat, order, 1));
                let chains = chains.collect();
                stages.push(Stage::Batch(Batch { chains, concurrency: 1, ends_block: true }));
            }
        }
    }

    fn crowded(&mut self, concurrency: usize, stages: &mut Vec<Stage>) {
        for repeat in 0..self.run.repeats {
            // All modes meet the prompts in the same order, and so in the same company.
            let mut prompts: Vec<usize> = (0..self.prompts.len()).collect();
            prompts.shuffle(&mut self.dice);
            for (order, mode) in self.permutation().into_iter().enumerate() {
                let chains = prompts.iter().map(|prompt| self.chain(*prompt, mode, repeat, order, concurrency));
                let chains = chains.collect();
                let ends_block = order + 1 == self.run.modes.len();
                stages.push(Stage::Batch(Batch { chains, concurrency, ends_block }));
            }
        }
    }
}

/// A short random word.
pub(super) fn random_word() -> String {
    format!("{:04x}", rand::rng().random::<u16>())
}
