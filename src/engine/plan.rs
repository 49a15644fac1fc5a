//! Whether a pair fits a device's memory, before anything is loaded.

use super::api::Precision;
use super::backend::Store;
use super::backend::cuda::driver::Room;
use super::backend::cuda::pack::Layout;
use super::model::config::{DraftConfig, Mixing, TargetConfig};
use super::model::load::{draft_store, target_store};
use super::weights::{Checkpoint, WeightsError};

/// Rows of a forward that activations must have room for: a prompt chunk beside a few large trees.
const ROWS: u64 = 512;
/// Rows of logits among them.
const LOGIT_ROWS: u64 = 300;
/// Bytes for pieces of attention, tables and answers.
const TABLES: u64 = 128 << 20;
/// Share of the memory that is left alone (one in so many): the driver and other programs need some.
const SPARE: u64 = 20;
/// A context below this is of no use.
const LEAST_CONTEXT: u64 = 256;
/// Slots that a layer with a recurrent state keeps beside it, after a prompt chunk.
const LINES: usize = 256;
/// Contexts are planned in pages.
const PAGE: u64 = 64;

/// Bytes that a pair takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Weights of target and drafter.
    pub weights: u64,
    /// Keys and values of target and drafter, a token.
    pub token: u64,
    /// Recurrent states, a sequence.
    pub sequence: u64,
    /// Activations and tables.
    pub workspace: u64,
}

/// What a pair will take on a GPU.
pub fn need(target: &Checkpoint, draft: Option<&Checkpoint>, precision: Precision) -> Result<Need, WeightsError> {
    let store = target_store(precision);
    let config = TargetConfig::read(target)?;
    let (mut weights, formats) = weights(target, store)?;
    let exact = formats.iter().all(|&format| format == "F32");
    let element = if exact { 4 } else { 2 };
    let attention = config.mixing.iter().filter(|&&mixing| mixing == Mixing::Attention).count();
    let mut token = 2 * (attention * config.kv_heads * config.head_dim) as u64 * element;
    let sequence = config.delta.as_ref().map_or(0, |d| {
        let lines = LINES * (d.conv_width() + d.key_width() + d.value_width() + d.value_heads);
        ((config.layers - attention) * (d.value_heads * d.key_dim * d.value_dim + lines) * 4) as u64
    });
    let widest = (2 * config.intermediate + 4 * config.hidden + (config.heads + 2 * config.kv_heads) * config.head_dim)
        as u64
        * 2;
    let mut workspace = TABLES + ROWS * widest * 4 + LOGIT_ROWS * config.vocab as u64 * 4;
    if let Some(draft) = draft {
        let d = DraftConfig::read(draft, &config)?;
        let own = draft_store(precision, &formats);
        let (bytes, _) = self::weights(draft, own)?;
        // Keys and values of all layers once more, stacked; and the head's rows for a vocabulary of its own.
        let stacked = Layout::of(&dtypes(draft), 2 * d.layers.len() * d.kv_heads * d.head_dim, d.hidden, own);
        let head = d.draft_vocab.map_or(0, |rows| rows * config.hidden * 2);
        weights += bytes + (stacked.size() + head) as u64;
        token += 2 * (d.layers.len() * d.kv_heads * d.head_dim) as u64 * element;
        let features = (d.taps.len() * config.hidden) as u64;
        workspace += ROWS * features * 3 * 4 + LOGIT_ROWS * d.draft_vocab.unwrap_or(config.vocab) as u64 * 4;
    }
    Ok(Need { weights, token, sequence, workspace })
}

fn dtypes(checkpoint: &Checkpoint) -> Vec<super::weights::DType> {
    let matrices = checkpoint.names().into_iter().filter_map(|name| checkpoint.find(&name));
    matrices.filter(|view| view.shape.len() == 2).map(|view| view.dtype).take(1).collect()
}

/// Bytes of a checkpoint's tensors on the device, and the formats of its matrices.
fn weights(checkpoint: &Checkpoint, store: Store) -> Result<(u64, Vec<&'static str>), WeightsError> {
    let mut bytes = 0;
    let mut formats = Vec::new();
    for name in checkpoint.names() {
        let view = checkpoint.tensor(&name)?;
        if view.shape.len() == 2 {
            let layout = Layout::of(&[view.dtype], view.rows(), view.cols(), store);
            bytes += layout.size() as u64;
            formats.push(layout.label);
        } else {
            bytes += view.len() as u64 * 4;
        }
    }
    Ok((bytes, formats))
}

