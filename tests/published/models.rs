//! Configurations and tensor lists of published models, as far as they decide how a model is run.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::checkpoint::{Tensor, write};

fn add(tensors: &mut Vec<Tensor>, name: String, shape: &[usize]) {
    tensors.push((name, shape.to_vec()));
}

/// Layers as Qwen3 has them, under a prefix. Drafters have the same.
fn qwen3_layers(tensors: &mut Vec<Tensor>, prefix: &str, layers: usize, hidden: usize, width: usize) {
    for l in 0..layers {
        let mut put = |part: &str, shape: &[usize]| add(tensors, format!("{prefix}layers.{l}.{part}.weight"), shape);
        put("input_layernorm", &[hidden]);
        put("post_attention_layernorm", &[hidden]);
        put("self_attn.q_proj", &[4096, hidden]);
        put("self_attn.k_proj", &[1024, hidden]);
        put("self_attn.v_proj", &[1024, hidden]);
        put("self_attn.o_proj", &[hidden, 4096]);
        put("self_attn.q_norm", &[128]);
        put("self_attn.k_norm", &[128]);
        put("mlp.gate_proj", &[width, hidden]);
        put("mlp.up_proj", &[width, hidden]);
        put("mlp.down_proj", &[hidden, width]);
    }
}

/// Qwen3-4B (`tied`) or Qwen3-8B.
pub fn qwen3(folder: &Path, hidden: usize, width: usize, tied: bool, shards: usize) {
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 151_643, "eos_token_id": 151_645, "head_dim": 128, "hidden_act": "silu", "hidden_size": hidden,
        "initializer_range": 0.02, "intermediate_size": width, "max_position_embeddings": 40_960,
        "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "rope_scaling": null, "rope_theta": 1_000_000,
        "sliding_window": null, "tie_word_embeddings": tied, "torch_dtype": "bfloat16", "use_cache": true,
        "use_sliding_window": false, "vocab_size": 151_936
    });
    let mut tensors = Vec::new();
    if !tied {
        add(&mut tensors, "lm_head.weight".into(), &[151_936, hidden]);
    }
    add(&mut tensors, "model.embed_tokens.weight".into(), &[151_936, hidden]);
    qwen3_layers(&mut tensors, "model.", 36, hidden, width);
    add(&mut tensors, "model.norm.weight".into(), &[hidden]);
    write(folder, &config, &tensors, shards);
    let generation = json!({ "do_sample": true, "eos_token_id": [151_645, 151_643], "pad_token_id": 151_643 });
    fs::write(folder.join("generation_config.json"), generation.to_string()).expect("a file");
    let tokenizer = json!({
        "added_tokens_decoder": {
            "151643": { "content": "<|endoftext|>", "special": true },
            "151645": { "content": "<|im_end|>", "special": true }
        },
        "chat_template": "{{ messages }}", "eos_token": "<|im_end|>", "tokenizer_class": "Qwen2Tokenizer"
    });
    fs::write(folder.join("tokenizer_config.json"), tokenizer.to_string()).expect("a file");
    fs::write(folder.join("tokenizer.json"), "{}").expect("a file");
}

/// Qwen3.6-27B: a hybrid in the wrapper for several kinds of input, with a vision tower and a prediction head.
pub fn qwen36(folder: &Path) {
    const HIDDEN: usize = 5120;
    const WIDTH: usize = 17_408;
    let kind = |l: usize| if l % 4 == 3 { "full_attention" } else { "linear_attention" };
    let types: Vec<&str> = (0..64).map(kind).collect();
    let config = json!({
        "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 248_056, "model_type": "qwen3_5",
        "text_config": {
            "attention_bias": false, "attn_output_gate": true, "dtype": "bfloat16", "eos_token_id": 248_044,
            "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": HIDDEN,
            "intermediate_size": WIDTH, "layer_types": types, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
            "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
            "max_position_embeddings": 262_144, "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
            "num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "mrope_interleaved": true, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25,
                "rope_theta": 10_000_000, "rope_type": "default"
            },
            "tie_word_embeddings": false, "vocab_size": 248_320
        },
        "tie_word_embeddings": false, "vision_config": { "depth": 27, "hidden_size": 1152, "model_type": "qwen3_5" }
    });
    let mut tensors = Vec::new();
    add(&mut tensors, "lm_head.weight".into(), &[248_320, HIDDEN]);
    add(&mut tensors, "model.language_model.embed_tokens.weight".into(), &[248_320, HIDDEN]);
    for (l, kind) in types.iter().enumerate() {
        hybrid_layer(&mut tensors, &format!("model.language_model.layers.{l}"), *kind == "full_attention");
    }
    add(&mut tensors, "model.language_model.norm.weight".into(), &[HIDDEN]);
    add(&mut tensors, "model.visual.patch_embed.proj.weight".into(), &[1152, 3, 2, 16, 16]);
    add(&mut tensors, "model.visual.merger.linear_fc2.weight".into(), &[HIDDEN, 4608]);
    add(&mut tensors, "mtp.fc.weight".into(), &[HIDDEN, 2 * HIDDEN]);
    hybrid_layer(&mut tensors, "mtp.layers.0", true);
    write(folder, &config, &tensors, 15);
    let generation = json!({ "eos_token_id": [248_046, 248_044] });
    fs::write(folder.join("generation_config.json"), generation.to_string()).expect("a file");
    fs::write(folder.join("chat_template.jinja"), "{{ messages }}").expect("a file");
    fs::write(folder.join("tokenizer.json"), "{}").expect("a file");
}

