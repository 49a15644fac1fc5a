//! Attaching to a server: connection, events, commands. What the UI and the benchmarks see of a server.

use std::time::Duration;

use crate::protocol::event::Event;

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
pub enum Update {
    /// The connection changed.
    Connection(Connection),
    /// The server said something.
    Event(Event),
}
