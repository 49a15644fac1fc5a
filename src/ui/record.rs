//! Recordings: everything that reaches the model, one JSON object a line, and back. No files here: lines only.
//!
//! The first line says what the model was made of; each other line is a message, `{"at":…,"is":…,"data":…}`, `at` in
//! milliseconds since the first. The model reads no clock and does no I/O, so the same messages make the same screen.

use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::event::Event;
use crate::source::{Connection, ServerKind, Update};

use super::action::{Change, Keymap};
use super::app::{EffectResult, Look, Model, MouseMode, Msg};
use super::color::Depth;

/// Version of the format; older ones stay readable.
pub const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub spectop_recording: u32,
    /// Program that wrote it.
    pub made_by: String,
    /// Clock at the beginning, milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Address of the server.
    pub url: String,
    /// Name of the theme.
    pub theme: String,
    /// ASCII characters only.
    pub ascii: bool,
    /// Colours of the terminal: `none`, `16`, `256`, `true`.
    pub depth: String,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Whether benchmarks could be run.
    pub runs: bool,
    /// Whether races ran by themselves.
    #[serde(default)]
    pub demo: bool,
    /// Reduced motion.
    #[serde(default)]
    pub still: bool,
    /// What the terminal reported of the mouse.
    #[serde(default)]
    pub mouse: String,
    /// Keys that differ from the table: keys are recorded as they were pressed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Change>,
}

fn depth_name(depth: Depth) -> &'static str {
    match depth {
        Depth::None => "none",
        Depth::Ansi16 => "16",
        Depth::Ansi256 => "256",
        Depth::True => "true",
    }
}

impl Header {
    /// The header of a recording that begins with this model.
    pub fn of(model: &Model) -> Self {
        Self {
            spectop_recording: FORMAT,
            made_by: concat!("spectop ", env!("CARGO_PKG_VERSION")).into(),
            at_ms: model.now_ms,
            url: model.url.clone(),
            theme: model.look.theme.name().to_owned(),
            ascii: model.look.ascii,
            depth: depth_name(model.look.depth).into(),
            size: model.size,
            runs: model.bench.hosted,
            demo: model.race.unattended,
            still: model.look.still,
            mouse: model.mouse.name().into(),
            keys: model.keys.changes(),
        }
    }

    /// The model that it began with.
    pub fn model(&self) -> Result<Model, String> {
        let depth = [Depth::None, Depth::Ansi16, Depth::Ansi256, Depth::True]
            .into_iter()
            .find(|d| depth_name(*d) == self.depth)
            .unwrap_or(Depth::True);
        let mut look =
            Look::new(Some(&self.theme), depth, self.ascii).or_else(|_| Look::new(None, depth, self.ascii))?;
        look.still = self.still;
        let mut model = Model::new(self.url.clone(), look, self.at_ms);
        model.keys = Keymap::changed(&self.keys);
        model.mouse = MouseMode::ALL.into_iter().find(|m| m.name() == self.mouse).unwrap_or_default();
        if self.runs {
            model.offer_runs();
        }
        if self.demo {
            model.demo();
        }
        model.update(Msg::Resize(self.size.0, self.size.1));
        Ok(model)
    }

    /// As a line, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the first line.
    pub fn parse(line: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(line).map_err(|_| "this is no recording of spectop".to_owned())?;
        match value.get("spectop_recording").and_then(Value::as_u64) {
            None => return Err("this is no recording of spectop: its first line does not say so".into()),
            Some(v) if v > u64::from(FORMAT) => {
                return Err(format!(
                    "this recording has format {v}, but this spectop reads up to {FORMAT}: update spectop"
                ));
            }
            Some(_) => {}
        }
        serde_json::from_value(value).map_err(|e| format!("the first line of the recording is damaged: {e}"))
    }
}

/// The connection on the wire.
#[derive(Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Link {
    Connecting,
    Connected { kind: String },
    Lost { reason: String, retry_ms: u64 },
}

impl From<&Connection> for Link {
    fn from(connection: &Connection) -> Self {
        match connection {
            Connection::Connecting => Link::Connecting,
            Connection::Connected { kind } => Link::Connected { kind: kind.name().into() },
            Connection::Lost { reason, retry_in } => {
                Link::Lost { reason: reason.clone(), retry_ms: retry_in.as_millis().min(u128::from(u64::MAX)) as u64 }
            }
        }
    }
}

