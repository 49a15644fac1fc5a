//! Dense decoder targets: the Llama family and Qwen3. Written once over the backend.

use crate::engine::backend::{Backend, Columns, HeadNorms, Heads, Input, Rows, Store};
use crate::engine::weights::{Checkpoint, WeightsError};
use crate::protocol::state::ModelInfo;

use super::config::{Architecture, TargetConfig};
use super::load::Loader;

struct Layer<B: Backend> {
    attn_norm: B::Vector,
    qkv: B::Matrix,
    norms: HeadNorms<B::Vector>,
    output: B::Matrix,
    ffn_norm: B::Vector,
    gate_up: B::Matrix,
    down: B::Matrix,
}

/// A loaded target.
pub struct Target<B: Backend> {
    /// Its shape.
    pub config: TargetConfig,
    /// Heads of every layer.
    pub heads: Heads,
    /// What to tell about it.
    pub info: ModelInfo,
    /// Formats of its matrices in memory.
    pub formats: Vec<&'static str>,
    embedding: B::Matrix,
    layers: Vec<Layer<B>>,
    norm: B::Vector,
    /// `None` where the embedding is the head.
    head: Option<B::Matrix>,
    taps: Vec<usize>,
    x: B::Buf,
    qkv: B::Buf,
    mixed: B::Buf,
    gate_up: B::Buf,
    picked: B::Buf,
    /// `[wanted rows, vocab]` of the last forward.
    pub logits: B::Buf,
    /// `[rows, taps · H]` of the last forward: the residual stream after each tapped layer.
    pub features: B::Buf,
}

/// Tensor names of one format.
struct Names {
    gguf: bool,
}

impl Names {
    fn layer(&self, i: usize, gguf: &str, hf: &str) -> String {
        if self.gguf { format!("blk.{i}.{gguf}.weight") } else { format!("model.layers.{i}.{hf}.weight") }
    }
    fn top<'a>(&self, gguf: &'a str, hf: &'a str) -> &'a str {
        if self.gguf { gguf } else { hf }
    }
}

impl<B: Backend> Target<B> {
    /// Loads a target. `progress` is told the share of layers that are in.
    pub fn load(
        backend: &B,
        checkpoint: &Checkpoint,
        store: Store,
        mut progress: impl FnMut(f64),
    ) -> Result<Self, WeightsError> {
        let config = TargetConfig::read(checkpoint)?;
        let names = Names { gguf: checkpoint.is_gguf() };
        let mut load = Loader::new(checkpoint, backend, store);
        let heads = Heads {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            inv_freq: config.inv_freq.clone(),
            interleaved: config.rope_interleaved,
            eps: config.eps,
        };
        let (h, q, kv, i) = (config.hidden, heads.q_width(), heads.kv_width(), config.intermediate);
        let embedding_name = names.top("token_embd.weight", "model.embed_tokens.weight");
        let embedding = load.matrix(&[(embedding_name, config.vocab)], h, None)?;
        let mut layers = Vec::with_capacity(config.layers);
        for l in 0..config.layers {
            let name = |gguf: &str, hf: &str| names.layer(l, gguf, hf);
            for (gguf, hf) in [("attn_q", "self_attn.q_proj"), ("attn_k", "self_attn.k_proj")] {
                load.refuse(&name(gguf, hf).replace(".weight", ".bias"), "an attention bias")?;
            }
            let norms = if config.architecture == Architecture::Qwen3 {
                HeadNorms {
                    q: Some(load.vector(&name("attn_q_norm", "self_attn.q_norm"), heads.head_dim)?),
                    k: Some(load.vector(&name("attn_k_norm", "self_attn.k_norm"), heads.head_dim)?),
                }
            } else {
                HeadNorms::default()
            };
            layers.push(Layer {
                attn_norm: load.vector(&name("attn_norm", "input_layernorm"), h)?,
                qkv: load.matrix(
                    &[
                        (&name("attn_q", "self_attn.q_proj"), q),
                        (&name("attn_k", "self_attn.k_proj"), kv),
                        (&name("attn_v", "self_attn.v_proj"), kv),
                    ],
                    h,
                    None,
                )?,
                norms,
                output: load.matrix(&[(&name("attn_output", "self_attn.o_proj"), h)], q, None)?,
                ffn_norm: load.vector(&name("ffn_norm", "post_attention_layernorm"), h)?,
                gate_up: load.matrix(
                    &[(&name("ffn_gate", "mlp.gate_proj"), i), (&name("ffn_up", "mlp.up_proj"), i)],
                    h,
                    None,
                )?,
                down: load.matrix(&[(&name("ffn_down", "mlp.down_proj"), h)], i, None)?,
            });
            progress((l + 1) as f64 / config.layers as f64);
        }
        let norm = load.vector(names.top("output_norm.weight", "model.norm.weight"), h)?;
        let head = if config.tied {
            None
        } else {
            Some(load.matrix(&[(names.top("output.weight", "lm_head.weight"), config.vocab)], h, None)?)
        };
        let info = ModelInfo {
            name: checkpoint.name(),
            architecture: match config.architecture {
                Architecture::Llama => "llama".into(),
                Architecture::Qwen3 => "qwen3".into(),
            },
            source: checkpoint.location(),
            parameters: load.parameters,
            bytes: load.bytes,
            dtype: load.format(),
            layers: config.layers,
            vocab: config.vocab,
        };
        Ok(Self {
            formats: load.formats,
            embedding,
            layers,
            norm,
            head,
            taps: Vec::new(),
            x: backend.buf(h),
            qkv: backend.buf(q + 2 * kv),
            mixed: backend.buf(q),
            gate_up: backend.buf(2 * i),
            picked: backend.buf(h),
            logits: backend.buf(config.vocab),
            features: backend.buf(h),
            info,
            heads,
            config,
        })
    }

