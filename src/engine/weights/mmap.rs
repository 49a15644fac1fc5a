//! The bytes of a checkpoint file: mapped from disk, or compiled in.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use super::WeightsError;

/// Bytes of one file.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Mapped from disk: pages are read when they are touched.
    Mapped(Mmap),
    /// Part of the program.
    Static(&'static [u8]),
}

impl Bytes {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> Result<Self, WeightsError> {
        let shown = path.display().to_string();
        // Asked before the file is opened: opening a pipe waits until somebody writes to it.
        let meta = path.metadata().map_err(|e| WeightsError::io(&shown, &e))?;
        if !meta.is_file() {
            return Err(WeightsError::Io { file: shown, problem: "it is not a regular file".into() });
        }
        if meta.len() == 0 {
            return Ok(Self::Static(&[])); // an empty range cannot be mapped
        }
        let file = File::open(path).map_err(|e| WeightsError::io(&shown, &e))?;
        map(&file).map(Self::Mapped).map_err(|e| WeightsError::io(&shown, &e))
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
        }
    }
}

/// Maps a whole file for reading.
#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only, and everything read from it is checked for bounds and treated as
    // plain bytes, so bytes that change under us give wrong numbers at worst. A file that another program truncates
    // while it is mapped raises SIGBUS; spectop itself never shortens or overwrites a model file in place (it writes
    // `*.part` and renames).
    unsafe { Mmap::map(file) }
}
