//! What a loaded pair costs on this machine: decoding, prefill, verify passes by rows, where the time goes, and how
//! far that is from what the machine can do. `spectop bench-kernels` prints it.
//!
//! All kinds of measurement take turns within a round, the order is turned round every other time, and medians count:
//! a machine that is shared gets slower and faster while one looks.

mod report;
mod timed;

use std::time::Instant;

use crate::engine::api::{PairSource, Precision, Sampling};
use crate::engine::backend::{Backend, Rows};
use crate::engine::device::{self, Device, OnDevice};
use crate::engine::rounds::{Core, Task, Work};
use crate::engine::sequence::Sequence;
use crate::engine::weights::{Checkpoint, WeightsError};
use crate::protocol::mode::{Mode, ModeSettings};

pub use report::{Arithmetic, Bandwidth, Report, Spread};
pub use timed::{Part, Timed};

/// Rows of the verify passes that are measured.
pub const ROWS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Rows whose parts are told.
const STAGED: [usize; 3] = [1, 8, 16];
/// Prompt rows in one forward, as the scheduler sends them.
const CHUNK: usize = 128;
/// Length of the prompt whose first token is timed.
const SHORT_PROMPT: usize = 40;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Where the models run.
    pub device: Device,
    /// Compute threads; 0: one a processor.
    pub threads: usize,
    /// Weight format in memory.
    pub precision: Precision,
    /// Tokens in the cache before a verify pass and at the start of decoding.
    pub context: usize,
    /// Tokens decoded in a round.
    pub decode: usize,
    /// Prompt tokens of the prefill measurement.
    pub prefill: usize,
    /// Rounds.
    pub rounds: usize,
}

type Pair<B> = Core<Timed<B>>;

/// Loads a pair and measures it. `tell` is called before every round.
pub fn measure(pair: &PairSource, ask: &Ask, tell: impl FnMut(usize)) -> Result<Report, WeightsError> {
    device::on(ask.device, ask.threads, Rounds { pair, ask, tell }, |_| ())
        .map_err(|error| WeightsError::Device(error.to_string()))?
}

/// All rounds, on whatever device.
struct Rounds<'a, T> {
    pair: &'a PairSource,
    ask: &'a Ask,
    tell: T,
}

impl<T: FnMut(usize)> OnDevice for Rounds<'_, T> {
    type Out = Result<Report, WeightsError>;

    fn run<B: Backend>(self, backend: B) -> Result<Report, WeightsError> {
        rounds(backend, self.pair, self.ask, self.tell)
    }
}

fn rounds<B: Backend>(
    backend: B,
    pair: &PairSource,
    ask: &Ask,
    mut tell: impl FnMut(usize),
) -> Result<Report, WeightsError> {
    let target = Checkpoint::open(&pair.target)?;
    let draft = pair.draft.as_ref().map(Checkpoint::open).transpose()?;
    let core = Core::load(Timed::new(backend), &target, draft.as_ref(), ask.precision, |_| {})?;
    let need = ask.context + ROWS[ROWS.len() - 1].max(ask.decode + 1);
    if need > core.target.config.context || ask.prefill > core.target.config.context {
        return Err(WeightsError::format(
            target.location(),
            format!("the model takes {} tokens; ask for a shorter context or prefill", core.target.config.context),
        ));
    }
    let mut bench = Bench::new(core, *ask);
    for round in 0..ask.rounds {
        tell(round);
        bench.round(round);
    }
    Ok(bench.report())
}

struct Bench<B: Backend> {
    core: Pair<B>,
    ask: Ask,
    cache: B::Cache,
    rows: Rows,
    /// Milliseconds by [`ROWS`], one a round.
    verify: Vec<Vec<f64>>,
    stages: Vec<Vec<timed::Times>>,
    decode: Vec<f64>,
    prefill: Vec<f64>,
    first_token: Vec<f64>,
    draft: Vec<f64>,
    outside: Vec<f64>,
    bandwidth: f64,
    peak: Option<f64>,
}

impl<B: Backend> Bench<B> {
    fn new(core: Pair<B>, ask: Ask) -> Self {
        let cache = core.target.cache(&core.backend);
        let mut bench = Self {
            cache,
            core,
            ask,
            rows: Rows::default(),
            verify: vec![Vec::new(); ROWS.len()],
            stages: vec![Vec::new(); STAGED.len()],
            decode: Vec::new(),
            prefill: Vec::new(),
            first_token: Vec::new(),
            draft: Vec::new(),
            outside: Vec::new(),
            bandwidth: 0.0,
            peak: None,
        };
        bench.core.backend.reserve(&mut bench.cache, ask.context + ROWS[ROWS.len() - 1]);
        let mut start = 0;
        while start < ask.context {
            let count = CHUNK.min(ask.context - start);
            bench.pass(start, count);
            start += count;
        }
        bench
    }