    /// Name of the tensor that serves as LM head.
    pub fn head_tensor(&self, checkpoint: &Checkpoint) -> &'static str {
        let names = Names { gguf: checkpoint.is_gguf() };
        match (names.gguf, self.head.is_some()) {
            (true, false) => "token_embd.weight",
            (true, true) => "output.weight",
            (false, false) => "model.embed_tokens.weight",
            (false, true) => "lm_head.weight",
        }
    }

    /// The LM head.
    pub fn head(&self) -> &B::Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// The raw embedding table.
    pub fn embedding(&self) -> &B::Matrix {
        &self.embedding
    }

    /// Whether no matrix is quantised: such a run is a reference, and its caches are not rounded either.
    pub fn is_exact(&self) -> bool {
        self.formats.iter().all(|&format| format == "F32")
    }

    /// Makes every forward capture the residual stream after these layers, in this order.
    pub fn tap(&mut self, backend: &B, taps: &[usize]) {
        self.features = backend.buf(taps.len().max(1) * self.config.hidden);
        self.taps = taps.to_vec();
    }

    /// One pass over all rows. Appends their K and V to the caches, captures features of all rows, and leaves the
    /// logits of the `wanted` rows in [`Target::logits`], in that order.
    pub fn forward(
        &mut self,
        backend: &mut B,
        ids: &[u32],
        rows: &Rows,
        caches: &mut [&mut B::Cache],
        wanted: &[usize],
    ) {
        let n = rows.len();
        let heads = &self.heads;
        let columns = Columns { q: Some(0), k: heads.q_width(), v: heads.q_width() + heads.kv_width() };
        let eps = self.config.eps;
        let hidden = self.config.hidden;
        backend.embed(&self.embedding, ids, 1.0, &mut self.x);
        for (l, layer) in self.layers.iter().enumerate() {
            let input = Input::Normed { x: &self.x, weight: &layer.attn_norm, eps };
            backend.linear(&input, n, &layer.qkv, &mut self.qkv, false);
            backend.rotate_store(&mut self.qkv, columns, heads, &layer.norms, rows, l, caches);
            backend.attend(&self.qkv, 0, heads, rows, l, caches, &mut self.mixed);
            backend.linear(&Input::Plain(&self.mixed), n, &layer.output, &mut self.x, true);
            let input = Input::Normed { x: &self.x, weight: &layer.ffn_norm, eps };
            backend.linear(&input, n, &layer.gate_up, &mut self.gate_up, false);
            backend.linear(&Input::Gated(&self.gate_up), n, &layer.down, &mut self.x, true);
            for (t, _) in self.taps.iter().enumerate().filter(|(_, tap)| **tap == l) {
                backend.place(&self.x, n, &mut self.features, t * hidden);
            }
        }
        if !wanted.is_empty() {
            backend.gather(&self.x, wanted, &mut self.picked, 0);
            let input = Input::Normed { x: &self.picked, weight: &self.norm, eps };
            let head = self.head.as_ref().unwrap_or(&self.embedding);
            backend.linear(&input, wanted.len(), head, &mut self.logits, false);
        }
    }
}
