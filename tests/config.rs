//! Configurations: what is read from published files, and how a pair that does not fit is refused.

use std::fs;

use serde_json::{Value, json};
use spectop::engine::api::ModelSource;
use spectop::engine::model::config::{
    Architecture, ConvShape, DraftAttention, DraftConfig, Mixing, SelectorShape, TargetConfig,
};
use spectop::engine::weights::Checkpoint;
use spectop::engine::weights::bundle::{SMOLLM2_DRAFT, TINY_DRAFT, TINY_TARGET};

/// A checkpoint with these files and one tensor.
fn checkpoint(files: &[(&str, &Value)]) -> (tempfile::TempDir, Checkpoint) {
    let dir = tempfile::tempdir().expect("a folder");
    let header = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat();
    fs::write(dir.path().join("model.safetensors"), weights).expect("a file");
    for (name, value) in files {
        fs::write(dir.path().join(name), value.to_string()).expect("a file");
    }
    let checkpoint = Checkpoint::open(&ModelSource::Path(dir.path().to_owned())).expect("opens");
    (dir, checkpoint)
}

fn target(config: &Value) -> Result<TargetConfig, String> {
    let (_dir, checkpoint) = checkpoint(&[("config.json", config)]);
    TargetConfig::read(&checkpoint).map_err(|e| e.to_string())
}

fn draft(config: &Value, target: &TargetConfig) -> Result<DraftConfig, String> {
    let (_dir, checkpoint) = checkpoint(&[("config.json", config)]);
    DraftConfig::read(&checkpoint, target).map_err(|e| e.to_string())
}

fn with(mut config: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().expect("an object") {
        config[key] = value.clone();
    }
    config
}

fn llama() -> Value {
    json!({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 36,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0, "max_position_embeddings": 4096, "eos_token_id": [7, 5000], "hidden_act": "silu"})
}

fn dflash() -> Value {
    json!({"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": 1000, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "num_target_layers": 36,
        "dflash_config": {"mask_token_id": 999}})
}

#[test]
fn the_embedded_pairs_are_whole() {
    let checkpoint = Checkpoint::open(&ModelSource::Embedded(&TINY_TARGET)).expect("opens");
    let tiny = TargetConfig::read(&checkpoint).expect("a configuration");
    assert_eq!(tiny.architecture, Architecture::Qwen3);
    assert_eq!((tiny.hidden, tiny.layers, tiny.vocab, tiny.head_dim, tiny.tied), (128, 6, 264, 32, true));
    assert_eq!(tiny.stop_tokens, [257]);
    assert_eq!((tiny.inv_freq.len(), tiny.inv_freq[0]), (16, 1.0));
    assert!(!tiny.rope_interleaved);
    assert_eq!(checkpoint.location(), "embedded");
    assert_eq!(checkpoint.tensor("model.embed_tokens.weight").expect("there").shape, [264, 128]);

    let checkpoint = Checkpoint::open(&ModelSource::Embedded(&TINY_DRAFT)).expect("opens");
    let drafter = DraftConfig::read(&checkpoint, &tiny).expect("fits");
    assert_eq!((drafter.block_size, drafter.mask_token, drafter.taps), (8, 256, vec![1, 4]));
    assert_eq!(drafter.layers, vec![DraftAttention { causal: false, window: None }; 2]);
    assert_eq!((drafter.draft_vocab, drafter.output_multiplier, drafter.softcap), (None, 1.0, None));

    let checkpoint = Checkpoint::open(&ModelSource::Embedded(&SMOLLM2_DRAFT)).expect("opens");
    let ids = checkpoint.tensor("draft_token_ids").expect("there").to_ids().expect("ids");
    assert_eq!(ids.len(), 12_288);
    let smol = TargetConfig { hidden: 576, layers: 30, vocab: 49_152, ..tiny.clone() };
    let drafter = DraftConfig::read(&checkpoint, &smol).expect("fits");
    assert_eq!((drafter.draft_vocab, drafter.taps), (Some(12_288), vec![1, 8, 14, 20, 27]));
    assert_eq!(drafter.layers, vec![DraftAttention { causal: true, window: None }; 3]);
    let error = DraftConfig::read(&checkpoint, &tiny).expect_err("another target").to_string();
    assert!(error.contains("made for hidden size 576, but the target has 128"), "{error}");
}

