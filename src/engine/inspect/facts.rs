//! The facts themselves. Their JSON form is what `spectop inspect --json` prints: fields are only ever added.

use serde::Serialize;

/// A target or a drafter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ModelFacts {
    /// A model of its own.
    Target(TargetFacts),
    /// A drafter for one.
    Draft(DraftFacts),
}

impl ModelFacts {
    /// Its weights.
    pub fn weights(&self) -> &WeightFacts {
        match self {
            Self::Target(t) => &t.weights,
            Self::Draft(d) => &d.weights,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Target(t) => &t.name,
            Self::Draft(d) => &d.name,
        }
    }
}

/// A target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetFacts {
    /// Display name.
    pub name: String,
    /// Path, or `embedded`.
    pub location: String,
    /// `safetensors` or `gguf`.
    pub container: &'static str,
    /// `model_type`, or GGUF's architecture.
    pub architecture: String,
    /// Decoder layers.
    pub layers: LayerCounts,
    /// Hidden size.
    pub hidden: usize,
    /// MLP width; that of one expert in a mixture.
    pub intermediate: Option<usize>,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Experts of a mixture.
    pub experts: Option<usize>,
    /// Recurrent layers, if there are any.
    pub linear: Option<LinearFacts>,
    /// Vocabulary rows.
    pub vocab: usize,
    /// Tokens it was made for.
    pub context: Option<usize>,
    /// Rotary positions.
    pub rope: RopeFacts,
    /// The LM head is the embedding.
    pub tied: bool,
    /// Tensors.
    pub weights: WeightFacts,
    /// Tokens that end an answer.
    pub stop_tokens: Vec<StopToken>,
    /// Where the tokenizer is: `tokenizer.json`, `gguf`, or nowhere.
    pub tokenizer: Option<String>,
    /// Whether there is a chat template.
    pub chat_template: bool,
    /// Why this program cannot run it, if it cannot.
    pub not_loadable: Option<String>,
}

/// Layers by what mixes their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LayerCounts {
    /// All.
    pub total: usize,
    /// Full attention.
    pub full: usize,
    /// Linear attention: a recurrent state instead of a cache that grows.
    pub linear: usize,
    /// Attention with a window.
    pub sliding: usize,
}

/// Shape of the recurrent layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LinearFacts {
    /// Key heads.
    pub key_heads: usize,
    /// Value heads.
    pub value_heads: usize,
    /// Width of a key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Tokens that the convolution sees.
    pub conv_kernel: usize,
}

/// Rotary positions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RopeFacts {
    /// Base.
    pub theta: Option<f64>,
    /// Elements of a head that are rotated.
    pub dims: usize,
    /// Scaling, in words.
    pub scaling: Option<String>,
}

/// A token that ends an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StopToken {
    /// Id.
    pub id: u32,
    /// Its text, where a side file tells.
    pub text: Option<String>,
}

/// The tensors of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightFacts {
    /// Elements of all tensors that are used.
    pub parameters: u64,
    /// Bytes they take in the files.
    pub bytes: u64,
    /// Number of them.
    pub tensors: usize,
    /// By element format, the largest share first.
    pub formats: Vec<FormatShare>,
    /// Tensors that are there but not used: vision towers, prediction heads.
    pub unused: Vec<Unused>,
}

/// One element format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FormatShare {
    /// Name.
    pub format: String,
    /// Elements.
    pub parameters: u64,
    /// Of all elements, 0 to 1.
    pub share: f64,
}

/// A part of a checkpoint that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unused {
    /// First piece of the tensors' names that is not `model`.
    pub part: String,
    /// Elements.
    pub parameters: u64,
    /// Bytes in the files.
    pub bytes: u64,
}

/// A drafter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DraftFacts {
    /// Display name.
    pub name: String,
    /// Path, or `embedded`.
    pub location: String,
    /// `dflash`, `dflash2`, or the name of a relative.
    pub method: String,
    /// Layers.
    pub layers: Vec<DraftLayer>,
    /// Hidden size.
    pub hidden: usize,
    /// MLP width.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Target layers whose output it reads.
    pub taps: Vec<usize>,
    /// Layers of the target it was made for, where it says so.
    pub target_layers: Option<usize>,
    /// Token in the slots to fill.
    pub mask_token: u32,
    /// Slots of a block, seed included.
    pub block_size: usize,
    /// Vocabulary of the target it was made for.
    pub vocab: usize,
    /// Tokens it can draft, if not all.
    pub draft_vocab: Option<usize>,
    /// Rotary positions.
    pub rope: RopeFacts,
    /// Tensors.
    pub weights: WeightFacts,
}

/// A layer of a drafter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DraftLayer {
    /// Window, for sliding layers.
    pub window: Option<usize>,
    /// Causal inside the block.
    pub causal: bool,
}

/// Whether a drafter belongs to a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PairFacts {
    /// It does.
    pub fits: bool,
    /// Why not, and what to do.
    pub problem: Option<String>,
}
