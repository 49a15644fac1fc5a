//! DFlash 2's choice among a slot's best candidates by the token before it (specification 1.11).

use crate::engine::backend::{Backend, Input};
use crate::engine::lattice::Lattice;
use crate::engine::weights::WeightsError;

use super::config::SelectorShape;
use super::load::Loader;

/// A loaded selector.
pub struct Selector<B: Backend> {
    shape: SelectorShape,
    hidden: B::Matrix,
    /// `[V, rank]`: what a token says about the one behind it.
    predecessors: B::Matrix,
    /// `[V, rank]`: what a token asks of the one before it.
    successors: B::Matrix,
    projected: B::Buf,
    before: B::Buf,
    after: B::Buf,
}

/// One block of a pass.
pub struct Block {
    /// The token in its slot 0.
    pub seed: u32,
    /// First row of its slots 1.. among the rows of logits.
    pub first: usize,
    /// How many there are.
    pub count: usize,
}

impl<B: Backend> Selector<B> {
    /// Loads it.
    pub fn load(
        load: &mut Loader<'_, B>,
        shape: SelectorShape,
        hidden: usize,
        vocab: usize,
    ) -> Result<Self, WeightsError> {
        let name = |part: &str| format!("candidate_selector.{part}");
        Ok(Self {
            hidden: load.matrix(&[(&name("hidden_projection.weight"), shape.rank)], hidden, None)?,
            predecessors: load.matrix(&[(&name("predecessor_codebook"), vocab)], shape.rank, None)?,
            successors: load.matrix(&[(&name("successor_codebook"), vocab)], shape.rank, None)?,
            projected: load.backend.buf(shape.rank),
            before: load.backend.buf(shape.rank),
            after: load.backend.buf(shape.rank),
            shape,
        })
    }

    /// Candidates of a block and their scores behind each other. `x` are the rows before the final norm, `logits` those
    /// that came of them; `name` maps a column of `logits` to a token.
    #[allow(clippy::too_many_arguments)]
    pub fn lattice(
        &mut self,
        backend: &mut B,
        block: &Block,
        x: &B::Buf,
        norm: (&B::Vector, f32),
        logits: &B::Buf,
        name: impl Fn(usize) -> u32,
    ) -> Lattice {
        let Block { seed, first, count } = *block;
        if count == 0 {
            return Lattice::default();
        }
        let rows = first + count;
        let (weight, eps) = norm;
        backend.linear(&Input::Normed { x, weight, eps }, rows, &self.hidden, &mut self.projected, false);
        let top = backend.top(logits, first..rows, self.shape.candidates);
        let k = top.len() / count;
        let ids: Vec<u32> = top.iter().map(|&(index, _)| name(index as usize)).collect();
        let earlier: Vec<u32> = std::iter::once(seed).chain(ids[..(count - 1) * k].iter().copied()).collect();
        backend.embed(&self.predecessors, &earlier, 1.0, &mut self.before);
        backend.embed(&self.successors, &ids, 1.0, &mut self.after);
        let rank = self.shape.rank;
        let hidden = backend.read(&self.projected, first..rows);
        let before = backend.read(&self.before, 0..earlier.len());
        let after = backend.read(&self.after, 0..ids.len());
        let mut scores = Vec::with_capacity(count * k * k);
        let mut asked = vec![0.0f32; rank];
        for slot in 0..count {
            let hidden = &hidden[slot * rank..(slot + 1) * rank];
            for above in 0..k {
                // Only the seed stands before the first slot.
                let line = if slot == 0 { 0 } else { 1 + (slot - 1) * k + above };
                for ((a, p), h) in asked.iter_mut().zip(&before[line * rank..(line + 1) * rank]).zip(hidden) {
                    *a = p * h;
                }
                for candidate in slot * k..(slot + 1) * k {
                    let after = &after[candidate * rank..(candidate + 1) * rank];
                    let fit: f32 = asked.iter().zip(after).map(|(a, s)| a * s).sum();
                    // A log-probability is the logit up to a constant of the slot, which does not matter.
                    scores.push(top[candidate].1 + fit);
                }
            }
        }
        Lattice::new(k, ids, scores)
    }
}