/// Tokens that each of `sequences` may have: what is wanted where that fits; where nothing certain is `asked` for, at
/// most `wanted` and as many as fit. Refuses with the numbers.
pub fn context(
    need: &Need,
    room: Room,
    sequences: usize,
    wanted: usize,
    asked: bool,
    device: &str,
) -> Result<usize, String> {
    let usable = room.free.saturating_sub(room.total / SPARE);
    let states = need.sequence * sequences as u64;
    let fixed = need.weights + need.workspace + states;
    let each = need.token * sequences as u64;
    let fits = usable.saturating_sub(fixed) / each.max(1) / PAGE * PAGE;
    let wanted = wanted as u64;
    if fits >= wanted || (!asked && fits >= LEAST_CONTEXT) {
        return Ok(fits.min(wanted) as usize);
    }
    let least = if asked { wanted } else { LEAST_CONTEXT };
    let gib = |bytes: u64| bytes as f64 / f64::from(1u32 << 30);
    Err(format!(
        "the models do not fit on {device}: {:.1} GiB of weights, {:.1} GiB of working memory and {:.1} GiB of caches ({sequences} sequences of {least} tokens) make {:.1} GiB, and {:.1} of its {:.1} GiB can be had; {}",
        gib(need.weights),
        gib(need.workspace),
        gib(each * least + states),
        gib(fixed + each * least),
        gib(usable),
        gib(room.total),
        if fits >= LEAST_CONTEXT {
            format!("ask for --context {fits} or less")
        } else {
            "take a smaller or a quantised model, or --device cpu".to_owned()
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::api::ModelSource;
    use crate::engine::weights::bundle;

    const GIB: u64 = 1 << 30;
    /// Roughly an 8B model in BF16 and its drafter.
    const LARGE: Need = Need { weights: 18 * GIB, token: 160 << 10, sequence: 0, workspace: GIB };

    fn plan(free: u64, total: u64, wanted: usize, asked: bool) -> Result<usize, String> {
        let room = Room { free: free * GIB, total: total * GIB };
        context(&LARGE, room, 8, wanted, asked, "cuda:0 (a card)")
    }

    #[test]
    fn what_is_wanted_is_given_where_it_fits() {
        // 19 GiB and 8 · 8192 · 160 KiB = 10 GiB.
        assert_eq!(plan(40, 40, 8192, false), Ok(8192));
        assert_eq!(plan(40, 40, 8192, true), Ok(8192));
    }

    #[test]
    fn caches_take_what_is_left() {
        // 24 − 1.2 − 19 = 3.8 GiB: 3112 tokens a sequence, in whole pages.
        assert_eq!(plan(24, 24, 8192, false), Ok(3072));
    }

    #[test]
    fn a_refusal_names_the_numbers_and_the_way_out() {
        let error = plan(24, 24, 8192, true).unwrap_err();
        for part in [
            "18.0 GiB of weights",
            "10.0 GiB of caches",
            "8 sequences of 8192",
            "29.0 GiB",
            "22.8 of its 24.0",
            "--context 3072",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = plan(16, 16, 8192, false).unwrap_err();
        assert!(error.contains("sequences of 256") && error.contains("quantised model"), "{error}");
    }

    #[test]
    fn a_pair_needs_what_its_tensors_take() {
        let target = Checkpoint::open(&ModelSource::Embedded(&bundle::TINY_TARGET)).unwrap();
        let draft = Checkpoint::open(&ModelSource::Embedded(&bundle::TINY_DRAFT)).unwrap();
        let alone = need(&target, None, Precision::F32).unwrap();
        let elements: usize = target.names().iter().map(|n| target.tensor(n).unwrap().len()).sum();
        assert_eq!(alone.weights, elements as u64 * 4);
        let config = TargetConfig::read(&target).unwrap();
        assert_eq!(alone.token, 2 * 4 * (config.layers * config.kv_heads * config.head_dim) as u64);
        let both = need(&target, Some(&draft), Precision::F32).unwrap();
        let elements: usize = draft.names().iter().map(|n| draft.tensor(n).unwrap().len()).sum();
        assert!(both.weights > alone.weights + elements as u64 * 4, "keys and values are there twice");
        assert!(both.token > alone.token && both.workspace > alone.workspace);
        assert!(need(&target, None, Precision::Q8).unwrap().weights < alone.weights / 3);
    }
}
