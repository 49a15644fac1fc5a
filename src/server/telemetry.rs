//! `GET /health`, `GET /spec/state`, `GET /spec/events`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde_json::json;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::Interval;

use super::context::{Context, MAX_EVENT_READERS};
use super::error::ApiError;
use super::sse;
use crate::protocol::event::{Event, Lagged};
use crate::protocol::state::{self, Readiness};

/// Events put into one write when many are waiting.
const BATCH: usize = 64;

/// 200 when requests are answered, 503 with the reason otherwise.
pub(super) async fn health(State(context): State<Context>) -> Response {
    let readiness = context.backend.state().readiness;
    match &readiness {
        Readiness::Ready => Json(json!({"status": "ok"})).into_response(),
        Readiness::Loading { what, fraction } => (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, "2")],
            Json(json!({"status": "loading", "reason": what, "fraction": fraction})),
        )
            .into_response(),
        Readiness::Failed { reason } => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "failed", "reason": reason}))).into_response()
        }
    }
}

/// Everything there is to know at once.
pub(super) async fn state(State(context): State<Context>) -> Json<state::State> {
    Json(context.backend.state())
}

/// The event stream. `?rounds=0` leaves out `round` events.
pub(super) async fn events(State(context): State<Context>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let rounds = wants_rounds(query.as_deref().unwrap_or_default())?;
    let Ok(place) = context.event_places.clone().try_acquire_owned() else {
        return Err(ApiError::Busy {
            code: "too_many_readers",
            message: format!("{MAX_EVENT_READERS} clients read the events already; try again later"),
        });
    };
    // Subscribed before the state is taken, so that nothing falls between `hello` and the first event.
    let events = context.backend.subscribe();
    let reader = Reader { events, rounds, hello: true, keep_alive: sse::keep_alive(), context, _place: place };
    Ok(sse::response(stream::unfold(reader, |mut reader| async move {
        reader.next().await.map(|bytes| (Ok(bytes), reader))
    })))
}

fn wants_rounds(query: &str) -> Result<bool, ApiError> {
    let mut rounds = true;
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("rounds", "0" | "false")) => rounds = false,
            Some(("rounds", "1" | "true")) => rounds = true,
            Some(("rounds", _)) => return Err(ApiError::value("rounds", "rounds must be 0 or 1")),
            _ => {}
        }
    }
    Ok(rounds)
}

/// One client of the event stream.
struct Reader {
    events: broadcast::Receiver<Arc<Event>>,
    rounds: bool,
    /// A `hello` is due.
    hello: bool,
    keep_alive: Interval,
    context: Context,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// The next frames; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = String::new();
        if std::mem::take(&mut self.hello) {
            self.hello(&mut out);
        }
        while out.is_empty() {
            tokio::select! {
                biased;
                () = self.context.shutdown.cancelled() => return None,
                event = self.events.recv() => match event {
                    Ok(event) => self.write(&mut out, &event),
                    Err(RecvError::Lagged(dropped)) => self.lagged(&mut out, dropped),
                    Err(RecvError::Closed) => return None,
                },
                _ = self.keep_alive.tick() => out.push_str(sse::COMMENT),
            }
        }
        for _ in 0..BATCH {
            match self.events.try_recv() {
                Ok(event) => self.write(&mut out, &event),
                Err(TryRecvError::Lagged(dropped)) => self.lagged(&mut out, dropped),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.keep_alive.reset();
        Some(out.into())
    }

    fn write(&self, out: &mut String, event: &Event) {
        if !self.rounds && matches!(event, Event::Round(_)) {
            return;
        }
        match event.data() {
            Ok(data) => sse::frame(out, Some(event.name()), &data),
            Err(error) => tracing::error!("a {} event has no JSON: {error}", event.name()),
        }
    }

    fn hello(&self, out: &mut String) {
        self.write(out, &Event::Hello(Box::new(self.context.backend.state())));
    }

    /// What was lost may have been a mode switch or the end of a request: the state is sent again.
    fn lagged(&self, out: &mut String, dropped: u64) {
        self.write(out, &Event::Lagged(Lagged { dropped }));
        self.hello(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_decides_about_rounds() {
        assert_eq!(wants_rounds(""), Ok(true));
        assert_eq!(wants_rounds("a=b&rounds=0"), Ok(false));
        assert_eq!(wants_rounds("rounds=true&x"), Ok(true));
        assert!(wants_rounds("rounds=2").is_err());
    }
}
