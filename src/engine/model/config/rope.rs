//! RoPE inverse frequencies with the scalings that only change frequencies (`linear`, `llama3`, GGUF's factors).

use std::f64::consts::PI;

use super::fields::Fields;
use crate::engine::weights::WeightsError;

/// `theta^(-2j / width)`.
pub(super) fn frequencies(theta: f64, width: usize) -> Vec<f64> {
    (0..width / 2).map(|j| theta.powf(-2.0 * j as f64 / width as f64)).collect()
}

/// To the precision in which angles are computed.
pub(super) fn rounded(frequencies: &[f64]) -> Vec<f32> {
    frequencies.iter().map(|&f| f as f32).collect()
}

/// From `rope_parameters` (written by Transformers 5), or `rope_theta` and `rope_scaling` (before).
/// `default_theta` is for architectures that may leave it out; `partial` is the share of a head that rotates where the
/// file does not say, in architectures in which part of a head may.
pub(super) fn from_json(
    fields: &Fields<'_>,
    head_dim: usize,
    default_theta: Option<f64>,
    partial: Option<f64>,
) -> Result<Vec<f32>, WeightsError> {
    let nested = fields.get("rope_parameters").or_else(|| fields.get("rope_scaling"));
    let nested = match nested.map(|v| (v, v.as_object())) {
        None => None,
        Some((_, Some(object))) => Some(object),
        Some((other, None)) => return Err(fields.wrong(format!("rope_parameters must be an object, not {other}"))),
    };
    if nested.is_some_and(|o| o.values().any(serde_json::Value::is_object)) {
        return Err(fields.wrong("rope_parameters differ between kinds of layers, which is not supported"));
    }
    let scaling = Fields { file: fields.file, objects: nested.into_iter().collect() };
    let all = Fields { file: fields.file, objects: nested.into_iter().chain(fields.objects.iter().copied()).collect() };

    let said = all.optional_float("partial_rotary_factor")?;
    let rotated = match (said, partial) {
        (Some(part), None) if part != 1.0 => {
            return Err(
                fields.wrong(format!("partial_rotary_factor is {part}; this kind of model rotates whole heads"))
            );
        }
        (_, None) => head_dim,
        (said, Some(default)) => {
            let part = said.unwrap_or(default);
            let rotated = (head_dim as f64 * part) as usize;
            if !(rotated.is_multiple_of(2) && (2..=head_dim).contains(&rotated)) {
                return Err(fields.wrong(format!("partial_rotary_factor {part} does not fit heads of {head_dim}")));
            }
            rotated
        }
    };
    let theta = all.optional_float("rope_theta")?.or(default_theta).ok_or_else(|| {
        fields.wrong("rope_theta is missing, at top level and in rope_parameters; without it positions are unknown")
    })?;
    if !(theta.is_finite() && theta > 1.0) {
        return Err(fields.wrong(format!("rope_theta is {theta}, but it must be greater than 1")));
    }
    let mut frequencies = frequencies(theta, rotated);
    let kind = match scaling.optional_text("rope_type")? {
        Some(kind) => kind,
        None => scaling.optional_text("type")?.unwrap_or("default"),
    };
    match kind {
        "default" | "none" => {}
        "linear" => {
            let factor = positive(&scaling, "factor")?;
            for f in &mut frequencies {
                *f /= factor;
            }
        }
        "llama3" => {
            let factor = positive(&scaling, "factor")?;
            let low = positive(&scaling, "low_freq_factor")?;
            let high = positive(&scaling, "high_freq_factor")?;
            let original = positive(&scaling, "original_max_position_embeddings")?;
            if high <= low {
                return Err(fields.wrong("high_freq_factor must be greater than low_freq_factor"));
            }
            for f in &mut frequencies {
                // Turns within the original context: many are kept, few are slowed down, between is blended.
                let turns = original * *f / (2.0 * PI);
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                *f = *f * kept + *f / factor * (1.0 - kept);
            }
        }
        other => {
            return Err(
                fields.wrong(format!("RoPE scaling \"{other}\" is not supported; default, linear and llama3 are"))
            );
        }
    }
    Ok(rounded(&frequencies))
}

fn positive(fields: &Fields<'_>, key: &str) -> Result<f64, WeightsError> {
    let x = fields.float(key)?;
    if x.is_finite() && x > 0.0 {
        Ok(x)
    } else {
        Err(fields.wrong(format!("{key} is {x}, but it must be greater than 0")))
    }
}
