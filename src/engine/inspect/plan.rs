//! How much memory a pair takes, computed from its headers. Pure arithmetic: what the machine has is for others to say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::weights::Parts;
use super::{DraftFacts, Inspected, ModelFacts, TargetFacts};
use crate::engine::api::Precision;
use crate::engine::backend::delta::BLOCK;
use crate::engine::backend::{Store, cpu};
use crate::engine::model::load::{draft_store, target_store};
use crate::engine::weights::{Checkpoint, DType};

/// Context where none is asked for, as the engine takes it.
pub const DEFAULT_CONTEXT: usize = 8_192;
/// Rows of the largest prompt pass.
const PROMPT_ROWS: u64 = 128;
/// Rows whose logits are wanted at once: a tree of the default budget, and its root.
const LOGIT_ROWS: u64 = 17;

/// Where the weights are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// In main memory, as the CPU backend packs them: formats with a kernel as they are, other quantised ones in 8
    /// bits, everything else in F32.
    Cpu(Precision),
    /// On a GPU, as they are in the files; caches in 16 bits.
    Gpu,
}

/// Bytes that a pair takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Tokens of context planned for.
    pub context: u64,
    /// Sequences of that length at once.
    pub sequences: u64,
    /// The target's weights.
    pub target: u64,
    /// The drafter's weights, its copy of the target's head included.
    pub drafter: u64,
    /// Keys and values of one token: the target's and the drafter's.
    pub kv_per_token: u64,
    /// Keys and values of all sequences at full context.
    pub kv: u64,
    /// Recurrent states of all sequences, with the rows that are not in them yet, at most.
    pub state: u64,
    /// Buffers of a forward pass (an estimate).
    pub workspace: u64,
    /// All of it.
    pub total: u64,
}

/// Plans a target, with its drafter if there is one. `context` 0 means what the engine would take. `None` when
/// `target` is no target.
pub fn plan(
    target: &Inspected,
    draft: Option<&Inspected>,
    holding: Holding,
    context: usize,
    sequences: usize,
) -> Option<Plan> {
    let ModelFacts::Target(of) = &target.facts else { return None };
    let by = draft.and_then(|d| match &d.facts {
        ModelFacts::Draft(facts) => Some((d, facts)),
        ModelFacts::Target(_) => None,
    });
    let made_for = of.context.unwrap_or(usize::MAX);
    let context = if context == 0 { made_for.min(DEFAULT_CONTEXT) } else { context } as u64;
    let sequences = sequences.max(1) as u64;
    let held = held(target, of, by, holding);
    let element: u64 = if held.exact { 4 } else { 2 };
    let kv_layers = (of.layers.total - of.layers.linear) as u64;
    let mut kv_per_token = 2 * kv_layers * (of.kv_heads * of.head_dim) as u64 * element;
    let mut workspace = PROMPT_ROWS * 4 * target_row(of) + LOGIT_ROWS * 4 * of.vocab as u64;
    if let Some((_, by)) = by {
        kv_per_token += 2 * (by.layers.len() * by.kv_heads * by.head_dim) as u64 * element;
        let vocab = by.draft_vocab.unwrap_or(by.vocab) as u64;
        workspace += PROMPT_ROWS * 4 * draft_row(of, by) + by.block_size as u64 * 4 * vocab;
    }
    let state = of.linear.map_or(0, |l| {
        let (keys, values) = (l.key_heads * l.key_dim, l.value_heads * l.value_dim);
        // Of every row since the last anchor, and as far back as the convolution sees: its input, key, change and decay.
        let rows = BLOCK + l.conv_kernel - 1 + PROMPT_ROWS as usize;
        let row = (2 * keys + values) + keys + values + l.value_heads;
        4 * (of.layers.linear * (l.value_heads * l.key_dim * l.value_dim + rows * row)) as u64 * sequences
    });
    let kv = kv_per_token.saturating_mul(context).saturating_mul(sequences);
    let parts = [held.target, held.drafter, kv, state, workspace];
    Some(Plan {
        context,
        sequences,
        target: held.target,
        drafter: held.drafter,
        kv_per_token,
        kv,
        state,
        workspace,
        total: parts.iter().fold(0, |sum, &part| sum.saturating_add(part)),
    })
}