fn hybrid_layer(tensors: &mut Vec<Tensor>, prefix: &str, full: bool) {
    const HIDDEN: usize = 5120;
    let mut put = |part: &str, shape: &[usize]| add(tensors, format!("{prefix}.{part}"), shape);
    put("input_layernorm.weight", &[HIDDEN]);
    put("post_attention_layernorm.weight", &[HIDDEN]);
    put("mlp.gate_proj.weight", &[17_408, HIDDEN]);
    put("mlp.up_proj.weight", &[17_408, HIDDEN]);
    put("mlp.down_proj.weight", &[HIDDEN, 17_408]);
    if full {
        put("self_attn.q_proj.weight", &[2 * 24 * 256, HIDDEN]);
        put("self_attn.k_proj.weight", &[1024, HIDDEN]);
        put("self_attn.v_proj.weight", &[1024, HIDDEN]);
        put("self_attn.o_proj.weight", &[HIDDEN, 6144]);
        put("self_attn.q_norm.weight", &[256]);
        put("self_attn.k_norm.weight", &[256]);
    } else {
        put("linear_attn.in_proj_qkv.weight", &[10_240, HIDDEN]);
        put("linear_attn.in_proj_z.weight", &[6144, HIDDEN]);
        put("linear_attn.in_proj_b.weight", &[48, HIDDEN]);
        put("linear_attn.in_proj_a.weight", &[48, HIDDEN]);
        put("linear_attn.conv1d.weight", &[10_240, 1, 4]);
        put("linear_attn.A_log", &[48]);
        put("linear_attn.dt_bias", &[48]);
        put("linear_attn.norm.weight", &[128]);
        put("linear_attn.out_proj.weight", &[HIDDEN, 6144]);
    }
}

/// A drafter of five layers with heads of its own.
pub fn drafter(folder: &Path, hidden: usize, width: usize, config: &Value) {
    let mut all = json!({
        "architectures": ["DFlashDraftModel"], "attention_bias": false, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": width, "model_type": "qwen3", "num_attention_heads": 32,
        "num_hidden_layers": 5, "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16"
    });
    let (into, from) = (all.as_object_mut().expect("an object"), config.as_object().expect("an object"));
    into.extend(from.clone());
    write(folder, &all, &drafter_tensors(hidden, width), 1);
}

/// Its 58 tensors.
pub fn drafter_tensors(hidden: usize, width: usize) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    add(&mut tensors, "fc.weight".into(), &[hidden, 5 * hidden]);
    add(&mut tensors, "hidden_norm.weight".into(), &[hidden]);
    add(&mut tensors, "norm.weight".into(), &[hidden]);
    qwen3_layers(&mut tensors, "", 5, hidden, width);
    assert_eq!(tensors.len(), 58);
    tensors
}

/// What the drafters of Qwen3-4B and Qwen3-8B say beside their size.
pub fn qwen3_drafter() -> Value {
    json!({
        "block_size": 16, "dflash_config": { "mask_token_id": 151_669, "target_layer_ids": [1, 9, 17, 25, 33] },
        "max_position_embeddings": 40_960, "num_target_layers": 36, "rope_scaling": null, "rope_theta": 1_000_000,
        "sliding_window": null, "use_sliding_window": false, "vocab_size": 151_936
    })
}

/// What the drafter of Qwen3.6-27B says beside its size.
pub fn qwen36_drafter() -> Value {
    let sliding = "sliding_attention";
    json!({
        "dflash_config": { "block_size": 16, "mask_token_id": 248_070, "target_layer_ids": [1, 16, 31, 46, 61] },
        "layer_types": [sliding, sliding, sliding, sliding, "full_attention"], "max_position_embeddings": 262_144,
        "num_target_layers": 64, "rope_parameters": { "rope_theta": 10_000_000, "rope_type": "default" },
        "sliding_window": 2048, "use_sliding_window": true, "vocab_size": 248_320
    })
}
