//! Facts about a drafter.

use serde_json::{Map, Value};

use super::facts::{DraftFacts, DraftLayer};
use super::target::Lookup;
use super::weights;
use crate::engine::model::config::spread_taps;
use crate::engine::weights::{Checkpoint, WeightsError};

/// Layers that a drafter may have: a damaged file must not make us allocate by it.
const MOST_LAYERS: usize = 256;
/// Block size of files that do not say.
const DEFAULT_BLOCK: usize = 16;

/// Whether a checkpoint is a drafter: its configuration has what only drafters need.
pub(super) fn is_drafter(checkpoint: &Checkpoint) -> Result<bool, WeightsError> {
    if checkpoint.is_gguf() {
        return Ok(false);
    }
    let config = checkpoint.json("config.json")?;
    let Some(top) = config.as_ref().and_then(Value::as_object) else { return Ok(false) };
    Ok(top.contains_key("dflash_config")
        || top.contains_key("mask_token_id")
        || top.contains_key("speculators_model_type")
        || architecture(top).contains("DFlash"))
}

fn architecture(top: &Map<String, Value>) -> &str {
    top.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str).unwrap_or("")
}

pub(super) fn read(checkpoint: &Checkpoint) -> Result<DraftFacts, WeightsError> {
    let config = checkpoint.json("config.json")?.unwrap_or_default();
    let file = format!("{}/config.json", checkpoint.location());
    let Some(top) = config.as_object() else {
        return Err(WeightsError::config(file, "it does not hold a JSON object"));
    };
    let object = |key: &str| top.get(key).and_then(Value::as_object);
    let nested = object("dflash_config");
    let objects = nested.into_iter().chain(object("transformer_layer_config")).chain([top]).collect();
    let all = Lookup { file, objects };
    let (hidden, heads) = (all.needed("hidden_size")?, all.needed("num_attention_heads")?);
    let count = all.needed("num_hidden_layers")?;
    if count > MOST_LAYERS {
        return Err(WeightsError::config(&all.file, format!("num_hidden_layers is {count}; drafters have a few")));
    }
    let vocab = all.needed("vocab_size")?;
    let head_dim = all.size("head_dim").unwrap_or(hidden / heads);
    let mask = all.get("mask_token_id").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let mask_token = mask.ok_or_else(|| {
        WeightsError::config(&all.file, "mask_token_id is missing; without it the block cannot be filled")
    })?;
    let listed = |key: &str| -> Option<Vec<usize>> {
        let ids = all.get(key)?.as_array()?;
        Some(ids.iter().filter_map(|v| v.as_u64().and_then(|n| usize::try_from(n).ok())).collect())
    };
    let target_layers = all.size("num_target_layers");
    // The speculators project counts the embedding as the first layer.
    let from_one = || Some(listed("aux_hidden_state_layer_ids")?.into_iter().map(|id| id.saturating_sub(1)).collect());
    let taps = listed("target_layer_ids")
        .or_else(from_one)
        .or_else(|| target_layers.map(|n| spread_taps(n, count)))
        .unwrap_or_default();
    let rows = |name: &str| checkpoint.find(name).and_then(|t| t.shape.first().copied());
    Ok(DraftFacts {
        name: checkpoint.name(),
        location: checkpoint.location(),
        method: method(&all, top),
        layers: layers(&all, top, nested, count),
        hidden,
        intermediate: all.needed("intermediate_size")?,
        heads,
        kv_heads: all.size("num_key_value_heads").unwrap_or(heads),
        head_dim,
        taps,
        target_layers,
        mask_token,
        block_size: all.size("block_size").unwrap_or(DEFAULT_BLOCK),
        vocab,
        draft_vocab: rows("draft_token_ids").or_else(|| rows("d2t")).filter(|&n| n != vocab),
        rope: all.rope(head_dim),
        weights: weights::count(checkpoint),
    })
}

fn method(all: &Lookup<'_>, top: &Map<String, Value>) -> String {
    if architecture(top).starts_with("DFlash2") || all.get("selector_rank").is_some() {
        "dflash2".into()
    } else if let Some(kind) = all.text("projector_type") {
        kind.into()
    } else if all.flag("causal_head") == Some(true) {
        "jetspec".into()
    } else if all.flag("sample_from_anchor") == Some(true) {
        "dspark".into()
    } else if all.text("speculators_model_type").is_some() {
        "dflash (speculators)".into()
    } else {
        "dflash".into()
    }
}

/// Explicit causality decides for all layers; otherwise full layers see their whole block, sliding ones look back.
fn layers(
    all: &Lookup<'_>,
    top: &Map<String, Value>,
    nested: Option<&Map<String, Value>>,
    count: usize,
) -> Vec<DraftLayer> {
    let flag = |object: Option<&Map<String, Value>>, key: &str| object?.get(key)?.as_bool();
    let decided = flag(Some(top), "is_causal").or_else(|| flag(nested, "causal"));
    let every = flag(nested, "use_swa") == Some(true);
    let types = all.get("layer_types").and_then(Value::as_array);
    let window = all.size("sliding_window").or_else(|| all.size("swa_window_size"));
    let window = window.filter(|_| all.flag("use_sliding_window") != Some(false));
    (0..count)
        .map(|l| {
            let sliding = match types {
                Some(types) => types.get(l).and_then(Value::as_str) == Some("sliding_attention"),
                None => every,
            };
            DraftLayer { window: window.filter(|_| sliding), causal: decided.unwrap_or(sliding) }
        })
        .collect()
}
