//! Server-sent events: frames, and a response made of them.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// A comment goes out this often while there is nothing to say, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The comment.
pub(super) const COMMENT: &str = ": keep-alive\n\n";

/// Ticks when a comment is due; reset it after every frame.
pub(super) fn keep_alive() -> Interval {
    let mut interval = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Appends a frame. `data` is JSON or a word: it has no line breaks.
pub(super) fn frame(out: &mut String, event: Option<&str>, data: &str) {
    debug_assert!(!data.contains(['\n', '\r']));
    if let Some(event) = event {
        out.push_str("event: ");
        out.push_str(event);
        out.push('\n');
    }
    out.push_str("data: ");
    out.push_str(data);
    out.push_str("\n\n");
}

/// The response; its stream is dropped as soon as the client goes away.
pub(super) fn response<S>(frames: S) -> Response
where
    S: Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static,
{
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Or nginx collects the stream before it passes it on.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