impl From<Link> for Connection {
    fn from(link: Link) -> Self {
        match link {
            Link::Connecting => Connection::Connecting,
            Link::Connected { kind } => {
                let all = [ServerKind::Native, ServerKind::Vllm, ServerKind::Sglang, ServerKind::OpenAi];
                let kind = all.into_iter().find(|k| k.name() == kind).unwrap_or(ServerKind::OpenAi);
                Connection::Connected { kind }
            }
            Link::Lost { reason, retry_ms } => Connection::Lost { reason, retry_in: Duration::from_millis(retry_ms) },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Generated {
    tag: u64,
    error: Option<String>,
}

#[derive(Serialize)]
struct Written<'a, T> {
    at: u64,
    is: &'a str,
    data: &'a T,
}

#[derive(Deserialize)]
struct Read {
    at: u64,
    is: String,
    #[serde(default)]
    data: Value,
}

fn write<T: Serialize>(at: u64, is: &str, data: &T) -> Option<String> {
    serde_json::to_string(&Written { at, is, data }).ok()
}

/// A message as a line without its end, `at` milliseconds after the beginning. `None` for what cannot be written, which
/// is nothing that a model is known to get.
pub fn line(at: u64, msg: &Msg) -> Option<String> {
    match msg {
        Msg::Source(Update::Connection(connection)) => write(at, "link", &Link::from(connection)),
        Msg::Source(Update::Event(event)) => {
            let data = event.data().ok()?;
            Some(format!("{{\"at\":{at},\"is\":\"{}\",\"data\":{data}}}", event.name()))
        }
        Msg::LocalSensors(sensors) => write(at, "sensors", sensors),
        Msg::Key(key) => write(at, "key", key),
        Msg::Mouse(mouse) => write(at, "mouse", mouse),
        Msg::Paste(text) => write(at, "paste", text),
        Msg::Resize(columns, rows) => write(at, "size", &(columns, rows)),
        Msg::Tick { now_ms } => write(at, "tick", now_ms),
        Msg::Answer(answer) => write(at, "answer", answer),
        Msg::EffectResult(EffectResult::Mode(result)) => write(at, "switched", result),
        Msg::EffectResult(EffectResult::Generate { tag, result }) => {
            write(at, "generated", &Generated { tag: *tag, error: result.as_ref().err().cloned() })
        }
        Msg::Run(progress) => write(at, "run", progress),
        Msg::Planned(answer) => write(at, "planned", answer),
        Msg::Runs(runs) => write(at, "runs", runs),
        Msg::RunLoaded(run) => write(at, "run-loaded", run),
        Msg::Exported(file) => write(at, "exported", file),
        Msg::Recording(on) => write(at, "recording", on),
    }
}

fn data<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// Reads a line: when it happened, and what. `Ok(None)` for words of a newer version.
pub fn parse(line: &str) -> Result<Option<(u64, Msg)>, String> {
    let Read { at, is, data: value } = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let msg = match is.as_str() {
        "link" => Msg::Source(Update::Connection(data::<Link>(value)?.into())),
        "sensors" => Msg::LocalSensors(data(value)?),
        "key" => Msg::Key(data::<KeyEvent>(value)?),
        "mouse" => Msg::Mouse(data::<MouseEvent>(value)?),
        "paste" => Msg::Paste(data(value)?),
        "size" => {
            let (columns, rows) = data(value)?;
            Msg::Resize(columns, rows)
        }
        "tick" => Msg::Tick { now_ms: data(value)? },
        "answer" => Msg::Answer(data(value)?),
        "switched" => Msg::EffectResult(EffectResult::Mode(data(value)?)),
        "generated" => {
            let Generated { tag, error } = data(value)?;
            Msg::EffectResult(EffectResult::Generate { tag, result: error.map_or(Ok(()), Err) })
        }
        "run" => Msg::Run(data(value)?),
        "planned" => Msg::Planned(data(value)?),
        "runs" => Msg::Runs(data(value)?),
        "run-loaded" => Msg::RunLoaded(data(value)?),
        "exported" => Msg::Exported(data(value)?),
        "recording" => Msg::Recording(data(value)?),
        event => match Event::parse(event, &value.to_string()).map_err(|e| e.to_string())? {
            Some(event) => Msg::Source(Update::Event(event)),
            None => return Ok(None),
        },
    };
    Ok(Some((at, msg)))
}
