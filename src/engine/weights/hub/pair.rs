//! Which pair to run.

use std::path::{Path, PathBuf};

use super::{Progress, SetupError, default_target};
use crate::engine::api::{EngineError, ModelSource, PairSource, Resolve};
use crate::engine::model::config::TargetConfig;
use crate::engine::weights::Checkpoint;
use crate::engine::weights::bundle::{SMOLLM2_DRAFT, TINY_DRAFT, TINY_TARGET};

/// Finds the pair for these options of the command line, fetching the default target if need be.
pub fn resolve(target: Option<PathBuf>, draft: Option<PathBuf>, no_draft: bool, tiny: bool) -> Resolve {
    Box::new(move |progress| {
        let draft = draft.map(existing).transpose()?;
        if tiny {
            return Ok(toy(draft, no_draft, "The toy pair is running: its text is not readable prose.".into()));
        }
        match target {
            Some(path) => {
                let path = existing(path)?;
                pair(path, draft, no_draft)
            }
            None => default_pair(draft, no_draft, progress),
        }
    })
}

fn default_pair(
    draft: Option<PathBuf>,
    no_draft: bool,
    progress: &mut Progress<'_>,
) -> Result<PairSource, EngineError> {
    match default_target(progress) {
        Ok(path) => pair(path, draft, no_draft),
        // Neither has a drafter that was asked for a use beside the toy target, nor was the toy what SPECTOP_TARGET named.
        Err(error) if draft.is_some() || matches!(error, SetupError::Given { .. }) => {
            Err(EngineError::Load(error.to_string()))
        }
        Err(error) => Ok(toy(
            None,
            no_draft,
            format!(
                "The default model could not be fetched ({}). Running the embedded byte-level toy pair instead: its text is not readable prose. Run `spectop setup` for the reasons in full, or `spectop setup --from FILE` with a file fetched elsewhere.",
                error.brief()
            ),
        )),
    }
}

fn toy(draft: Option<PathBuf>, no_draft: bool, notice: String) -> PairSource {
    let draft = draft.map_or(ModelSource::Embedded(&TINY_DRAFT), ModelSource::Path);
    PairSource {
        target: ModelSource::Embedded(&TINY_TARGET),
        draft: (!no_draft).then_some(draft),
        notice: Some(notice),
    }
}

fn pair(target: PathBuf, draft: Option<PathBuf>, no_draft: bool) -> Result<PairSource, EngineError> {
    let draft = match draft {
        _ if no_draft => None,
        Some(path) => Some(ModelSource::Path(path)),
        None => own_drafter(&target)?,
    };
    let notice = (draft.is_none() && !no_draft).then(|| {
        format!(
            "No drafter is known for {}, so only plain decoding is on offer. Name one with --draft, or put it in a folder `drafter` beside the target.",
            target.display()
        )
    });
    Ok(PairSource { target: ModelSource::Path(target), draft, notice })
}

/// The drafter that belongs to a target: ours for the default model in any format, or one in a folder beside it.
fn own_drafter(target: &Path) -> Result<Option<ModelSource>, EngineError> {
    let load = |e: crate::engine::weights::WeightsError| EngineError::Load(e.to_string());
    let checkpoint = Checkpoint::open(&ModelSource::Path(target.to_owned())).map_err(load)?;
    let config = TargetConfig::read(&checkpoint).map_err(load)?;
    if (config.hidden, config.layers, config.vocab) == (576, 30, 49_152) {
        return Ok(Some(ModelSource::Embedded(&SMOLLM2_DRAFT)));
    }
    let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
    let beside = target.parent().map(|p| p.join("drafter"));
    let inside = target.join("drafter");
    Ok([beside, Some(inside)].into_iter().flatten().find(|p| p.join("config.json").is_file()).map(ModelSource::Path))
}

fn existing(path: PathBuf) -> Result<PathBuf, EngineError> {
    match path.try_exists() {
        Ok(true) => Ok(path),
        Ok(false) => Err(EngineError::Load(format!(
            "{} does not exist; check the path (a GGUF file, or a folder with config.json and safetensors)",
            path.display()
        ))),
        Err(error) => Err(EngineError::Load(format!("{} cannot be reached: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(target: Option<PathBuf>, draft: Option<PathBuf>, no_draft: bool, tiny: bool) -> Result<PairSource, String> {
        resolve(target, draft, no_draft, tiny)(&mut |_| {}).map_err(|e| e.to_string())
    }

    #[test]
    fn the_toy_pair_says_what_it_is() {
        let pair = run(None, None, false, true).expect("embedded");
        assert!(matches!(pair.target, ModelSource::Embedded(e) if e.name == "tiny-byte-qwen3"));
        assert!(matches!(pair.draft, Some(ModelSource::Embedded(_))));
        assert!(pair.notice.expect("a notice").contains("toy pair"));
        assert!(run(None, None, true, true).expect("embedded").draft.is_none());
    }

    #[test]
    fn paths_that_are_not_there_are_named() {
        let error = run(Some("gone/model.gguf".into()), None, false, false).expect_err("not there");
        assert!(error.contains("gone/model.gguf"), "{error}");
        let error = run(None, Some("gone/drafter".into()), false, true).expect_err("not there");
        assert!(error.contains("gone/drafter"), "{error}");
    }

    #[test]
    fn a_folder_beside_the_target_holds_its_drafter() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
        let found = run(Some(models.join("tiny/target")), None, false, false).expect("both are there");
        assert!(matches!(found.draft, Some(ModelSource::Path(p)) if p == models.join("tiny/drafter")));
        assert!(found.notice.is_none());

        let dir = tempfile::tempdir().expect("a folder");
        let alone = dir.path().join("alone");
        std::fs::create_dir(&alone).expect("a folder");
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(models.join("tiny/target").join(file), alone.join(file)).expect("a copy");
        }
        let found = run(Some(alone), None, false, false).expect("a target");
        assert!(found.draft.is_none());
        assert!(found.notice.expect("a notice").contains("--draft"));
    }
}
