//! Trees on targets with a recurrent state: every row is what its own path alone gives, to the bit, and what is kept of a
//! round is what plain decoding would have left.

mod support;

use std::collections::HashSet;

use spectop::engine::api::{ModelSource, Precision, Sampling};
use spectop::engine::backend::Backend;
use spectop::engine::tree::Tree;
use spectop::protocol::mode::Mode;
use support::checkpoint::{Expected, Model, hf};
use support::engine::{Dice, decode, settings};

const HYBRIDS: [&str; 2] = ["qwen35-tied", "qwen35-untied"];
const VOCAB: usize = 96;

fn open(name: &str) -> Model {
    Model::open(&ModelSource::Path(hf(name)), Precision::F32)
}

fn add(tree: &mut Tree, token: u32, parent: usize) -> usize {
    tree.tokens.push(token);
    tree.logprobs.push(-1.0);
    tree.parents.push(parent);
    tree.depths.push(tree.depth(parent) + 1);
    tree.len()
}

/// A random tree; `spine` is somewhere in it, as deep as the dice say.
fn random_tree(dice: &mut Dice, spine: &[u32]) -> Tree {
    let mut tree = Tree::default();
    let nodes = 1 + dice.below(24);
    let depth = dice.below(spine.len().min(nodes) + 1);
    let (mut tip, mut along) = (0, 0);
    while tree.len() < nodes {
        if along < depth && dice.below(2) == 0 {
            if !(0..tree.len()).any(|i| tree.parents[i] == tip && tree.tokens[i] == spine[along]) {
                tip = add(&mut tree, spine[along], tip);
                along += 1;
            }
            continue;
        }
        // Mostly deep ones: half of the time below the newest node.
        let parent = if dice.below(2) == 0 { tree.len() } else { dice.below(tree.rows()) };
        let token = dice.below(VOCAB) as u32;
        let taken = (0..tree.len()).any(|i| tree.parents[i] == parent && tree.tokens[i] == token);
        let is_next = parent == tip && along < spine.len() && token == spine[along];
        if !taken && !is_next {
            add(&mut tree, token, parent);
        }
    }
    tree
}

/// Nodes from the root to this one.
fn path_to(tree: &Tree, mut node: usize) -> Vec<usize> {
    let mut path = vec![node];
    while node > 0 {
        node = tree.parents[node - 1];
        path.push(node);
    }
    path.reverse();
    path
}

#[test]
fn rows_of_200_random_trees_are_what_their_paths_give() {
    let mut dice = Dice(0x5EED);
    for name in HYBRIDS {
        let mut model = open(name);
        let expected = Expected::of(name);
        let text = [expected.ids, expected.greedy].concat();
        for round in 0..100 {
            let start = 1 + dice.below(48);
            let mut cache = model.cache();
            let mut at = 0;
            while at < start {
                let count = (1 + dice.below(20)).min(start - at);
                model.causal(&mut cache, at, &text[at..at + count]);
                at += count;
            }
            let tree = random_tree(&mut dice, &text[start + 1..]);
            let before = cache.clone();
            let rows = model.tree(&mut cache, start, text[start], &tree);
            let inner: HashSet<usize> = tree.parents.iter().copied().collect();
            for leaf in (0..tree.rows()).filter(|node| !inner.contains(node)) {
                let path = path_to(&tree, leaf);
                let ids: Vec<u32> =
                    path.iter().map(|&n| if n == 0 { text[start] } else { tree.tokens[n - 1] }).collect();
                let alone = model.causal(&mut before.clone(), start, &ids);
                for (got, &node) in alone.iter().zip(&path) {
                    assert_eq!(rows[node], *got, "{name}, tree {round}, node {node} from {start}");
                }
            }
            // What is kept of any path is what that path alone would have left.
            let path = path_to(&tree, dice.below(tree.rows()));
            model.core.backend.keep(&mut cache, start, &path);
            let ids: Vec<u32> = path.iter().map(|&n| if n == 0 { text[start] } else { tree.tokens[n - 1] }).collect();
            let mut alone = before.clone();
            for (i, &id) in ids.iter().enumerate() {
                model.causal(&mut alone, start + i, &[id]);
            }
            let next = start + path.len();
            let more: Vec<u32> = (0..20).map(|_| dice.below(VOCAB) as u32).collect();
            let want = model.causal(&mut alone, next, &more);
            assert_eq!(model.causal(&mut cache, next, &more), want, "{name}, after tree {round}");
        }
    }
}

#[test]
fn greedy_decoding_through_200_random_trees_is_plain_decoding() {
    let mut dice = Dice(77);
    let (mut trees, mut accepted) = (0, 0);
    for name in HYBRIDS {
        let mut model = open(name);
        model.core.target.config.stop_tokens.clear();
        for seed in 0..8 {
            let prompt: Vec<u32> = (0..3 + 7 * seed).map(|_| dice.below(VOCAB) as u32).collect();
            let off = settings(Mode::Off, 2, 1);
            let limit = 90;
            let plain =
                decode(&mut model.core, std::slice::from_ref(&prompt), limit, |_| Sampling::default(), |_, _| off)
                    .remove(0);
            let text = [prompt.clone(), plain].concat();
            let mut cache = model.cache();
            model.causal(&mut cache, 0, &prompt);
            let mut at = prompt.len();
            while at + 1 < text.len() {
                let tree = random_tree(&mut dice, &text[at + 1..]);
                let rows = model.tree(&mut cache, at, text[at], &tree);
                let best = |row: &Vec<f32>| {
                    let top = row.iter().copied().fold(f32::MIN, f32::max);
                    row.iter().position(|&v| v == top).expect("a number") as u32
                };
                let walk = tree.walk(|node| best(&rows[node]));
                model.core.backend.keep(&mut cache, at, &walk.path);
                let tokens: Vec<u32> = walk.path[1..].iter().map(|&n| tree.tokens[n - 1]).chain([walk.bonus]).collect();
                for (i, &token) in tokens.iter().enumerate().take(text.len() - at - 1) {
                    assert_eq!(token, text[at + 1 + i], "{name}, token {}", at + 1 + i);
                }
                trees += 1;
                accepted += walk.path.len() - 1;
                at += walk.path.len();
            }
        }
    }
    assert!(trees >= 200, "{trees} trees");
    assert!(accepted > trees / 2, "the walks must go somewhere: {accepted} accepted in {trees} trees");
}
