//! Shape of a DFlash drafter, and whether it fits the target.

use super::fields::Fields;
use super::{ConvShape, DraftAttention, DraftConfig, Pairing, SelectorShape, TargetConfig, rope};
use crate::engine::weights::{Checkpoint, WeightsError};

/// Block size of files that do not say.
const DEFAULT_BLOCK: usize = 16;

/// Keys of relatives whose forward pass differs; silently ignoring them would only lower acceptance.
const OTHER_METHODS: [(&str, &str); 6] = [
    ("projector_type", "Domino"),
    ("gru_hidden_dim", "Domino"),
    ("causal_head", "JetSpec"),
    ("sample_from_anchor", "DSpark"),
    ("attention_sink_bias", "MiMo"),
    ("attention_value_scale", "MiMo"),
];

pub(super) fn read(checkpoint: &Checkpoint, target: &TargetConfig) -> Result<DraftConfig, WeightsError> {
    let file = format!("{}/config.json", checkpoint.location());
    if checkpoint.is_gguf() {
        return Err(WeightsError::config(
            checkpoint.location(),
            "drafters are read from safetensors folders in the published DFlash format, not from GGUF files",
        ));
    }
    let config = checkpoint.json("config.json")?;
    let Some(top) = config.as_ref().and_then(|c| c.as_object()) else {
        return Err(WeightsError::config(
            checkpoint.location(),
            "there is no config.json with a JSON object beside the weights; copy it from where the drafter was published",
        ));
    };
    let nested = top.get("dflash_config").and_then(|v| v.as_object());
    if nested.is_none() && !top.contains_key("mask_token_id") {
        return Err(WeightsError::config(file, "there is no dflash_config in it, so this is not a DFlash drafter"));
    }
    // Newer files keep settings in dflash_config, older ones at top level; files of the speculators project keep the
    // shape of the layers apart.
    let shape = top.get("transformer_layer_config").and_then(|v| v.as_object());
    let fields = Fields { file: &file, objects: nested.into_iter().chain(shape).chain([top]).collect() };
    refuse_relatives(&fields)?;

    let hidden = fields.size("hidden_size")?;
    let heads = fields.size("num_attention_heads")?;
    let head_dim = match fields.optional_size("head_dim")? {
        Some(n) => n,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => return Err(fields.wrong(format!("hidden size {hidden} cannot be divided among {heads} heads"))),
    };
    let kv_heads = fields.optional_size("num_key_value_heads")?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) || !head_dim.is_multiple_of(2) {
        return Err(fields.wrong(format!("{heads} query heads, {kv_heads} KV heads of width {head_dim} do not fit")));
    }
    let layer_count = fields.size("num_hidden_layers")?;
    let mask = fields.get("mask_token_id").and_then(serde_json::Value::as_u64);
    let mask = mask.ok_or_else(|| fields.wrong("mask_token_id is missing; without it the block cannot be filled"))?;
    let vocab = fields.size("vocab_size")?;
    let (conv, selector) = second(&fields, top, hidden, vocab)?;
    let config = DraftConfig {
        hidden,
        intermediate: fields.size("intermediate_size")?,
        heads,
        kv_heads,
        head_dim,
        eps: fields.optional_float("rms_norm_eps")?.unwrap_or(1e-6) as f32,
        inv_freq: rope::from_json(&fields, head_dim, None, None)?,
        layers: attention(&fields, top, nested, layer_count)?,
        block_size: fields.optional_size("block_size")?.unwrap_or(DEFAULT_BLOCK),
        mask_token: u32::try_from(mask).unwrap_or(u32::MAX),
        taps: taps(&fields, layer_count, target)?,
        vocab,
        draft_vocab: draft_vocab(checkpoint, &fields, vocab)?,
        output_multiplier: fields.optional_float("output_multiplier")?.unwrap_or(1.0) as f32,
        softcap: fields.optional_float("final_logit_softcapping")?.map(|k| k as f32),
        embedding_scale: fields.optional_float("input_embedding_scale")?.unwrap_or(1.0) as f32,
        conv,
        selector,
    };
    if !(2..=256).contains(&config.block_size) {
        return Err(fields.wrong(format!("block_size is {}, but it must be between 2 and 256", config.block_size)));
    }
    if config.softcap.is_some_and(|k| k <= 0.0) {
        return Err(fields.wrong("final_logit_softcapping must be greater than 0"));
    }
    let pairing = Pairing {
        location: &checkpoint.location(),
        hidden,
        vocab,
        target_layers: fields.optional_size("num_target_layers")?,
        taps: &config.taps,
        mask_token: config.mask_token as usize,
    };
    pairing.check(target.hidden, target.layers, target.vocab)?;
    Ok(config)
}

