//! Drafters as other projects publish them draft what the same drafter does in the first format.

mod support;

use std::collections::HashMap;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::engine::backend::Backend;
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::model::drafter::Job;
use spectop::engine::rounds::Core;
use spectop::engine::weights::{Checkpoint, DType};
use spectop::protocol::mode::Mode;
use support::checkpoint::hf;
use support::engine::settings;

const TARGET: &str = "qwen35-tied";
const DRAFT: &str = "qwen35-tied-dflash";
/// Every other token from 3 on.
const OWN: usize = 40;

fn own_ids() -> Vec<u32> {
    (0..OWN as u32).map(|i| 2 * i + 3).collect()
}

/// The drafter in the form of the speculators project: a vocabulary and a head of its own, layers counted from 1.
fn speculators(folder: &Path, change: &Value) {
    let source = Checkpoint::open(&ModelSource::Path(hf(DRAFT))).expect("it opens");
    let target = Checkpoint::open(&ModelSource::Path(hf(TARGET))).expect("it opens");
    let mut tensors: HashMap<String, (Dtype, Vec<usize>, Vec<u8>)> = HashMap::new();
    for name in source.names() {
        let tensor = source.tensor(&name).expect("there");
        assert_eq!(tensor.dtype, DType::BF16);
        tensors.insert(name, (Dtype::BF16, tensor.shape.clone(), tensor.data.to_vec()));
    }
    let embedding = target.tensor("model.embed_tokens.weight").expect("there");
    let width = embedding.data.len() / embedding.rows();
    let rows = own_ids().iter().flat_map(|&id| embedding.data[id as usize * width..][..width].to_vec()).collect();
    tensors.insert("lm_head.weight".into(), (Dtype::BF16, vec![OWN, embedding.cols()], rows));
    let beyond = own_ids().iter().enumerate().flat_map(|(i, &id)| (i64::from(id) - i as i64).to_le_bytes()).collect();
    tensors.insert("d2t".into(), (Dtype::I64, vec![OWN], beyond));
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).expect("a tensor"))
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).expect("written");

    let old: Value =
        serde_json::from_slice(&std::fs::read(hf(DRAFT).join("config.json")).expect("read")).expect("JSON");
    let mut layers = old.clone();
    layers.as_object_mut().expect("an object").remove("dflash_config");
    let mut config = json!({
        "speculators_model_type": "dflash", "transformer_layer_config": layers, "mask_token_id": 95, "block_size": 8,
        "aux_hidden_state_layer_ids": [1, 3], "draft_vocab_size": OWN,
    });
    for (key, value) in change.as_object().expect("an object") {
        config[key] = value.clone();
    }
    std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
}

fn load(draft: &Path) -> Result<Core<Cpu>, String> {
    let target = Checkpoint::open(&ModelSource::Path(hf(TARGET))).expect("it opens");
    let draft = Checkpoint::open(&ModelSource::Path(draft.to_owned())).map_err(|e| e.to_string())?;
    Core::load(Cpu::new(1), &target, Some(&draft), Precision::F32, |_| {}).map_err(|e| e.to_string())
}

/// Logits of a block behind some features.
fn drafted(core: &mut Core<Cpu>) -> Vec<Vec<f32>> {
    let Core { backend, target, drafter, .. } = core;
    let drafter = drafter.as_mut().expect("a drafter");
    let mut features = backend.buf(drafter.feature_width());
    let numbers: Vec<f32> = (0..30 * drafter.feature_width()).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    backend.upload(&numbers, &mut features);
    let mut cache = drafter.cache(backend, true);
    let job = Job { features: &features, context: 30, cached: 0, block: Some((7, 8)) };
    drafter.pass(backend, target, &[job], &mut [&mut cache]);
    let logits = backend.read(&drafter.logits, 0..7);
    logits.chunks(logits.len() / 7).map(<[f32]>::to_vec).collect()
}

#[test]
fn the_form_of_the_speculators_project_drafts_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    speculators(folder.path(), &json!({}));
    let mut other = load(folder.path()).expect("it loads");
    let mut first = load(&hf(DRAFT)).expect("it loads");
    let drafter = other.drafter.as_ref().expect("a drafter");
    assert_eq!((drafter.config.taps.as_slice(), drafter.ids.clone()), (&[0, 2][..], Some(own_ids())));
    assert_eq!(drafter.config.layers, first.drafter.as_ref().expect("a drafter").config.layers);
    for (own, whole) in drafted(&mut other).iter().zip(drafted(&mut first)) {
        let picked: Vec<f32> = own_ids().iter().map(|&id| whole[id as usize]).collect();
        assert_eq!(*own, picked);
    }
    // And it runs: drafts are tokens of the target.
    let tree = |core: &mut Core<Cpu>| {
        let mut sequence = core.sequence(vec![5, 6, 7], 40, Vec::new(), Sampling::default());
        let mut work = |task| {
            let part = spectop::engine::rounds::Work { sequence: &mut sequence, task };
            core.round(&mut [part]).0.remove(0)
        };
        work(spectop::engine::rounds::Task::Prefill(3));
        work(spectop::engine::rounds::Task::Decode(settings(Mode::Ddtree, 8, 12))).proposal.tree
    };
    assert!(tree(&mut other).tokens.iter().all(|token| own_ids().contains(token)));
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    for (change, word) in [
        (json!({"aux_hidden_state_layer_ids": [0, 2]}), "counted from 1"),
        (json!({"aux_hidden_state_layer_ids": [1, 9]}), "layer number 8"),
        (json!({"draft_vocab_size": 39}), "d2t"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        speculators(folder.path(), &change);
        let Err(error) = load(folder.path()) else { panic!("{change} loads") };
        assert!(error.contains(word), "{change}: {error}");
    }
}