#[test]
fn targets_are_read_with_their_variants() {
    let config = target(&llama()).expect("a llama");
    assert_eq!((config.head_dim, config.kv_heads, config.tied), (16, 2, true));
    assert_eq!(config.stop_tokens, [7], "ids beyond the vocabulary cannot be produced");

    let config = with(llama(), &json!({"eos_token_id": 3, "tie_word_embeddings": false, "head_dim": 32}));
    let generation = json!({"eos_token_id": [9, 3]});
    let (_dir, files) = checkpoint(&[("config.json", &config), ("generation_config.json", &generation)]);
    let read = TargetConfig::read(&files).expect("a llama");
    assert_eq!((read.stop_tokens, read.tied, read.head_dim), (vec![3, 9], false, 32));

    // The same rope in the words of Transformers 4 and 5.
    let old = with(llama(), &json!({"rope_scaling": {"type": "linear", "factor": 2.0}}));
    let mut new = with(llama(), &json!({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}}));
    new.as_object_mut().expect("an object").remove("rope_theta");
    let (old, new) = (target(&old).expect("old"), target(&new).expect("new"));
    assert_eq!(old.inv_freq, new.inv_freq);
    assert_eq!(old.inv_freq[0], 0.5);
}

#[test]
fn llama3_scaling_keeps_fast_turns_and_slows_slow_ones() {
    let scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192});
    let scaled = target(&with(llama(), &json!({"rope_scaling": scaling, "head_dim": 128}))).expect("scaled").inv_freq;
    let plain = target(&with(llama(), &json!({"head_dim": 128}))).expect("plain").inv_freq;
    assert_eq!(scaled[0], plain[0]);
    assert!((scaled[63] - plain[63] / 8.0).abs() < 1e-12);
    // Between the two bounds: computed by hand from the formula for j = 31.
    let f = 5e5f64.powf(-62.0 / 128.0);
    let smooth = (8192.0 / (2.0 * std::f64::consts::PI / f) - 1.0) / 3.0;
    assert!((0.0..1.0).contains(&smooth));
    let expected = (1.0 - smooth) * f / 8.0 + smooth * f;
    assert!((f64::from(scaled[31]) - expected).abs() < 1e-9, "{} {expected}", scaled[31]);
}