impl Pairing<'_> {
    /// A drafter borrows the target's embedding and LM head and reads its layers: all of that must be there.
    pub(crate) fn check(&self, hidden: usize, layers: usize, vocab: usize) -> Result<(), WeightsError> {
        let made_for = |what: String, has: String| {
            Err(WeightsError::Mismatch(format!(
                "the drafter in {} was made for {what}, but the target has {has}; use the drafter that was trained for this target, or run without one (--no-draft)",
                self.location
            )))
        };
        if self.hidden != hidden {
            return made_for(format!("hidden size {}", self.hidden), hidden.to_string());
        }
        if self.vocab != vocab {
            return made_for(format!("a vocabulary of {} tokens", self.vocab), vocab.to_string());
        }
        if let Some(n) = self.target_layers.filter(|&n| n != layers) {
            return made_for(format!("a target of {n} layers"), layers.to_string());
        }
        if let Some(tap) = self.taps.iter().find(|&&t| t >= layers) {
            return made_for(format!("a target with a layer number {tap}"), format!("layers 0 to {}", layers - 1));
        }
        if self.mask_token >= vocab {
            return made_for(format!("mask token {}", self.mask_token), format!("tokens 0 to {}", vocab - 1));
        }
        Ok(())
    }
}

/// What DFlash 2 adds: by name it has both, otherwise what the keys speak of.
fn second(
    fields: &Fields<'_>,
    top: &serde_json::Map<String, serde_json::Value>,
    hidden: usize,
    vocab: usize,
) -> Result<(Option<ConvShape>, Option<SelectorShape>), WeightsError> {
    let named = top.get("architectures").and_then(|a| a.get(0)).and_then(|a| a.as_str()) == Some("DFlash2DraftModel");
    let kernel = fields.optional_size("conv_kernel_size")?.or(named.then_some(2));
    let rank = fields.optional_size("selector_rank")?.or(named.then_some(256));
    let group = fields.optional_size("conv_group_size")?.unwrap_or(16);
    if kernel.is_some() && !hidden.is_multiple_of(group) {
        return Err(fields.wrong(format!("hidden size {hidden} cannot be divided into groups of {group} columns")));
    }
    let candidates = fields.optional_size("selector_top_k")?.unwrap_or(16).min(vocab);
    if rank.is_some() && candidates > 256 {
        return Err(fields.wrong(format!("selector_top_k is {candidates}, but it must be at most 256")));
    }
    Ok((kernel.map(|kernel| ConvShape { kernel, group }), rank.map(|rank| SelectorShape { rank, candidates })))
}

fn refuse_relatives(fields: &Fields<'_>) -> Result<(), WeightsError> {
    for (key, method) in OTHER_METHODS {
        let used = fields.get(key).is_some_and(|v| v.as_bool() != Some(false));
        if used {
            return Err(fields.wrong(format!("{key} makes this a {method} drafter, which is not supported; DFlash is")));
        }
    }
    if fields.optional_bool("attention_bias")? == Some(true) {
        return Err(fields.wrong("attention_bias is true; projections with biases are not supported"));
    }
    if let Some(act) = fields.optional_text("hidden_act")?.filter(|a| *a != "silu") {
        return Err(fields.wrong(format!("hidden_act is \"{act}\"; only silu is supported")));
    }
    if fields.optional_bool("is_neox_style")? == Some(false) {
        return Err(fields.wrong("is_neox_style is false; only half-split RoPE pairing is supported for drafters"));
    }
    Ok(())
}

/// Explicit causality decides for all layers; otherwise full layers see their whole block, sliding ones look back.
fn attention(
    fields: &Fields<'_>,
    top: &serde_json::Map<String, serde_json::Value>,
    nested: Option<&serde_json::Map<String, serde_json::Value>>,
    count: usize,
) -> Result<Vec<DraftAttention>, WeightsError> {
    let at_top = Fields { file: fields.file, objects: vec![top] };
    let in_nested = Fields { file: fields.file, objects: nested.into_iter().collect() };
    let decided = match (at_top.optional_bool("is_causal")?, at_top.optional_bool("sliding_window_non_causal")?) {
        (None, Some(true)) => Some(false),
        (None, _) => in_nested.optional_bool("causal")?,
        (some, _) => some,
    };
    if count > 256 {
        return Err(fields.wrong(format!("num_hidden_layers is {count}; drafters have a few")));
    }
    let sliding: Vec<bool> =
        match fields.get("layer_types").map(|v| (v, v.as_array())) {
            None => vec![in_nested.optional_bool("use_swa")? == Some(true); count],
            Some((_, Some(types))) if types.len() == count => types
                .iter()
                .map(|t| match t.as_str() {
                    Some("full_attention") => Ok(false),
                    Some("sliding_attention") => Ok(true),
                    _ => Err(fields
                        .wrong(format!("layer_types has {t}; full_attention and sliding_attention are supported"))),
                })
                .collect::<Result<_, _>>()?,
            Some((other, _)) => {
                return Err(
                    fields.wrong(format!("layer_types must have one entry for each of {count} layers, not {other}"))
                );
            }
        };
    let window = match fields.optional_size("sliding_window")? {
        None => fields.optional_size("swa_window_size")?,
        some => some,
    };
    // Transformers drops the width when this switch is explicitly off.
    let switched_off = fields.optional_bool("use_sliding_window")? == Some(false);
    if sliding.contains(&true) && window.is_none() && !switched_off {
        return Err(fields.wrong("layer_types has sliding layers, but sliding_window is missing"));
    }
    let window = window.filter(|_| !switched_off);
    Ok(sliding
        .into_iter()
        .map(|sliding| DraftAttention { causal: decided.unwrap_or(sliding), window: window.filter(|_| sliding) })
        .collect())
}

