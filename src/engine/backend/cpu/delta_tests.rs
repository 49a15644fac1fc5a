//! The recurrence against its definition in F64, step by step; and how much a session keeps.

use super::*;
use crate::engine::backend::Keeps;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn shape(tiled: bool) -> DeltaShape {
    DeltaShape { key_heads: 2, value_heads: 4, key_dim: 5, value_dim: 19, kernel: 4, tiled, eps: 1e-6 }
}

fn buf(width: usize, data: Vec<f32>) -> Buf {
    Buf { width, data }
}

struct Layer {
    net: DeltaNet,
    x: Vec<Vec<f32>>,
    gates: Vec<Vec<f32>>,
}

/// A random layer and inputs. `strong` decays wipe the state out now and then.
fn layer(seed: u64, count: usize, tiled: bool, strong: bool) -> Layer {
    let mut random = StdRng::seed_from_u64(seed);
    let mut numbers = |n: usize, by: f32| -> Vec<f32> { (0..n).map(|_| (random.random::<f32>() - 0.5) * by).collect() };
    let shape = shape(tiled);
    let (cw, vw, heads) = (shape.conv_width(), shape.value_width(), shape.value_heads);
    let net = DeltaNet {
        conv: numbers(shape.kernel * cw, 2.0),
        decay: numbers(heads, 1.0).iter().map(|v| -v.abs() - 0.01).collect(),
        bias: numbers(heads, 2.0),
        norm: numbers(shape.value_dim, 1.0),
        shape,
    };
    let x = (0..count).map(|_| numbers(cw + vw, 4.0)).collect();
    let gates = (0..count).map(|_| numbers(2 * heads, if strong { 900.0 } else { 6.0 })).collect();
    Layer { net, x, gates }
}

