//! A hybrid checkpoint in the form that converters to GGUF give it.

use std::path::Path;

use spectop::engine::api::ModelSource;
use spectop::engine::weights::Checkpoint;

use super::gguf::Gguf;

/// Shapes of the fixtures.
const LAYERS: usize = 4;
const KEY_HEADS: usize = 2;
const VALUE_HEADS: usize = 4;
const KEY_DIM: usize = 8;
const VALUE_DIM: usize = 16;

const SAME: [(&str, &str); 12] = [
    ("attn_norm.weight", "input_layernorm.weight"),
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_k.weight", "self_attn.k_proj.weight"),
    ("attn_v.weight", "self_attn.v_proj.weight"),
    ("attn_output.weight", "self_attn.o_proj.weight"),
    ("attn_q_norm.weight", "self_attn.q_norm.weight"),
    ("attn_k_norm.weight", "self_attn.k_norm.weight"),
    ("ffn_gate.weight", "mlp.gate_proj.weight"),
    ("ffn_up.weight", "mlp.up_proj.weight"),
    ("ffn_down.weight", "mlp.down_proj.weight"),
    ("ssm_norm.weight", "linear_attn.norm.weight"),
];

/// Value heads from grouped by key head to a stride apart, in units of `width` elements.
fn tiled(values: &[f32], width: usize) -> Vec<f32> {
    let each = VALUE_HEADS / KEY_HEADS;
    let mut out = Vec::with_capacity(values.len());
    for v in 0..each {
        for k in 0..KEY_HEADS {
            let head = k * each + v;
            out.extend_from_slice(&values[head * width..(head + 1) * width]);
        }
    }
    out
}

/// The file of a checkpoint in Hugging Face's form.
pub fn convert(folder: &Path) -> Vec<u8> {
    let source = Checkpoint::open(&ModelSource::Path(folder.to_owned())).expect("it opens");
    let read = |name: &str| {
        let view = source.find(name)?;
        Some((view.shape.clone(), view.to_f32().expect("numbers")))
    };
    let mut file = Gguf::default()
        .pair_text("general.architecture", "qwen35")
        .pair_u32("qwen35.block_count", LAYERS as u32 + 1)
        .pair_u32("qwen35.nextn_predict_layers", 1)
        .pair_u32("qwen35.context_length", 512)
        .pair_u32("qwen35.embedding_length", 64)
        .pair_u32("qwen35.feed_forward_length", 64)
        .pair_u32("qwen35.attention.head_count", 2)
        .pair_u32("qwen35.attention.head_count_kv", 1)
        .pair_u32("qwen35.attention.key_length", 32)
        .pair_u32("qwen35.rope.dimension_count", 8)
        .pair("qwen35.rope.freq_base", 6, &10_000f32.to_le_bytes())
        .pair("qwen35.attention.layer_norm_rms_epsilon", 6, &1e-6f32.to_le_bytes())
        .pair_u32("qwen35.ssm.conv_kernel", 4)
        .pair_u32("qwen35.ssm.state_size", KEY_DIM as u32)
        .pair_u32("qwen35.ssm.group_count", KEY_HEADS as u32)
        .pair_u32("qwen35.ssm.time_step_rank", VALUE_HEADS as u32)
        .pair_u32("qwen35.ssm.inner_size", (VALUE_HEADS * VALUE_DIM) as u32)
        .pair_u32("tokenizer.ggml.eos_token_id", 1);
    let mut put = |name: &str, shape: &[usize], values: &[f32]| {
        let dims: Vec<u64> = shape.iter().rev().map(|&d| d as u64).collect();
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        file = std::mem::take(&mut file).tensor(name, &dims, 0, &data);
    };
    let top = [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("output.weight", "lm_head.weight"),
    ];
    for (to, from) in top {
        let Some((shape, mut values)) = read(from) else { continue };
        if to == "output_norm.weight" {
            for v in &mut values {
                *v += 1.0;
            }
        }
        put(to, &shape, &values);
    }
    for l in 0..LAYERS {
        let from = |name: &str| read(&format!("model.layers.{l}.{name}"));
        let to = |name: &str| format!("blk.{l}.{name}");
        for (new, old) in SAME {
            let Some((shape, mut values)) = from(old) else { continue };
            if old.ends_with("norm.weight") && !old.starts_with("linear_attn") {
                for v in &mut values {
                    *v += 1.0;
                }
            }
            put(&to(new), &shape, &values);
        }
        let Some((shape, qkv)) = from("linear_attn.in_proj_qkv.weight") else { continue };
        let hidden = shape[1];
        let keys = 2 * KEY_HEADS * KEY_DIM;
        let with_tiled = |values: &[f32], line: usize| -> Vec<f32> {
            let (same, moved) = values.split_at(keys * line);
            [same.to_vec(), tiled(moved, VALUE_DIM * line)].concat()
        };
        put(&to("attn_qkv.weight"), &shape, &with_tiled(&qkv, hidden));
        let (shape, z) = from("linear_attn.in_proj_z.weight").expect("there");
        put(&to("attn_gate.weight"), &shape, &tiled(&z, VALUE_DIM * hidden));
        for (new, old) in [("ssm_beta.weight", "in_proj_b"), ("ssm_alpha.weight", "in_proj_a")] {
            let (shape, values) = from(&format!("linear_attn.{old}.weight")).expect("there");
            put(&to(new), &shape, &tiled(&values, hidden));
        }
        let (shape, conv) = from("linear_attn.conv1d.weight").expect("there");
        put(&to("ssm_conv1d.weight"), &[shape[0], shape[2]], &with_tiled(&conv, shape[2]));
        let (shape, a) = from("linear_attn.A_log").expect("there");
        let a: Vec<f32> = a.iter().map(|a| -a.exp()).collect();
        put(&to("ssm_a"), &shape, &tiled(&a, 1));
        let (shape, bias) = from("linear_attn.dt_bias").expect("there");
        put(&to("ssm_dt.bias"), &shape, &tiled(&bias, 1));
        let (shape, out) = from("linear_attn.out_proj.weight").expect("there");
        let moved: Vec<f32> = out.chunks(shape[1]).flat_map(|row| tiled(row, VALUE_DIM)).collect();
        put(&to("ssm_out.weight"), &shape, &moved);
    }
    file.bytes()
}
