//! An answer as it comes: chunks as server-sent events.

use std::convert::Infallible;

use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::time::Interval;

use super::Shape;
use super::answer::{End, Heading, Piece, Traced};
use crate::engine::api::{Delta, EngineError, Generation};
use crate::server::error::ApiError;
use crate::server::sse;

/// The response. Its stream owns the generation: when the client goes away both are dropped.
pub(super) fn respond(heading: Heading, generation: Generation, trace: bool, include_usage: bool) -> Response {
    let answer =
        Answer { heading, generation, trace, include_usage, begun: false, over: false, keep_alive: sse::keep_alive() };
    sse::response(stream::unfold(answer, |mut answer| async move {
        answer.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), answer))
    }))
}

struct Answer {
    heading: Heading,
    generation: Generation,
    trace: bool,
    include_usage: bool,
    /// The chunk with the role is out.
    begun: bool,
    over: bool,
    keep_alive: Interval,
}

impl Answer {
    /// The next frames; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let mut out = String::new();
        while out.is_empty() {
            tokio::select! {
                biased;
                delta = self.generation.deltas.recv() => {
                    let delta = delta.unwrap_or(Delta::Failed(EngineError::Stopped));
                    self.write(&mut out, delta);
                }
                _ = self.keep_alive.tick() => out.push_str(sse::COMMENT),
            }
        }
        self.keep_alive.reset();
        Some(out.into())
    }

    fn write(&mut self, out: &mut String, delta: Delta) {
        match delta {
            Delta::Tokens { ids, text, margins } => {
                if self.trace || !text.is_empty() {
                    self.begin(out);
                    let trace = self.trace.then_some(Traced { token_ids: &ids, margins: &margins });
                    self.chunk(out, &Piece { text: Some(&text), trace, ..Piece::default() });
                }
            }
            Delta::Done { reason, text, metrics } => {
                self.begin(out);
                if !text.is_empty() {
                    self.chunk(out, &Piece { text: Some(&text), ..Piece::default() });
                }
                let end = End { reason, metrics };
                self.chunk(out, &Piece { end: Some(&end), ..Piece::default() });
                if self.include_usage {
                    push(out, self.heading.usage_chunk(&end.metrics));
                }
                sse::frame(out, None, "[DONE]");
                self.over = true;
            }
            Delta::Failed(error) => {
                // The status is out already; what is left is to say it in the stream, and not to say [DONE].
                sse::frame(out, None, &ApiError::from(error).json().to_string());
                self.over = true;
            }
        }
    }

    /// The role comes with the first piece of the answer and not before, so that a client's first chunk is its first
    /// token.
    fn begin(&mut self, out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) && self.heading.shape == Shape::Chat {
            self.chunk(out, &Piece { role: Some("assistant"), text: Some(""), ..Piece::default() });
        }
    }

    fn chunk(&self, out: &mut String, piece: &Piece<'_>) {
        push(out, self.heading.chunk(piece, self.include_usage));
    }
}

fn push(out: &mut String, chunk: Result<String, serde_json::Error>) {
    match chunk {
        Ok(json) => sse::frame(out, None, &json),
        Err(error) => sse::frame(out, None, &ApiError::Internal(error.to_string()).json().to_string()),
    }
}
