//! Decoder targets: the Llama family, Qwen3, and the hybrids Qwen3.5 and 3.6. Written once over the backend.

use crate::engine::backend::{Backend, Heads, Input, Keeps, Rows, Store};
use crate::engine::weights::{Checkpoint, WeightsError};
use crate::protocol::state::ModelInfo;

use super::config::{Architecture, TargetConfig};
use super::layer::{self, Layer, Names, Space};
use super::load::Loader;

/// A loaded target.
pub struct Target<B: Backend> {
    /// Its shape.
    pub config: TargetConfig,
    /// Heads of every attention layer; where several devices share the layers, those of one device.
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
    space: Space<B>,
    picked: B::Buf,
    /// `[wanted rows, vocab]` of the last forward.
    pub logits: B::Buf,
    /// `[rows, taps · H]` of the last forward: the residual stream after each tapped layer.
    pub features: B::Buf,
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
        shared_evenly(checkpoint, &config, backend.ranks())?;
        let own = heads.share(backend.ranks());
        let h = config.hidden;
        let embedding_name = names.top("token_embd.weight", "model.embed_tokens.weight");
        let embedding = load.matrix(&[(embedding_name, config.vocab)], h, None)?;
        let mut layers = Vec::with_capacity(config.layers);
        for l in 0..config.layers {
            layers.push(Layer::load(&mut load, &config, &heads, names, l)?);
            progress((l + 1) as f64 / config.layers as f64);
        }
        let norm = layer::norm(&mut load, &config, names.top("output_norm.weight", "model.norm.weight"), h)?;
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
                Architecture::Qwen35 => "qwen35".into(),
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
            space: Space::new(backend, &config, &own),
            picked: backend.buf(h),
            logits: backend.buf(config.vocab),
            features: backend.buf(h),
            info,
            heads: own,
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

    /// An empty cache for one sequence.
    pub fn cache(&self, backend: &B) -> B::Cache {
        let layers: Vec<Keeps<'_>> = self.layers.iter().map(|layer| layer.keeps(&self.heads)).collect();
        backend.cache_shared(&layers, self.is_exact())
    }

    /// Makes every forward capture the residual stream after these layers, in this order.
    pub fn tap(&mut self, backend: &B, taps: &[usize]) {
        self.features = backend.buf(taps.len().max(1) * self.config.hidden);
        self.taps = taps.to_vec();
    }

    /// One pass over all rows. Adds their rows to the caches, captures features of all rows, and leaves the
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
        let eps = self.config.eps;
        let hidden = self.config.hidden;
        backend.embed(&self.embedding, ids, 1.0, &mut self.space.x);
        for (l, layer) in self.layers.iter().enumerate() {
            layer.forward(backend, &mut self.space, &self.heads, eps, rows, l, caches);
            for (t, _) in self.taps.iter().enumerate().filter(|(_, tap)| **tap == l) {
                backend.place(&self.space.x, n, &mut self.features, t * hidden);
            }
        }
        if !wanted.is_empty() {
            backend.gather(&self.space.x, wanted, &mut self.picked, 0);
            let input = Input::Normed { x: &self.picked, weight: &self.norm, eps };
            let head = self.head.as_ref().unwrap_or(&self.embedding);
            backend.linear(&input, wanted.len(), head, &mut self.logits, false);
        }
    }
}

/// Checks that the layers can be shared out among so many devices.
fn shared_evenly(checkpoint: &Checkpoint, config: &TargetConfig, of: usize) -> Result<(), WeightsError> {
    let mut counts = vec![(config.heads, "query heads"), (config.intermediate, "MLP columns")];
    // Several devices may have the same KV head.
    if !of.is_multiple_of(config.kv_heads) {
        counts.push((config.kv_heads, "KV heads"));
    }
    if let Some(delta) = &config.delta {
        counts.extend([(delta.key_heads, "linear key heads"), (delta.value_heads, "linear value heads")]);
    }
    match counts.into_iter().find(|(count, _)| !count.is_multiple_of(of)) {
        Some((count, what)) => Err(WeightsError::config(
            checkpoint.location(),
            format!("{of} devices cannot share {count} {what} evenly; choose another --tensor-parallel"),
        )),
        None => Ok(()),
    }
}
