//! Counting tensors.

use super::facts::{FormatShare, Unused, WeightFacts};
use crate::engine::weights::{Checkpoint, DType};

/// Beginnings of the names of tensors that a text model's forward pass does not use: towers for other inputs, heads
/// that predict several tokens.
const UNUSED: [&str; 6] = ["visual", "vision_tower", "vision_model", "mtp", "audio_tower", "multi_modal_projector"];

/// Tells tensors that are used from those that are not.
pub(super) struct Parts {
    /// Blocks of a GGUF file from here on predict further tokens.
    blocks: usize,
}

impl Parts {
    pub(super) fn of(checkpoint: &Checkpoint) -> Self {
        let count = || {
            let metadata = checkpoint.metadata()?;
            let key = |name: &str| format!("{}.{name}", metadata.text("general.architecture").unwrap_or_default());
            metadata.unsigned(&key("block_count"))?.checked_sub(metadata.unsigned(&key("nextn_predict_layers"))?)
        };
        Self { blocks: count().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX) }
    }

    /// Blocks of a GGUF file that are used, at most.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The part that an unused tensor belongs to.
    pub(super) fn unused<'a>(&self, name: &'a str) -> Option<&'a str> {
        if let Some(rest) = name.strip_prefix("blk.") {
            let block = rest.split('.').next()?.parse::<usize>().ok()?;
            return (block >= self.blocks).then_some("mtp");
        }
        let name = name.strip_prefix("model.").unwrap_or(name);
        let part = name.split('.').next()?;
        UNUSED.contains(&part).then_some(part)
    }
}

/// Name of an element format as people write it.
fn format_name(dtype: DType) -> String {
    let name = format!("{dtype:?}");
    match name.strip_suffix('K') {
        Some(bits) => format!("{bits}_K"),
        None => name,
    }
}

/// Counts all tensors by use and format.
pub(super) fn count(checkpoint: &Checkpoint) -> WeightFacts {
    let mut formats: Vec<(DType, u64)> = Vec::new();
    let mut unused: Vec<Unused> = Vec::new();
    let (mut parameters, mut bytes, mut tensors) = (0, 0, 0);
    let parts = Parts::of(checkpoint);
    for (name, dtype, shape, size) in checkpoint.tensors() {
        let elements: u64 = shape.iter().map(|&d| d as u64).product();
        if let Some(part) = parts.unused(name) {
            match unused.iter_mut().find(|u| u.part == part) {
                Some(known) => {
                    known.parameters += elements;
                    known.bytes += size as u64;
                }
                None => unused.push(Unused { part: part.to_owned(), parameters: elements, bytes: size as u64 }),
            }
            continue;
        }
        bytes += size as u64;
        tensors += 1;
        // Lists of token ids are no parameters.
        if matches!(dtype, DType::I32 | DType::I64 | DType::Bool) {
            continue;
        }
        parameters += elements;
        match formats.iter_mut().find(|(d, _)| *d == dtype) {
            Some((_, n)) => *n += elements,
            None => formats.push((dtype, elements)),
        }
    }
    formats.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    unused.sort_by(|a, b| a.part.cmp(&b.part));
    let share = |n: u64| if parameters == 0 { 0.0 } else { n as f64 / parameters as f64 };
    WeightFacts {
        parameters,
        bytes,
        tensors,
        formats: formats
            .into_iter()
            .map(|(dtype, n)| FormatShare { format: format_name(dtype), parameters: n, share: share(n) })
            .collect(),
        unused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_not_used_are_told_from_layers() {
        let parts = Parts { blocks: 2 };
        assert_eq!(parts.unused("model.visual.blocks.0.attn.qkv.weight"), Some("visual"));
        assert_eq!(parts.unused("mtp.layers.0.mlp.up_proj.weight"), Some("mtp"));
        assert_eq!(parts.unused("model.language_model.layers.0.mlp.up_proj.weight"), None);
        assert_eq!(parts.unused("lm_head.weight"), None);
        assert_eq!((parts.unused("blk.1.attn_q.weight"), parts.unused("blk.2.attn_q.weight")), (None, Some("mtp")));
    }

    #[test]
    fn formats_have_their_usual_names() {
        assert_eq!(format_name(DType::Q4K), "Q4_K");
        assert_eq!(format_name(DType::Q4_1), "Q4_1");
        assert_eq!(format_name(DType::BF16), "BF16");
    }
}
