//! Whether all layers are there: each has the tensors, in the shapes, that others of its kind have.

use std::collections::BTreeMap;

use crate::engine::weights::{Checkpoint, WeightsError};

/// Tensors of a layer: what follows its number, and the shape.
type Layer<'a> = BTreeMap<&'a str, &'a [usize]>;

/// Splits `model.layers.7.mlp.up_proj.weight` into what stands before the number, the number, and what follows.
fn split(name: &str) -> Option<(&str, usize, &str)> {
    let start = if name.starts_with("blk.") { 4 } else { name.find("layers.")? + 7 };
    let (number, rest) = name[start..].split_once('.')?;
    Some((&name[..start], number.parse().ok()?, rest))
}

/// Layers with a recurrent state have other tensors than those with attention.
fn is_recurrent(layer: &Layer<'_>) -> bool {
    layer.keys().any(|rest| rest.starts_with("linear_attn.") || rest.starts_with("ssm_"))
}

/// All tensors that any of these layers has, each in the shape that it has in most.
fn usual<'a, 'b: 'a>(layers: impl Iterator<Item = &'a Layer<'b>>) -> Layer<'b> {
    let mut votes: BTreeMap<&str, BTreeMap<&[usize], usize>> = BTreeMap::new();
    for (rest, shape) in layers.flatten() {
        *votes.entry(rest).or_default().entry(shape).or_default() += 1;
    }
    let winner =
        |shapes: BTreeMap<&'b [usize], usize>| shapes.into_iter().max_by_key(|&(_, n)| n).map(|(shape, _)| shape);
    votes.into_iter().filter_map(|(rest, shapes)| Some((rest, winner(shapes)?))).collect()
}

/// Refuses a checkpoint of `count` layers that lacks some of their tensors.
pub(super) fn check(checkpoint: &Checkpoint, count: usize) -> Result<(), WeightsError> {
    let mut layers: BTreeMap<usize, Layer<'_>> = BTreeMap::new();
    let parts = super::weights::Parts::of(checkpoint);
    let mut prefix = "";
    for (name, _, shape, _) in checkpoint.tensors().filter(|(name, ..)| parts.unused(name).is_none()) {
        if let Some((before, number, rest)) = split(name).filter(|(_, number, _)| *number < count) {
            layers.entry(number).or_default().insert(rest, shape);
            prefix = before;
        }
    }
    // A drafter of one layer may call it otherwise.
    if layers.is_empty() {
        return Ok(());
    }
    let file = checkpoint.location();
    let missing = |number: usize, rest: &str| {
        Err(WeightsError::MissingTensor { file: file.clone(), tensor: format!("{prefix}{number}.{rest}") })
    };
    let model = |recurrent: bool| usual(layers.values().filter(|l| is_recurrent(l) == recurrent));
    let models = [model(false), model(true)];
    for number in 0..count {
        let Some(layer) = layers.get(&number) else { return missing(number, "input_layernorm.weight") };
        for (rest, shape) in &models[usize::from(is_recurrent(layer))] {
            match layer.get(rest) {
                None => return missing(number, rest),
                Some(found) if found != shape => {
                    let problem = format!("its shape is {found:?}, but other layers have {shape:?}");
                    return Err(WeightsError::tensor(&file, format!("{prefix}{number}.{rest}"), problem));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_layers_are_split_at_their_number() {
        assert_eq!(split("model.layers.7.mlp.up_proj.weight"), Some(("model.layers.", 7, "mlp.up_proj.weight")));
        assert_eq!(split("blk.12.attn_q.weight"), Some(("blk.", 12, "attn_q.weight")));
        assert_eq!(split("layers.0.mlp.up_proj.weight"), Some(("layers.", 0, "mlp.up_proj.weight")));
        assert_eq!(split("fc.weight"), None);
    }
}
