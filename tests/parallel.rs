//! Tensor parallelism on the CPU: devices that share a target's layers compute what one device computes.

mod support;

use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::backend::parallel::Parallel;
use spectop::engine::rounds::Core;
use spectop::engine::weights::{Checkpoint, bundle};
use spectop::protocol::mode::Mode;
use support::checkpoint::{Expected, Model, NAMES, hf};
use support::engine::{Dice, decode, eager_controller, settings, tiny_core};

fn devices(count: usize) -> Parallel<Cpu> {
    Parallel::new((0..count).map(|_| Cpu::new(1)).collect())
}

fn open(name: &str, count: usize) -> Model<Parallel<Cpu>> {
    Model::open_with(devices(count), &ModelSource::Path(hf(name)), Precision::F32)
}

/// Fixture and numbers of devices: the dense ones have four query heads and two KV heads, the hybrids two and one (so
/// that both devices have the same KV head) and two linear key heads for four value heads.
fn cases() -> impl Iterator<Item = (&'static str, usize)> {
    let dense = |name: &str| !name.starts_with("qwen35");
    NAMES.into_iter().flat_map(move |name| {
        [1, 2, 4].into_iter().filter(move |&count| count <= 2 || dense(name)).map(move |count| (name, count))
    })
}

#[test]
fn shared_layers_give_the_logits_of_one_device() {
    for (name, count) in cases() {
        let ids = Expected::of(name).ids;
        let mut one = Model::open(&ModelSource::Path(hf(name)), Precision::F32);
        let mut cache = one.cache();
        let want = one.causal(&mut cache, 0, &ids);
        let mut all = open(name, count);
        let mut cache = all.cache();
        let got = all.causal(&mut cache, 0, &ids);
        for (position, (got, want)) in got.iter().zip(&want).enumerate() {
            let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{name} on {count} devices, position {position}: a logit is {off} off");
        }
        if count == 1 {
            assert_eq!(got, want, "{name}: alone, a device of several is a device");
        }
    }
}

#[test]
fn rows_do_not_depend_on_their_chunk_here_either() {
    for (name, count) in cases() {
        let ids = Expected::of(name).ids;
        let mut model = open(name, count);
        let mut cache = model.cache();
        let whole = model.causal(&mut cache, 0, &ids);
        let mut cache = model.cache();
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(model.causal(&mut cache, at, &[*id])[0], whole[at], "{name} on {count} devices, position {at}");
        }
    }
}

#[test]
fn greedy_decoding_writes_what_one_device_writes() {
    for (name, count) in cases() {
        let expected = Expected::of(name);
        let mut model = open(name, count);
        model.core.target.config.stop_tokens.clear();
        let off = settings(Mode::Off, 2, 1);
        let limit = expected.greedy.len();
        let got = decode(&mut model.core, &[expected.ids], limit, |_| Sampling::default(), |_, _| off);
        assert_eq!(got[0], expected.greedy, "{name} on {count} devices");
    }
}

#[test]
fn modes_write_the_same_text_on_several_devices() {
    let pair = |count: usize, target: &ModelSource, draft: &ModelSource, precision| {
        let [target, draft] = [target, draft].map(|source| Checkpoint::open(source).expect("it opens"));
        let mut core = Core::load(devices(count), &target, Some(&draft), precision, |_| {}).expect("the pair loads");
        core.controller = Some(eager_controller());
        core
    };
    let path = |name: &str| ModelSource::Path(hf(name));
    let tiny = (ModelSource::Embedded(&bundle::TINY_TARGET), ModelSource::Embedded(&bundle::TINY_DRAFT));
    let mut cores = [
        pair(2, &path("qwen35-tied"), &path("qwen35-tied-dflash"), Precision::F32),
        pair(2, &tiny.0, &tiny.1, Precision::Auto),
    ];
    let mut dice = Dice(11);
    for core in &mut cores {
        core.target.config.stop_tokens.clear();
        let vocab = core.target.config.vocab;
        let block = core.drafter.as_ref().map_or(2, |d| d.config.block_size);
        let prompts: Vec<Vec<u32>> =
            (0..3).map(|i| (0..5 + 4 * i).map(|_| dice.below(vocab) as u32).collect()).collect();
        let off = settings(Mode::Off, 2, 1);
        let plain = decode(core, &prompts, 40, |_| Sampling::default(), |_, _| off);
        for _ in 0..4 {
            let got = decode(core, &prompts, 40, |_| Sampling::default(), |_, _| dice.mode(block));
            assert_eq!(got, plain);
        }
    }
    // The tiny pair is quantised: its shares are cut between blocks.
    let mut one = tiny_core(1);
    one.target.config.stop_tokens.clear();
    let prompt = vec![(0..12).map(|i| i * 3 % 200).collect::<Vec<u32>>()];
    let off = |_: usize, _: usize| settings(Mode::Off, 2, 1);
    let want = decode(&mut one, &prompt, 24, |_| Sampling::default(), off);
    assert_eq!(decode(&mut cores[1], &prompt, 24, |_| Sampling::default(), off), want);
}

#[test]
fn devices_that_cannot_share_evenly_are_refused_in_words() {
    let checkpoint = Checkpoint::open(&ModelSource::Path(hf("qwen3-tied"))).expect("it opens");
    let Err(error) = Core::load(devices(3), &checkpoint, None, Precision::F32, |_| {}) else {
        panic!("four heads went onto three devices");
    };
    let text = error.to_string();
    assert!(text.contains("3 devices cannot share 4 query heads evenly"), "{text}");
    assert!(text.contains("--tensor-parallel"), "{text}");
}
