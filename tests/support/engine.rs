//! Driving the engine's rounds without a scheduler.

use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::engine::backend::Backend;
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::decode::controller::Controller;
use spectop::engine::decode::costs::{Costs, Measured};
use spectop::engine::rounds::{Core, Task, Work};
use spectop::engine::sequence::Sequence;
use spectop::engine::weights::{Checkpoint, bundle};
use spectop::protocol::mode::{Mode, ModeSettings};

/// The embedded tiny pair.
pub fn tiny_core(threads: usize) -> Core<Cpu> {
    load(&ModelSource::Embedded(&bundle::TINY_TARGET), &ModelSource::Embedded(&bundle::TINY_DRAFT), threads)
}

/// The default pair, where the target is at hand.
pub fn default_core() -> Option<Core<Cpu>> {
    let target = super::target_gguf()?;
    Some(load(&ModelSource::Path(target), &ModelSource::Embedded(&bundle::SMOLLM2_DRAFT), 1))
}

/// A pair from the random checkpoints, in F32.
pub fn random_pair(target: &str, draft: &str) -> Core<Cpu> {
    let [target, draft] = [target, draft].map(|name| ModelSource::Path(super::checkpoint::hf(name)));
    load_as(&target, &draft, 1, Precision::F32)
}

fn load(target: &ModelSource, draft: &ModelSource, threads: usize) -> Core<Cpu> {
    load_as(target, draft, threads, Precision::Auto)
}

fn load_as(target: &ModelSource, draft: &ModelSource, threads: usize, precision: Precision) -> Core<Cpu> {
    let target = Checkpoint::open(target).expect("the target opens");
    let draft = Checkpoint::open(draft).expect("the drafter opens");
    let mut core = Core::load(Cpu::new(threads), &target, Some(&draft), precision, |_| {}).expect("the pair loads");
    core.controller = Some(eager_controller());
    core
}

/// A controller for made-up costs, on which drafting pays: `auto` must draft to be tested.
pub fn eager_controller() -> Controller {
    let measured = Measured {
        draft: vec![(2, 0.05), (8, 0.1)],
        feature: 0.001,
        verify: vec![(1, 1.0), (8, 1.2), (32, 2.0)],
        contexts: [64, 1024],
        deep: Vec::new(),
    };
    Controller::new(Costs::new(measured), 31)
}

/// Settings of a mode.
pub fn settings(mode: Mode, block_size: usize, tree_budget: usize) -> ModeSettings {
    ModeSettings { mode, block_size, tree_budget, chain_seed: true }
}

/// Whether a sequence has come to its end.
pub fn ended<B: Backend>(s: &Sequence<B>) -> bool {
    s.full() || (s.generated() > 0 && s.tokens.last().is_some_and(|t| s.stop_tokens.contains(t)))
}

/// Decodes several prompts side by side; `mode` is asked for every sequence and round. Returns the generated ids.
pub fn decode<B: Backend>(
    core: &mut Core<B>,
    prompts: &[Vec<u32>],
    limit: usize,
    sampling: impl Fn(usize) -> Sampling,
    mut mode: impl FnMut(usize, usize) -> ModeSettings,
) -> Vec<Vec<u32>> {
    let stops = core.target.config.stop_tokens.clone();
    let mut sequences: Vec<Sequence<B>> = prompts
        .iter()
        .enumerate()
        .map(|(i, p)| core.sequence(p.clone(), p.len() + limit, stops.clone(), sampling(i)))
        .collect();
    let mut round = 0;
    while sequences.iter().any(|s| !ended(s)) {
        let mut work: Vec<Work<'_, B>> = sequences
            .iter_mut()
            .enumerate()
            .filter(|(_, s)| !ended(s))
            .map(|(i, sequence)| {
                let task = match sequence.unfilled() {
                    0 => Task::Decode(mode(i, round)),
                    // Odd chunks, so that prefill rows ride along with the others' decode rows.
                    left => Task::Prefill(left.min(7 + i)),
                };
                Work { sequence, task }
            })
            .collect();
        core.round(&mut work);
        round += 1;
    }
    sequences.iter().map(|s| s.tokens[s.prompt..].to_vec()).collect()
}

/// A small deterministic random stream.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }

    /// A random mode with random knobs inside the limits.
    pub fn mode(&mut self, block: usize) -> ModeSettings {
        ModeSettings {
            mode: Mode::ALL[self.below(Mode::ALL.len())],
            block_size: 2 + self.below(block - 1),
            tree_budget: 1 + self.below(40),
            chain_seed: self.below(2) == 0,
        }
    }
}
