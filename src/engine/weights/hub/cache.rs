//! The cache that all programs of the hub share: `models--owner--name/{refs,snapshots,blobs}`. Files lie under `blobs`
//! by the hash of their contents; a snapshot is a folder of links to them, a ref names the newest snapshot.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::reference::RepoRef;
use super::wanted::{INDEX, Remote};
use crate::engine::weights::safetensors;

/// Longest index that is read.
const MAX_INDEX: u64 = 64 << 20;

/// The cache folder.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRepo {
    /// `owner/name`.
    pub id: String,
    /// Commit of the snapshot.
    pub commit: String,
    /// Folder of the snapshot.
    pub path: PathBuf,
    /// Bytes of all its files.
    pub bytes: u64,
    /// GGUF files in it, relative to the folder.
    pub ggufs: Vec<String>,
    /// Whether it has weights in safetensors: all of them, or only some.
    pub safetensors: Option<Completeness>,
}

/// Whether all files of a model are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// They are.
    Whole,
    /// Some are missing: a fetch was broken off.
    Partial,
}

impl Cache {
    /// Where the environment says: `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `HF_HOME`/hub, `XDG_CACHE_HOME` or
    /// `~/.cache`, then `huggingface/hub`.
    pub fn from_env() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let root = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
        Self { root: root.unwrap_or_else(|| home().join("hub")) }
    }

    /// At this folder.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn folder(&self, id: &str) -> PathBuf {
        self.root.join(format!("models--{}", id.replace('/', "--")))
    }

    /// Commit that a revision stands for here.
    fn commit(&self, repo: &RepoRef) -> Option<String> {
        let revision = repo.revision();
        let folder = self.folder(&repo.id);
        if is_commit(revision) {
            return folder.join("snapshots").join(revision).is_dir().then(|| revision.to_owned());
        }
        let commit = fs::read_to_string(folder.join("refs").join(revision)).ok()?;
        let commit = commit.trim();
        is_commit(commit).then(|| commit.to_owned())
    }

    /// Folder of a snapshot.
    pub(super) fn snapshot(&self, id: &str, commit: &str) -> PathBuf {
        self.folder(id).join("snapshots").join(commit)
    }

    /// What to load for a reference, if all of it is here: a folder, or a GGUF file.
    pub fn find(&self, repo: &RepoRef) -> Option<PathBuf> {
        let snapshot = self.snapshot(&repo.id, &self.commit(repo)?);
        if let Some(asked) = &repo.file {
            let exact = snapshot.join(asked);
            if exact.is_file() {
                return Some(exact);
            }
            let here: Vec<Remote> = ggufs(&snapshot)
                .into_iter()
                .map(|path| Remote { path, size: 0, etag: String::new(), sha256: None })
                .collect();
            return match super::wanted::weights(&here, Some(asked)) {
                Ok(super::wanted::Weights::Gguf(file)) => Some(snapshot.join(file.path)),
                _ => None,
            };
        }
        match completeness(&snapshot) {
            Some(Completeness::Whole) => Some(snapshot),
            Some(Completeness::Partial) => None,
            None => match ggufs(&snapshot).as_slice() {
                [one] => Some(snapshot.join(one)),
                _ => None,
            },
        }
    }

    /// Place of a blob.
    pub(super) fn blob(&self, id: &str, etag: &str) -> PathBuf {
        self.folder(id).join("blobs").join(etag)
    }

    /// Makes a file of a snapshot point at its blob.
    pub(super) fn link(&self, id: &str, commit: &str, file: &str, etag: &str) -> io::Result<()> {
        let pointer = self.snapshot(id, commit).join(file);
        if let Some(parent) = pointer.parent() {
            fs::create_dir_all(parent)?;
        }
        if fs::symlink_metadata(&pointer).is_ok() {
            fs::remove_file(&pointer)?;
        }
        #[cfg(unix)]
        {
            // Relative, so that the cache can be moved: up to the snapshot, to `snapshots`, to the repository.
            let up = "../".repeat(2 + file.split('/').count() - 1);
            std::os::unix::fs::symlink(format!("{up}blobs/{etag}"), &pointer)
        }
        #[cfg(not(unix))]
        {
            let blob = self.blob(id, etag);
            fs::hard_link(&blob, &pointer).or_else(|_| fs::copy(&blob, &pointer).map(drop))
        }
    }

    /// Makes a revision stand for a commit.
    pub(super) fn set_ref(&self, id: &str, revision: &str, commit: &str) -> io::Result<()> {
        if is_commit(revision) {
            return Ok(());
        }
        let path = self.folder(id).join("refs").join(revision);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, commit)
    }

    /// Locks a blob against other programs; `Ok(None)` while another holds it, and for ever on file systems without
    /// locks: there two fetches only cost double work.
    pub(super) fn try_lock(&self, id: &str, etag: &str) -> io::Result<Option<File>> {
        let folder = self.root.join(".locks").join(format!("models--{}", id.replace('/', "--")));
        fs::create_dir_all(&folder)?;
        let file = File::create(folder.join(format!("{etag}.lock")))?;
        match file.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    /// All models in the cache, by name: of each the snapshot of `main`, or else the newest one.
    pub fn repos(&self) -> Vec<CachedRepo> {
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        let mut repos: Vec<CachedRepo> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let id = name.strip_prefix("models--")?.replacen("--", "/", 1);
                self.repo(id)
            })
            .collect();
        repos.sort_by(|a, b| a.id.cmp(&b.id));
        repos
    }

    fn repo(&self, id: String) -> Option<CachedRepo> {
        let main = RepoRef { id: id.clone(), revision: None, file: None };
        let commit = self.commit(&main).filter(|c| self.snapshot(&id, c).is_dir()).or_else(|| self.newest(&id))?;
        let path = self.snapshot(&id, &commit);
        let ggufs = ggufs(&path);
        let safetensors = completeness(&path);
        if ggufs.is_empty() && safetensors.is_none() {
            return None;
        }
        let bytes = files(&path).iter().filter_map(|f| fs::metadata(path.join(f)).ok()).map(|m| m.len()).sum();
        Some(CachedRepo { id, commit, path, bytes, ggufs, safetensors })
    }

    fn newest(&self, id: &str) -> Option<String> {
        let snapshots = fs::read_dir(self.folder(id).join("snapshots")).ok()?;
        let changed = |e: &fs::DirEntry| e.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let newest = snapshots.flatten().filter(|e| e.path().is_dir()).max_by_key(changed)?;
        newest.file_name().into_string().ok().filter(|c| is_commit(c))
    }
}

