//! The DFlash drafter: a few Qwen3-style layers that read features of the target and fill a block in one pass
//! (specification sections 1.2 to 1.8).

use crate::engine::backend::{Backend, Columns, HeadNorms, Heads, Input, Keeps, Row, Rows, Store};
use crate::engine::lattice::Lattice;
use crate::engine::weights::{Checkpoint, WeightsError};
use crate::protocol::state::ModelInfo;

use super::block_conv::{BlockConv, ConvSpace};
use super::config::{DraftConfig, draft_ids};
use super::load::Loader;
use super::selector::{Block, Selector};
use super::target::Target;

/// A head of the drafter's own, in the place of the target's.
const HEAD: &str = "lm_head.weight";

struct Layer<B: Backend> {
    attn_norm: B::Vector,
    qkv: B::Matrix,
    norms: HeadNorms<B::Vector>,
    output: B::Matrix,
    ffn_norm: B::Vector,
    gate_up: B::Matrix,
    down: B::Matrix,
    /// Around attention and around the MLP, in DFlash 2.
    convs: Option<[BlockConv<B>; 2]>,
}

/// What one session brings to a draft pass.
pub struct Job<'a, B: Backend> {
    /// New feature rows, `[context, taps · H]`; they continue the cache.
    pub features: &'a B::Buf,
    /// How many of them.
    pub context: usize,
    /// Slots in the cache already.
    pub cached: usize,
    /// The newest committed token, and slots of the block, seed included; `None` only brings the cache up to date.
    pub block: Option<(u32, usize)>,
}

/// A loaded drafter.
pub struct Drafter<B: Backend> {
    /// Its shape.
    pub config: DraftConfig,
    /// What to tell about it.
    pub info: ModelInfo,
    /// Target ids of the draft vocabulary; `None`: the target's own.
    pub ids: Option<Vec<u32>>,
    /// Heads of every layer.
    pub heads: Heads,
    feature_width: usize,
    fc: B::Matrix,
    hidden_norm: B::Vector,
    /// K and V projections of all layers, stacked: context rows need nothing else.
    context_kv: B::Matrix,
    layers: Vec<Layer<B>>,
    norm: B::Vector,
    /// The drafter's own head, or rows of the target's for the draft vocabulary.
    head: Option<B::Matrix>,
    raw: B::Buf,
    context: B::Buf,
    kv: B::Buf,
    x: B::Buf,
    qkv: B::Buf,
    mixed: B::Buf,
    gate_up: B::Buf,
    picked: B::Buf,
    conv: ConvSpace<B>,
    selector: Option<Selector<B>>,
    /// With a selector, what it says about each block of the last pass, and the block's first row of logits.
    lattices: Vec<(usize, Lattice)>,
    /// `[all slots 1.., draft vocabulary]` of the last pass, scaled and capped as the configuration asks, sessions one
    /// after the other.
    pub logits: B::Buf,
}

