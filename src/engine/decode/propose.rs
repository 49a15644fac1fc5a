//! From the drafter's logits to a proposal.

use std::ops::Range;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::engine::api::Sampling;
use crate::engine::backend::Backend;
use crate::engine::lattice::Lattice;
use crate::engine::model::drafter::Drafter;
use crate::engine::sampler::Distribution;
use crate::engine::tree::{Candidates, Slots, Tree};
use crate::protocol::mode::{Mode, ModeSettings};

use super::{Proposal, samples_drafts};

/// The drafter's logits of one sequence: slots 1.. of its block, in order. They stay on the device until somebody needs
/// a whole row.
pub struct Slate<'a, B: Backend> {
    backend: &'a mut B,
    drafter: &'a Drafter<B>,
    rows: Range<usize>,
}

impl<'a, B: Backend> Slate<'a, B> {
    /// These rows of the drafter's last pass.
    pub fn new(backend: &'a mut B, drafter: &'a Drafter<B>, rows: Range<usize>) -> Self {
        Self { backend, drafter, rows }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True without slots.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The `budget` most probable tokens of every slot. A rank beyond the budget can never enter the tree, because all
    /// smaller ranks of the same parent come before it.
    ///
    /// With a selector, as it ranks them behind the most probable chain.
    pub fn candidates(&mut self, budget: usize) -> Slots {
        if self.is_empty() {
            return Slots::default();
        }
        if let Some(lattice) = self.lattice() {
            return lattice.behind_chain();
        }
        let top = self.backend.top(&self.drafter.logits, self.rows.clone(), budget);
        Slots {
            k: top.len() / self.rows.len(),
            ids: top.iter().map(|&(index, _)| self.drafter.target_id(index as usize)).collect(),
            logprobs: top.iter().map(|&(_, logprob)| logprob).collect(),
        }
    }

    /// What the drafter's selector says about these slots, where it has one.
    fn lattice(&self) -> Option<Lattice> {
        self.drafter.lattice(self.rows.start).map(|lattice| lattice.take(self.rows.len()))
    }

    /// Distribution of a slot.
    fn distribution(&self, slot: usize, sampling: &Sampling) -> Distribution {
        let row = self.rows.start + slot;
        let logits = self.backend.read(&self.drafter.logits, row..row + 1);
        Distribution::new(&logits, sampling, |i| self.drafter.target_id(i))
    }
}

/// Builds the proposal of one sequence.
pub fn propose<B: Backend>(
    settings: &ModeSettings,
    sampling: &Sampling,
    random: &mut StdRng,
    slate: &mut Slate<'_, B>,
) -> Proposal {
    if let Some(lattice) = slate.lattice() {
        return selected(settings, sampling, random, &lattice);
    }
    match settings.mode {
        // In `auto` the controller builds the proposal.
        Mode::Off | Mode::Auto => Proposal::none(),
        Mode::Dflash if samples_drafts(settings.mode, sampling.temperature) => {
            let mut drawn_from = Vec::with_capacity(slate.len());
            let mut chain = Vec::with_capacity(slate.len());
            for slot in 0..slate.len() {
                let q = slate.distribution(slot, sampling);
                let token = q.draw(random.random());
                chain.push((token, q.probability(token).ln()));
                drawn_from.push(q);
            }
            Proposal { tree: Tree::chain(chain), shadow: None, drawn_from }
        }
        Mode::Dflash => {
            let slots = slate.candidates(1);
            let chain = slots.ids.into_iter().zip(slots.logprobs);
            Proposal { tree: Tree::chain(chain), ..Proposal::default() }
        }
        Mode::Ddtree => {
            Proposal { tree: grown(settings, &slate.candidates(settings.tree_budget)), ..Proposal::default() }
        }
        Mode::Shadow => {
            let budget = settings.tree_budget.max(slate.len());
            shadowed(&slate.candidates(budget), budget)
        }
    }
}

/// The same with a selector (DFlash 2). Sampled chains are drawn from its distribution over a slot's few candidates;
/// in trees every node ranks its own children (specification 2.9, option b).
fn selected(settings: &ModeSettings, sampling: &Sampling, random: &mut StdRng, lattice: &Lattice) -> Proposal {
    match settings.mode {
        Mode::Off | Mode::Auto => Proposal::none(),
        Mode::Dflash if samples_drafts(settings.mode, sampling.temperature) => {
            let (chain, drawn_from) = lattice.draw(sampling.temperature, random);
            Proposal { tree: Tree::chain(chain), shadow: None, drawn_from }
        }
        Mode::Dflash => Proposal { tree: Tree::chain(lattice.chain()), ..Proposal::default() },
        Mode::Ddtree => Proposal { tree: grown(settings, lattice), ..Proposal::default() },
        Mode::Shadow => shadowed(lattice, settings.tree_budget.max(lattice.slots())),
    }
}

fn grown(settings: &ModeSettings, from: &impl Candidates) -> Tree {
    if settings.chain_seed {
        Tree::chain_seeded(from, settings.tree_budget)
    } else {
        Tree::best_first(from, settings.tree_budget)
    }
}

/// Always seeded: the verified chain is then the first nodes of the tree, index for index.
fn shadowed(from: &impl Candidates, budget: usize) -> Proposal {
    let tree = Tree::chain_seeded(from, budget);
    let chain = Tree::chain((0..from.slots()).map(|i| (tree.tokens[i], tree.logprobs[i])));
    Proposal { tree: chain, shadow: Some(tree), drawn_from: Vec::new() }
}
