//! The engine on the simulated device: everything above the kernels included.

use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::engine::backend::Backend;
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::rounds::{Core, Task, Work};
use spectop::engine::weights::{Checkpoint, bundle};
use spectop::protocol::mode::{Mode, ModeSettings};

use super::simulated::Simulated;

fn core<B: Backend>(backend: B, precision: Precision) -> Core<B> {
    let target = Checkpoint::open(&ModelSource::Embedded(&bundle::TINY_TARGET)).unwrap();
    let draft = Checkpoint::open(&ModelSource::Embedded(&bundle::TINY_DRAFT)).unwrap();
    Core::load(backend, &target, Some(&draft), precision, |_| {}).unwrap()
}

/// Decodes prompts side by side, the mode chosen by sequence and round; the prompts come in odd chunks.
fn decode<B: Backend>(
    core: &mut Core<B>,
    limit: usize,
    temperature: f32,
    mode: impl Fn(usize, usize) -> (Mode, usize, usize),
) -> (Vec<Vec<u32>>, usize) {
    let prompts = ["def f(x):\n", "The "];
    let sampling = Sampling { temperature, seed: Some(7), ..Sampling::default() };
    let mut sequences: Vec<_> = prompts
        .iter()
        .map(|p| {
            let ids: Vec<u32> = p.bytes().map(u32::from).collect();
            let most = ids.len() + limit;
            core.sequence(ids, most, Vec::new(), sampling)
        })
        .collect();
    let mut rounds = 0;
    while sequences.iter().any(|s| !s.full()) {
        let mut work: Vec<Work<'_, B>> = sequences
            .iter_mut()
            .enumerate()
            .filter(|(_, s)| !s.full())
            .map(|(i, sequence)| {
                let (mode, block_size, tree_budget) = mode(i, rounds);
                let task = match sequence.unfilled() {
                    0 => Task::Decode(ModeSettings { mode, block_size, tree_budget, chain_seed: true }),
                    left => Task::Prefill(left.min(3 + i)),
                };
                Work { sequence, task }
            })
            .collect();
        core.round(&mut work);
        rounds += 1;
    }
    (sequences.iter().map(|s| s.tokens[s.prompt..].to_vec()).collect(), rounds)
}

#[test]
fn greedy_text_is_that_of_the_cpu_in_every_mode() {
    let limit = 10;
    let (want, _) = decode(&mut core(Cpu::new(1), Precision::F32), limit, 0.0, |_, _| (Mode::Off, 0, 0));
    let mut gpu = core(Simulated::backend(), Precision::F32);
    let (plain, rounds) = decode(&mut gpu, limit, 0.0, |_, _| (Mode::Off, 0, 0));
    assert_eq!(plain, want);
    let (tree, fewer) = decode(&mut gpu, limit, 0.0, |_, _| (Mode::Ddtree, 8, 12));
    assert_eq!(tree, want);
    assert!(fewer < rounds, "{fewer} rounds of trees, {rounds} of single tokens");
    let mixed = |i: usize, round: usize| match (i + round) % 4 {
        0 => (Mode::Off, 0, 0),
        1 => (Mode::Dflash, 5, 0),
        2 => (Mode::Ddtree, 8, 7),
        _ => (Mode::Shadow, 6, 9),
    };
    assert_eq!(decode(&mut gpu, limit, 0.0, mixed).0, want);
}

#[test]
fn eight_bits_are_lossless_too() {
    let mut gpu = core(Simulated::backend(), Precision::Q8);
    let (plain, _) = decode(&mut gpu, 12, 0.0, |_, _| (Mode::Off, 0, 0));
    assert_eq!(decode(&mut gpu, 12, 0.0, |_, _| (Mode::Ddtree, 8, 12)).0, plain);
    assert_eq!(decode(&mut gpu, 12, 0.0, |i, _| (Mode::Dflash, 4 + i, 0)).0, plain);
}

#[test]
fn sampled_drafts_are_read_from_the_device() {
    let mut gpu = core(Simulated::backend(), Precision::F32);
    let mut cpu = core(Cpu::new(1), Precision::F32);
    let mode = |_, _| (Mode::Dflash, 6, 0);
    let (got, want) = (decode(&mut gpu, 8, 0.8, mode).0, decode(&mut cpu, 8, 0.8, mode).0);
    assert_eq!(got, want);
}
