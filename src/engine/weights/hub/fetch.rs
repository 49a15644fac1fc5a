//! Bringing a model of the hub into the shared cache: only the files that are needed, each whole or not at all, from
//! where an earlier attempt stopped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::cache::Cache;
use super::error::{HubError, bytes};
use super::preview;
use super::reference::RepoRef;
use super::remote::Hub;
use super::store::hex;
use super::wanted::{self, INDEX, Remote, Weights};
use super::{Progress, loading};
use crate::engine::weights::safetensors;

/// Attempts in a row that bring no byte.
const ATTEMPTS: u32 = 5;
/// Pause before the first new attempt; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// Left free on the disk.
const SPARE: u64 = 64 << 20;
/// Files below this are fetched anew when they broke off.
const SMALL: u64 = 1 << 20;
/// Models above this are looked at before their weights are fetched.
const LARGE: u64 = 256 << 20;

/// Brings a model into the cache, and says what to load: a folder, or a GGUF file. What is there whole is not asked for
/// again unless `refresh` wants to know whether there is a newer one.
pub fn fetch(
    cache: &Cache,
    repo: &RepoRef,
    offline: bool,
    refresh: bool,
    progress: &mut Progress<'_>,
) -> Result<PathBuf, HubError> {
    let here = cache.find(repo);
    if let Some(path) = here.clone().filter(|path| offline || !(refresh || lacks_tokenizer(path))) {
        return Ok(path);
    }
    if offline {
        return Err(HubError::Offline { repo: repo.to_string(), cache: cache.root().display().to_string() });
    }
    progress(loading(format!("asking the hub for {repo}"), 0, 0));
    let fetched = run(repo, async |hub| Transfer::new(cache, repo, hub).all(progress).await);
    // What is there may do without the rest.
    if refresh { fetched } else { fetched.or_else(|error| here.ok_or(error)) }
}

/// Whether another program has brought a target's weights, but not what turns text into tokens.
fn lacks_tokenizer(snapshot: &Path) -> bool {
    let there = |name: &str| snapshot.join(name).is_file();
    let config = || serde_json::from_slice::<serde_json::Value>(&fs::read(snapshot.join("config.json")).ok()?).ok();
    let target = |config: serde_json::Value| config.get("dflash_config").is_none();
    snapshot.is_dir() && !there("tokenizer.json") && !there("tokenizer_config.json") && config().is_some_and(target)
}

