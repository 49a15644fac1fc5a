//! Runs on disk: a journal that grows by a line a request, so that a crash loses nothing that was measured, and the
//! finished run beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use super::plan;
use crate::protocol::run::{Environment, RequestRecord, Run, RunMeta, RunOptions, RunPlan, RunStatus};

/// Name of the format of the first line.
const FORMAT: &str = "spectop-journal.1";

/// Largest journal that is read.
const LIMIT: u64 = 4 << 30;

/// The first line: what is needed to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format's name.
    pub format: String,
    /// Id, title, start.
    pub meta: RunMeta,
    /// What was asked for.
    pub options: RunOptions,
    /// What came of it.
    pub plan: RunPlan,
    /// Where.
    pub env: Environment,
}

impl Header {
    /// The first line of a run that begins.
    pub fn new(meta: RunMeta, options: RunOptions, plan: RunPlan, env: Environment) -> Self {
        Self { format: FORMAT.to_owned(), meta, options, plan, env }
    }
}

/// Why a run cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses.
    #[error("{path}: {source}{}", if source.kind() == io::ErrorKind::StorageFull { "; what was measured before is kept: make room and go on with --resume" } else { "" })]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is no journal, or damaged.
    #[error("{path}:{line}: {problem}")]
    Damaged {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// No such run.
    #[error("there is no run \"{id}\" in {folder}; `spectop bench list` shows those that are there")]
    NoRun {
        /// As given.
        id: String,
        /// Where it was looked for.
        folder: String,
    },
    /// No place to keep runs.
    #[error("there is no folder to keep runs in: {0}; set SPECTOP_STATE to one")]
    NoFolder(String),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> JournalError + use<> {
    let path = path.display().to_string();
    move |source| JournalError::Io { path, source }
}

/// Where runs are kept: `SPECTOP_STATE`, or the user's folder for state.
pub fn default_folder() -> Result<PathBuf, JournalError> {
    let base = if let Some(folder) = std::env::var_os("SPECTOP_STATE").filter(|value| !value.is_empty()) {
        PathBuf::from(folder)
    } else {
        let strategy = etcetera::choose_base_strategy().map_err(|error| JournalError::NoFolder(error.to_string()))?;
        strategy.state_dir().unwrap_or_else(|| strategy.data_dir())
    };
    Ok(base.join("spectop").join("runs"))
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Bytes of whole lines.
    good: u64,
}

impl Journal {
    /// Begins a journal with its header.
    pub fn create(folder: &Path, header: &Header) -> Result<Self, JournalError> {
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        let path = folder.join(format!("{}.jsonl", header.meta.id));
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io_error(&path))?;
        let mut journal = Self { file, path, good: 0 };
        if let Err(error) = journal.line(header) {
            // Without a header it is of no use to anybody.
            let _ = fs::remove_file(&journal.path);
            return Err(error);
        }
        sync_folder(folder);
        Ok(journal)
    }

    /// Opens a journal to go on with it; a torn last line is cut off.
    pub fn reopen(path: &Path) -> Result<(Self, Contents), JournalError> {
        let contents = Contents::read(path)?;
        let mut file = OpenOptions::new().write(true).open(path).map_err(io_error(path))?;
        file.set_len(contents.good).map_err(io_error(path))?;
        file.seek(SeekFrom::End(0)).map_err(io_error(path))?;
        Ok((Self { file, path: path.to_owned(), good: contents.good }, contents))
    }

    /// Appends a record and waits until it is on the disk.
    pub fn append(&mut self, record: &RequestRecord) -> Result<(), JournalError> {
        self.line(record)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(value).map_err(|error| io_error(&self.path)(error.into()))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Half a line in the middle would spoil the file for whoever goes on.
            let _ = self.file.set_len(self.good);
            let _ = self.file.seek(SeekFrom::Start(self.good));
            return Err(io_error(&self.path)(error));
        }
        self.good += line.len() as u64;
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What a journal holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents {
    /// Its first line.
    pub header: Header,
    /// Its records.
    pub records: Vec<RequestRecord>,
    /// Bytes of whole lines.
    pub good: u64,
}

impl Contents {
    /// Reads a journal. A last line without its end was being written when the program died, and does not count.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let length = fs::metadata(path).map_err(io_error(path))?.len();
        let shown = path.display().to_string();
        let damaged = |line: usize, problem: String| JournalError::Damaged { path: shown.clone(), line, problem };
        if length > LIMIT {
            return Err(damaged(1, "it is too long to be a journal".into()));
        }
        let bytes = fs::read(path).map_err(io_error(path))?;
        let good = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = bytes[..good].split_inclusive(|byte| *byte == b'\n');
        let header: Header = match lines.next() {
            None => return Err(damaged(1, "it ends before its plan: nothing was measured".into())),
            Some(line) => serde_json::from_slice(line)
                .map_err(|error| damaged(1, format!("this is no journal of a run: {error}")))?,
        };
        if header.format != FORMAT {
            return Err(damaged(1, format!("its format is {}, not {FORMAT}", header.format)));
        }
        let mut records: Vec<RequestRecord> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (at, line) in lines.enumerate() {
            let record: RequestRecord =
                serde_json::from_slice(line).map_err(|error| damaged(at + 2, format!("no record: {error}")))?;
            if !seen.insert(record.seq) {
                return Err(damaged(at + 2, format!("request {} is there already", record.seq)));
            }
            records.push(record);
        }
        Ok(Self { header, records, good: good as u64 })
    }
}

