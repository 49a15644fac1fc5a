//! A model of the hub as far as its headers go: a folder with its side files, and sparse files in place of the weights
//! that have the right headers and lengths, but no contents.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::cache::Cache;
use super::error::HubError;
use super::fetch::run;
use super::reference::RepoRef;
use super::remote::Hub;
use super::wanted::{self, INDEX, Remote, SIDE_FILES, Weights};
use crate::engine::api::ModelSource;
use crate::engine::inspect::{self, ModelFacts};
use crate::engine::weights::safetensors;

const TOKENIZER: &str = "tokenizer.json";
/// Header of a safetensors file that is read at most.
const MAX_HEADER: u64 = 64 << 20;
/// Beginning of a GGUF file that is fetched: the vocabulary and the merges are in it.
const GGUF_HEAD: u64 = 24 << 20;

/// A folder that goes away with this.
#[derive(Debug)]
pub struct Preview {
    folder: PathBuf,
    /// What to open.
    model: PathBuf,
}

impl Preview {
    fn new(name: &str) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("spectop-preview-{}-{number}", std::process::id()));
        // A model goes by the name of its folder.
        let model = folder.join(name);
        fs::create_dir_all(&model)?;
        Ok(Self { folder, model })
    }

    /// What to open.
    pub fn path(&self) -> &Path {
        &self.model
    }
}

impl Drop for Preview {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Fetches the headers of a model that is not in the cache.
pub fn preview(repo: &RepoRef, cache: &Cache, offline: bool) -> Result<Preview, HubError> {
    if offline {
        return Err(HubError::Offline { repo: repo.to_string(), cache: cache.root().display().to_string() });
    }
    run(repo, async |hub| {
        let (commit, files) = hub.list().await?;
        let no_file = |problem| HubError::NoFile { repo: repo.id.clone(), problem };
        let weights = wanted::weights(&files, repo.file.as_deref()).map_err(no_file)?;
        let (_, name) = repo.split();
        let mut seen = Preview::new(name).map_err(|e| cannot_write(&e))?;
        if let Weights::Gguf(file) = &weights {
            let name = file.path.rsplit('/').next().unwrap_or("model.gguf");
            let head = beginning(hub, &commit, file, 0..file.size.min(GGUF_HEAD)).await?;
            seen.model.push(name);
            sparse(&seen.model, &head, file.size).map_err(|e| cannot_write(&e))?;
            return Ok(seen);
        }
        for file in wanted::side_files(&files) {
            // Of a tokenizer it is enough that it is there.
            let size = if file.path == TOKENIZER { 0 } else { file.size };
            let text = beginning(hub, &commit, &file, 0..size).await?;
            fs::write(seen.model.join(&file.path), text).map_err(|e| cannot_write(&e))?;
        }
        let shards = if let Weights::Single(file) = weights {
            vec![file]
        } else {
            let index = fs::read(seen.model.join(INDEX)).map_err(|e| cannot_write(&e))?;
            let names = safetensors::shards(&index, INDEX).map_err(|e| no_file(e.to_string()))?;
            names.iter().filter_map(|n| files.iter().find(|f| f.path == *n).cloned()).collect()
        };
        headers(hub, &commit, &shards, &seen.model).await?;
        Ok(seen)
    })
}

/// Headers of weights whose side files are in a folder already.
pub(super) async fn of_safetensors(
    hub: &Hub<'_>,
    commit: &str,
    weights: &[Remote],
    side: &Path,
) -> Result<Preview, HubError> {
    let seen = Preview::new("model").map_err(|e| cannot_write(&e))?;
    for name in SIDE_FILES.iter().filter(|n| **n != TOKENIZER && side.join(n).is_file()) {
        fs::copy(side.join(name), seen.model.join(name)).map_err(|e| cannot_write(&e))?;
    }
    headers(hub, commit, weights, &seen.model).await?;
    Ok(seen)
}

/// Why a model cannot be run, as far as its headers tell. Of a drafter only its target can tell.
pub(super) fn problem(folder: &Path) -> Option<String> {
    match inspect::inspect(&ModelSource::Path(folder.to_owned())) {
        Ok(found) => match found.facts {
            ModelFacts::Target(target) => target.not_loadable,
            ModelFacts::Draft(_) => None,
        },
        Err(error) => Some(error.to_string()),
    }
    .map(|problem| problem.replace(&format!("{}/", folder.display()), ""))
}

async fn headers(hub: &Hub<'_>, commit: &str, shards: &[Remote], folder: &Path) -> Result<(), HubError> {
    for file in shards {
        let length = beginning(hub, commit, file, 0..file.size.min(8)).await?;
        let mut size = [0; 8];
        let n = length.len().min(8);
        size[..n].copy_from_slice(&length[..n]);
        // What is no safetensors file is told by what reads it.
        let header = u64::from_le_bytes(size).saturating_add(8).min(file.size).min(MAX_HEADER);
        let bytes = beginning(hub, commit, file, 0..header).await?;
        sparse(&folder.join(&file.path), &bytes, file.size).map_err(|e| cannot_write(&e))?;
    }
    Ok(())
}

/// The first bytes of a file; the server may send more than it was asked for.
async fn beginning(
    hub: &Hub<'_>,
    commit: &str,
    file: &Remote,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, HubError> {
    let wanted = range.end as usize;
    let mut bytes = Vec::new();
    if wanted == 0 {
        return Ok(bytes);
    }
    let mut download = hub.open(commit, &file.path, (range.end < file.size).then_some(range)).await?;
    while bytes.len() < wanted {
        let piece = download.next().await.map_err(|problem| hub.network(&problem))?;
        let Some(piece) = piece else { break };
        bytes.extend_from_slice(&piece);
    }
    bytes.truncate(wanted);
    Ok(bytes)
}

fn sparse(path: &Path, head: &[u8], size: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(head)?;
    file.set_len(size)?;
    file.seek(SeekFrom::Start(0)).map(drop)
}

fn cannot_write(error: &io::Error) -> HubError {
    HubError::Cache { folder: std::env::temp_dir().display().to_string(), problem: error.to_string() }
}