/// `HF_HOME`, or where it is by default.
pub(super) fn home() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    folder("HF_HOME").unwrap_or_else(|| {
        let cache = folder("XDG_CACHE_HOME")
            .or_else(|| folder("HOME").map(|h| h.join(".cache")))
            .unwrap_or_else(std::env::temp_dir);
        cache.join("huggingface")
    })
}

/// Name of the model that a snapshot of a cache is of: its folder is only called by the commit.
pub fn cached_name(folder: &Path) -> Option<String> {
    let commit = folder.file_name()?.to_str()?;
    let snapshots = folder.parent()?;
    let repository = snapshots.parent()?.file_name()?.to_str()?;
    let id = repository.strip_prefix("models--").filter(|_| is_commit(commit) && snapshots.ends_with("snapshots"))?;
    id.split_once("--").map(|(_, name)| name.to_owned())
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// Whether a snapshot's safetensors are all there; `None` when it has none.
fn completeness(snapshot: &Path) -> Option<Completeness> {
    if !snapshot.join("config.json").is_file() {
        return None;
    }
    let index = snapshot.join(INDEX);
    let there = |whole: bool| Some(if whole { Completeness::Whole } else { Completeness::Partial });
    if fs::metadata(&index).is_ok_and(|m| m.len() <= MAX_INDEX) {
        let shards = fs::read(&index).ok().and_then(|text| safetensors::shards(&text, "the index").ok());
        return there(shards.is_some_and(|s| s.iter().all(|f| snapshot.join(f).is_file())));
    }
    snapshot.join(safetensors::SINGLE).is_file().then_some(Completeness::Whole)
}

/// Files of a snapshot, relative to it, one folder deep: models lie no deeper.
fn files(snapshot: &Path) -> Vec<String> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok()).collect()
    };
    let mut files = Vec::new();
    for name in names(snapshot) {
        if snapshot.join(&name).is_dir() {
            files.extend(names(&snapshot.join(&name)).into_iter().map(|inner| format!("{name}/{inner}")));
        } else {
            files.push(name);
        }
    }
    files.sort_unstable();
    files
}