    fn id(&self, position: usize) -> u32 {
        (position * 7 + 1) as u32 % self.core.target.config.vocab as u32
    }

    /// One verify pass, logits and greedy choices of all rows; milliseconds.
    fn pass(&mut self, start: usize, count: usize) -> f64 {
        let ids: Vec<u32> = (start..start + count).map(|at| self.id(at)).collect();
        self.rows.clear(count.div_ceil(64));
        self.rows.push_causal(0, start, count);
        let wanted: Vec<usize> = (0..count).collect();
        self.core.backend.take();
        let clock = Instant::now();
        self.core.target.forward(&mut self.core.backend, &ids, &self.rows, &mut [&mut self.cache], &wanted);
        self.core.backend.best(&self.core.target.logits, count);
        clock.elapsed().as_secs_f64() * 1e3
    }

    fn round(&mut self, round: usize) {
        let bytes = usize::try_from(self.core.target.info.bytes).unwrap_or(usize::MAX).clamp(1 << 24, 1 << 30);
        let mut steps: Vec<usize> = (0..ROWS.len() + 4).collect();
        if round % 2 == 1 {
            steps.reverse();
        }
        for step in steps {
            match step {
                n if n < ROWS.len() => self.verify(n),
                n if n == ROWS.len() => self.decode(),
                n if n == ROWS.len() + 1 => self.prefill(),
                n if n == ROWS.len() + 2 => self.draft(),
                _ => {
                    self.bandwidth = self.bandwidth.max(self.core.backend.read_bandwidth(bytes));
                    let peak = self.core.backend.integer_peak();
                    self.peak = self.peak.into_iter().chain(peak).reduce(f64::max);
                }
            }
        }
    }

    fn verify(&mut self, n: usize) {
        self.pass(self.ask.context, ROWS[n]);
        // Short passes are repeated within a round: one interrupt would count too much.
        for _ in 0..(16 / ROWS[n]).clamp(1, 5) {
            let ms = self.pass(self.ask.context, ROWS[n]);
            self.verify[n].push(ms);
            if let Some(staged) = STAGED.iter().position(|&rows| rows == ROWS[n]) {
                self.stages[staged].push(self.core.backend.take());
            }
        }
    }

    /// A sequence with a prompt of this length, prefilled, its first token there; and how long that took.
    fn started(&mut self, prompt: usize, more: usize) -> (Sequence<Timed<B>>, f64) {
        let ids = (0..prompt).map(|at| self.id(at)).collect();
        let mut sequence = self.core.sequence(ids, prompt + more, Vec::new(), Sampling::default());
        let clock = Instant::now();
        while sequence.unfilled() > 0 {
            let task = Task::Prefill(sequence.unfilled().min(CHUNK));
            self.core.round(&mut [Work { sequence: &mut sequence, task }]);
        }
        (sequence, clock.elapsed().as_secs_f64() * 1e3)
    }

    fn decode(&mut self) {
        let (mut sequence, _) = self.started(self.ask.context, self.ask.decode + 1);
        let plain = ModeSettings { mode: Mode::Off, block_size: 0, tree_budget: 0, chain_seed: true };
        let clock = Instant::now();
        let mut tokens = 0;
        while !sequence.full() {
            let task = Task::Decode(plain);
            tokens += self.core.round(&mut [Work { sequence: &mut sequence, task }]).0[0].committed;
        }
        self.decode.push(tokens as f64 / clock.elapsed().as_secs_f64());
    }

    fn prefill(&mut self) {
        let (_, ms) = self.started(self.ask.prefill, 1);
        self.prefill.push(self.ask.prefill as f64 / ms * 1e3);
        let (_, ms) = self.started(SHORT_PROMPT, 1);
        self.first_token.push(ms);
    }

    /// Drafting rounds: the drafter's pass, and what a round takes beside the backend's operations.
    fn draft(&mut self) {
        let Some(block_size) = self.core.drafter.as_ref().map(|d| d.config.block_size) else { return };
        let (mut sequence, _) = self.started(self.ask.context, 8 * block_size);
        let settings = ModeSettings { mode: Mode::Ddtree, block_size, tree_budget: 16, chain_seed: true };
        for round in 0..6 {
            if sequence.useful_drafts() < block_size {
                break;
            }
            self.core.backend.take();
            let clock = Instant::now();
            let (_, times) = self.core.round(&mut [Work { sequence: &mut sequence, task: Task::Decode(settings) }]);
            let wall = clock.elapsed().as_secs_f64() * 1e3;
            // The first pass brings the whole prompt into the drafter's cache.
            if round > 0 {
                self.draft.push(times.draft);
                self.outside.push(wall - self.core.backend.take().iter().sum::<f64>());
            }
        }
    }
}
