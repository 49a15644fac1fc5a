//! What a checkpoint says about its model. Nothing about a model is hard-coded elsewhere.

mod draft;
mod fields;
mod hybrid;
mod rope;
mod target;

use crate::engine::backend::delta::DeltaShape;
use crate::engine::weights::{Checkpoint, WeightsError};

pub(crate) use draft::{draft_ids, spread as spread_taps};

/// Layer maths of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama family: no q/k norms.
    Llama,
    /// Qwen3 dense: per-head q/k norms.
    Qwen3,
    /// Qwen3.5 and 3.6: most layers are gated delta rules, the others full attention with an output gate; per-head q/k
    /// norms, part of a head rotated.
    Qwen35,
}

/// How a layer mixes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixing {
    /// Attention over all tokens before.
    Attention,
    /// A recurrent state ([`TargetConfig::delta`]).
    Delta,
}

/// Shape of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetConfig {
    /// Layer maths.
    pub architecture: Architecture,
    /// `H`.
    pub hidden: usize,
    /// MLP width.
    pub intermediate: usize,
    /// Decoder layers.
    pub layers: usize,
    /// How each of them mixes tokens.
    pub mixing: Vec<Mixing>,
    /// Shape of the layers with a recurrent state, where there are any.
    pub delta: Option<DeltaShape>,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Vocabulary rows.
    pub vocab: usize,
    /// RMSNorm epsilon.
    pub eps: f32,
    /// RoPE inverse frequencies, scaling applied: `head_dim / 2`, or fewer where only the first part of a head rotates.
    pub inv_freq: Vec<f32>,
    /// Dimension `2j` pairs with `2j + 1` (GGUF llama files) instead of `j` with `j + hd/2`.
    pub rope_interleaved: bool,
    /// Tokens the model was made for.
    pub context: usize,
    /// The LM head is the embedding.
    pub tied: bool,
    /// Ids that end an answer.
    pub stop_tokens: Vec<u32>,
}

/// How one drafter layer looks at its own block and how far back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftAttention {
    /// Causal inside the block.
    pub causal: bool,
    /// Window width, for sliding layers.
    pub window: Option<usize>,
}

/// DFlash 2's convolution around attention and MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape {
    /// Rows that it sees, a row itself included.
    pub kernel: usize,
    /// Neighbouring columns that share a row's own kernel.
    pub group: usize,
}

/// DFlash 2's choice among candidates by the token before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectorShape {
    /// Width of the codebooks.
    pub rank: usize,
    /// Candidates a slot.
    pub candidates: usize,
}

/// Shape of a DFlash drafter.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftConfig {
    /// `H`.
    pub hidden: usize,
    /// MLP width.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// RMSNorm epsilon.
    pub eps: f32,
    /// RoPE inverse frequencies, `head_dim / 2`.
    pub inv_freq: Vec<f32>,
    /// One entry a layer.
    pub layers: Vec<DraftAttention>,
    /// `B`, seed included.
    pub block_size: usize,
    /// Token in slots 1..B-1.
    pub mask_token: u32,
    /// Target layers whose output is tapped, in concatenation order.
    pub taps: Vec<usize>,
    /// Vocabulary it says it was made for.
    pub vocab: usize,
    /// Rows of the reduced draft vocabulary, if any.
    pub draft_vocab: Option<usize>,
    /// Logit scale.
    pub output_multiplier: f32,
    /// `κ` of the tanh soft cap.
    pub softcap: Option<f32>,
    /// Embedding scale.
    pub embedding_scale: f32,
    /// Convolutions, in DFlash 2.
    pub conv: Option<ConvShape>,
    /// Candidate selector, in DFlash 2.
    pub selector: Option<SelectorShape>,
}

/// What a drafter needs of its target.
pub(crate) struct Pairing<'a> {
    /// Where the drafter is.
    pub(crate) location: &'a str,
    /// Hidden size.
    pub(crate) hidden: usize,
    /// Vocabulary rows.
    pub(crate) vocab: usize,
    /// Decoder layers, where the drafter says.
    pub(crate) target_layers: Option<usize>,
    /// Layers that it reads.
    pub(crate) taps: &'a [usize],
    /// Row of the embedding that fills the block.
    pub(crate) mask_token: usize,
}

impl TargetConfig {
    /// From GGUF metadata or `config.json` (+ `generation_config.json`).
    pub fn read(checkpoint: &Checkpoint) -> Result<Self, WeightsError> {
        target::read(checkpoint)
    }
}

impl DraftConfig {
    /// Whether no slot sees a later one: then a shorter block makes the same predictions.
    pub fn is_causal(&self) -> bool {
        self.layers.iter().all(|layer| layer.causal)
    }

    /// From `config.json`; `target` supplies the fallback for tap layers and is checked against: hidden size, tap
    /// layers, vocabulary, mask id.
    pub fn read(checkpoint: &Checkpoint, target: &TargetConfig) -> Result<Self, WeightsError> {
        draft::read(checkpoint, target)
    }
}