/// Numbers that a row takes on its way through a layer of the target.
fn target_row(of: &TargetFacts) -> u64 {
    let attention = of.head_dim * (2 * of.heads + 2 * of.kv_heads);
    let linear = of.linear.map_or(0, |l| 2 * l.key_heads * l.key_dim + 3 * l.value_heads * l.value_dim);
    let mlp = 2 * of.intermediate.unwrap_or(4 * of.hidden);
    (2 * of.hidden + attention.max(linear) + mlp) as u64
}

/// The same for the drafter, with the features that it reads.
fn draft_row(of: &TargetFacts, by: &DraftFacts) -> u64 {
    let attention = by.head_dim * (2 * by.heads + 2 * by.kv_heads);
    let context = by.taps.len() * of.hidden * 2 + 2 * by.layers.len() * by.kv_heads * by.head_dim;
    (3 * by.hidden + attention + 2 * by.intermediate + context) as u64
}

/// Bytes of weights in memory.
struct Held {
    target: u64,
    drafter: u64,
    /// Nothing is quantised, so that caches are not rounded either.
    exact: bool,
}

fn held(target: &Inspected, of: &TargetFacts, by: Option<(&Inspected, &DraftFacts)>, holding: Holding) -> Held {
    let head = |target: &Checkpoint| {
        let names = ["lm_head.weight", "output.weight", "model.embed_tokens.weight", "token_embd.weight"];
        names.iter().find_map(|n| target.find(n)).map_or(DType::BF16, |t| t.dtype)
    };
    let reduced = by.and_then(|(_, facts)| facts.draft_vocab);
    match holding {
        Holding::Cpu(precision) => {
            let store = target_store(precision);
            let own = packed(&target.checkpoint, store, false);
            let drafter = by.map_or(0, |(draft, _)| {
                let labels: Vec<&str> = own.formats.clone();
                let bytes = packed(&draft.checkpoint, draft_store(precision, &labels), true).bytes;
                bytes + reduced.map_or(0, |n| cpu::planned(&[head(&target.checkpoint)], n, of.hidden, store).0)
            });
            Held { target: own.bytes, drafter, exact: own.formats.iter().all(|&f| f == "F32") }
        }
        Holding::Gpu => {
            let drafter = by.map_or(0, |(draft, facts)| {
                let rows = |n: usize| head(&target.checkpoint).tensor_bytes(&[n, of.hidden]).unwrap_or(0) as u64;
                facts.weights.bytes + context_copy(&draft.checkpoint) + reduced.map_or(0, rows)
            });
            Held { target: of.weights.bytes, drafter, exact: false }
        }
    }
}

/// K and V projections of the drafter are held twice: in their layers, and stacked for context rows.
fn context_copy(draft: &Checkpoint) -> u64 {
    let twice = |name: &str| name.contains(".self_attn.k_proj.") || name.contains(".self_attn.v_proj.");
    draft.tensors().filter(|(name, ..)| twice(name)).map(|(.., bytes)| bytes as u64).sum()
}

struct PackedSize {
    bytes: u64,
    formats: Vec<&'static str>,
}

