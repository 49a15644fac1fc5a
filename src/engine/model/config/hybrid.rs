//! Which layers of a Qwen3.5 or 3.6 model are gated delta rules, and their shape.

use super::Mixing;
use super::fields::{Fields, Keys};
use crate::engine::backend::delta::DeltaShape;
use crate::engine::weights::{Checkpoint, WeightsError};

/// Share of a head that rotates where the file does not say.
pub(super) const ROTATED: f64 = 0.25;
/// Every so many layers attention comes where the file does not say.
const INTERVAL: usize = 4;

pub(super) fn from_json(fields: &Fields<'_>, layers: usize) -> Result<(Vec<Mixing>, Option<DeltaShape>), WeightsError> {
    if fields.optional_bool("attn_output_gate")? == Some(false) {
        return Err(fields.wrong("attn_output_gate is false; attention without an output gate is not supported here"));
    }
    let mixing = match fields.get("layer_types") {
        None => every(fields.optional_size("full_attention_interval")?.unwrap_or(INTERVAL), layers),
        Some(value) => {
            let types = value.as_array().filter(|types| types.len() == layers);
            let types = types
                .ok_or_else(|| fields.wrong(format!("layer_types must have one entry for each of {layers} layers")))?;
            types
                .iter()
                .map(|t| match t.as_str() {
                    Some("linear_attention") => Ok(Mixing::Delta),
                    Some("full_attention") => Ok(Mixing::Attention),
                    _ => {
                        Err(fields
                            .wrong(format!("layer_types has {t}; linear_attention and full_attention are supported")))
                    }
                })
                .collect::<Result<_, _>>()?
        }
    };
    if !mixing.contains(&Mixing::Delta) {
        return Ok((mixing, None));
    }
    let shape = DeltaShape {
        key_heads: fields.size("linear_num_key_heads")?,
        value_heads: fields.size("linear_num_value_heads")?,
        key_dim: fields.size("linear_key_head_dim")?,
        value_dim: fields.size("linear_value_head_dim")?,
        kernel: fields.size("linear_conv_kernel_dim")?,
        tiled: false,
        eps: fields.optional_float("rms_norm_eps")?.unwrap_or(1e-6) as f32,
    };
    if shape.value_heads.is_multiple_of(shape.key_heads) {
        Ok((mixing, Some(shape)))
    } else {
        Err(fields.wrong(uneven(&shape)))
    }
}

/// What GGUF files say. Converters put the value heads that share a key head a stride apart (`tiled`), and count the
/// layers of a next-token predictor, which the text does not need, among the blocks.
pub(super) fn from_gguf(
    checkpoint: &Checkpoint,
    keys: &Keys<'_>,
) -> Result<(usize, Vec<Mixing>, Option<DeltaShape>), WeightsError> {
    let blocks = keys.size("block_count")?;
    let predictor = keys.metadata.unsigned(&keys.key("nextn_predict_layers")).unwrap_or(0);
    let layers = usize::try_from(predictor).ok().and_then(|n| blocks.checked_sub(n)).filter(|&n| n > 0);
    let layers = layers.ok_or_else(|| {
        keys.wrong(format!("{predictor} of {blocks} blocks predict further tokens, which leaves no model"))
    })?;
    // The tensors say it whatever the interval is.
    let mixing: Vec<Mixing> = (0..layers)
        .map(|l| match checkpoint.find(&format!("blk.{l}.ssm_conv1d.weight")) {
            Some(_) => Mixing::Delta,
            None => Mixing::Attention,
        })
        .collect();
    if !mixing.contains(&Mixing::Delta) {
        return Ok((layers, mixing, None));
    }
    let (value_heads, inner) = (keys.size("ssm.time_step_rank")?, keys.size("ssm.inner_size")?);
    if !inner.is_multiple_of(value_heads) {
        return Err(keys.wrong(format!("ssm.inner_size {inner} cannot be divided among {value_heads} heads")));
    }
    let shape = DeltaShape {
        key_heads: keys.size("ssm.group_count")?,
        value_heads,
        key_dim: keys.size("ssm.state_size")?,
        value_dim: inner / value_heads,
        kernel: keys.size("ssm.conv_kernel")?,
        tiled: true,
        eps: keys.float("attention.layer_norm_rms_epsilon").unwrap_or(1e-6) as f32,
    };
    if shape.value_heads.is_multiple_of(shape.key_heads) {
        Ok((layers, mixing, Some(shape)))
    } else {
        Err(keys.wrong(uneven(&shape)))
    }
}

fn every(interval: usize, layers: usize) -> Vec<Mixing> {
    let kind = |l: usize| if (l + 1).is_multiple_of(interval) { Mixing::Attention } else { Mixing::Delta };
    (0..layers).map(kind).collect()
}

fn uneven(shape: &DeltaShape) -> String {
    format!("{} value heads cannot share {} key heads evenly", shape.value_heads, shape.key_heads)
}
