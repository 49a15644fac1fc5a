//! One decoder layer of a target: how it mixes tokens, and its gated MLP.

use std::ops::Range;

use crate::engine::backend::delta::{DeltaNet, DeltaShape};
use crate::engine::backend::{Backend, Columns, HeadNorms, Heads, Input, Keeps, Rows};
use crate::engine::weights::WeightsError;

use super::config::{Architecture, Mixing, TargetConfig};
use super::load::Loader;

/// Tensor names of one format.
#[derive(Clone, Copy)]
pub struct Names {
    /// GGUF; otherwise Hugging Face.
    pub gguf: bool,
}

impl Names {
    /// Name of a layer's tensor in either format, without `.weight`.
    fn bare(self, i: usize, gguf: &str, hf: &str) -> String {
        if self.gguf { format!("blk.{i}.{gguf}") } else { format!("model.layers.{i}.{hf}") }
    }
    fn layer(self, i: usize, gguf: &str, hf: &str) -> String {
        self.bare(i, gguf, hf) + ".weight"
    }
    /// Name of a tensor outside layers.
    pub fn top<'a>(self, gguf: &'a str, hf: &'a str) -> &'a str {
        if self.gguf { gguf } else { hf }
    }
}

/// What mixes tokens.
enum Mixer<B: Backend> {
    /// Attention. Rows of `qkv`: queries, keys, values, then the output gate where there is one.
    Attention { qkv: B::Matrix, norms: HeadNorms<B::Vector>, gated: bool },
    /// Gated delta rule. Rows of `inputs`: what the convolution takes, then `z`; of `gates`: `b`, `a`.
    Delta { inputs: B::Matrix, gates: B::Matrix, net: DeltaNet<B::Vector> },
}

/// A decoder layer.
pub struct Layer<B: Backend> {
    mix_norm: B::Vector,
    mixer: Mixer<B>,
    output: B::Matrix,
    ffn_norm: B::Vector,
    gate_up: B::Matrix,
    down: B::Matrix,
}

/// Activations that the layers of a target share.
pub struct Space<B: Backend> {
    /// The residual stream, `[rows, H]`.
    pub x: B::Buf,
    qkv: B::Buf,
    attended: B::Buf,
    inputs: B::Buf,
    gates: B::Buf,
    recalled: B::Buf,
    gate_up: B::Buf,
}

impl<B: Backend> Space<B> {
    /// Buffers for a target of this shape, of whose heads a device has `own`. They take no memory until they are used.
    pub fn new(backend: &B, config: &TargetConfig, own: &Heads) -> Self {
        let of = backend.ranks();
        let (q, kv) = (own.q_width(), own.kv_width());
        let gate = if gated(config) { q } else { 0 };
        let (inputs, recalled, value_heads) = config.delta.as_ref().map_or((1, 1, 1), |whole| {
            let d = whole.share(of);
            (d.conv_width() + d.value_width(), d.value_width(), d.value_heads)
        });
        Self {
            x: backend.buf(config.hidden),
            qkv: backend.buf_shared(q + 2 * kv + gate),
            attended: backend.buf_shared(q),
            inputs: backend.buf_shared(inputs),
            gates: backend.buf_shared(2 * value_heads),
            recalled: backend.buf_shared(recalled),
            gate_up: backend.buf_shared(2 * config.intermediate / of),
        }
    }
}

fn gated(config: &TargetConfig) -> bool {
    config.architecture == Architecture::Qwen35
}

impl<B: Backend> Layer<B> {
    /// Loads layer number `l`.
    pub fn load(
        load: &mut Loader<'_, B>,
        config: &TargetConfig,
        heads: &Heads,
        names: Names,
        l: usize,
    ) -> Result<Self, WeightsError> {
        let (h, i) = (config.hidden, config.intermediate);
        let name = |gguf: &str, hf: &str| names.layer(l, gguf, hf);
        let mix_norm = norm(load, config, &name("attn_norm", "input_layernorm"), h)?;
        let (mixer, output) = match (config.mixing[l], &config.delta) {
            (Mixing::Delta, Some(shape)) => delta(load, shape, names, l, h)?,
            _ => attention(load, config, heads, names, l)?,
        };
        // Where attention comes without a norm of its own behind it, converters call the norm of the MLP by its place.
        let ffn_norm = if gated(config) { "post_attention_norm" } else { "ffn_norm" };
        let (gate, up) = (name("ffn_gate", "mlp.gate_proj"), name("ffn_up", "mlp.up_proj"));
        Ok(Self {
            mix_norm,
            mixer,
            output,
            ffn_norm: norm(load, config, &name(ffn_norm, "post_attention_layernorm"), h)?,
            gate_up: load.outputs(
                |rank, of| {
                    let own = portion(i, rank, of);
                    vec![(&*gate, i, vec![own.clone()]), (&*up, i, vec![own])]
                },
                h,
            )?,
            down: load.inputs(&name("ffn_down", "mlp.down_proj"), h, i, |rank, of| vec![portion(i, rank, of)])?,
        })
    }

