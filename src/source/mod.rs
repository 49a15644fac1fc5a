//! Attaching to a server: connection, events, commands. What the UI and the benchmarks see of a server.

mod address;
mod attach;
mod chat;
mod error;
mod foreign;
mod native;
mod openai;
mod outlet;
mod probe;
mod prom;
mod sglang;
mod sse;
mod transport;
mod vllm;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::protocol::event::Event;

pub use self::attach::{CHANNEL_CAPACITY, attach};
pub use self::chat::{ChatDelta, ChatEnd, ChatMessage, ChatRequest, ChatStream, Usage};
pub use self::error::SourceError;
pub use self::native::Client;
pub use self::probe::{Probe, probe};

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Which server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// Ours: everything is available.
    Native,
    /// vLLM: counters from `/metrics`, no round trace, no live switch.
    Vllm,
    /// SGLang: gauges, no round trace, no live switch.
    Sglang,
    /// Any OpenAI-compatible server: text only.
    OpenAi,
}

impl ServerKind {
    /// The name for people and scripts.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Native => "spectop",
            ServerKind::Vllm => "vllm",
            ServerKind::Sglang => "sglang",
            ServerKind::OpenAi => "openai",
        }
    }
}

/// State of the connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Connection {
    /// First attempt under way.
    Connecting,
    /// Events are coming in.
    Connected {
        /// Which server it is.
        kind: ServerKind,
    },
    /// The connection broke or could not be made; attempts go on.
    Lost {
        /// Why, in words.
        reason: String,
        /// Time until the next attempt.
        retry_in: Duration,
    },
}

/// What an attached source reports, in order.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "events are nearly all there is: a box for each would only cost")]
pub enum Update {
    /// The connection changed.
    Connection(Connection),
    /// The server said something.
    Event(Event),
}