/// Runs something that asks the hub, on a thread that has no runtime of its own.
pub(super) fn run<T>(repo: &RepoRef, ask: impl AsyncFnOnce(&Hub<'_>) -> Result<T, HubError>) -> Result<T, HubError> {
    let failed = |e: io::Error| HubError::Network { repo: repo.to_string(), problem: format!("cannot start: {e}") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    let result = runtime.block_on(async { ask(&Hub::new(repo)?).await });
    // A name look-up that hangs must not hold us up: it cannot be cancelled, but nobody needs it.
    runtime.shutdown_background();
    result
}

/// One model on its way.
struct Transfer<'a> {
    cache: &'a Cache,
    repo: &'a RepoRef,
    hub: &'a Hub<'a>,
    commit: String,
    /// Number of the file, and of how many.
    place: (usize, usize),
    /// Bytes of files that are through, and of all.
    done: u64,
    total: u64,
    /// Last step reported.
    told: Option<(usize, u64, u64)>,
}

impl<'a> Transfer<'a> {
    fn new(cache: &'a Cache, repo: &'a RepoRef, hub: &'a Hub<'a>) -> Self {
        Self { cache, repo, hub, commit: String::new(), place: (0, 0), done: 0, total: 0, told: None }
    }

    async fn all(mut self, progress: &mut Progress<'_>) -> Result<PathBuf, HubError> {
        let (commit, files) = self.hub.list().await?;
        self.commit = commit;
        let no_file = |problem| HubError::NoFile { repo: self.repo.id.clone(), problem };
        let weights = wanted::weights(&files, self.repo.file.as_deref()).map_err(no_file)?;
        let snapshot = self.cache.snapshot(&self.repo.id, &self.commit);
        let path = match &weights {
            Weights::Gguf(file) => {
                let path = snapshot.join(&file.path);
                self.bring(std::slice::from_ref(file), progress).await?;
                path
            }
            Weights::Single(_) | Weights::Sharded => {
                let side = wanted::side_files(&files);
                self.bring(&side, progress).await?;
                let weights = self.shards(&weights, &files, &snapshot)?;
                self.refuse_in_vain(&weights, &snapshot).await?;
                self.bring(&weights, progress).await?;
                snapshot
            }
        };
        let written = self.cache.set_ref(&self.repo.id, self.repo.revision(), &self.commit);
        written.map_err(|e| self.cannot_write(&e))?;
        Ok(path)
    }

    /// The files that hold the weights.
    fn shards(&self, weights: &Weights, files: &[Remote], snapshot: &Path) -> Result<Vec<Remote>, HubError> {
        if let Weights::Single(file) = weights {
            return Ok(vec![file.clone()]);
        }
        let no_file = |problem| HubError::NoFile { repo: self.repo.id.clone(), problem };
        let index = fs::read(snapshot.join(INDEX)).map_err(|e| self.cannot_write(&e))?;
        let names = safetensors::shards(&index, INDEX).map_err(|e| no_file(e.to_string()))?;
        let find = |name: &String| {
            let found = files.iter().find(|f| f.path == *name).cloned();
            found.ok_or_else(|| no_file(format!("{INDEX} names {name}, but that is not in it")))
        };
        names.iter().map(find).collect()
    }

    /// Tens of gigabytes of a model that cannot be run are not worth fetching: their headers tell.
    async fn refuse_in_vain(&self, weights: &[Remote], snapshot: &Path) -> Result<(), HubError> {
        let missing: u64 = weights.iter().filter(|f| !self.has(f)).map(|f| f.size).sum();
        if missing < LARGE {
            return Ok(());
        }
        let seen = preview::of_safetensors(self.hub, &self.commit, weights, snapshot).await?;
        match preview::problem(seen.path()) {
            Some(problem) => Err(HubError::NotLoadable { repo: self.repo.id.clone(), problem }),
            None => Ok(()),
        }
    }

    fn has(&self, file: &Remote) -> bool {
        fs::metadata(self.cache.blob(&self.repo.id, &file.etag)).is_ok_and(|m| m.is_file() && m.len() == file.size)
    }

    async fn bring(&mut self, files: &[Remote], progress: &mut Progress<'_>) -> Result<(), HubError> {
        self.place = (0, files.len());
        self.done = 0;
        self.total = files.iter().map(|f| f.size).sum();
        let begun =
            |f: &Remote| fs::metadata(incomplete(&self.cache.blob(&self.repo.id, &f.etag))).map_or(0, |m| m.len());
        let needed = files.iter().filter(|f| !self.has(f)).map(|f| f.size.saturating_sub(begun(f))).sum();
        self.check_room(needed)?;
        for file in files {
            self.place.0 += 1;
            self.one(file, progress).await?;
            let linked = self.cache.link(&self.repo.id, &self.commit, &file.path, &file.etag);
            linked.map_err(|e| self.cannot_write(&e))?;
            self.done += file.size;
        }
        Ok(())
    }

    fn check_room(&self, needed: u64) -> Result<(), HubError> {
        let folder = self.cache.root();
        fs::create_dir_all(folder).map_err(|e| self.cannot_write(&e))?;
        match free_space(folder) {
            Some(free) if free < needed.saturating_add(SPARE) && needed > 0 => Err(HubError::DiskFull {
                repo: self.repo.to_string(),
                needed: bytes(needed),
                free: bytes(free),
                folder: folder.display().to_string(),
            }),
            _ => Ok(()),
        }
    }

    async fn one(&mut self, file: &Remote, progress: &mut Progress<'_>) -> Result<(), HubError> {
        let _lock = loop {
            if self.has(file) {
                return Ok(());
            }
            let lock = self.cache.try_lock(&self.repo.id, &file.etag).map_err(|e| self.cannot_write(&e))?;
            if let Some(lock) = lock {
                break lock;
            }
            progress(loading(format!("waiting for another program that fetches {}", file.path), self.done, self.total));
            tokio::time::sleep(Duration::from_millis(250)).await;
        };
        if self.has(file) {
            return Ok(());
        }
        let blob = self.cache.blob(&self.repo.id, &file.etag);
        let mut part = Part::open(&blob, file).map_err(|e| self.cannot_write(&e))?;
        let mut idle = 0;
        while part.written < file.size {
            let before = part.written;
            let problem = match self.receive(file, &mut part, progress).await {
                Ok(()) => continue,
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Passing(problem)) => problem,
            };
            idle = if part.written > before { 0 } else { idle + 1 };
            if idle >= ATTEMPTS {
                let (repo, file) = (self.repo.id.clone(), file.path.clone());
                return Err(HubError::Broken { repo, file, problem });
            }
            tokio::time::sleep(PAUSE * 2u32.pow(idle.saturating_sub(1))).await;
        }
        match part.finish(&blob).map_err(|e| self.cannot_write(&e))? {
            None => Ok(()),
            Some(problem) => Err(self.damaged(file, problem)),
        }
    }

    /// One stretch of a file, from where it stands.
    async fn receive(&mut self, file: &Remote, part: &mut Part, progress: &mut Progress<'_>) -> Result<(), Trouble> {
        let range = (part.written > 0).then_some(part.written..file.size);
        let open = self.hub.open(&self.commit, &file.path, range).await;
        let mut download = open.map_err(|error| match error {
            HubError::Network { problem, .. } => Trouble::Passing(problem),
            HubError::Server { status: 500.., message, .. } => Trouble::Passing(format!("the hub failed {message}")),
            error => Trouble::Final(error),
        })?;
        loop {
            self.tell(file, part.written, progress);
            match download.next().await.map_err(Trouble::Passing)? {
                Some(piece) => {
                    part.write(&piece).map_err(|e| Trouble::Final(self.cannot_write(&e)))?;
                    if part.written > file.size {
                        part.discard();
                        return Err(Trouble::Final(
                            self.damaged(file, format!("it is longer than {} bytes", file.size)),
                        ));
                    }
                }
                None if part.written == file.size => return Ok(()),
                None => {
                    return Err(Trouble::Passing(format!(
                        "the connection ended after {} of {} bytes",
                        part.written, file.size
                    )));
                }
            }
        }
    }

    /// Progress of the whole as a fraction, of the file in words, in steps that can be seen.
    fn tell(&mut self, file: &Remote, written: u64, progress: &mut Progress<'_>) {
        let tenth = written * 10 / file.size.max(1);
        let step = (self.done + written) * 200 / self.total.max(1);
        if self.told == Some((self.place.0, tenth, step)) {
            return;
        }
        self.told = Some((self.place.0, tenth, step));
        let (number, of) = self.place;
        let share =
            if file.size > SMALL { format!(", {} % of {}", tenth * 10, bytes(file.size)) } else { String::new() };
        let what = format!("fetching {}, file {number} of {of}: {}{share}", self.repo.id, file.path);
        progress(loading(what, self.done + written, self.total));
    }

    fn cannot_write(&self, error: &io::Error) -> HubError {
        let folder = self.cache.root().display().to_string();
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            let free = bytes(free_space(self.cache.root()).unwrap_or(0));
            return HubError::DiskFull {
                repo: self.repo.to_string(),
                needed: bytes(self.total - self.done),
                free,
                folder,
            };
        }
        HubError::Cache { folder, problem: error.to_string() }
    }

    fn damaged(&self, file: &Remote, problem: String) -> HubError {
        HubError::Damaged { repo: self.repo.id.clone(), file: file.path.clone(), problem }
    }
}

