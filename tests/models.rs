//! Targets against Hugging Face transformers: tiny checkpoints with random weights, written with what transformers
//! computes by scripts/random-checkpoints.py. And that it does not matter how rows come: at once, in chunks, one by one,
//! beside other sequences' rows.

mod support;

use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::protocol::mode::Mode;
use support::checkpoint::{Expected, Model, NAMES, hf};
use support::engine::{Dice, decode, settings};
use support::hybrid_gguf;

/// Largest difference of a logit that counts as the same number.
const CLOSE: f32 = 2e-3;

fn far(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn prefill_gives_the_logits_and_features_of_transformers() {
    for name in NAMES {
        let expected = Expected::of(name);
        let mut model = Model::open(&ModelSource::Path(hf(name)), Precision::F32);
        model.core.target.tap(&model.core.backend, &expected.taps);
        let mut cache = model.cache();
        let logits = model.causal(&mut cache, 0, &expected.ids);
        for (position, (got, want)) in logits.iter().zip(&expected.logits).enumerate() {
            let worst = far(got, want);
            assert!(worst < CLOSE, "{name}, position {position}: a logit is {worst} off");
        }
        let first = expected.ids.len() - expected.features.len();
        for (i, want) in expected.features.iter().enumerate() {
            let worst = far(&model.features(first + i), want);
            assert!(worst < CLOSE, "{name}, position {}: a feature is {worst} off", first + i);
        }
    }
}

#[test]
fn chunks_steps_and_verify_passes_give_the_bits_of_one_prefill() {
    for name in NAMES {
        let ids = Expected::of(name).ids;
        let mut model = Model::open(&ModelSource::Path(hf(name)), Precision::F32);
        let mut cache = model.cache();
        let whole = model.causal(&mut cache, 0, &ids);
        let splits: [&[usize]; 5] = [&[1], &[16], &[7, 9, 1, 20], &[31, 2], &[3, 1, 1, 15, 8]];
        for split in splits {
            let mut cache = model.cache();
            let (mut at, mut turn) = (0, 0);
            while at < ids.len() {
                let count = split[turn % split.len()].min(ids.len() - at);
                // A verify pass of which nothing is accepted leaves no trace.
                let wrong: Vec<u32> = ids.iter().rev().take(5).copied().collect();
                model.causal(&mut cache, at, &wrong);
                let got = model.causal(&mut cache, at, &ids[at..at + count]);
                assert_eq!(got, whole[at..at + count], "{name} in chunks of {split:?}, from {at}");
                at += count;
                turn += 1;
            }
        }
    }
}

#[test]
fn rows_of_other_sequences_change_nothing() {
    for name in NAMES {
        let ids = Expected::of(name).ids;
        let mut model = Model::open(&ModelSource::Path(hf(name)), Precision::F32);
        let mut cache = model.cache();
        let alone = model.causal(&mut cache, 0, &ids);
        let (mut a, mut b) = (model.cache(), model.cache());
        model.causal(&mut a, 0, &ids[..19]);
        model.causal(&mut b, 0, &ids[..4]);
        let both = model.side_by_side(&mut [(&mut a, 19, &ids[19..30]), (&mut b, 4, &ids[4..21])]);
        assert_eq!(both[..11], alone[19..30], "{name}");
        assert_eq!(both[11..], alone[4..21], "{name}");
    }
}

#[test]
fn greedy_decoding_writes_what_transformers_writes() {
    for name in NAMES {
        let expected = Expected::of(name);
        let mut model = Model::open(&ModelSource::Path(hf(name)), Precision::F32);
        model.core.target.config.stop_tokens.clear();
        let off = settings(Mode::Off, 2, 1);
        let limit = expected.greedy.len();
        let got = decode(&mut model.core, &[expected.ids], limit, |_| Sampling::default(), |_, _| off);
        assert_eq!(got[0], expected.greedy, "{name}");
    }
}

/// Threads split a layer's heads; that must not show.
#[test]
fn thread_count_does_not_change_a_hybrid() {
    let ids = Expected::of("qwen35-tied").ids;
    let source = ModelSource::Path(hf("qwen35-tied"));
    let mut one = Model::open(&source, Precision::F32);
    let mut cache = one.cache();
    let want = one.causal(&mut cache, 0, &ids);
    let mut three = Model::open_on(&source, Precision::F32, 3);
    let mut cache = three.cache();
    assert_eq!(three.causal(&mut cache, 0, &ids), want);
}

/// The GGUF form: other names, norms with the one added, decays exponentiated, value heads a stride apart.
#[test]
fn a_hybrid_from_gguf_is_the_same_model() {
    for name in ["qwen35-tied", "qwen35-untied"] {
        let expected = Expected::of(name);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hybrid.gguf");
        std::fs::write(&path, hybrid_gguf::convert(&hf(name))).expect("written");
        let mut model = Model::open(&ModelSource::Path(path), Precision::F32);
        assert_eq!(model.core.target.config.stop_tokens, [1]);
        let mut cache = model.cache();
        let logits = model.causal(&mut cache, 0, &expected.ids);
        for (got, want) in logits.iter().zip(&expected.logits) {
            let worst = far(got, want);
            assert!(worst < CLOSE, "{name}: a logit is {worst} off");
        }
    }
}

/// In 8 bits the model is another one, but it stays near the first, and rows still do not depend on how they come.
#[test]
fn quantised_hybrids_stay_near_and_keep_the_promise() {
    let expected = Expected::of("qwen35-untied");
    let mut model = Model::open(&ModelSource::Path(hf("qwen35-untied")), Precision::Q8);
    assert!(!model.core.target.is_exact());
    let mut cache = model.cache();
    let whole = model.causal(&mut cache, 0, &expected.ids);
    let cosine = |a: &[f32], b: &[f32]| {
        let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(x * y)).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    for (got, want) in whole.iter().zip(&expected.logits) {
        assert!(cosine(got, want) > 0.95, "{}", cosine(got, want));
    }
    let mut cache = model.cache();
    let mut dice = Dice(5);
    let mut at = 0;
    while at < expected.ids.len() {
        let count = (1 + dice.below(18)).min(expected.ids.len() - at);
        assert_eq!(model.causal(&mut cache, at, &expected.ids[at..at + count]), whole[at..at + count]);
        at += count;
    }
}