/// Outputs of a chain by the definition.
fn defined(of: &Layer) -> Vec<Vec<f64>> {
    let shape = &of.net.shape;
    let (kd, vd, kw, cw) = (shape.key_dim, shape.value_dim, shape.key_width(), shape.conv_width());
    let wide = |v: f32| f64::from(v);
    let silu = |v: f64| v / (1.0 + (-v).exp());
    let unit = |v: &[f64]| {
        let norm = (v.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        v.iter().map(|x| x / norm).collect::<Vec<f64>>()
    };
    let mut states = vec![vec![0.0f64; kd * vd]; shape.value_heads];
    let mut out = Vec::new();
    for t in 0..of.x.len() {
        let mixed: Vec<f64> = (0..cw)
            .map(|c| {
                let taps = (0..shape.kernel.min(t + 1))
                    .map(|back| wide(of.net.conv[(shape.kernel - 1 - back) * cw + c]) * wide(of.x[t - back][c]));
                silu(taps.sum())
            })
            .collect();
        let mut row = Vec::new();
        for (h, state) in states.iter_mut().enumerate() {
            let at = if shape.tiled { h % 2 } else { h / 2 } * kd;
            let q: Vec<f64> = unit(&mixed[at..at + kd]).iter().map(|v| v / (kd as f64).sqrt()).collect();
            let k = unit(&mixed[kw + at..kw + at + kd]);
            let v = &mixed[2 * kw + h * vd..2 * kw + (h + 1) * vd];
            let beta = 1.0 / (1.0 + (-wide(of.gates[t][h])).exp());
            let step = wide(of.gates[t][shape.value_heads + h]) + wide(of.net.bias[h]);
            let step = if step > 30.0 { step } else { step.exp().ln_1p() };
            let alpha = (wide(of.net.decay[h]) * step).exp();
            for s in state.iter_mut() {
                *s *= alpha;
            }
            let delta: Vec<f64> =
                (0..vd).map(|i| beta * (v[i] - (0..kd).map(|d| state[d * vd + i] * k[d]).sum::<f64>())).collect();
            for d in 0..kd {
                for i in 0..vd {
                    state[d * vd + i] += k[d] * delta[i];
                }
            }
            let o: Vec<f64> = (0..vd).map(|i| (0..kd).map(|d| state[d * vd + i] * q[d]).sum()).collect();
            let mean = o.iter().map(|o| o * o).sum::<f64>() / vd as f64;
            row.extend((0..vd).map(|i| {
                let z = wide(of.x[t][cw + h * vd + i]);
                o[i] / (mean + 1e-6).sqrt() * wide(of.net.norm[i]) * silu(z)
            }));
        }
        out.push(row);
    }
    out
}

struct Machine {
    level: Level,
    pool: Pool,
    scratch: DeltaScratch,
    cache: Cache,
}

impl Machine {
    fn new(level: Level, shape: &DeltaShape) -> Self {
        let cache = Cache::new(&[Keeps::Delta(shape)], true);
        Self { level, pool: Pool::new(1), scratch: DeltaScratch::default(), cache }
    }

    fn causal(&mut self, of: &Layer, from: usize, count: usize) -> Vec<Vec<f32>> {
        let mut rows = Rows::default();
        rows.clear(count.div_ceil(64));
        rows.push_causal(0, from, count);
        let shape = &of.net.shape;
        let x = buf(shape.conv_width() + shape.value_width(), of.x[from..from + count].concat());
        let gates = buf(2 * shape.value_heads, of.gates[from..from + count].concat());
        let mut out = buf(shape.value_width(), Vec::new());
        let Self { level, pool, scratch, cache } = self;
        run(*level, pool, scratch, &x, &gates, &of.net, &rows, 0, &mut [cache], &mut out);
        out.data.chunks(out.width).map(<[f32]>::to_vec).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_follow_the_definition(seed in any::<u64>(), count in 1usize..60, tiled: bool, strong: bool) {
        let of = layer(seed, count, tiled, strong);
        let want = defined(&of);
        for level in Level::available() {
            let mut machine = Machine::new(level, &of.net.shape);
            let got = machine.causal(&of, 0, count);
            for (t, (got, want)) in got.iter().zip(&want).enumerate() {
                for (g, w) in got.iter().zip(want) {
                    prop_assert!((f64::from(*g) - w).abs() < 2e-3, "row {t} at {level}: {g} against {w}");
                }
            }
            // And whichever way the rows are cut, to the bit.
            let mut again = Machine::new(level, &of.net.shape);
            let mut random = StdRng::seed_from_u64(seed);
            let mut at = 0;
            while at < count {
                let n = random.random_range(1..=20usize).min(count - at);
                prop_assert_eq!(&again.causal(&of, at, n)[..], &got[at..at + n]);
                at += n;
            }
        }
    }
}

/// No state a row: what a session keeps is one state and a few lines, however long it gets.
#[test]
fn a_session_keeps_one_state_and_the_rows_since_the_anchor() {
    let of = layer(1, 400, false, false);
    let mut machine = Machine::new(Level::detect(), &of.net.shape);
    let mut at = 0;
    for count in [128, 1, 16, 5, 64, 3, 1, 1, 31] {
        machine.causal(&of, at, count);
        at += count;
        let cache = machine.cache.delta(0);
        let lines = cache.inputs.data.len() / cache.inputs.width;
        assert!(lines <= BLOCK + 3 + count, "{lines} lines after {count} rows");
        assert_eq!(cache.state.len(), 4 * 5 * 19);
    }
    for _ in 0..40 {
        machine.causal(&of, at, 1);
        at += 1;
    }
    let cache = machine.cache.delta(0);
    assert!(cache.inputs.data.capacity() <= 8 * (BLOCK + 4) * cache.inputs.width, "room for a chunk is given back");
}

#[test]
fn a_cache_starts_anew_behind_its_anchor_and_after_a_gap() {
    let of = layer(3, 80, true, false);
    let mut machine = Machine::new(Level::detect(), &of.net.shape);
    let first = machine.causal(&of, 0, 40);
    machine.causal(&of, 40, 1);
    assert_eq!(machine.causal(&of, 0, 40), first, "from the start again");
    // Slots that were never written are as good as none.
    machine.causal(&of, 64, 4);
    assert_eq!(machine.cache.delta(0).anchor, 64);
}
