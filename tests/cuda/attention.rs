//! Rotation, caches and attention, over several sessions, trees and windows.

use spectop::engine::backend::cpu::Cpu;
use spectop::engine::backend::{Backend, Columns, HeadNorms, Heads, Keeps, Row, Rows};

use super::simulated::Simulated;
use super::{Dice, close};

const LAYERS: usize = 2;

/// A forward of one layer: what is in the rows, which rows there are.
struct Step {
    rows: Rows,
    x: Vec<f32>,
    /// After it: this session keeps these nodes, from this slot on.
    keep: Vec<(usize, usize, Vec<usize>)>,
    /// Slots that each session must have room for.
    room: Vec<usize>,
}

struct Case {
    heads: Heads,
    norms: [Option<Vec<f32>>; 2],
    /// Columns before the queries: what is not theirs stays.
    offset: usize,
    steps: Vec<Step>,
    sessions: usize,
    exact: bool,
}

impl Case {
    fn width(&self) -> usize {
        self.offset + self.heads.q_width() + 2 * self.heads.kv_width()
    }
}

/// A tree: parents by node, node 0 the root; masks of ancestors and of the node itself.
pub fn tree(dice: &mut Dice, nodes: usize, words: usize) -> (Vec<usize>, Vec<Vec<u64>>) {
    let mut depth = vec![0usize];
    let mut masks = vec![vec![0u64; words]];
    masks[0][0] = 1;
    for node in 1..nodes {
        let parent = dice.below(node);
        let mut mask = masks[parent].clone();
        mask[node / 64] |= 1 << (node % 64);
        masks.push(mask);
        depth.push(depth[parent] + 1);
    }
    (depth, masks)
}

fn case(seed: u64, exact: bool) -> Case {
    let mut dice = Dice::new(seed + 100);
    let head_dim = dice.of(&[8, 20, 32, 64, 80, 128]);
    let kv_heads = 1 + dice.below(3);
    let group = dice.of(&[1, 2, 3, 9]);
    let heads = Heads {
        heads: kv_heads * group,
        kv_heads,
        head_dim,
        inv_freq: (0..head_dim / 2).map(|j| 10_000f32.powf(-2.0 * j as f32 / head_dim as f32)).collect(),
        interleaved: dice.below(2) == 0,
        eps: 1e-6,
    };
    let norm = |dice: &mut Dice| (dice.below(2) == 0).then(|| dice.floats(head_dim));
    let norms = [norm(&mut dice), norm(&mut dice)];
    let sessions = 1 + dice.below(3);
    let mut cached = vec![0usize; sessions];
    let offset = dice.below(5);
    let width = offset + heads.q_width() + 2 * heads.kv_width();
    let mut steps = Vec::new();
    // Prompts of different lengths; the first one makes attention longer than one piece.
    let lengths: Vec<usize> =
        (0..sessions).map(|s| if s == 0 && seed.is_multiple_of(3) { 290 } else { 1 + dice.below(70) }).collect();
    let mut rows = Rows::default();
    rows.clear(lengths.iter().max().unwrap().div_ceil(64));
    for (session, &length) in lengths.iter().enumerate() {
        rows.push_causal(session, 0, length);
        cached[session] = length;
    }
    let x = dice.floats(rows.len() * width);
    steps.push(Step { rows, x, keep: Vec::new(), room: lengths });
    for _ in 0..2 {
        let words = 2;
        let mut rows = Rows::default();
        rows.clear(words);
        let (mut keep, mut room) = (Vec::new(), vec![0; sessions]);
        for session in 0..sessions {
            let nodes = 1 + dice.below(90);
            let start = cached[session];
            let window = dice.of(&[0, 0, start / 2]);
            let (depth, masks) = tree(&mut dice, nodes, words);
            for node in 0..nodes {
                let row = Row { session, position: start + depth[node], slot: start + node, prefix: window..start };
                rows.push(row, &masks[node]);
            }
            // A walk from the root: the ancestors of a random node.
            let last = dice.below(nodes);
            let path: Vec<usize> = (0..nodes).filter(|j| masks[last][j / 64] >> (j % 64) & 1 == 1).collect();
            cached[session] += path.len();
            room[session] = start + nodes;
            keep.push((session, start, path));
        }
        let x = dice.floats(rows.len() * width);
        steps.push(Step { rows, x, keep, room });
    }
    Case { heads, norms, offset, steps, sessions, exact }
}

