//! What happens to the model, and what it wants done.

use crossterm::event::{KeyEvent, MouseEvent};
use serde::{Deserialize, Serialize};

use super::pointer::MouseMode;
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::protocol::run::{Run, RunOptions, RunProgress};
use crate::protocol::sensor::Sensors;
use crate::source::Update;
use crate::ui::run::library::{ExportFormat, RunListItem};

/// What happened.
#[derive(Debug, Clone)]
pub enum Msg {
    /// The attached server or its connection.
    Source(Update),
    /// A look at this machine's sensors.
    LocalSensors(Sensors),
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Pasted text.
    Paste(String),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// Time passes.
    Tick {
        /// Milliseconds since the Unix epoch.
        now_ms: u64,
    },
    /// Text of the answer to a prompt of ours. Servers that trace their rounds say the same in more detail; of others it
    /// is all there is.
    Answer(Answer),
    /// An effect came to its end.
    EffectResult(EffectResult),
    /// A benchmark run tells how it goes.
    Run(RunProgress),
    /// Answer to [`Effect::PlanRun`]: [`RunProgress::Planned`], or why there is no plan.
    Planned(Result<RunProgress, String>),
    /// The runs that were kept.
    Runs(Result<Vec<RunListItem>, String>),
    /// Answer to [`Effect::LoadRun`].
    RunLoaded(Result<Box<Run>, String>),
    /// Answer to [`Effect::Export`]: the file that was written.
    Exported(Result<String, String>),
    /// What is shown is being written to a file, or no longer.
    Recording(bool),
}

/// A piece of the answer to a prompt of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Tag of the prompt.
    pub tag: u64,
    /// The server's name of the request, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Text.
    pub text: String,
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectResult {
    /// Answer to [`Effect::SetMode`].
    Mode(Result<ModeChange, String>),
    /// A generation of ours ended; the error says why it failed.
    Generate {
        /// Tag of the prompt.
        tag: u64,
        /// How it ended.
        result: Result<(), String>,
    },
}

/// What must be done for the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the server for another mode.
    SetMode(ModeRequest),
    /// Send a prompt as a chat message.
    Generate(Prompt),
    /// Drop all generations started from here.
    CancelGeneration,
    /// Start a benchmark run.
    StartRun(RunOptions),
    /// Plan a benchmark run without sending anything.
    PlanRun(RunOptions),
    /// Pause the run, or let it go on.
    PauseRun(bool),
    /// Stop the run; what was measured is kept.
    StopRun,
    /// List the runs that were kept.
    ListRuns,
    /// Read a run.
    LoadRun(String),
    /// Write a run in a format.
    Export {
        /// The run.
        id: String,
        /// The format.
        format: ExportFormat,
    },
    /// Put a text into the clipboard.
    Copy(String),
    /// Have the terminal report this much of the mouse.
    Mouse(MouseMode),
    /// Leave.
    Quit,
    /// Stop the process until `fg`.
    Suspend,
    /// Clear the screen and draw everything again.
    Redraw,
}

/// A prompt to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The user message.
    pub text: String,
    /// Tokens to generate at most.
    pub max_tokens: usize,
    /// 0 is greedy.
    pub temperature: f32,
    /// Model to ask for, where the server needs to be told.
    pub model: Option<String>,
    /// Mode for this prompt alone; empty: the server's.
    pub mode: ModeRequest,
    /// Our name of it: comes back with the answer.
    pub tag: u64,
}
