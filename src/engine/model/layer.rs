//! One decoder layer of a target: how it mixes tokens, and its gated MLP.

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
    /// Buffers for a target of this shape. They take no memory until they are used.
    pub fn new(backend: &B, config: &TargetConfig, heads: &Heads) -> Self {
        let (q, kv) = (heads.q_width(), heads.kv_width());
        let gate = if gated(config) { q } else { 0 };
        let (inputs, recalled, value_heads) = config
            .delta
            .as_ref()
            .map_or((1, 1, 1), |d| (d.conv_width() + d.value_width(), d.value_width(), d.value_heads));
        Self {
            x: backend.buf(config.hidden),
            qkv: backend.buf(q + 2 * kv + gate),
            attended: backend.buf(q),
            inputs: backend.buf(inputs),
            gates: backend.buf(2 * value_heads),
            recalled: backend.buf(recalled),
            gate_up: backend.buf(2 * config.intermediate),
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
        Ok(Self {
            mix_norm,
            mixer,
            output,
            ffn_norm: norm(load, config, &name(ffn_norm, "post_attention_layernorm"), h)?,
            gate_up: load.matrix(
                &[(&name("ffn_gate", "mlp.gate_proj"), i), (&name("ffn_up", "mlp.up_proj"), i)],
                h,
                None,
            )?,
            down: load.matrix(&[(&name("ffn_down", "mlp.down_proj"), h)], i, None)?,
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
    let qkv = if gated {
        // The file has query and gate of a head side by side; here all queries stand first and all gates last.
        let head = |first: usize| (0..heads.heads).map(move |h| (2 * h + first) * hd..(2 * h + first + 1) * hd);
        load.spliced(
            &[
                (&q_name, 2 * q, head(0).collect()),
                (&k_name, kv, std::iter::once(0..kv).collect()),
                (&v_name, kv, std::iter::once(0..kv).collect()),
                (&q_name, 2 * q, head(1).collect()),
            ],
            h,
        )?
    } else {
        load.matrix(&[(&q_name, q), (&k_name, kv), (&v_name, kv)], h, None)?
    };
    let output = load.matrix(&[(&name("attn_output", "self_attn.o_proj"), h)], q, None)?;
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
    let inputs = load.matrix(
        &[(&name("attn_qkv", "in_proj_qkv"), conv_width), (&name("attn_gate", "in_proj_z"), value_width)],
        h,
        None,
    )?;
    let gates =
        load.matrix(&[(&name("ssm_beta", "in_proj_b"), heads), (&name("ssm_alpha", "in_proj_a"), heads)], h, None)?;
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
    let net = DeltaNet {
        conv: load.backend.vector(conv)?,
        decay: load.backend.vector(decay)?,
        bias: load.vector(&names.bare(l, "ssm_dt.bias", "linear_attn.dt_bias"), heads)?,
        // Not around zero, unlike the other norms.
        norm: load.vector(&name("ssm_norm", "norm"), shape.value_dim)?,
        shape: shape.clone(),
    };
    let output = load.matrix(&[(&name("ssm_out", "out_proj"), h)], value_width, None)?;
    Ok((Mixer::Delta { inputs, gates, net }, output))
}