fn ggufs(snapshot: &Path) -> Vec<String> {
    let model = |f: &String| super::wanted::is_gguf_model(f) && snapshot.join(f).is_file();
    files(snapshot).into_iter().filter(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn put(cache: &Cache, id: &str, file: &str, contents: &str) {
        let etag = format!("etag-{}", file.replace('/', "-"));
        let blob = cache.blob(id, &etag);
        fs::create_dir_all(blob.parent().expect("a parent")).expect("a folder");
        fs::write(&blob, contents).expect("a blob");
        cache.link(id, COMMIT, file, &etag).expect("a link");
        assert_eq!(fs::read_to_string(cache.snapshot(id, COMMIT).join(file)).expect("through the link"), contents);
    }

    #[test]
    fn a_model_counts_when_all_its_files_are_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = Cache::at(dir.path().to_owned());
        let repo = RepoRef::parse("a/b--c").expect("a name");
        assert_eq!((cache.find(&repo), cache.repos()), (None, vec![]));
        put(&cache, &repo.id, "config.json", "{}");
        put(&cache, &repo.id, INDEX, r#"{"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}"#);
        put(&cache, &repo.id, "model-1.safetensors", "1");
        cache.set_ref(&repo.id, "main", COMMIT).expect("a ref");
        assert_eq!(cache.find(&repo), None, "a shard is missing");
        assert_eq!(cache.repos()[0].safetensors, Some(Completeness::Partial));
        put(&cache, &repo.id, "model-2.safetensors", "2");
        assert_eq!(cache.find(&repo), Some(cache.snapshot(&repo.id, COMMIT)));
        assert_eq!(cached_name(&cache.snapshot(&repo.id, COMMIT)).as_deref(), Some("b--c"));
        assert_eq!(cached_name(&cache.blob(&repo.id, "x")), None);
        let pinned = RepoRef::parse(&format!("a/b--c@{COMMIT}")).expect("a name");
        assert_eq!(cache.find(&pinned), cache.find(&repo));
        assert_eq!(cache.find(&RepoRef::parse("a/b--c@other").expect("a name")), None);
        let listed = cache.repos();
        assert_eq!((listed.len(), &*listed[0].id, listed[0].safetensors), (1, "a/b--c", Some(Completeness::Whole)));
    }

    #[test]
    fn a_gguf_file_is_found_in_the_cache() {
        let dir = tempfile::tempdir().expect("a folder");
        let cache = Cache::at(dir.path().to_owned());
        put(&cache, "a/b", "m-Q4_K_M.gguf", "GGUF");
        cache.set_ref("a/b", "main", COMMIT).expect("a ref");
        let find = |text: &str| cache.find(&RepoRef::parse(text).expect("a name"));
        let there = Some(cache.snapshot("a/b", COMMIT).join("m-Q4_K_M.gguf"));
        assert_eq!((find("a/b"), find("a/b:Q4_K_M"), find("a/b:m-Q4_K_M.gguf")), (there.clone(), there.clone(), there));
        assert_eq!(find("a/b:Q8_0"), None);
        put(&cache, "a/b", "sub/m-Q8_0.gguf", "GGUF");
        assert_eq!(find("a/b"), None, "which one is not said");
        assert!(find("a/b:Q8_0").is_some());
        assert_eq!(cache.repos()[0].ggufs, ["m-Q4_K_M.gguf", "sub/m-Q8_0.gguf"]);
    }
}