/// Tapped layers: as listed, or by the formula of older files.
fn taps(fields: &Fields<'_>, draft_layers: usize, target: &TargetConfig) -> Result<Vec<usize>, WeightsError> {
    if let Some(ids) = fields.optional_numbers("target_layer_ids")? {
        if ids.is_empty() || ids.len() > 64 {
            return Err(fields.wrong("target_layer_ids must name between 1 and 64 layers"));
        }
        return Ok(ids);
    }
    // The speculators project counts the embedding as the first.
    if let Some(ids) = fields.optional_numbers("aux_hidden_state_layer_ids")? {
        if ids.is_empty() || ids.len() > 64 || ids.contains(&0) {
            return Err(fields.wrong("aux_hidden_state_layer_ids must name between 1 and 64 layers, counted from 1"));
        }
        return Ok(ids.into_iter().map(|id| id - 1).collect());
    }
    let layers = fields.optional_size("num_target_layers")?.unwrap_or(target.layers);
    Ok(spread(layers, draft_layers))
}

/// `round(1 + i (N - 4) / (n - 1))`, halves to even.
pub(crate) fn spread(target_layers: usize, draft_layers: usize) -> Vec<usize> {
    if draft_layers <= 1 {
        return vec![target_layers / 2];
    }
    let step = (target_layers as f64 - 4.0) / (draft_layers as f64 - 1.0);
    (0..draft_layers).map(|i| (1.0 + i as f64 * step).round_ties_even().max(0.0) as usize).collect()
}

/// Target ids of the drafter's own vocabulary, and the tensor that has them: the ids themselves, or (in files of the
/// speculators project) how far each is beyond its place.
pub(crate) fn draft_ids(checkpoint: &Checkpoint) -> Result<Option<(&'static str, Vec<u32>)>, WeightsError> {
    if let Some(tensor) = checkpoint.find("draft_token_ids") {
        return Ok(Some(("draft_token_ids", tensor.to_ids()?)));
    }
    let Some(tensor) = checkpoint.find("d2t") else { return Ok(None) };
    let ids = tensor.to_ids()?.into_iter().zip(0u32..).map(|(beyond, at)| beyond.saturating_add(at)).collect();
    Ok(Some(("d2t", ids)))
}

/// Rows of the reduced vocabulary: the file must say which target tokens they are.
fn draft_vocab(checkpoint: &Checkpoint, fields: &Fields<'_>, vocab: usize) -> Result<Option<usize>, WeightsError> {
    let said = fields.optional_size("draft_vocab_size")?;
    let Some((name, ids)) = draft_ids(checkpoint)? else {
        return match said {
            Some(n) if n != vocab => Err(fields.wrong(format!(
                "draft_vocab_size is {n}, but there is no tensor draft_token_ids or d2t that says which tokens they are"
            ))),
            _ => Ok(None),
        };
    };
    let rising = ids.windows(2).all(|w| w[0] < w[1]) && ids.last().is_some_and(|&id| (id as usize) < vocab);
    if !rising || said.is_some_and(|n| n != ids.len()) {
        return Err(WeightsError::Tensor {
            file: checkpoint.location(),
            tensor: name.into(),
            problem: format!(
                "must name {} rising token ids below {vocab}, but names {}",
                said.map_or("some".into(), |n| n.to_string()),
                ids.len()
            ),
        });
    }
    Ok(Some(ids.len()))
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn tap_layers_are_spread_with_halves_to_even() {
        assert_eq!(spread(24, 5), [1, 6, 11, 16, 21]);
        assert_eq!(spread(28, 5), [1, 7, 13, 19, 25]);
        assert_eq!(spread(30, 5), [1, 8, 14, 20, 27]);
        assert_eq!(spread(32, 5), [1, 8, 15, 22, 29]);
        assert_eq!(spread(36, 5), [1, 9, 17, 25, 33]);
        assert_eq!(spread(64, 5), [1, 16, 31, 46, 61]);
        assert_eq!(spread(30, 1), [15]);
    }
}