/// Whether another attempt may help.
enum Trouble {
    Passing(String),
    Final(HubError),
}

fn incomplete(blob: &Path) -> PathBuf {
    let mut name = blob.file_name().unwrap_or_default().to_owned();
    name.push(".incomplete");
    blob.with_file_name(name)
}

/// A file being written. What has come stays when it breaks off.
struct Part {
    path: PathBuf,
    file: File,
    hash: Option<(Sha256, String)>,
    written: u64,
}

impl Part {
    fn open(blob: &Path, wanted: &Remote) -> io::Result<Self> {
        if let Some(parent) = blob.parent() {
            fs::create_dir_all(parent)?;
        }
        let path = incomplete(blob);
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        let mut written = file.metadata()?.len();
        if written > wanted.size || wanted.size < SMALL || wanted.sha256.is_none() {
            // What cannot be checked at the end must not be put together from two attempts.
            file.set_len(0)?;
            written = 0;
        }
        let mut hash = wanted.sha256.clone().map(|expected| (Sha256::new(), expected));
        if let Some((hash, _)) = hash.as_mut().filter(|_| written > 0) {
            let mut buffer = vec![0; 1 << 20];
            loop {
                let n = file.read(&mut buffer)?;
                if n == 0 {
                    break;
                }
                hash.update(&buffer[..n]);
            }
        }
        Ok(Self { path, file, hash, written })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.written += piece.len() as u64;
        if let Some((hash, _)) = &mut self.hash {
            hash.update(piece);
        }
        Ok(())
    }

    fn discard(&self) {
        let _ = fs::remove_file(&self.path);
    }

    /// Puts the file in place; what is wrong with it otherwise.
    fn finish(self, blob: &Path) -> io::Result<Option<String>> {
        if let Some((hash, expected)) = &self.hash {
            let found = hex(&hash.clone().finalize());
            if found != *expected {
                self.discard();
                return Ok(Some(format!("its SHA-256 is {found}, not {expected}")));
            }
        }
        self.file.sync_all()?;
        fs::rename(&self.path, blob)?;
        Ok(None)
    }
}

/// Bytes that this user may still write where a folder lies; `None` where that cannot be told.
pub(super) fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let stat = rustix::fs::statvfs(folder).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}