    /// What this layer keeps of a sequence.
    pub fn keeps<'a>(&'a self, heads: &'a Heads) -> Keeps<'a> {
        match &self.mixer {
            Mixer::Attention { .. } => Keeps::Attention(heads),
            Mixer::Delta { net, .. } => Keeps::Delta(&net.shape),
        }
    }

    /// Sends all rows of `space.x` through layer number `l`.
    #[allow(clippy::too_many_arguments)]
    pub fn forward(
        &self,
        backend: &mut B,
        space: &mut Space<B>,
        heads: &Heads,
        eps: f32,
        rows: &Rows,
        l: usize,
        caches: &mut [&mut B::Cache],
    ) {
        let n = rows.len();
        let input = Input::Normed { x: &space.x, weight: &self.mix_norm, eps };
        let mixed = match &self.mixer {
            Mixer::Attention { qkv, norms, gated } => {
                let columns = Columns { q: Some(0), k: heads.q_width(), v: heads.q_width() + heads.kv_width() };
                backend.linear(&input, n, qkv, &mut space.qkv, false);
                backend.rotate_store(&mut space.qkv, columns, heads, norms, rows, l, caches);
                backend.attend(&space.qkv, 0, heads, rows, l, caches, &mut space.attended);
                if *gated {
                    backend.gate(&mut space.attended, n, &space.qkv, columns.v + heads.kv_width());
                }
                &space.attended
            }
            Mixer::Delta { inputs, gates, net } => {
                backend.linear(&input, n, inputs, &mut space.inputs, false);
                backend.linear(&input, n, gates, &mut space.gates, false);
                backend.delta(&space.inputs, &space.gates, net, rows, l, caches, &mut space.recalled);
                &space.recalled
            }
        };
        backend.linear(&Input::Plain(mixed), n, &self.output, &mut space.x, true);
        let input = Input::Normed { x: &space.x, weight: &self.ffn_norm, eps };
        backend.linear(&input, n, &self.gate_up, &mut space.gate_up, false);
        backend.linear(&Input::Gated(&space.gate_up), n, &self.down, &mut space.x, true);
    }
}

/// Device `rank`'s share of `count` things among `of` devices, which divide it.
fn portion(count: usize, rank: usize, of: usize) -> Range<usize> {
    count / of * rank..count / of * (rank + 1)
}

/// A norm's weight. Files in Hugging Face's format keep those of Qwen3.5 around zero; converters to GGUF add the one.
pub fn norm<B: Backend>(
    load: &mut Loader<'_, B>,
    config: &TargetConfig,
    name: &str,
    len: usize,
) -> Result<B::Vector, WeightsError> {
    let mut weight = load.values(name, &[len])?;
    if config.architecture == Architecture::Qwen35 && !load.checkpoint.is_gguf() {
        for w in &mut weight {
            *w += 1.0;
        }
    }
    load.backend.vector(weight)
}

