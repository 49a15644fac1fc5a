//! DFlash 2 against its formulas (computed by scripts/random-checkpoints.py), and lossless like everything else.

mod support;

use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::engine::backend::{Backend, Rows};
use spectop::engine::model::drafter::Job;
use spectop::engine::rounds::Core;
use spectop::engine::weights::Checkpoint;
use spectop::protocol::mode::Mode;
use support::checkpoint::{Expected, hf};
use support::engine::{Dice, decode, random_pair, settings};

const TARGET: &str = "qwen35-untied";
const DRAFT: &str = "qwen35-untied-dflash2";

#[test]
fn logits_and_choices_are_those_of_the_formulas() {
    let mut core = random_pair(TARGET, DRAFT);
    let ids = Expected::of(TARGET).ids;
    let file = Checkpoint::open(&ModelSource::Path(hf(DRAFT).join("expected.safetensors"))).expect("it opens");
    let contexts = file.tensor("contexts").expect("there").to_ids().expect("numbers");
    assert_eq!(core.drafter.as_ref().expect("a drafter").info.architecture, "dflash2");
    for context in contexts {
        let read = |name: &str| file.tensor(&format!("{name}.{context}")).expect("there");
        let context = context as usize;
        let Core { backend, target, drafter, .. } = &mut core;
        let drafter = drafter.as_mut().expect("a drafter");
        let mut cache = target.cache(backend);
        backend.reserve(&mut cache, context);
        let mut rows = Rows::default();
        rows.clear(1);
        rows.push_causal(0, 0, context);
        target.forward(backend, &ids[..context], &rows, &mut [&mut cache], &[]);
        let block = Some((ids[context], drafter.config.block_size));
        let job = Job { features: &target.features, context, cached: 0, block };
        let mut cache = drafter.cache(backend, true);
        // The features are the target's own buffer here, which a pass does not touch.
        let mut features = backend.buf(drafter.feature_width());
        backend.place(job.features, context, &mut features, 0);
        drafter.pass(backend, target, &[Job { features: &features, ..job }], &mut [&mut cache]);
        let want = read("logits").to_f32().expect("numbers");
        let got = backend.read(&drafter.logits, 0..drafter.config.block_size - 1);
        let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(got.len() == want.len() && worst < 2e-3, "behind {context} tokens a logit is {worst} off");
        let chain = drafter.lattice(0).expect("a selector").chain();
        let tokens: Vec<u32> = chain.iter().map(|c| c.0).collect();
        assert_eq!(tokens, read("chain").to_ids().expect("ids"), "behind {context} tokens");
        for ((_, got), want) in chain.iter().zip(read("scores").to_f32().expect("numbers")) {
            assert!((got - want).abs() < 2e-3, "behind {context} tokens: {got} against {want}");
        }
    }
}

/// What the selector says must matter, or the test above would not see it.
#[test]
fn the_selector_changes_the_choice() {
    let mut changed = false;
    let file = Checkpoint::open(&ModelSource::Path(hf(DRAFT).join("expected.safetensors"))).expect("it opens");
    for context in file.tensor("contexts").expect("there").to_ids().expect("numbers") {
        let logits = file.tensor(&format!("logits.{context}")).expect("there");
        let chain = file.tensor(&format!("chain.{context}")).expect("there").to_ids().expect("ids");
        let cols = logits.cols();
        for (row, &chosen) in logits.to_f32().expect("numbers").chunks(cols).zip(&chain) {
            let best = (0..cols).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("columns");
            changed |= best as u32 != chosen;
        }
    }
    assert!(changed);
}

#[test]
fn every_mode_and_schedule_writes_what_plain_decoding_writes() {
    let mut core = random_pair(TARGET, DRAFT);
    core.target.config.stop_tokens.clear();
    let mut dice = Dice(21);
    let prompts: Vec<Vec<u32>> = [3, 17, 30].map(|n| (0..n).map(|_| dice.below(95) as u32).collect()).into();
    let greedy = |_: usize| Sampling::default();
    let off = settings(Mode::Off, 8, 1);
    let plain: Vec<Vec<u32>> =
        prompts.iter().map(|p| decode(&mut core, std::slice::from_ref(p), 48, greedy, |_, _| off).remove(0)).collect();
    for mode in Mode::ALL {
        let got = decode(&mut core, &prompts, 48, greedy, |_, _| settings(mode, 8, 20));
        assert_eq!(got, plain, "{mode}");
    }
    for schedule in 1..=20u64 {
        let mut dice = Dice(schedule * 0x9E37_79B9);
        let mut current = [off; 3];
        let got = decode(&mut core, &prompts, 48, greedy, |i, _| {
            if dice.below(3) == 0 {
                current[i] = dice.mode(8);
            }
            current[i]
        });
        assert_eq!(got, plain, "schedule {schedule}");
    }
}

/// At temperature 1 drafts are drawn from the selector's few candidates; the text is still the target's: the first two
/// tokens after the first, against plain decoding.
#[test]
fn sampled_text_is_distributed_as_plain_sampling() {
    let mut core = random_pair(TARGET, DRAFT);
    core.target.config.stop_tokens.clear();
    let mut sample = |mode: Mode, base: u64| -> Vec<u32> {
        let mut out = Vec::new();
        for batch in 0..40u64 {
            let prompts = vec![vec![5, 17, 40, 3]; 50];
            let sampling = |i: usize| Sampling {
                temperature: 0.7,
                top_p: 0.9,
                top_k: 8,
                seed: Some(base + batch * 50 + i as u64),
            };
            let ids = decode(&mut core, &prompts, 3, sampling, |_, _| settings(mode, 8, 12));
            out.extend(ids.iter().map(|t| t[1]));
        }
        out
    };
    let (off, dflash) = (sample(Mode::Off, 1_000), sample(Mode::Dflash, 500_000));
    let count = |sample: &[u32], token: u32| sample.iter().filter(|&&t| t == token).count() as f64;
    let mut statistic = 0.0;
    let mut cells = 0.0;
    for token in 0..96 {
        let (a, b) = (count(&off, token), count(&dflash, token));
        if a + b >= 20.0 {
            statistic += (a - b).powi(2) / (a + b);
            cells += 1.0;
        }
    }
    assert!(cells > 3.0, "{cells} tokens to compare");
    // Both samples have the same size, so this is chi-square with as many degrees as cells; five deviations.
    assert!(statistic < cells + 5.0 * (2.0f64 * cells).sqrt(), "chi-square {statistic:.1} over {cells} tokens");
}

#[test]
fn a_drafter_without_its_codebooks_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(hf(DRAFT).join(file), folder.path().join(file)).expect("copied");
    }
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).expect("read");
    let text = b"candidate_selector.successor_codebook";
    let at = bytes.windows(text.len()).position(|w| w == text).expect("named");
    let mut bytes = bytes;
    bytes[at..at + 9].copy_from_slice(b"something");
    std::fs::write(&path, bytes).expect("written");
    let target = Checkpoint::open(&ModelSource::Path(hf(TARGET))).expect("it opens");
    let draft = Checkpoint::open(&ModelSource::Path(folder.path().to_owned())).expect("it opens");
    let cpu = spectop::engine::backend::cpu::Cpu::new(1);
    let Err(error) = Core::load(cpu, &target, Some(&draft), Precision::F32, |_| {}) else { panic!("it loads") };
    assert!(error.to_string().contains("candidate_selector.successor_codebook"), "{error}");
}