#[test]
fn unsupported_targets_are_refused_in_words() {
    for (change, word) in [
        (json!({"model_type": "mamba"}), "mamba"),
        (json!({"attention_bias": true}), "biases"),
        (json!({"hidden_act": "gelu"}), "gelu"),
        (json!({"hidden_size": 0}), "hidden_size"),
        (json!({"hidden_size": "big"}), "hidden_size"),
        (json!({"hidden_size": 1u64 << 60}), "hidden_size"),
        (json!({"num_key_value_heads": 3}), "evenly"),
        (json!({"num_attention_heads": 5}), "divided"),
        (json!({"head_dim": 15}), "even"),
        (json!({"rope_scaling": {"type": "yarn", "factor": 4.0}}), "yarn"),
        (json!({"rope_scaling": {"type": "linear"}}), "factor"),
        (json!({"rope_theta": 0}), "rope_theta"),
        (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        (json!({"eos_token_id": "x"}), "eos_token_id"),
        (json!({"vocab_size": null}), "vocab_size is missing"),
    ] {
        let error = target(&with(llama(), &change)).expect_err("refused");
        assert!(error.contains(word), "{change}: {error}");
    }
    let (_dir, none) = checkpoint(&[]);
    assert!(TargetConfig::read(&none).expect_err("no file").to_string().contains("no config.json"));
    let (_dir, list) = checkpoint(&[("config.json", &json!([1]))]);
    assert!(TargetConfig::read(&list).expect_err("a list").to_string().contains("object"));
    assert!(target(&with(llama(), &json!({"dflash_config": {}}))).expect_err("a drafter").contains("--draft"));
}

#[test]
fn drafters_are_read_with_their_variants() {
    let target = target(&llama()).expect("a llama");
    let read = draft(&dflash(), &target).expect("fits");
    assert_eq!((read.taps, read.block_size), (vec![1, 9, 17, 25, 33], 16));
    let nested =
        json!({"dflash_config": {"mask_token_id": 4, "block_size": 10, "target_layer_ids": [3, 1]}, "block_size": 12});
    let read = draft(&with(dflash(), &nested), &target).expect("fits");
    assert_eq!((read.taps, read.block_size, read.mask_token), (vec![3, 1], 10, 4));

    let types =
        json!(["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]);
    let sliding = with(dflash(), &json!({"layer_types": types, "sliding_window": 2048}));
    let layers = draft(&sliding, &target).expect("fits").layers;
    assert_eq!(layers[0], DraftAttention { causal: true, window: Some(2048) });
    assert_eq!(layers[4], DraftAttention { causal: false, window: None });
    let layers = draft(&with(sliding.clone(), &json!({"is_causal": false})), &target).expect("fits").layers;
    assert_eq!(layers[0], DraftAttention { causal: false, window: Some(2048) });
    let causal = with(sliding, &json!({"dflash_config": {"mask_token_id": 1, "causal": true}}));
    assert!(draft(&causal, &target).expect("fits").layers.iter().all(|l| l.causal));

    let scales = json!({"output_multiplier": 0.5, "final_logit_softcapping": 30.0, "input_embedding_scale": 2.0});
    let read = draft(&with(dflash(), &scales), &target).expect("fits");
    assert_eq!((read.output_multiplier, read.softcap, read.embedding_scale), (0.5, Some(30.0), 2.0));
}

#[test]
fn the_second_generation_is_read_with_its_defaults() {
    let target = target(&llama()).expect("a llama");
    let plain = draft(&dflash(), &target).expect("fits");
    assert_eq!((plain.conv, plain.selector), (None, None));
    let named = draft(&with(dflash(), &json!({"architectures": ["DFlash2DraftModel"]})), &target).expect("fits");
    assert_eq!(named.conv, Some(ConvShape { kernel: 2, group: 16 }));
    assert_eq!(named.selector, Some(SelectorShape { rank: 256, candidates: 16 }));
    let said = json!({"dflash_config": {"mask_token_id": 1, "conv_kernel_size": 3, "conv_group_size": 8,
        "selector_rank": 32, "selector_top_k": 4}});
    let said = draft(&with(dflash(), &said), &target).expect("fits");
    assert_eq!(said.conv, Some(ConvShape { kernel: 3, group: 8 }));
    assert_eq!(said.selector, Some(SelectorShape { rank: 32, candidates: 4 }));
}

fn hybrid() -> Value {
    json!({"model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1000, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1], "mrope_interleaved": true},
        "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4})
}

#[test]
fn hybrids_are_read_alone_and_inside_a_model_that_sees() {
    let read = target(&hybrid()).expect("a hybrid");
    assert_eq!(read.architecture, Architecture::Qwen35);
    let every_fourth: Vec<usize> = (0..8).filter(|&l| read.mixing[l] == Mixing::Attention).collect();
    assert_eq!(every_fourth, [3, 7]);
    let delta = read.delta.clone().expect("recurrent layers");
    assert_eq!((delta.key_width(), delta.value_width(), delta.conv_width(), delta.kernel), (16, 96, 128, 4));
    assert_eq!((delta.key_head(2), delta.key_head(3)), (0, 1), "value heads stand in groups");
    // Half of 32 elements rotate, in pairs.
    assert_eq!((read.inv_freq.len(), read.inv_freq[0]), (8, 1.0));
    assert!((f64::from(read.inv_freq[4]) - 1e7f64.powf(-0.5)).abs() < 1e-9);

    let wrapped = json!({"model_type": "qwen3_5", "text_config": hybrid(), "vision_config": {"hidden_size": 3},
        "tie_word_embeddings": false, "eos_token_id": 9});
    let inner = target(&wrapped).expect("a hybrid");
    assert_eq!((inner.hidden, inner.layers, inner.tied, inner.stop_tokens), (64, 8, false, vec![9]));

    let types = json!([
        "full_attention",
        "linear_attention",
        "linear_attention",
        "linear_attention",
        "linear_attention",
        "linear_attention",
        "linear_attention",
        "full_attention"
    ]);
    let listed = target(&with(hybrid(), &json!({"layer_types": types}))).expect("a hybrid");
    assert_eq!(listed.mixing[0], Mixing::Attention);
    assert_eq!(listed.mixing[3], Mixing::Delta);

    for (change, word) in [
        (json!({"layer_types": ["full_attention"]}), "layer_types"),
        (json!({"layer_types": [1, 2, 3, 4, 5, 6, 7, 8]}), "layer_types"),
        (json!({"linear_num_value_heads": 5}), "evenly"),
        (json!({"linear_conv_kernel_dim": null}), "linear_conv_kernel_dim is missing"),
        (json!({"attn_output_gate": false}), "attn_output_gate"),
        (json!({"partial_rotary_factor": 0.01, "rope_parameters": {"rope_theta": 1e7}}), "partial_rotary_factor"),
    ] {
        let error = target(&with(hybrid(), &change)).expect_err("refused");
        assert!(error.contains(word), "{change}: {error}");
    }
}

#[test]
fn drafters_that_do_not_fit_are_refused_in_words() {
    let target = target(&llama()).expect("a llama");
    for (change, words) in [
        (json!({"hidden_size": 1024}), "made for hidden size 1024, but the target has 64"),
        (json!({"vocab_size": 999}), "vocabulary of 999 tokens, but the target has 1000"),
        (json!({"num_target_layers": 30}), "target of 30 layers, but the target has 36"),
        (json!({"dflash_config": {"mask_token_id": 1000}}), "mask token 1000"),
        (json!({"dflash_config": {"mask_token_id": 1, "target_layer_ids": [36]}}), "layer number 36"),
        (json!({"dflash_config": {"mask_token_id": 1, "target_layer_ids": []}}), "target_layer_ids"),
        (json!({"dflash_config": {}}), "mask_token_id is missing"),
        (json!({"dflash_config": null}), "not a DFlash drafter"),
        (json!({"rope_theta": null}), "rope_theta is missing"),
        (json!({"layer_types": ["full_attention"]}), "layer_types"),
        (json!({"layer_types": ["linear", "linear", "linear", "linear", "linear"]}), "layer_types"),
        (json!({"dflash_config": {"mask_token_id": 1, "use_swa": true}}), "sliding_window is missing"),
        (json!({"conv_kernel_size": 2, "conv_group_size": 48}), "groups of 48"),
        (json!({"selector_rank": 8, "selector_top_k": 300}), "selector_top_k"),
        (json!({"projector_type": "domino"}), "Domino"),
        (json!({"draft_vocab_size": 500}), "draft_token_ids"),
        (json!({"block_size": 1}), "block_size"),
        (json!({"num_hidden_layers": 1_000_000}), "num_hidden_layers"),
    ] {
        let error = draft(&with(dflash(), &change), &target).expect_err("refused");
        assert!(error.contains(words), "{change}: {error}");
    }
}