impl<B: Backend> Drafter<B> {
    /// Loads a drafter and checks that it belongs to the target.
    pub fn load(
        backend: &B,
        checkpoint: &Checkpoint,
        target: &Target<B>,
        target_checkpoint: &Checkpoint,
        store: Store,
        head_store: Store,
    ) -> Result<Self, WeightsError> {
        let config = DraftConfig::read(checkpoint, &target.config)?;
        let mut load = Loader::new(checkpoint, backend, store);
        let heads = Heads {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            inv_freq: config.inv_freq.clone(),
            interleaved: false,
            eps: config.eps,
        };
        let (h, q, kv, i) = (config.hidden, heads.q_width(), heads.kv_width(), config.intermediate);
        let feature_width = config.taps.len() * target.config.hidden;
        let fc = load.matrix(&[("fc.weight", h)], feature_width, None)?;
        let hidden_norm = load.vector("hidden_norm.weight", h)?;
        let mut layers = Vec::new();
        let mut kv_names = Vec::new();
        for l in 0..config.layers.len() {
            let name = |part: &str| format!("layers.{l}.{part}.weight");
            load.refuse(&format!("layers.{l}.self_attn.q_proj.bias"), "an attention bias")?;
            let qkv = [name("self_attn.q_proj"), name("self_attn.k_proj"), name("self_attn.v_proj")];
            layers.push(Layer {
                attn_norm: load.vector(&name("input_layernorm"), h)?,
                qkv: load.matrix(&[(&qkv[0], q), (&qkv[1], kv), (&qkv[2], kv)], h, None)?,
                norms: HeadNorms {
                    q: Some(load.vector(&name("self_attn.q_norm"), heads.head_dim)?),
                    k: Some(load.vector(&name("self_attn.k_norm"), heads.head_dim)?),
                },
                output: load.matrix(&[(&name("self_attn.o_proj"), h)], q, None)?,
                ffn_norm: load.vector(&name("post_attention_layernorm"), h)?,
                gate_up: load.matrix(&[(&name("mlp.gate_proj"), i), (&name("mlp.up_proj"), i)], h, None)?,
                down: load.matrix(&[(&name("mlp.down_proj"), h)], i, None)?,
                convs: match config.conv {
                    None => None,
                    Some(shape) => {
                        let mut one = |part: &str| BlockConv::load(&mut load, &format!("layers.{l}.{part}"), shape, h);
                        Some([one("attention_conv")?, one("mlp_conv")?])
                    }
                },
            });
            kv_names.extend([qkv[1].clone(), qkv[2].clone()]);
        }
        let selector = match config.selector {
            Some(shape) => Some(Selector::load(&mut load, shape, h, config.vocab)?),
            None => None,
        };
        let parameters = load.parameters;
        let parts: Vec<(&str, usize)> = kv_names.iter().map(|name| (name.as_str(), kv)).collect();
        let context_kv = load.matrix(&parts, h, None)?;
        let norm = load.vector("norm.weight", h)?;
        // The configuration has checked them.
        let ids = draft_ids(checkpoint)?.map(|(_, ids)| ids);
        let rows = ids.as_ref().map_or(config.vocab, Vec::len);
        let head = match &ids {
            _ if checkpoint.find(HEAD).is_some() => Some(load.matrix(&[(HEAD, rows)], h, None)?),
            Some(ids) => {
                let mut from_target = Loader::new(target_checkpoint, backend, head_store);
                let name = target.head_tensor(target_checkpoint);
                let head = from_target.matrix(&[(name, target.config.vocab)], target.config.hidden, Some(ids))?;
                load.bytes += from_target.bytes;
                Some(head)
            }
            None => None,
        };
        let info = ModelInfo {
            name: checkpoint.name(),
            architecture: if config.selector.is_some() || config.conv.is_some() { "dflash2" } else { "dflash" }.into(),
            source: checkpoint.location(),
            parameters: parameters + h as u64,
            bytes: load.bytes,
            dtype: load.format(),
            layers: config.layers.len(),
            vocab: ids.as_ref().map_or(target.config.vocab, Vec::len),
        };
        Ok(Self {
            feature_width,
            fc,
            hidden_norm,
            context_kv,
            norm,
            head,
            raw: backend.buf(feature_width),
            context: backend.buf(h),
            kv: backend.buf(2 * kv * layers.len()),
            x: backend.buf(h),
            qkv: backend.buf(q + 2 * kv),
            mixed: backend.buf(q),
            gate_up: backend.buf(2 * i),
            picked: backend.buf(h),
            conv: ConvSpace::new(backend, config.conv, h),
            selector,
            lattices: Vec::new(),
            logits: backend.buf(info.vocab),
            layers,
            ids,
            heads,
            info,
            config,
        })
    }

    /// An empty cache for one sequence. `exact` asks for F32.
    pub fn cache(&self, backend: &B, exact: bool) -> B::Cache {
        backend.cache(&vec![Keeps::Attention(&self.heads); self.layers.len()], exact)
    }

    /// Width of a feature row.
    pub fn feature_width(&self) -> usize {
        self.feature_width
    }

    /// What the selector says about the block whose rows of logits begin here; `None` without a selector.
    pub fn lattice(&self, first: usize) -> Option<&Lattice> {
        self.lattices.iter().find(|(at, _)| *at == first).map(|(_, lattice)| lattice)
    }

    /// Target id of a draft vocabulary index.
    pub fn target_id(&self, index: usize) -> u32 {
        self.ids.as_ref().map_or(index as u32, |ids| ids[index])
    }

