//! Layers with a recurrent state: prompts in chunks, trees, kept paths, several sessions.

use spectop::engine::backend::cpu::Cpu;
use spectop::engine::backend::delta::{DeltaNet, DeltaShape};
use spectop::engine::backend::{Backend, Keeps, Row, Rows};

use super::attention::tree;
use super::simulated::Simulated;
use super::{Dice, close};

fn shape(dice: &mut Dice) -> DeltaShape {
    let key_heads = 1 + dice.below(2);
    DeltaShape {
        key_heads,
        value_heads: key_heads * (1 + dice.below(3)),
        key_dim: dice.of(&[8, 20, 32]),
        value_dim: dice.of(&[8, 12, 40, 130]),
        kernel: 2 + dice.below(3),
        tiled: dice.below(2) == 0,
        eps: 1e-6,
    }
}

struct Step {
    rows: Rows,
    x: Vec<f32>,
    gates: Vec<f32>,
    keep: Vec<(usize, usize, Vec<usize>)>,
}

fn net<B: Backend>(backend: &B, shape: &DeltaShape) -> DeltaNet<B::Vector> {
    let mut dice = Dice::new(3);
    let mut vector = |count: usize, from: f32, to: f32| {
        let values = dice.floats(count).iter().map(|v| from + (v + 1.0) / 2.0 * (to - from)).collect();
        backend.vector(values).unwrap()
    };
    DeltaNet {
        conv: vector(shape.kernel * shape.conv_width(), -0.8, 0.8),
        decay: vector(shape.value_heads, -1.5, -0.1),
        bias: vector(shape.value_heads, -1.0, 1.0),
        norm: vector(shape.value_dim, 0.5, 1.5),
        shape: shape.clone(),
    }
}

fn input(dice: &mut Dice, shape: &DeltaShape, rows: usize) -> (Vec<f32>, Vec<f32>) {
    let width = shape.conv_width() + shape.value_width();
    (dice.floats(rows * width).iter().map(|v| v * 2.0).collect(), dice.floats(rows * 2 * shape.value_heads))
}

/// Prompts in chunks, then rounds of trees of which a path is kept.
fn steps(dice: &mut Dice, shape: &DeltaShape, sessions: usize) -> Vec<Step> {
    let mut cached = vec![0usize; sessions];
    let mut steps = Vec::new();
    for round in 0..7 {
        let mut rows = Rows::default();
        rows.clear(2);
        let mut keep = Vec::new();
        for (session, cached) in cached.iter_mut().enumerate() {
            let start = *cached;
            if round < 3 {
                let count = 1 + dice.below(40);
                rows.push_causal(session, start, count);
                *cached += count;
                continue;
            }
            let nodes = 1 + dice.below(40);
            let (depth, masks) = tree(dice, nodes, 2);
            for node in 0..nodes {
                let row = Row { session, position: start + depth[node], slot: start + node, prefix: 0..start };
                rows.push(row, &masks[node]);
            }
            let last = dice.below(nodes);
            let path: Vec<usize> = (0..nodes).filter(|j| masks[last][j / 64] >> (j % 64) & 1 == 1).collect();
            *cached += path.len();
            keep.push((session, start, path));
        }
        let (x, gates) = input(dice, shape, rows.len());
        steps.push(Step { rows, x, gates, keep });
    }
    steps
}

fn run<B: Backend>(backend: &mut B, shape: &DeltaShape, steps: &[Step], sessions: usize) -> Vec<Vec<f32>> {
    let net = net(backend, shape);
    let keeps = [Keeps::Delta(shape), Keeps::Delta(shape)];
    let mut caches: Vec<B::Cache> = (0..sessions).map(|_| backend.cache(&keeps, true)).collect();
    let mut x = backend.buf(shape.conv_width() + shape.value_width());
    let (mut gates, mut out) = (backend.buf(2 * shape.value_heads), backend.buf(shape.value_width()));
    let mut results = Vec::new();
    for step in steps {
        let mut refs: Vec<&mut B::Cache> = caches.iter_mut().collect();
        for layer in 0..2 {
            let shifted: Vec<f32> = step.x.iter().map(|v| v + layer as f32 * 0.25).collect();
            backend.upload(&shifted, &mut x);
            backend.upload(&step.gates, &mut gates);
            backend.delta(&x, &gates, &net, &step.rows, layer, &mut refs, &mut out);
            backend.gate(&mut out, step.rows.len() / 2, &x, 1);
            results.push(backend.read(&out, 0..step.rows.len()).to_vec());
        }
        for (session, base, path) in &step.keep {
            backend.keep(&mut caches[*session], *base, path);
        }
    }
    results
}

