//! Facts about a target, from `config.json` or GGUF metadata.

use serde_json::{Map, Value};

use super::facts::{LayerCounts, LinearFacts, RopeFacts, StopToken, TargetFacts};
use super::weights;
use crate::engine::model::config::TargetConfig;
use crate::engine::weights::gguf::{self, Metadata};
use crate::engine::weights::{Checkpoint, WeightsError};

/// Every fourth layer of a hybrid has full attention unless its file says otherwise.
const FULL_INTERVAL: usize = 4;
/// Vocabularies below this are bytes where no tokenizer says otherwise.
const BYTE_VOCAB: usize = 512;

pub(super) fn read(checkpoint: &Checkpoint) -> Result<TargetFacts, WeightsError> {
    let mut facts = match checkpoint.metadata() {
        Some(metadata) => from_gguf(checkpoint, metadata)?,
        None => from_json(checkpoint)?,
    };
    match TargetConfig::read(checkpoint) {
        Ok(config) => {
            let texts = std::mem::take(&mut facts.stop_tokens);
            let text = |id| texts.iter().find(|t| t.id == id).and_then(|t| t.text.clone());
            facts.stop_tokens = config
                .stop_tokens
                .iter()
                .map(|&id| StopToken { id, text: text(id).or_else(|| named(checkpoint, id)) })
                .collect();
        }
        Err(error) => facts.not_loadable = Some(error.to_string()),
    }
    Ok(facts)
}

/// Configuration values, looked up in several objects in order.
pub(super) struct Lookup<'a> {
    pub(super) file: String,
    pub(super) objects: Vec<&'a Map<String, Value>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.objects.iter().find_map(|o| o.get(key).filter(|v| !v.is_null()))
    }
    pub(super) fn size(&self, key: &str) -> Option<usize> {
        self.get(key)?.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0 && n < 1 << 32)
    }
    pub(super) fn needed(&self, key: &str) -> Result<usize, WeightsError> {
        self.size(key).ok_or_else(|| {
            WeightsError::config(
                &self.file,
                format!(
                    "{key} is missing or no whole number; the file is incomplete or belongs to another kind of model"
                ),
            )
        })
    }
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    /// Base, rotated elements and scaling, in either generation of keys.
    pub(super) fn rope(&self, head_dim: usize) -> RopeFacts {
        let nested = self.get("rope_parameters").or_else(|| self.get("rope_scaling")).and_then(Value::as_object);
        let all =
            Lookup { file: String::new(), objects: nested.into_iter().chain(self.objects.iter().copied()).collect() };
        let number = |key: &str| all.get(key).and_then(Value::as_f64);
        let part = number("partial_rotary_factor").filter(|p| (0.0..=1.0).contains(p)).unwrap_or(1.0);
        let kind = nested.and_then(|o| o.get("rope_type").or_else(|| o.get("type"))).and_then(Value::as_str);
        let factor = nested.and_then(|o| o.get("factor")).and_then(Value::as_f64);
        let scaling = kind.filter(|k| !matches!(*k, "default" | "none" | "mrope"));
        RopeFacts {
            theta: number("rope_theta"),
            dims: (head_dim as f64 * part).round() as usize,
            scaling: scaling.map(|kind| factor.map_or_else(|| kind.to_owned(), |f| format!("{kind} ×{f}"))),
        }
    }
}

/// Ids under a key: a number or a list.
fn ids(value: Option<&Value>) -> Vec<u32> {
    let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(one).collect(),
        Some(value) => one(value).into_iter().collect(),
        None => Vec::new(),
    }
}