/// Rotated rows and attention of every step and layer. `alone` also runs single rows and compares their bits.
fn run<B: Backend>(backend: &mut B, case: &Case, alone: bool) -> Vec<Vec<f32>> {
    let (heads, width) = (&case.heads, case.width());
    let vector = |backend: &B, v: &Option<Vec<f32>>| v.clone().map(|v| backend.vector(v).unwrap());
    let norms = HeadNorms { q: vector(backend, &case.norms[0]), k: vector(backend, &case.norms[1]) };
    let mut caches: Vec<B::Cache> =
        (0..case.sessions).map(|_| backend.cache(&[Keeps::Attention(heads); LAYERS], case.exact)).collect();
    let (q, k) = (case.offset, case.offset + heads.q_width());
    let columns = Columns { q: Some(q), k, v: k + heads.kv_width() };
    let (mut x, mut out) = (backend.buf(width), backend.buf(heads.q_width()));
    let mut results = Vec::new();
    for step in &case.steps {
        for (cache, &room) in caches.iter_mut().zip(&step.room) {
            backend.reserve(cache, room);
        }
        let mut refs: Vec<&mut B::Cache> = caches.iter_mut().collect();
        for layer in 0..LAYERS {
            let shifted: Vec<f32> = step.x.iter().map(|v| v + layer as f32 * 0.25).collect();
            backend.upload(&shifted, &mut x);
            backend.rotate_store(&mut x, columns, heads, &norms, &step.rows, layer, &mut refs);
            results.push(backend.read(&x, 0..step.rows.len()).to_vec());
            backend.attend(&x, q, heads, &step.rows, layer, &mut refs, &mut out);
            let together = backend.read(&out, 0..step.rows.len()).to_vec();
            if alone {
                for index in [0, step.rows.len() / 2, step.rows.len() - 1] {
                    let mut one = Rows::default();
                    one.clear(step.rows.words);
                    one.push(step.rows.rows[index].clone(), step.rows.mask(index));
                    let (mut x1, mut out1) = (backend.buf(width), backend.buf(heads.q_width()));
                    backend.gather(&x, &[index], &mut x1, 0);
                    backend.attend(&x1, q, heads, &one, layer, &mut refs, &mut out1);
                    let w = heads.q_width();
                    assert_eq!(backend.read(&out1, 0..1).to_vec(), together[index * w..(index + 1) * w], "row {index}");
                }
            }
            results.push(together);
        }
        drop(refs);
        for (session, base, path) in &step.keep {
            backend.keep(&mut caches[*session], *base, path);
        }
    }
    results
}

#[test]
fn rotation_and_attention_are_those_of_the_cpu() {
    for seed in 0..4 {
        for exact in [true, false] {
            let case = case(seed, exact);
            let want = run(&mut Cpu::new(1), &case, false);
            let got = run(&mut Simulated::backend(), &case, seed < 3);
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let what = format!("seed {seed}, exact {exact}, result {i}, {:?}", case.heads);
                close(&what, got, want, if exact { 2e-5 } else { 2e-3 });
            }
        }
    }
}

/// A node of a tree and the same tokens one after the other give the same bits.
#[test]
fn a_path_of_a_tree_is_plain_decoding() {
    let mut dice = Dice::new(9);
    let heads = Heads {
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        inv_freq: (0..16).map(|j| 100f32.powf(-(j as f32) / 16.0)).collect(),
        interleaved: false,
        eps: 1e-6,
    };
    let width = heads.q_width() + 2 * heads.kv_width();
    let columns = Columns { q: Some(0), k: heads.q_width(), v: heads.q_width() + heads.kv_width() };
    let mut gpu = Simulated::backend();
    let norms = HeadNorms::default();
    let (prompt, nodes) = (250, 20);
    let (depth, masks) = tree(&mut dice, nodes, 1);
    let x = dice.floats((prompt + nodes) * width);
    let pass = |gpu: &mut _, cache: &mut _, rows: &Rows, x: &[f32]| -> Vec<f32> {
        let gpu: &mut spectop::engine::backend::cuda::Cuda<Simulated> = gpu;
        let (mut buf, mut out) = (gpu.buf(width), gpu.buf(heads.q_width()));
        gpu.upload(x, &mut buf);
        gpu.rotate_store(&mut buf, columns, &heads, &norms, rows, 0, &mut [cache]);
        gpu.attend(&buf, 0, &heads, rows, 0, &mut [cache], &mut out);
        gpu.read(&out, 0..rows.len()).to_vec()
    };
    let (mut tree_cache, mut plain_cache) =
        (gpu.cache(&[Keeps::Attention(&heads)], true), gpu.cache(&[Keeps::Attention(&heads)], true));
    for cache in [&mut tree_cache, &mut plain_cache] {
        gpu.reserve(cache, prompt + nodes);
        let mut rows = Rows::default();
        rows.clear(prompt.div_ceil(64));
        rows.push_causal(0, 0, prompt);
        pass(&mut gpu, cache, &rows, &x[..prompt * width]);
    }
    let mut rows = Rows::default();
    rows.clear(1);
    for node in 0..nodes {
        rows.push(
            Row { session: 0, position: prompt + depth[node], slot: prompt + node, prefix: 0..prompt },
            &masks[node],
        );
    }
    let all = pass(&mut gpu, &mut tree_cache, &rows, &x[prompt * width..]);
    let last = (0..nodes).max_by_key(|&n| depth[n]).unwrap();
    let path: Vec<usize> = (0..nodes).filter(|j| masks[last][0] >> j & 1 == 1).collect();
    assert!(path.len() > 3, "a tree with some depth");
    for (at, &node) in path.iter().enumerate() {
        let mut rows = Rows::default();
        rows.clear(1);
        rows.push_causal(0, prompt + at, 1);
        let from = (prompt + node) * width;
        let plain = pass(&mut gpu, &mut plain_cache, &rows, &x[from..from + width]);
        let w = heads.q_width();
        assert_eq!(plain, all[node * w..(node + 1) * w], "node {node}");
    }
    // The kept path is the plain cache: the next row sees the same.
    gpu.keep(&mut tree_cache, prompt, &path);
    let mut rows = Rows::default();
    rows.clear(1);
    rows.push_causal(0, prompt + path.len(), 1);
    let next = dice.floats(width);
    for cache in [&mut tree_cache, &mut plain_cache] {
        gpu.reserve(cache, prompt + path.len() + 1);
    }
    let a = pass(&mut gpu, &mut tree_cache, &rows, &next);
    let b = pass(&mut gpu, &mut plain_cache, &rows, &next);
    assert_eq!(a, b);
}
