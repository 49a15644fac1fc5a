//! The folder in which the model is kept. A file there is always whole: it is written under another name, checked,
//! and renamed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Progress, loading};

/// A file to have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) name: &'static str,
    pub(super) size: u64,
    pub(super) sha256: &'static str,
}

/// Where it is kept.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    pub(super) wanted: Wanted,
}

impl Store {
    pub(super) fn new(folder: PathBuf, wanted: Wanted) -> Self {
        Self { folder, wanted }
    }

    /// The folder, made if need be.
    pub(super) fn folder(&self) -> Result<&Path, String> {
        fs::create_dir_all(&self.folder).map_err(|e| self.described(&e))?;
        Ok(&self.folder)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(self.wanted.name)
    }

    pub(super) fn has_size(&self) -> bool {
        fs::metadata(self.path()).is_ok_and(|m| m.is_file() && m.len() == self.wanted.size)
    }

    /// Whether the file is there with the right contents.
    pub(super) fn is_valid(&self, progress: &mut Progress<'_>) -> bool {
        self.has_size() && self.check(&self.path(), progress).is_ok()
    }

    /// Waits until no other process fetches.
    pub(super) fn lock(&self, progress: &mut Progress<'_>) -> Result<Option<File>, String> {
        let path = self.folder()?.join(".lock");
        let file = File::create(&path).map_err(|e| self.described(&e))?;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    self.sweep();
                    return Ok(Some(file));
                }
                Err(TryLockError::WouldBlock) => {
                    progress(loading("waiting for another spectop that fetches the model", 0, 0));
                    std::thread::sleep(Duration::from_millis(250));
                }
                Err(TryLockError::Error(_)) => return Ok(None), // no locks on this file system
            }
        }
    }

    /// Removes what a fetch that was killed has left.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for path in entries.filter_map(|e| e.ok().map(|e| e.path())) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(FETCH_FOLDER) {
                let _ = fs::remove_dir_all(&path);
            } else if name.ends_with(".part") {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Copies a file of the user's into the store.
    pub(super) fn copy_from(&self, from: &Path, progress: &mut Progress<'_>) -> Result<PathBuf, String> {
        let readable = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => "there is no such file; check the path".to_owned(),
            _ => format!("cannot be read: {e}"),
        };
        let meta = fs::metadata(from).map_err(readable)?;
        if !meta.is_file() {
            return Err(format!("this is not a file; name {} itself", self.wanted.name));
        }
        let size = meta.len();
        if size != self.wanted.size {
            return Err(self.wrong(&format!("it has {size} bytes"), &format!("{} bytes", self.wanted.size)));
        }
        let here = self.path();
        if let (Ok(a), Ok(b)) = (from.canonicalize(), here.canonicalize())
            && a == b
        {
            self.check(&here, progress)?;
            return Ok(here);
        }
        let mut file = File::open(from).map_err(readable)?;
        self.save(&mut file, &format!("checking and copying {}", self.wanted.name), progress)
    }

    /// Reads the whole file and compares its hash.
    fn check(&self, path: &Path, progress: &mut Progress<'_>) -> Result<(), String> {
        let mut file = File::open(path).map_err(|e| format!("cannot be read: {e}"))?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        let mut done = 0;
        loop {
            let n = file.read(&mut buffer).map_err(|e| format!("cannot be read: {e}"))?;
            if n == 0 {
                break;
            }
            hash.update(&buffer[..n]);
            done += n as u64;
            progress(loading(format!("checking {}", self.wanted.name), done, self.wanted.size));
        }
        self.compare(&hex(&hash.finalize()))
    }

    fn compare(&self, found: &str) -> Result<(), String> {
        if found == self.wanted.sha256 {
            return Ok(());
        }
        Err(self.wrong(&format!("its SHA-256 is {found}"), self.wanted.sha256))
    }

    fn wrong(&self, found: &str, expected: &str) -> String {
        format!("this is not {} as published: {found}, not {expected}; fetch it again", self.wanted.name)
    }

    /// Writes everything from `reader` to the store, checks it and puts it in place.
    pub(super) fn save(
        &self,
        reader: &mut dyn Read,
        what: &str,
        progress: &mut Progress<'_>,
    ) -> Result<PathBuf, String> {
        let mut part = self.part()?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let n = reader.read(&mut buffer).map_err(|e| format!("reading failed: {e}"))?;
            if n == 0 {
                return part.finish();
            }
            part.write(&buffer[..n])?;
            part.report(what, progress);
        }
    }

    /// Begins a file.
    pub(super) fn part(&self) -> Result<Part<'_>, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.folder()?.join(format!("{}-{number}.part", std::process::id()));
        let file = File::create_new(&path).map_err(|e| self.described(&e))?;
        Ok(Part { store: self, file, path, hash: Sha256::new(), written: 0, reported: None })
    }

    /// A folder for the files of one fetch, removed when the guard is dropped.
    pub(super) fn scratch(&self) -> Result<Scratch, String> {
        let path = self.folder()?.join(format!("{FETCH_FOLDER}{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|e| self.described(&e))?;
        Ok(Scratch(path))
    }

    fn described(&self, error: &io::Error) -> String {
        let folder = self.folder.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
                "the disk is full: {} needs {} MB in {folder}; free some space or set SPECTOP_CACHE to another folder",
                self.wanted.name,
                self.wanted.size / 1_000_000
            ),
            _ => format!("cannot write to {folder}: {error}"),
        }
    }
}

/// Progress reports a file: chunks may be much smaller than anybody wants to see.
const REPORTS: u64 = 200;

/// Beginning of the names of scratch folders.
const FETCH_FOLDER: &str = ".fetch-";

/// A scratch folder.
pub(super) struct Scratch(pub(super) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file being written. Dropping it unfinished removes it.
pub(super) struct Part<'a> {
    store: &'a Store,
    file: File,
    path: PathBuf,
    hash: Sha256,
    pub(super) written: u64,
    /// Steps of [`REPORTS`] already reported.
    reported: Option<u64>,
}

impl Part<'_> {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.written += bytes.len() as u64;
        if self.written > self.store.wanted.size {
            return Err(self.store.wrong("it has more bytes", &self.store.wanted.size.to_string()));
        }
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(|e| self.store.described(&e))
    }

    /// Tells how far it is, in steps that can be seen.
    pub(super) fn report(&mut self, what: &str, progress: &mut Progress<'_>) {
        let step = Some(self.written * REPORTS / self.store.wanted.size.max(1));
        if step != self.reported {
            self.reported = step;
            progress(loading(what, self.written, self.store.wanted.size));
        }
    }

    pub(super) fn finish(self) -> Result<PathBuf, String> {
        if self.written != self.store.wanted.size {
            return Err(format!("only {} of {} bytes came; try again", self.written, self.store.wanted.size));
        }
        self.store.compare(&hex(&self.hash.clone().finalize()))?;
        self.file.sync_all().map_err(|e| self.store.described(&e))?;
        let path = self.store.path();
        fs::rename(&self.path, &path).map_err(|e| self.store.described(&e))?;
        Ok(path)
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // gone already after a rename
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(n.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}
