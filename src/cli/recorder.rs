//! `--record`: what the screen is told, line by line into a compressed file that is readable after a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

use super::{Exit, Failure};
use crate::protocol::event::{Event, Level, LogLine};
use crate::source::Update;
use crate::ui::app::{Model, Msg};
use crate::ui::record::{self, Header};

/// Milliseconds after which what was written must be in the file.
const FLUSH_MS: u64 = 1_000;
/// Compression level: small enough, and far below a percent of a core.
const LEVEL: i32 = 3;
/// First bytes of a zstd file.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes that a recording may have when it is unpacked.
const MOST_BYTES: u64 = 2 << 30;

/// A file that is being written.
pub struct Recorder {
    path: PathBuf,
    out: Encoder<'static, File>,
    begun_ms: u64,
    flushed_ms: u64,
}

impl Recorder {
    /// Creates the file. One that is there already is not touched.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let fail = |e: &io::Error| {
            let hint = if e.kind() == io::ErrorKind::AlreadyExists { "; choose another name or remove it" } else { "" };
            Failure::new(Exit::Usage, format!("cannot record to {}: {e}{hint}", path.display()))
        };
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|e| fail(&e))?;
        let out = Encoder::new(file, LEVEL).map_err(|e| fail(&e))?;
        Ok(Self { path: path.to_owned(), out, begun_ms: 0, flushed_ms: 0 })
    }

    /// Writes the first line: what the model is made of.
    pub fn begin(&mut self, model: &Model) -> Result<(), Failure> {
        let header = Header::of(model);
        self.begun_ms = header.at_ms;
        self.line(&header.line()).and_then(|()| self.out.flush()).map_err(|e| self.failed(&e))
    }

    /// Writes a message.
    pub fn write(&mut self, now_ms: u64, msg: &Msg) -> Result<(), Failure> {
        let Some(line) = record::line(now_ms.saturating_sub(self.begun_ms), msg) else { return Ok(()) };
        let mut done = self.line(&line);
        if now_ms.saturating_sub(self.flushed_ms) >= FLUSH_MS {
            self.flushed_ms = now_ms;
            done = done.and_then(|()| self.out.flush());
        }
        done.map_err(|e| self.failed(&e))
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::new(Exit::Failed, format!("recording to {} ended: {error}", self.path.display()))
    }

    /// A line for the log as a message, so that recordings have it too.
    pub fn note(now_ms: u64, level: Level, source: &str, message: &str) -> Msg {
        Msg::Source(Update::Event(Event::Log(LogLine {
            at_ms: now_ms,
            level,
            source: source.into(),
            message: message.into(),
        })))
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(self) -> Result<(), Failure> {
        let path = self.path;
        self.out.finish().and_then(|file| file.sync_all()).map_err(|e| {
            Failure::new(Exit::Failed, format!("the end of the recording {} was not written: {e}", path.display()))
        })
    }
}

/// Unpacks a recording as far as it goes: of a file that was cut off, all that is whole.
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.len() < MAGIC.len() && MAGIC.starts_with(bytes) {
        return Ok(Vec::new());
    }
    if !bytes.starts_with(&MAGIC) {
        return Ok(bytes.to_vec());
    }
    let decoder = Decoder::new(bytes).map_err(|e| e.to_string())?;
    let mut decoder = decoder.take(MOST_BYTES);
    let mut out = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match decoder.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => out.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Cut off or damaged: what came before is good.
            Err(_) => break,
        }
    }
    Ok(out)
}

/// Reads a recording from a file.
pub fn read(path: &Path) -> Result<crate::ui::replay::Recording, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {e}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| wrong(&e))?;
    let text = unpack(&bytes).map_err(|e| wrong(&e))?;
    crate::ui::replay::Recording::parse(text).map_err(|e| wrong(&e))
}
