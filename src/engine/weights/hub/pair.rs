//! Which pair to run.

use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::error::HubError;
use super::fetch::fetch;
use super::known::{KnownPair, pair_of};
use super::reference::RepoRef;
use super::{Progress, SetupError, default_target_or, is_offline};
use crate::engine::api::{EngineError, ModelSource, PairSource, Resolve};
use crate::engine::model::config::TargetConfig;
use crate::engine::weights::Checkpoint;
use crate::engine::weights::bundle::{SMOLLM2_DRAFT, TINY_DRAFT, TINY_TARGET};

/// What the command line says about the pair.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// A path, or a model of the hub; without one the default target.
    pub target: Option<PathBuf>,
    /// A path, or a drafter of the hub; without one the drafter that belongs to the target.
    pub draft: Option<PathBuf>,
    /// No drafter at all.
    pub no_draft: bool,
    /// The embedded toy pair.
    pub tiny: bool,
    /// The network must not be asked.
    pub offline: bool,
    /// Ask the hub whether there is something newer than what is in the cache.
    pub refresh: bool,
}

/// Finds the pair for these options of the command line, fetching what is not there.
pub fn resolve(ask: Ask) -> Resolve {
    Box::new(move |progress| {
        let mut finder =
            Finder { cache: Cache::from_env(), offline: ask.offline || is_offline(), refresh: ask.refresh, progress };
        let draft = ask.draft.map(|named| finder.place(named)).transpose()?;
        if ask.tiny {
            let notice = "The toy pair is running: its text is not readable prose.";
            return Ok(toy(draft, ask.no_draft, notice.into()));
        }
        match ask.target {
            Some(named) => {
                let repo = RepoRef::from_argument(&named);
                let path = finder.place(named)?;
                finder.pair(path, repo.as_ref(), draft, ask.no_draft)
            }
            None => finder.default_pair(draft, ask.no_draft),
        }
    })
}

/// Where models come from.
struct Finder<'a, 'b> {
    cache: Cache,
    offline: bool,
    refresh: bool,
    progress: &'a mut Progress<'b>,
}

impl Finder<'_, '_> {
    /// Path of what is named: it is there, or a model of the hub is brought.
    fn place(&mut self, named: PathBuf) -> Result<PathBuf, EngineError> {
        match RepoRef::from_argument(&named) {
            Some(repo) => self.bring(&repo).map_err(|e| EngineError::Load(e.to_string())),
            None => existing(named),
        }
    }

    fn bring(&mut self, repo: &RepoRef) -> Result<PathBuf, HubError> {
        fetch(&self.cache, repo, self.offline, self.refresh, self.progress)
    }

    fn default_pair(&mut self, draft: Option<PathBuf>, no_draft: bool) -> Result<PairSource, EngineError> {
        match default_target_or(self.offline, self.progress) {
            Ok(path) => self.pair(path, None, draft, no_draft),
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

    /// A target at a path, with the drafter that was named, lies beside it, or is known to belong to it. `repo` is the
    /// model of the hub that the target was asked for as.
    fn pair(
        &mut self,
        target: PathBuf,
        repo: Option<&RepoRef>,
        draft: Option<PathBuf>,
        no_draft: bool,
    ) -> Result<PairSource, EngineError> {
        let (draft, notice) = match draft {
            _ if no_draft => (None, None),
            Some(path) => (Some(ModelSource::Path(path)), None),
            None => match own_drafter(&target)? {
                Some(own) => (Some(own), None),
                None => self.known_drafter(&target, repo),
            },
        };
        Ok(PairSource { target: ModelSource::Path(target), draft, notice })
    }

    /// The published drafter of a published target, and what to say about it. A target that was asked for by its name
    /// on the hub has its drafter brought; beside one that lies on the disk only what is in the cache is used.
    fn known_drafter(&mut self, target: &Path, repo: Option<&RepoRef>) -> (Option<ModelSource>, Option<String>) {
        let shown = repo.map_or_else(|| target.display().to_string(), |r| r.id.clone());
        let Some(known) = pair_of(&shown) else {
            let notice = format!(
                "No drafter is known for {shown}, so only plain decoding is on offer. Name one with --draft, or put it in a folder `drafter` beside the target."
            );
            return (None, Some(notice));
        };
        let KnownPair { target: published, drafter, .. } = known;
        let Some(reference) = RepoRef::parse(drafter) else { return (None, None) };
        let here = self.cache.find(&reference);
        let found = match (here, repo) {
            (Some(path), None) => Ok(path),
            (None, None) => Err(format!("give --draft {drafter} to fetch it")),
            (_, Some(_)) if self.offline && self.cache.find(&reference).is_none() => Err(format!(
                "it is not in the cache and spectop is offline; once online, fetch it with `spectop setup --target {shown}`"
            )),
            (_, Some(_)) => self.bring(&reference).map_err(|e| e.to_string()),
        };
        match found {
            Ok(path) => {
                let notice =
                    format!("Drafting with {drafter}, known to belong to {published}; --no-draft runs without it.");
                (Some(ModelSource::Path(path)), Some(notice))
            }
            Err(why) => {
                let notice =
                    format!("Only plain decoding is on offer. {drafter} is known to belong to {published}, but {why}.");
                (None, Some(notice))
            }
        }
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
        resolve(Ask { target, draft, no_draft, tiny, offline: true, refresh: false })(&mut |_| {})
            .map_err(|e| e.to_string())
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
        let error = run(None, Some("./gone/drafter".into()), false, true).expect_err("not there");
        assert!(error.contains("gone/drafter does not exist"), "{error}");
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