/// A run in the folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// What, when, how it ended.
    pub meta: RunMeta,
    /// Requests in it.
    pub requests: usize,
    /// Its file: the run, or the journal of one that has not ended.
    pub file: PathBuf,
}

/// The runs in a folder, latest first. Files that cannot be read are left out.
pub fn list(folder: &Path) -> Result<Vec<Listed>, JournalError> {
    #[derive(Deserialize)]
    struct Brief {
        meta: RunMeta,
        requests: Vec<serde::de::IgnoredAny>,
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(folder)(error)),
    };
    let mut runs = Vec::new();
    for file in entries.flatten().map(|entry| entry.path()) {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("json") => {
                let brief = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Brief>(&bytes).ok());
                if let Some(Brief { meta, requests }) = brief {
                    runs.push(Listed { meta, requests: requests.len(), file });
                }
            }
            Some("jsonl") if !file.with_extension("json").is_file() => {
                if let Ok(contents) = Contents::read(&file) {
                    runs.push(Listed { meta: contents.header.meta, requests: contents.records.len(), file });
                }
            }
            _ => {}
        }
    }
    runs.sort_by(|a, b| (b.meta.started_ms, &b.meta.id).cmp(&(a.meta.started_ms, &a.meta.id)));
    Ok(runs)
}

/// The run with this id; `last` is the latest, of those that `wanted` lets pass.
pub fn find(folder: &Path, id: &str, wanted: impl Fn(&Listed) -> bool) -> Result<Listed, JournalError> {
    let mut runs = list(folder)?.into_iter();
    let found = if id == "last" { runs.find(wanted) } else { runs.find(|run| run.meta.id == id) };
    found.ok_or_else(|| JournalError::NoRun { id: id.to_owned(), folder: folder.display().to_string() })
}

/// Whether there is anything to go on with.
pub fn is_open(run: &Listed) -> bool {
    matches!(run.meta.status, RunStatus::Unfinished | RunStatus::Stopped) && run.file.with_extension("jsonl").is_file()
}

/// Writes the run beside its journal: whole, or not at all.
pub fn write_run(folder: &Path, run: &Run) -> Result<PathBuf, JournalError> {
    let path = folder.join(format!("{}.json", run.meta.id));
    write_whole(&path, &serde_json::to_vec(run).map_err(|error| io_error(&path)(error.into()))?)?;
    Ok(path)
}

/// Writes a file by way of another beside it, so that nobody ever sees half of it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let part = path.with_file_name(name);
    let written = File::create(&part)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&part, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&part);
        return Err(io_error(path)(error));
    }
    if let Some(folder) = path.parent() {
        sync_folder(folder);
    }
    Ok(())
}

/// Makes a new name last. Where folders cannot be opened this is not needed.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// An id for a run that begins now: `20261201-1120-3fa2` (UTC).
pub fn new_id(now_ms: u64) -> String {
    let minutes = now_ms / 60_000;
    let (year, month, day) = date((minutes / 1440) as i64);
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}-{}", plan::random_word())
}

/// The calendar date of a day since 1970-01-01. Years are counted from March, so that the leap day is the last one.
fn date(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468; // days since 0000-03-01
    let era = shifted.div_euclid(146_097);
    let in_era = shifted.rem_euclid(146_097);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153; // from March
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
