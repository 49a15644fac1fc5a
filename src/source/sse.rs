//! Server-sent events: one connection, read to its end. Reconnecting is the caller's business, because a metrics
//! stream wants it and a completion must never be sent twice.
//!
//! The wire format is parsed by eventsource-client, hidden here. What this module adds: an arrival time per body
//! chunk, a bound on the size of an event, the content type checked, and errors in words.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use eventsource_client::{BoxStream, Client as _, ClientBuilder, Error, ReconnectOptions, SSE};
use futures_util::stream::{Stream, StreamExt};
use launchdarkly_sdk_transport::{ByteStream, HttpTransport, Request, ResponseFuture, TransportError};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{SourceError, explain_cause};

/// Longest event, in bytes between two blank lines.
pub const EVENT_LIMIT: usize = 8 << 20;

/// Bytes of an error body that are read.
const ERROR_BODY_LIMIT: usize = 64 << 10;

/// How long an error body may take.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// One thing that the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An event.
    Event(Message),
    /// A comment, which servers send to keep a connection alive.
    Comment,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its name; `message` when the server gave none.
    pub name: String,
    /// Its data; several `data:` lines are joined by line breaks.
    pub data: String,
    /// When the body chunk that completed it was read.
    pub at: std::time::Instant,
}

/// An open connection. Dropping it closes it.
pub struct EventStream {
    inner: BoxStream<eventsource_client::Result<SSE>>,
    arrival: Arrival,
    url: String,
    // A line that cannot be parsed ends the stream, but events before it in the same chunk come first.
    failed: Option<SourceError>,
    ended: bool,
}

/// When the latest body chunk was read.
#[derive(Debug, Clone)]
struct Arrival(Arc<Mutex<Instant>>);

impl Arrival {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
    fn stamp(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
    fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    /// Connects and waits for the answer's head. With a body the request is a POST of JSON, without one a GET.
    pub async fn open<T: HttpTransport>(transport: T, url: &str, json: Option<String>) -> Result<Self, SourceError> {
        let arrival = Arrival::now();
        let inner = build(transport, url, json, arrival.clone())
            .map_err(|error| SourceError::BadUrl { url: url.to_owned(), reason: error.to_string() })?;
        let mut stream = Self { inner, arrival, url: url.to_owned(), failed: None, ended: false };
        match stream.inner.next().await {
            Some(Ok(SSE::Connected(details))) => {
                let kind = details.response().get_header_value("content-type").ok().flatten().unwrap_or("unknown");
                if kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream") {
                    stream.arrival.stamp();
                    return Ok(stream);
                }
                Err(SourceError::Malformed(format!("{url} is no event stream (its type is {kind})")))
            }
            // The parser speaks only after `Connected`.
            Some(Ok(_)) | None => Err(SourceError::Malformed("the connection ended before it began".into())),
            Some(Err(error)) => Err(stream.explain(error).await),
        }
    }

