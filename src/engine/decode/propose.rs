//! From the drafter's logits to a proposal.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::engine::api::Sampling;
use crate::engine::sampler::{Distribution, top_k};
use crate::engine::tree::{Slots, Tree};
use crate::protocol::mode::{Mode, ModeSettings};

use super::{Proposal, samples_drafts};

/// Builds the proposal of one sequence. `rows` are the drafter's logits of slots 1.. in order; `name` maps a draft
/// vocabulary index to a token id.
pub fn propose(
    settings: &ModeSettings,
    sampling: &Sampling,
    random: &mut StdRng,
    rows: &[Vec<f32>],
    name: impl Fn(usize) -> u32 + Copy,
) -> Proposal {
    match settings.mode {
        // In `auto` the controller builds the proposal.
        Mode::Off | Mode::Auto => Proposal::none(),
        Mode::Dflash if samples_drafts(settings.mode, sampling.temperature) => {
            let mut drawn_from = Vec::with_capacity(rows.len());
            let mut chain = Vec::with_capacity(rows.len());
            for logits in rows {
                let q = Distribution::new(logits, sampling, name);
                let token = q.draw(random.random());
                chain.push((token, q.probability(token).ln()));
                drawn_from.push(q);
            }
            Proposal { tree: Tree::chain(chain), shadow: None, drawn_from }
        }
        Mode::Dflash => {
            let chain = rows.iter().filter_map(|logits| top_k(logits, 1).first().map(|&(i, p)| (name(i as usize), p)));
            Proposal { tree: Tree::chain(chain), ..Proposal::default() }
        }
        Mode::Ddtree => {
            let slots = candidates(rows, settings.tree_budget, name);
            let tree = if settings.chain_seed {
                Tree::chain_seeded(&slots, settings.tree_budget)
            } else {
                Tree::best_first(&slots, settings.tree_budget)
            };
            Proposal { tree, ..Proposal::default() }
        }
        Mode::Shadow => {
            // Always seeded: the verified chain is then the first nodes of the tree, index for index.
            let budget = settings.tree_budget.max(rows.len());
            let tree = Tree::chain_seeded(&candidates(rows, budget, name), budget);
            let chain = Tree::chain((0..rows.len()).map(|i| (tree.tokens[i], tree.logprobs[i])));
            Proposal { tree: chain, shadow: Some(tree), drawn_from: Vec::new() }
        }
    }
}

/// The `budget` most probable tokens of every slot. A rank beyond the budget can never enter the tree, because all
/// smaller ranks of the same parent come before it.
pub fn candidates(rows: &[Vec<f32>], budget: usize, name: impl Fn(usize) -> u32) -> Slots {
    let mut slots = Slots { k: rows.first().map_or(0, |r| r.len().min(budget)), ..Slots::default() };
    for logits in rows {
        for (index, logprob) in top_k(logits, slots.k) {
            slots.ids.push(name(index as usize));
            slots.logprobs.push(logprob);
        }
    }
    slots
}