fn attention<B: Backend>(
    load: &mut Loader<'_, B>,
    config: &TargetConfig,
    heads: &Heads,
    names: Names,
    l: usize,
) -> Result<(Mixer<B>, B::Matrix), WeightsError> {
    let (h, q, kv, hd) = (config.hidden, heads.q_width(), heads.kv_width(), heads.head_dim);
    let name = |gguf: &str, hf: &str| names.layer(l, gguf, hf);
    for (gguf, hf) in [("attn_q", "self_attn.q_proj"), ("attn_k", "self_attn.k_proj")] {
        load.refuse(&(names.bare(l, gguf, hf) + ".bias"), "an attention bias")?;
    }
    let norms = match config.architecture {
        Architecture::Llama => HeadNorms::default(),
        Architecture::Qwen3 | Architecture::Qwen35 => HeadNorms {
            q: Some(norm(load, config, &name("attn_q_norm", "self_attn.q_norm"), hd)?),
            k: Some(norm(load, config, &name("attn_k_norm", "self_attn.k_norm"), hd)?),
        },
    };
    let (q_name, k_name, v_name) =
        (name("attn_q", "self_attn.q_proj"), name("attn_k", "self_attn.k_proj"), name("attn_v", "self_attn.v_proj"));
    let gated = gated(config);
    let qkv = load.outputs(
        |rank, of| {
            let queries = portion(heads.heads, rank, of);
            let kv_share = (heads.kv_heads / of).max(1);
            let first = rank * heads.kv_heads / of;
            let own = first * hd..(first + kv_share) * hd;
            let (k, v) = ((&*k_name, kv, vec![own.clone()]), (&*v_name, kv, vec![own]));
            if !gated {
                return vec![(&*q_name, q, std::iter::once(queries.start * hd..queries.end * hd).collect()), k, v];
            }
            // The file has query and gate of a head side by side; here all queries stand first and all gates last.
            let side = |first: usize| queries.clone().map(|h| (2 * h + first) * hd..(2 * h + first + 1) * hd).collect();
            vec![(&*q_name, 2 * q, side(0)), k, v, (&*q_name, 2 * q, side(1))]
        },
        h,
    )?;
    let output = load.inputs(&name("attn_output", "self_attn.o_proj"), h, q, |rank, of| vec![portion(q, rank, of)])?;
    Ok((Mixer::Attention { qkv, norms, gated }, output))
}

fn delta<B: Backend>(
    load: &mut Loader<'_, B>,
    shape: &DeltaShape,
    names: Names,
    l: usize,
    h: usize,
) -> Result<(Mixer<B>, B::Matrix), WeightsError> {
    let name = |gguf: &str, hf: &str| names.layer(l, gguf, &format!("linear_attn.{hf}"));
    let (conv_width, value_width, heads) = (shape.conv_width(), shape.value_width(), shape.value_heads);
    let values_of = |rank, of| -> Vec<Range<usize>> {
        let heads = shape.value_heads_of(rank, of).into_iter();
        heads.map(|h| h.start * shape.value_dim..h.end * shape.value_dim).collect()
    };
    let (qkv, z) = (name("attn_qkv", "in_proj_qkv"), name("attn_gate", "in_proj_z"));
    let inputs = load.outputs(
        |rank, of| vec![(&*qkv, conv_width, shape.channels_of(rank, of)), (&*z, value_width, values_of(rank, of))],
        h,
    )?;
    let (b, a) = (name("ssm_beta", "in_proj_b"), name("ssm_alpha", "in_proj_a"));
    let gates = load.outputs(
        |rank, of| {
            let own = shape.value_heads_of(rank, of);
            vec![(&*b, heads, own.clone()), (&*a, heads, own)]
        },
        h,
    )?;
    let conv_shape: &[usize] = if names.gguf { &[conv_width, shape.kernel] } else { &[conv_width, 1, shape.kernel] };
    let taps = load.values(&name("ssm_conv1d", "conv1d"), conv_shape)?;
    let mut conv = vec![0.0; taps.len()];
    for (channel, taps) in taps.chunks_exact(shape.kernel).enumerate() {
        for (tap, &weight) in taps.iter().enumerate() {
            conv[tap * conv_width + channel] = weight;
        }
    }
    let mut decay = load.values(&names.bare(l, "ssm_a", "linear_attn.A_log"), &[heads])?;
    if !names.gguf {
        for a in &mut decay {
            *a = -a.exp();
        }
    }
    let bias = load.values(&names.bare(l, "ssm_dt.bias", "linear_attn.dt_bias"), &[heads])?;
    let of = load.backend.ranks();
    let pick = |values: &[f32], stretches: &[Range<usize>]| -> Vec<f32> {
        stretches.iter().flat_map(|s| &values[s.clone()]).copied().collect()
    };
    let by_head = |values: &[f32]| (0..of).map(|rank| pick(values, &shape.value_heads_of(rank, of))).collect();
    let by_channel = (0..of)
        .map(|rank| {
            let channels = shape.channels_of(rank, of);
            conv.chunks_exact(conv_width).flat_map(|tap| pick(tap, &channels)).collect()
        })
        .collect();
    let net = DeltaNet {
        conv: load.backend.vector_shares(by_channel)?,
        decay: load.backend.vector_shares(by_head(&decay))?,
        bias: load.backend.vector_shares(by_head(&bias))?,
        // Not around zero, unlike the other norms.
        norm: load.vector(&name("ssm_norm", "norm"), shape.value_dim)?,
        shape: shape.share(of),
    };
    let output = load.inputs(&name("ssm_out", "out_proj"), h, value_width, values_of)?;
    Ok((Mixer::Delta { inputs, gates, net }, output))
}
