//! What a checkpoint is, told from its headers alone: no weight is read, and models that cannot be loaded are described
//! as far as their files say.

mod complete;
mod draft;
mod facts;
pub mod plan;
mod target;
mod weights;

use crate::engine::api::ModelSource;
use crate::engine::model::config::{DraftConfig, Pairing, TargetConfig};
use crate::engine::weights::{Checkpoint, WeightsError};

pub use facts::{
    DraftFacts, DraftLayer, FormatShare, LayerCounts, LinearFacts, ModelFacts, PairFacts, RopeFacts, StopToken,
    TargetFacts, Unused, WeightFacts,
};

/// A checkpoint, and what its headers say.
#[derive(Debug)]
pub struct Inspected {
    /// The files.
    pub checkpoint: Checkpoint,
    /// What they say.
    pub facts: ModelFacts,
}

/// Opens and describes a target or a drafter. Damaged files give the same errors as loading them.
pub fn inspect(source: &ModelSource) -> Result<Inspected, WeightsError> {
    let checkpoint = Checkpoint::open(source)?;
    let facts = if draft::is_drafter(&checkpoint)? {
        let facts = draft::read(&checkpoint)?;
        complete::check(&checkpoint, facts.layers.len())?;
        ModelFacts::Draft(facts)
    } else {
        let facts = target::read(&checkpoint)?;
        // Of models that cannot be loaded it is not known which tensors they need.
        if facts.not_loadable.is_none() {
            complete::check(&checkpoint, facts.layers.total)?;
        }
        ModelFacts::Target(facts)
    };
    Ok(Inspected { checkpoint, facts })
}

/// Whether a drafter belongs to a target, and if not, why.
pub fn pair(target: &Inspected, draft: &Inspected) -> PairFacts {
    let problem = match (&target.facts, &draft.facts) {
        (ModelFacts::Target(of), ModelFacts::Draft(by)) => check(target, of, draft, by).err().map(|e| e.to_string()),
        (ModelFacts::Draft(_), _) => {
            Some(format!("{} is a drafter, not a target; give it with --draft", target.checkpoint.location()))
        }
        (_, ModelFacts::Target(_)) => {
            Some(format!("{} is no DFlash drafter, but a model of its own", draft.checkpoint.location()))
        }
    };
    PairFacts { fits: problem.is_none(), problem }
}

fn check(target: &Inspected, of: &TargetFacts, draft: &Inspected, by: &DraftFacts) -> Result<(), WeightsError> {
    Pairing {
        location: &draft.checkpoint.location(),
        hidden: by.hidden,
        vocab: by.vocab,
        target_layers: by.target_layers,
        taps: &by.taps,
        mask_token: by.mask_token as usize,
    }
    .check(of.hidden, of.layers.total, of.vocab)?;
    // The fusion reads all taps at once: its width says the same again, and is what the weights were trained with.
    let width = by.taps.len() * of.hidden;
    draft.checkpoint.tensor_shaped("fc.weight", &[by.hidden, width])?;
    // What is left can only be judged by what loads the pair.
    if of.not_loadable.is_none() {
        let config = TargetConfig::read(&target.checkpoint)?;
        DraftConfig::read(&draft.checkpoint, &config)?;
    }
    Ok(())
}
