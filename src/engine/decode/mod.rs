//! The two ends of a round that differ by mode: what is proposed, and what of it is accepted.

pub mod accept;
pub mod controller;
pub mod costs;
pub mod habit;
pub mod propose;

use crate::protocol::mode::Mode;

use super::sampler::Distribution;
use super::tree::Tree;

/// What a round proposes for one sequence.
#[derive(Debug, Clone, Default)]
pub struct Proposal {
    /// What the target verifies.
    pub tree: Tree,
    /// The whole tree in `shadow`, where only its chain is verified. Its first nodes are that chain.
    pub shadow: Option<Tree>,
    /// The distributions that sampled drafts were drawn from, one a node; empty for greedy drafts.
    pub drawn_from: Vec<Distribution>,
}

impl Proposal {
    /// Nothing: plain decoding.
    pub fn none() -> Self {
        Self::default()
    }

    /// The tree to show.
    pub fn shown(&self) -> &Tree {
        self.shadow.as_ref().unwrap_or(&self.tree)
    }
}

/// Whether drafts of this mode are sampled (and verified by rejection) rather than taken greedily (and verified by
/// sample-and-match). Trees of fixed candidates gain nothing from sampling (specification 2.5).
pub fn samples_drafts(mode: Mode, temperature: f32) -> bool {
    mode == Mode::Dflash && temperature > 0.0
}