    /// The next frame; `None` after a regular end. After an error the stream is over.
    pub async fn next(&mut self) -> Option<Result<Frame, SourceError>> {
        while !self.ended {
            match self.inner.next().await {
                Some(Ok(SSE::Event(event))) => {
                    let at = self.arrival.get().into_std();
                    return Some(Ok(Frame::Event(Message { name: event.event_type, data: event.data, at })));
                }
                Some(Ok(SSE::Comment(_))) => return Some(Ok(Frame::Comment)),
                Some(Ok(SSE::Connected(_))) => {}
                Some(Err(Error::Eof)) | None => self.ended = true,
                Some(Err(error @ (Error::InvalidLine(_) | Error::InvalidEvent))) => {
                    self.failed = Some(SourceError::Malformed(error.to_string()));
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(self.explain(error).await));
                }
            }
        }
        self.failed.take().map(Err)
    }

    /// Like [`EventStream::next`], but an error once no byte has come for `idle`. Time in which nobody asked does not
    /// count: a slow reader must not take its own pause for the server's.
    pub async fn next_within(&mut self, idle: Duration) -> Option<Result<Frame, SourceError>> {
        let mut last = Instant::now();
        loop {
            match timeout_at(last + idle, self.next()).await {
                Ok(frame) => return frame,
                // Bytes of an event that is not complete yet.
                Err(_) if self.arrival.get() > last => last = self.arrival.get(),
                Err(_) => {
                    self.ended = true;
                    let reason = format!("no data for {:.1} s", idle.as_secs_f64());
                    return Some(Err(SourceError::Unreachable { url: self.url.clone(), reason }));
                }
            }
        }
    }

    async fn explain(&self, error: Error) -> SourceError {
        let lost = |reason: String| SourceError::Unreachable { url: self.url.clone(), reason };
        match error {
            Error::UnexpectedResponse(response, body) => {
                let body = read_some(body.into_stream()).await;
                SourceError::from_status(response.status(), &body)
            }
            Error::MaxRedirectLimitReached(_) => SourceError::from_status(307, b""),
            Error::Transport(error) => match error.inner().downcast_ref::<io::Error>() {
                Some(io) if io.kind() == io::ErrorKind::InvalidData => SourceError::Malformed(io.to_string()),
                _ => lost(explain_cause(error.inner())),
            },
            Error::UnexpectedEof => lost("the server closed the connection in the middle of an event".into()),
            Error::TimedOut => lost("no answer in time".into()),
            Error::InvalidParameter(error) => SourceError::BadUrl { url: self.url.clone(), reason: error.to_string() },
            error => SourceError::Malformed(error.to_string()),
        }
    }
}

fn build<T: HttpTransport>(
    transport: T,
    url: &str,
    json: Option<String>,
    arrival: Arrival,
) -> eventsource_client::Result<BoxStream<eventsource_client::Result<SSE>>> {
    let reconnect = ReconnectOptions::reconnect(false).retry_initial(false).build();
    let mut builder = ClientBuilder::for_url(url)?.reconnect(reconnect).redirect_limit(0);
    if let Some(json) = json {
        builder = builder.method("POST".into()).header("content-type", "application/json")?.body(json);
    }
    Ok(builder.build_with_transport(Guarded { inner: transport, arrival }).stream())
}

async fn read_some(mut body: ByteStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What has come when the time is over is message enough.
    let _ = timeout(ERROR_BODY_WAIT, async {
        while let Some(Ok(chunk)) = body.next().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() >= ERROR_BODY_LIMIT {
                break;
            }
        }
    })
    .await;
    bytes
}

/// A transport whose bodies are stamped and bounded.
#[derive(Debug, Clone)]
struct Guarded<T> {
    inner: T,
    arrival: Arrival,
}

impl<T: HttpTransport> HttpTransport for Guarded<T> {
    fn request(&self, request: Request<Option<Bytes>>) -> ResponseFuture {
        let answer = self.inner.request(request);
        let arrival = self.arrival.clone();
        Box::pin(async move {
            Ok(answer.await?.map(|inner| {
                let body: ByteStream = Box::pin(GuardedBody { inner, arrival, bound: Bound::default() });
                body
            }))
        })
    }
}

struct GuardedBody {
    inner: ByteStream,
    arrival: Arrival,
    bound: Bound,
}

impl Stream for GuardedBody {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.as_mut().poll_next(cx);
        if let Poll::Ready(Some(Ok(chunk))) = &polled {
            self.arrival.stamp();
            if !self.bound.admit(chunk) {
                let text = format!("an event is longer than {} MiB", EVENT_LIMIT >> 20);
                let error = io::Error::new(io::ErrorKind::InvalidData, text);
                return Poll::Ready(Some(Err(TransportError::new(error))));
            }
        }
        polled
    }
}

/// Counts the bytes since the last blank line: what the parser has to keep until an event is complete.
#[derive(Debug, Default)]
struct Bound {
    pending: usize,
    line_is_empty: bool,
}

impl Bound {
    fn admit(&mut self, chunk: &[u8]) -> bool {
        for &byte in chunk {
            self.pending += 1;
            match byte {
                b'\n' if self.line_is_empty => self.pending = 0,
                b'\n' => self.line_is_empty = true,
                // Lines that end in a lone CR are not told apart; the bound is then on the whole run.
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
        }
        self.pending <= EVENT_LIMIT
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
