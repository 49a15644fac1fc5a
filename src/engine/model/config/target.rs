//! Shape of a target, from GGUF metadata or `config.json`.

use super::fields::{Fields, Keys};
use super::{Architecture, Mixing, TargetConfig, hybrid, rope};
use crate::engine::weights::gguf::Metadata;
use crate::engine::weights::{Checkpoint, WeightsError};

/// Tokens that end an answer in GGUF files whose metadata only names one of several.
const END_TOKENS: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "<end_of_turn>"];

pub(super) fn read(checkpoint: &Checkpoint) -> Result<TargetConfig, WeightsError> {
    let config = match checkpoint.metadata() {
        Some(metadata) => from_gguf(checkpoint, metadata)?,
        None => from_json(checkpoint)?,
    };
    let wrong = |problem: String| Err(WeightsError::config(checkpoint.location(), problem));
    if !config.heads.is_multiple_of(config.kv_heads) {
        return wrong(format!("{} query heads cannot share {} KV heads evenly", config.heads, config.kv_heads));
    }
    if !config.head_dim.is_multiple_of(2) {
        return wrong(format!("heads of {} elements cannot be rotated: the width must be even", config.head_dim));
    }
    if !(config.eps.is_finite() && config.eps >= 0.0) {
        return wrong(format!("the RMSNorm epsilon is {}", config.eps));
    }
    Ok(config)
}