fn from_json(checkpoint: &Checkpoint) -> Result<TargetFacts, WeightsError> {
    let Some(config) = checkpoint.json("config.json")? else {
        return Err(WeightsError::config(
            checkpoint.location(),
            "there is no config.json beside the weights; copy it from where the model was published",
        ));
    };
    let file = format!("{}/config.json", checkpoint.location());
    let Some(top) = config.as_object() else {
        return Err(WeightsError::config(file, "it does not hold a JSON object"));
    };
    // Models for several kinds of input keep the text model's settings in an object of their own.
    let text = top.get("text_config").and_then(Value::as_object);
    let all = Lookup { file, objects: text.into_iter().chain([top]).collect() };
    let (hidden, heads) = (all.needed("hidden_size")?, all.needed("num_attention_heads")?);
    let head_dim = all.size("head_dim").unwrap_or(hidden / heads);
    let total = all.needed("num_hidden_layers")?;
    let vocab = all.needed("vocab_size")?;
    let mut stops = ids(all.get("eos_token_id"));
    if let Some(generation) = checkpoint.json("generation_config.json")? {
        stops.extend(ids(generation.get("eos_token_id")));
    }
    stops.sort_unstable();
    stops.dedup();
    let has_head = ["lm_head.weight", "model.lm_head.weight"].iter().any(|n| checkpoint.find(n).is_some());
    let tokenizer_config = checkpoint.json("tokenizer_config.json")?.unwrap_or_default();
    let template = tokenizer_config.get("chat_template").is_some_and(|t| !t.is_null());
    let bytes = tokenizer_config.get("tokenizer_class").and_then(Value::as_str) == Some("ByteTokenizer");
    let tokenizer = match checkpoint.has_file("tokenizer.json") {
        true if !bytes => Some("tokenizer.json".to_owned()),
        _ if bytes || vocab < BYTE_VOCAB => Some("bytes".to_owned()),
        _ => None,
    };
    Ok(TargetFacts {
        name: checkpoint.name(),
        location: checkpoint.location(),
        container: "safetensors",
        architecture: top.get("model_type").and_then(Value::as_str).unwrap_or("unknown").to_owned(),
        layers: json_layers(&all, total),
        hidden,
        intermediate: all.size("moe_intermediate_size").or_else(|| all.size("intermediate_size")),
        heads,
        kv_heads: all.size("num_key_value_heads").unwrap_or(heads),
        head_dim,
        experts: ["num_experts", "num_local_experts", "n_routed_experts"].iter().find_map(|k| all.size(k)),
        linear: linear(&all),
        vocab,
        context: all.size("max_position_embeddings"),
        rope: all.rope(head_dim),
        tied: all.flag("tie_word_embeddings").unwrap_or(!has_head),
        weights: weights::count(checkpoint),
        stop_tokens: stops.into_iter().map(|id| StopToken { id, text: named(checkpoint, id) }).collect(),
        tokenizer,
        chat_template: template || checkpoint.has_file("chat_template.jinja"),
        not_loadable: None,
    })
}

fn json_layers(all: &Lookup<'_>, total: usize) -> LayerCounts {
    let mut counts = LayerCounts { total, full: 0, linear: 0, sliding: 0 };
    if let Some(types) = all.get("layer_types").and_then(Value::as_array).filter(|t| t.len() == total) {
        for kind in types {
            match kind.as_str() {
                Some("linear_attention") => counts.linear += 1,
                Some("sliding_attention") => counts.sliding += 1,
                _ => counts.full += 1,
            }
        }
    } else if linear(all).is_some() {
        counts.full = total / all.size("full_attention_interval").unwrap_or(FULL_INTERVAL);
        counts.linear = total - counts.full;
    } else {
        counts.full = total;
    }
    counts
}

fn linear(all: &Lookup<'_>) -> Option<LinearFacts> {
    Some(LinearFacts {
        key_heads: all.size("linear_num_key_heads")?,
        value_heads: all.size("linear_num_value_heads")?,
        key_dim: all.size("linear_key_head_dim")?,
        value_dim: all.size("linear_value_head_dim")?,
        conv_kernel: all.size("linear_conv_kernel_dim")?,
    })
}