/// What the CPU backend would make of a checkpoint: matrices that are used together are stacked, vectors are F32.
fn packed(checkpoint: &Checkpoint, store: Store, drafter: bool) -> PackedSize {
    let mut stacks: BTreeMap<(String, usize), (Vec<DType>, usize)> = BTreeMap::new();
    let mut bytes = 0;
    let parts = Parts::of(checkpoint);
    for (name, dtype, shape, _) in checkpoint.tensors() {
        if parts.unused(name).is_some() || matches!(dtype, DType::I32 | DType::I64 | DType::Bool) {
            continue;
        }
        let elements: usize = shape.iter().product();
        // The convolution of recurrent layers is no matrix, whatever its shape.
        let matrix = <[usize; 2]>::try_from(shape).ok().filter(|_| !name.contains("conv1d"));
        let Some([rows, cols]) = matrix else {
            bytes += elements as u64 * 4;
            continue;
        };
        let mut add = |stack: String| {
            let entry = stacks.entry((stack, cols)).or_default();
            entry.0.push(dtype);
            entry.1 += rows;
        };
        add(stack_of(name));
        if drafter && (name.contains(".self_attn.k_proj.") || name.contains(".self_attn.v_proj.")) {
            add("context".into());
        }
    }
    let mut formats = Vec::new();
    for ((_, cols), (dtypes, rows)) in stacks {
        let (size, format) = cpu::planned(&dtypes, rows, cols, store);
        bytes += size;
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    PackedSize { bytes, formats }
}

/// Name of the matrix that a tensor becomes part of.
fn stack_of(name: &str) -> String {
    const PARTS: [(&str, &str); 17] = [
        (".self_attn.q_proj.", ".qkv."),
        (".self_attn.k_proj.", ".qkv."),
        (".self_attn.v_proj.", ".qkv."),
        (".mlp.gate_proj.", ".gate_up."),
        (".mlp.up_proj.", ".gate_up."),
        (".linear_attn.in_proj_qkv.", ".inputs."),
        (".linear_attn.in_proj_z.", ".inputs."),
        (".linear_attn.in_proj_b.", ".gates."),
        (".linear_attn.in_proj_a.", ".gates."),
        (".attn_q.", ".qkv."),
        (".attn_k.", ".qkv."),
        (".attn_v.", ".qkv."),
        (".ffn_gate.", ".gate_up."),
        (".attn_qkv.", ".inputs."),
        (".attn_gate.", ".inputs."),
        (".ssm_beta.", ".gates."),
        (".ssm_alpha.", ".gates."),
    ];
    let name = name.replace(".ffn_up.", ".gate_up.");
    PARTS.iter().fold(name, |name, (part, stack)| name.replace(part, stack))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::api::ModelSource;
    use crate::engine::backend::cpu::Cpu;
    use crate::engine::inspect::inspect;
    use crate::engine::rounds::Core;
    use crate::engine::weights::bundle::{SMOLLM2_DRAFT, TINY_DRAFT, TINY_TARGET};

    /// The plan is what loading really takes, to the byte, and the parameters are those that loading counts.
    fn check(target: &ModelSource, draft: &ModelSource) {
        let (target, draft) = (inspect(target).expect("a target"), inspect(draft).expect("a drafter"));
        for precision in [Precision::Auto, Precision::F32, Precision::Q8] {
            let plan = plan(&target, Some(&draft), Holding::Cpu(precision), 0, 1).expect("a target");
            let core = Core::load(Cpu::new(1), &target.checkpoint, Some(&draft.checkpoint), precision, |_| {});
            let core = core.expect("a pair");
            let (target_info, draft_info) = (core.target.info, core.drafter.expect("a drafter").info);
            assert_eq!((plan.target, plan.drafter), (target_info.bytes, draft_info.bytes), "{precision:?}");
            assert_eq!(target.facts.weights().parameters, target_info.parameters);
            assert_eq!(draft.facts.weights().parameters, draft_info.parameters);
        }
    }

    #[test]
    fn planned_weights_are_loaded_weights() {
        check(&ModelSource::Embedded(&TINY_TARGET), &ModelSource::Embedded(&TINY_DRAFT));
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hf");
        let hybrid = |name: &str| ModelSource::Path(fixtures.join(name));
        check(&hybrid("qwen35-tied"), &hybrid("qwen35-tied-dflash"));
    }

    #[test]
    fn caches_grow_with_context_and_sequences() {
        let target = inspect(&ModelSource::Embedded(&TINY_TARGET)).expect("embedded");
        // 6 layers, 2 KV heads of 32, keys and values, in F16 beside 8-bit weights and in F32 beside F32 ones.
        let q8 = plan(&target, None, Holding::Cpu(Precision::Q8), 100, 3).expect("a target");
        assert_eq!((q8.kv_per_token, q8.kv), (6 * 2 * 32 * 2 * 2, 6 * 2 * 32 * 2 * 2 * 300));
        let exact = plan(&target, None, Holding::Cpu(Precision::F32), 100, 1).expect("a target");
        assert_eq!(exact.kv_per_token, 2 * q8.kv_per_token);
        // A model made for 2048 tokens is not planned for more.
        assert_eq!(plan(&target, None, Holding::Gpu, 0, 1).expect("a target").context, 2048);
        let draft = inspect(&ModelSource::Embedded(&SMOLLM2_DRAFT)).expect("embedded");
        assert!(plan(&draft, None, Holding::Gpu, 0, 1).is_none(), "a drafter alone runs nothing");
    }
}