fn from_gguf(checkpoint: &Checkpoint, metadata: &Metadata) -> Result<TargetConfig, WeightsError> {
    let file = checkpoint.location();
    let arch = metadata.text("general.architecture").unwrap_or("");
    let keys = Keys { file: &file, metadata, arch };
    let architecture = match arch {
        "llama" => Architecture::Llama,
        "qwen3" => Architecture::Qwen3,
        "qwen35" => Architecture::Qwen35,
        "" => return Err(keys.wrong("general.architecture is missing, so the kind of model is unknown")),
        other => {
            return Err(keys
                .wrong(format!("models of architecture \"{other}\" are not supported; llama, qwen3 and qwen35 are")));
        }
    };
    if metadata.unsigned(&keys.key("expert_count")).is_some_and(|n| n > 0) {
        return Err(keys.wrong("mixture-of-experts models are not supported"));
    }
    if checkpoint.find("blk.0.attn_q.bias").is_some() {
        return Err(keys.wrong("projections with biases are not supported"));
    }
    let hidden = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let head_dim = match keys.optional_size("attention.key_length")? {
        Some(n) => n,
        None => divided(hidden, heads, &file)?,
    };
    let rotated = keys.optional_size("rope.dimension_count")?.unwrap_or(head_dim);
    let whole = architecture != Architecture::Qwen35;
    if (whole && rotated != head_dim) || rotated > head_dim || !rotated.is_multiple_of(2) {
        return Err(keys.wrong(format!(
            "{rotated} of {head_dim} elements of a head are rotated, which does not fit this kind of model"
        )));
    }
    let embedding = checkpoint.tensor("token_embd.weight")?;
    let vocab = embedding.rows();
    if embedding.cols() != hidden {
        return Err(keys
            .wrong(format!("embedding_length is {hidden}, but rows of token_embd.weight have {}", embedding.cols())));
    }
    let (layers, mixing, delta) = if architecture == Architecture::Qwen35 {
        hybrid::from_gguf(checkpoint, &keys)?
    } else {
        let layers = keys.size("block_count")?;
        (layers, vec![Mixing::Attention; layers], None)
    };
    Ok(TargetConfig {
        architecture,
        hidden,
        intermediate: keys.size("feed_forward_length")?,
        layers,
        mixing,
        delta,
        heads,
        kv_heads: keys.optional_size("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        vocab,
        eps: keys.float("attention.layer_norm_rms_epsilon").unwrap_or(1e-5) as f32,
        inv_freq: gguf_rope(checkpoint, &keys, rotated)?,
        // Converters permute the rows of q and k of llama models so that pairs lie side by side.
        rope_interleaved: architecture == Architecture::Llama,
        context: keys.size("context_length")?,
        tied: checkpoint.find("output.weight").is_none(),
        stop_tokens: gguf_stop_tokens(metadata, vocab),
    })
}

fn gguf_rope(checkpoint: &Checkpoint, keys: &Keys<'_>, rotated: usize) -> Result<Vec<f32>, WeightsError> {
    let theta = keys.float("rope.freq_base").unwrap_or(10_000.0);
    if !(theta.is_finite() && theta > 1.0) {
        return Err(keys.wrong(format!("rope.freq_base is {theta}, but it must be greater than 1")));
    }
    let mut frequencies = rope::frequencies(theta, rotated);
    let factor = match keys.metadata.text(&keys.key("rope.scaling.type")) {
        Some("linear") => keys.float("rope.scaling.factor"),
        None | Some("none" | "") => keys.float("rope.scale_linear"),
        Some(other) => {
            return Err(keys.wrong(format!("RoPE scaling \"{other}\" is not supported; none and linear are")));
        }
    };
    if let Some(factor) = factor.filter(|f| f.is_finite() && *f > 0.0) {
        for f in &mut frequencies {
            *f /= factor;
        }
    }
    // Llama 3's scaling arrives as one divisor a frequency.
    if let Some(tensor) = checkpoint.find("rope_freqs.weight") {
        let factors = tensor.to_f32()?;
        if factors.len() != frequencies.len() || factors.iter().any(|f| !(f.is_finite() && *f > 0.0)) {
            let problem =
                format!("{} positive factors are expected, {} values are there", frequencies.len(), factors.len());
            return Err(WeightsError::Tensor { file: keys.file.to_owned(), tensor: tensor.name, problem });
        }
        for (f, by) in frequencies.iter_mut().zip(factors) {
            *f /= f64::from(by);
        }
    }
    Ok(rope::rounded(&frequencies))
}

fn gguf_stop_tokens(metadata: &Metadata, vocab: usize) -> Vec<u32> {
    let keys = ["eos_token_id", "eot_token_id", "eom_token_id"];
    let mut ids: Vec<u32> = keys
        .iter()
        .filter_map(|k| metadata.unsigned(&format!("tokenizer.ggml.{k}")).and_then(|n| u32::try_from(n).ok()))
        .collect();
    if let Some(tokens) = metadata.texts("tokenizer.ggml.tokens") {
        let found = tokens.iter().enumerate().filter(|(_, t)| END_TOKENS.contains(&t.as_str()));
        ids.extend(found.map(|(id, _)| id as u32));
    }
    known(ids, vocab)
}

fn from_json(checkpoint: &Checkpoint) -> Result<TargetConfig, WeightsError> {
    let file = format!("{}/config.json", checkpoint.location());
    let Some(config) = checkpoint.json("config.json")? else {
        return Err(WeightsError::config(
            checkpoint.location(),
            "there is no config.json beside the weights; copy it from where the model was published",
        ));
    };
    let Some(object) = config.as_object() else {
        return Err(WeightsError::config(file, "it does not hold a JSON object"));
    };
    let outer = Fields { file: &file, objects: vec![object] };
    // What sees pictures wraps what reads and writes text.
    let inner = object.get("text_config").and_then(|v| v.as_object());
    let fields = Fields { file: &file, objects: inner.into_iter().chain([object]).collect() };
    let (architecture, default_theta) = match outer.optional_text("model_type")? {
        Some("llama") => (Architecture::Llama, Some(10_000.0)),
        Some("qwen3") => (Architecture::Qwen3, None),
        Some("qwen3_5" | "qwen3_5_text") => (Architecture::Qwen35, None),
        other => {
            return Err(fields.wrong(format!(
                "models of model_type {} are not supported; llama, qwen3 and qwen3_5 are",
                other.map_or("(missing)".to_owned(), |o| format!("\"{o}\""))
            )));
        }
    };
    if object.get("dflash_config").is_some() {
        return Err(fields.wrong("this is a DFlash drafter, not a target; give it with --draft"));
    }
    for key in ["attention_bias", "mlp_bias"] {
        if fields.optional_bool(key)? == Some(true) {
            return Err(fields.wrong(format!("{key} is true; projections with biases are not supported")));
        }
    }
    if let Some(act) = fields.optional_text("hidden_act")?.filter(|a| *a != "silu") {
        return Err(fields.wrong(format!("hidden_act is \"{act}\"; only silu is supported")));
    }
    if fields.optional_bool("use_sliding_window")? == Some(true) && fields.get("sliding_window").is_some() {
        return Err(fields.wrong("targets with sliding-window attention are not supported"));
    }
    let hidden = fields.size("hidden_size")?;
    let heads = fields.size("num_attention_heads")?;
    let head_dim = match fields.optional_size("head_dim")? {
        Some(n) => n,
        None => divided(hidden, heads, &file)?,
    };
    let vocab = fields.size("vocab_size")?;
    let has_head = checkpoint.find("lm_head.weight").is_some();
    let layers = fields.size("num_hidden_layers")?;
    let (mixing, delta, partial) = if architecture == Architecture::Qwen35 {
        let (mixing, delta) = hybrid::from_json(&fields, layers)?;
        (mixing, delta, Some(hybrid::ROTATED))
    } else {
        (vec![Mixing::Attention; layers], None, None)
    };
    Ok(TargetConfig {
        architecture,
        hidden,
        intermediate: fields.size("intermediate_size")?,
        layers,
        mixing,
        delta,
        heads,
        kv_heads: fields.optional_size("num_key_value_heads")?.unwrap_or(heads),
        head_dim,
        vocab,
        eps: fields.optional_float("rms_norm_eps")?.unwrap_or(1e-6) as f32,
        inv_freq: rope::from_json(&fields, head_dim, default_theta, partial)?,
        rope_interleaved: false,
        context: fields.optional_size("max_position_embeddings")?.unwrap_or(2048),
        tied: fields.optional_bool("tie_word_embeddings")?.unwrap_or(!has_head),
        stop_tokens: json_stop_tokens(checkpoint, &fields, vocab)?,
    })
}

fn json_stop_tokens(checkpoint: &Checkpoint, fields: &Fields<'_>, vocab: usize) -> Result<Vec<u32>, WeightsError> {
    let mut ids = fields.optional_numbers("eos_token_id")?.unwrap_or_default();
    if let Some(generation) = checkpoint.json("generation_config.json")? {
        let file = format!("{}/generation_config.json", checkpoint.location());
        let fields = Fields { file: &file, objects: generation.as_object().into_iter().collect() };
        ids.extend(fields.optional_numbers("eos_token_id")?.unwrap_or_default());
    }
    Ok(known(ids.into_iter().filter_map(|n| u32::try_from(n).ok()).collect(), vocab))
}

/// Sorted, each once, only those that the model can produce.
fn known(mut ids: Vec<u32>, vocab: usize) -> Vec<u32> {
    ids.retain(|&id| (id as usize) < vocab);
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn divided(hidden: usize, heads: usize, file: &str) -> Result<usize, WeightsError> {
    if hidden.is_multiple_of(heads) {
        Ok(hidden / heads)
    } else {
        Err(WeightsError::config(file, format!("hidden size {hidden} cannot be divided among {heads} heads")))
    }
}