/// Text of a special token.
fn named(checkpoint: &Checkpoint, id: u32) -> Option<String> {
    if let Some(metadata) = checkpoint.metadata() {
        return metadata.texts("tokenizer.ggml.tokens")?.get(id as usize).cloned();
    }
    let config = checkpoint.json("tokenizer_config.json").ok()??;
    config.get("added_tokens_decoder")?.get(id.to_string())?.get("content")?.as_str().map(str::to_owned)
}

fn from_gguf(checkpoint: &Checkpoint, metadata: &Metadata) -> Result<TargetFacts, WeightsError> {
    let file = checkpoint.location();
    let Some(arch) = metadata.text("general.architecture").filter(|a| !a.is_empty()) else {
        return Err(WeightsError::config(file, "general.architecture is missing, so the kind of model is unknown"));
    };
    let size = |name: &str| {
        let key = format!("{arch}.{name}");
        // An array has one entry a layer; layers without attention have 0.
        let n = match metadata.get(&key)? {
            gguf::Value::Integers(list) => list.iter().max().and_then(|&n| u64::try_from(n).ok()),
            _ => metadata.unsigned(&key),
        };
        n.and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0 && n < 1 << 32)
    };
    let needed = |name: &str| {
        size(name).ok_or_else(|| {
            WeightsError::config(&file, format!("{arch}.{name} is missing; the file is incomplete: fetch it again"))
        })
    };
    let (hidden, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
    let total = needed("block_count")?.min(weights::Parts::of(checkpoint).blocks());
    let head_dim = size("attention.key_length").unwrap_or(hidden / heads);
    let recurrent = (0..total).filter(|l| checkpoint.find(&format!("blk.{l}.ssm_out.weight")).is_some()).count();
    let linear = || {
        let value_heads = size("ssm.time_step_rank")?;
        Some(LinearFacts {
            key_heads: size("ssm.group_count")?,
            value_heads,
            key_dim: size("ssm.state_size")?,
            value_dim: size("ssm.inner_size")? / value_heads,
            conv_kernel: size("ssm.conv_kernel")?,
        })
    };
    let float = |name: &str| metadata.float(&format!("{arch}.{name}"));
    let scaling = metadata.text(&format!("{arch}.rope.scaling.type")).filter(|k| !matches!(*k, "none" | ""));
    let mut stops: Vec<u32> = ["eos_token_id", "eot_token_id", "eom_token_id"]
        .iter()
        .filter_map(|k| metadata.unsigned(&format!("tokenizer.ggml.{k}")).and_then(|n| u32::try_from(n).ok()))
        .collect();
    stops.sort_unstable();
    stops.dedup();
    Ok(TargetFacts {
        name: checkpoint.name(),
        location: file.clone(),
        container: "gguf",
        architecture: arch.to_owned(),
        layers: LayerCounts { total, full: total - recurrent, linear: recurrent, sliding: 0 },
        hidden,
        intermediate: size("expert_feed_forward_length").or_else(|| size("feed_forward_length")),
        heads,
        kv_heads: size("attention.head_count_kv").unwrap_or(heads),
        head_dim,
        experts: size("expert_count"),
        linear: if recurrent > 0 { linear() } else { None },
        vocab: checkpoint.tensor("token_embd.weight")?.rows(),
        context: size("context_length"),
        rope: RopeFacts {
            theta: float("rope.freq_base"),
            dims: size("rope.dimension_count").unwrap_or(head_dim),
            scaling: scaling
                .map(|kind| float("rope.scaling.factor").map_or_else(|| kind.to_owned(), |f| format!("{kind} ×{f}"))),
        },
        tied: checkpoint.find("output.weight").is_none(),
        weights: weights::count(checkpoint),
        stop_tokens: stops.into_iter().map(|id| StopToken { id, text: named(checkpoint, id) }).collect(),
        tokenizer: metadata.texts("tokenizer.ggml.tokens").map(|_| "gguf".to_owned()),
        chat_template: metadata.text("tokenizer.chat_template").is_some_and(|t| !t.is_empty()),
        not_loadable: None,
    })
}