#[test]
fn recurrent_layers_are_those_of_the_cpu() {
    for seed in 0..8 {
        let mut dice = Dice::new(seed + 40);
        let shape = shape(&mut dice);
        let sessions = 1 + dice.below(3);
        let steps = steps(&mut dice, &shape, sessions);
        let want = run(&mut Cpu::new(1), &shape, &steps, sessions);
        let got = run(&mut Simulated::backend(), &shape, &steps, sessions);
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            close(&format!("seed {seed}, result {i}, {shape:?}"), got, want, 2e-4);
        }
    }
}

/// Every row of a tree has the bits of its own path, row by row; what is kept goes on with the bits of plain decoding.
#[test]
fn a_path_of_a_tree_is_plain_decoding() {
    for seed in 0..4 {
        let mut dice = Dice::new(seed + 70);
        let shape = shape(&mut dice);
        let mut gpu = Simulated::backend();
        let net = net(&gpu, &shape);
        let (width, values, heads) =
            (shape.conv_width() + shape.value_width(), shape.value_width(), 2 * shape.value_heads);
        let (prompt, nodes) = (5 + dice.below(40), 40);
        let (depth, masks) = tree(&mut dice, nodes, 1);
        let (x, gates) = input(&mut dice, &shape, prompt + nodes + 1);
        let pass = |gpu: &mut spectop::engine::backend::cuda::Cuda<Simulated>,
                    cache: &mut _,
                    rows: &Rows,
                    from: &[usize]|
         -> Vec<f32> {
            let (mut bx, mut bg, mut out) = (gpu.buf(width), gpu.buf(heads), gpu.buf(values));
            let pick = |all: &[f32], w: usize| -> Vec<f32> {
                from.iter().flat_map(|&row| all[row * w..(row + 1) * w].to_vec()).collect()
            };
            gpu.upload(&pick(&x, width), &mut bx);
            gpu.upload(&pick(&gates, heads), &mut bg);
            gpu.delta(&bx, &bg, &net, rows, 0, &mut [cache], &mut out);
            gpu.read(&out, 0..rows.len()).to_vec()
        };
        let causal = |start: usize, count: usize| {
            let mut rows = Rows::default();
            rows.clear(count.div_ceil(64));
            rows.push_causal(0, start, count);
            rows
        };
        let keeps = [Keeps::Delta(&shape)];
        let (mut trees, mut plain) = (gpu.cache(&keeps, true), gpu.cache(&keeps, true));
        // One prompt in one go, the other row by row.
        let whole = pass(&mut gpu, &mut trees, &causal(0, prompt), &(0..prompt).collect::<Vec<_>>());
        for at in 0..prompt {
            let alone = pass(&mut gpu, &mut plain, &causal(at, 1), &[at]);
            assert_eq!(alone, whole[at * values..(at + 1) * values], "prompt row {at}");
        }
        let mut rows = Rows::default();
        rows.clear(1);
        for node in 0..nodes {
            let row = Row { session: 0, position: prompt + depth[node], slot: prompt + node, prefix: 0..prompt };
            rows.push(row, &masks[node]);
        }
        let all = pass(&mut gpu, &mut trees, &rows, &(prompt..prompt + nodes).collect::<Vec<_>>());
        let last = (0..nodes).max_by_key(|&n| depth[n]).unwrap();
        let path: Vec<usize> = (0..nodes).filter(|j| masks[last][0] >> j & 1 == 1).collect();
        for (at, &node) in path.iter().enumerate() {
            let alone = pass(&mut gpu, &mut plain, &causal(prompt + at, 1), &[prompt + node]);
            assert_eq!(alone, all[node * values..(node + 1) * values], "seed {seed}, node {node}");
        }
        gpu.keep(&mut trees, prompt, &path);
        let next = causal(prompt + path.len(), 1);
        let a = pass(&mut gpu, &mut trees, &next, &[prompt + nodes]);
        let b = pass(&mut gpu, &mut plain, &next, &[prompt + nodes]);
        assert_eq!(a, b, "seed {seed}: after the round");
    }
}