    /// One pass for all jobs: brings every cache up to date with its features, then fills the blocks. Afterwards
    /// [`Drafter::logits`] holds slots 1.. of every block, and the caches' contents beyond `cached + context` are
    /// garbage that the next pass overwrites.
    pub fn pass(&mut self, backend: &mut B, target: &Target<B>, jobs: &[Job<'_, B>], caches: &mut [&mut B::Cache]) {
        self.extend_context(backend, jobs, caches);
        self.fill_blocks(backend, target, jobs, caches);
    }

    fn extend_context(&mut self, backend: &mut B, jobs: &[Job<'_, B>], caches: &mut [&mut B::Cache]) {
        let mut rows = Rows::default();
        rows.clear(0);
        for (session, job) in jobs.iter().enumerate() {
            let picks: Vec<usize> = (0..job.context).collect();
            backend.gather(job.features, &picks, &mut self.raw, rows.len());
            for j in picks {
                let at = job.cached + j;
                rows.push(Row { session, position: at, slot: at, prefix: 0..0 }, &[]);
            }
            let block = job.block.map_or(0, |(_, size)| size);
            backend.reserve(caches[session], job.cached + job.context + block);
        }
        if rows.is_empty() {
            return;
        }
        let n = rows.len();
        backend.linear(&Input::Plain(&self.raw), n, &self.fc, &mut self.context, false);
        backend.norm(&mut self.context, n, &self.hidden_norm, self.config.eps);
        backend.linear(&Input::Plain(&self.context), n, &self.context_kv, &mut self.kv, false);
        let width = self.heads.kv_width();
        for (l, layer) in self.layers.iter().enumerate() {
            let columns = Columns { q: None, k: 2 * l * width, v: (2 * l + 1) * width };
            backend.rotate_store(&mut self.kv, columns, &self.heads, &layer.norms, &rows, l, caches);
        }
    }

    fn fill_blocks(&mut self, backend: &mut B, target: &Target<B>, jobs: &[Job<'_, B>], caches: &mut [&mut B::Cache]) {
        let mut ids = Vec::new();
        let mut wanted = Vec::new();
        let words = jobs.iter().filter_map(|j| j.block).map(|(_, size)| size.div_ceil(64)).max().unwrap_or(0);
        if words == 0 {
            return;
        }
        let mut starts = Vec::new();
        for (session, job) in jobs.iter().enumerate() {
            let Some((seed, size)) = job.block else { continue };
            let start = job.cached + job.context;
            starts.push((session, start, size));
            ids.push(seed);
            ids.extend(std::iter::repeat_n(self.config.mask_token, size - 1));
            let first = ids.len() - size;
            wanted.extend(first + 1..first + size);
        }
        let n = ids.len();
        let (heads, eps) = (&self.heads, self.config.eps);
        let columns = Columns { q: Some(0), k: heads.q_width(), v: heads.q_width() + heads.kv_width() };
        backend.embed(target.embedding(), &ids, self.config.embedding_scale, &mut self.x);
        let mut rows = Rows::default();
        for (l, layer) in self.layers.iter().enumerate() {
            let look = self.config.layers[l];
            // Layers of one kind share the rows; most drafters have one or two kinds.
            if l == 0 || look != self.config.layers[l - 1] {
                rows.clear(words);
                for &(session, start, size) in &starts {
                    for j in 0..size {
                        let position = start + j;
                        // A query sees itself and the W − 1 positions before it; without causality also W − 1 after it.
                        let low = look.window.map_or(0, |w| (position + 1).saturating_sub(w));
                        let mut mask = vec![0u64; words];
                        for other in 0..size {
                            let later = other > j;
                            let near = look.window.is_none_or(|w| j.abs_diff(other) < w);
                            if near && !(later && look.causal) {
                                mask[other / 64] |= 1 << (other % 64);
                            }
                        }
                        let prefix = low.min(start)..start;
                        rows.push(Row { session, position, slot: position, prefix }, &mask);
                    }
                }
            }
            let convs = layer.convs.as_ref();
            let input = match convs {
                None => Input::Normed { x: &self.x, weight: &layer.attn_norm, eps },
                Some([around, _]) => {
                    around.enter(backend, &self.x, &layer.attn_norm, eps, &rows, &mut self.conv);
                    Input::Plain(&self.conv.input)
                }
            };
            backend.linear(&input, n, &layer.qkv, &mut self.qkv, false);
            backend.rotate_store(&mut self.qkv, columns, heads, &layer.norms, &rows, l, caches);
            backend.attend(&self.qkv, 0, heads, &rows, l, caches, &mut self.mixed);
            let mixed = Input::Plain(&self.mixed);
            let input = match convs {
                None => {
                    backend.linear(&mixed, n, &layer.output, &mut self.x, true);
                    Input::Normed { x: &self.x, weight: &layer.ffn_norm, eps }
                }
                Some([around, next]) => {
                    backend.linear(&mixed, n, &layer.output, &mut self.conv.output, false);
                    around.leave(backend, &rows, &self.conv, &mut self.x);
                    next.enter(backend, &self.x, &layer.ffn_norm, eps, &rows, &mut self.conv);
                    Input::Plain(&self.conv.input)
                }
            };
            backend.linear(&input, n, &layer.gate_up, &mut self.gate_up, false);
            let gated = Input::Gated(&self.gate_up);
            match convs {
                None => backend.linear(&gated, n, &layer.down, &mut self.x, true),
                Some([_, around]) => {
                    backend.linear(&gated, n, &layer.down, &mut self.conv.output, false);
                    around.leave(backend, &rows, &self.conv, &mut self.x);
                }
            }
        }
        backend.gather(&self.x, &wanted, &mut self.picked, 0);
        let input = Input::Normed { x: &self.picked, weight: &self.norm, eps };
        let head = self.head.as_ref().unwrap_or_else(|| target.head());
        backend.linear(&input, wanted.len(), head, &mut self.logits, false);
        let (scale, cap) = (self.config.output_multiplier, self.config.softcap);
        if scale != 1.0 || cap.is_some() {
            backend.cap(&mut self.logits, wanted.len(), scale, cap);
        }
        self.lattices.clear();
        if let Some(selector) = &mut self.selector {
            let ids = self.ids.as_deref();
            let mut first = 0;
            for &(session, _, size) in &starts {
                let Some((seed, _)) = jobs[session].block else { continue };
                let block = Block { seed, first, count: size - 1 };
                let norm = (&self.norm, eps);
                let name = |index: usize| ids.map_or(index as u32, |ids| ids[index]);
                let lattice = selector.lattice(backend, &block, &self.picked, norm, &self.logits, name);
                self.lattices.push((first, lattice));
                first += size - 1;
            }
        }
    }
}
