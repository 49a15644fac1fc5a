//! What the target accepts of a proposal.

use std::borrow::Cow;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::engine::api::Sampling;
use crate::engine::backend::Best;
use crate::engine::sampler::{Distribution, reject_chain};
use crate::engine::tree::Walk;

use super::Proposal;

/// Walks a proposal. `best` are the target's greedy choices by row; `logits` gives a row's logits where a
/// distribution is needed.
pub fn accept<'a>(
    proposal: &Proposal,
    sampling: &Sampling,
    random: &mut StdRng,
    best: &[Best],
    logits: impl Fn(usize) -> Cow<'a, [f32]>,
) -> Walk {
    if sampling.temperature <= 0.0 {
        return proposal.tree.walk(|node| best[node].index);
    }
    let p = |row: usize| Distribution::new(&logits(row), sampling, |i| i as u32);
    if proposal.drawn_from.is_empty() {
        // Every emitted token is a draw from the target's own distribution, so the match with a draft changes nothing.
        proposal.tree.walk(|node| p(node).draw(random.random()))
    } else {
        let (accepted, bonus) = reject_chain(&proposal.tree.tokens, &proposal.drawn_from, p, random);
        Walk { path: (0..=accepted).collect(), bonus }
    }
}
