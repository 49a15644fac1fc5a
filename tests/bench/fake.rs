//! A server that answers as a test tells it, and remembers when it sent what.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use serde_json::{Value, json};
use spectop::bench::runner::{Setup, Start};
use spectop::protocol::run::RunOptions;
use tokio::sync::mpsc;

use crate::scripted::{Server, state};

/// What one request gets.
pub enum Reply {
    /// These pieces, each so many milliseconds after the one before.
    Say(Vec<(f64, String)>),
    /// A refusal.
    Refuse(u16),
    /// The head of an answer, and then nothing.
    Hang,
}

type Script = dyn Fn(usize, &Value) -> Reply + Send + Sync;

/// Times of one answer.
#[derive(Debug, Clone)]
pub struct Sent {
    pub asked: Instant,
    pub pieces: Vec<Instant>,
}

pub struct Fake {
    script: Box<Script>,
    count: AtomicUsize,
    flying: AtomicUsize,
    /// Most requests at once.
    pub most: AtomicUsize,
    pub asked: Mutex<Vec<Value>>,
    pub sent: Mutex<Vec<Sent>>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fake {
    pub fn new(script: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            count: AtomicUsize::default(),
            flying: AtomicUsize::default(),
            most: AtomicUsize::default(),
            asked: Mutex::default(),
            sent: Mutex::default(),
        })
    }

    /// Serves as ours.
    pub async fn native(self: &Arc<Self>) -> Server {
        let app = self.app().route("/spec/state", get(|| async { axum::Json(state()) }));
        Server::start(app).await
    }

    /// Serves as some OpenAI-compatible server.
    pub async fn foreign(self: &Arc<Self>) -> Server {
        let models = json!({"object": "list", "data": [{"id": "some-model", "owned_by": "me"}]});
        Server::start(self.app().route("/v1/models", get(|| async move { axum::Json(models) }))).await
    }

    fn app(self: &Arc<Self>) -> Router {
        Router::new().route("/v1/chat/completions", post(answer)).with_state(Arc::clone(self))
    }

    pub fn requests(&self) -> usize {
        lock(&self.asked).len()
    }
}

async fn answer(State(fake): State<Arc<Fake>>, body: axum::Json<Value>) -> Response {
    let asked = Instant::now();
    let number = fake.count.fetch_add(1, Ordering::SeqCst);
    lock(&fake.asked).push(body.0.clone());
    let (pieces, hang) = match (fake.script)(number, &body.0) {
        Reply::Say(pieces) => (pieces, false),
        Reply::Hang => (vec![(0.0, chunk("x", &[1]))], true),
        Reply::Refuse(status) => {
            let status = StatusCode::from_u16(status).unwrap();
            return (status, r#"{"error":{"message":"not now"}}"#).into_response();
        }
    };
    let flying = fake.flying.fetch_add(1, Ordering::SeqCst) + 1;
    fake.most.fetch_max(flying, Ordering::SeqCst);
    let mut notes = Notes { fake, sent: Sent { asked, pieces: Vec::new() } };
    let mut pieces = pieces.into_iter();
    let mut due = Instant::now();
    // Made in the task that writes to the connection, so that a piece is on its way as soon as its time is noted.
    let body = async_stream(move || {
        let next = pieces.next();
        if let Some((after_ms, _)) = &next {
            due += Duration::from_secs_f64(after_ms / 1e3);
        }
        (next.map(|(_, text)| text), due)
    });
    let body = body.map(move |text| {
        notes.sent.pieces.push(Instant::now());
        Ok::<_, Infallible>(Bytes::from(text))
    });
    let body = if hang { Body::from_stream(body.chain(stream::pending())) } else { Body::from_stream(body) };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// The texts that `next` gives, each when it is due.
fn async_stream(next: impl FnMut() -> (Option<String>, Instant) + Send + 'static) -> impl Stream<Item = String> + Send {
    stream::unfold(next, |mut next| async move {
        let (text, due) = next();
        let text = text?;
        tokio::time::sleep_until(due.into()).await;
        Some((text, next))
    })
}

/// Notes of one answer; they are handed in when it is over or the client has gone.
struct Notes {
    fake: Arc<Fake>,
    sent: Sent,
}

impl Drop for Notes {
    fn drop(&mut self) {
        lock(&self.fake.sent).push(self.sent.clone());
        self.fake.flying.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A chunk as our server sends it with a trace.
pub fn chunk(text: &str, ids: &[u32]) -> String {
    let margins = vec![1.5; ids.len()];
    let json = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}],
                      "spectop": {"token_ids": ids, "margins": margins}, "usage": null});
    format!("data: {json}\n\n")
}

/// The end of an answer.
pub fn end(reason: &str, usage: Option<usize>) -> String {
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    let usage = usage.map_or_else(String::new, |tokens| {
        format!("data: {}\n\n", json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}}))
    });
    format!("data: {end}\n\n{usage}data: [DONE]\n\n")
}

/// A short regular answer: three chunks of two tokens.
pub fn short() -> Reply {
    Reply::Say(vec![
        (1.0, chunk("a ", &[1, 2])),
        (2.0, chunk("b ", &[3, 4])),
        (2.0, chunk("c", &[5, 6])),
        (0.0, end("stop", Some(6))),
    ])
}

pub fn options(modes: &[&str]) -> RunOptions {
    RunOptions {
        suites: vec!["story".into()],
        prompts: None,
        modes: modes.iter().map(|mode| (*mode).to_owned()).collect(),
        repeats: 2,
        concurrency: vec![1],
        temperature: 0.0,
        max_tokens: 32,
        seed: 7,
        timeout_s: 20.0,
    }
}

pub fn setup(server: Option<&Server>, folder: &std::path::Path, start: Start) -> Setup {
    Setup {
        start,
        client: server.map(Server::client),
        api_key: None,
        prefix_cache: None,
        folder: folder.to_owned(),
        sensors: None,
    }
}

/// Does a run that nobody watches.
pub async fn run(setup: Setup) -> Result<spectop::protocol::run::Run, spectop::bench::runner::BenchError> {
    let (tx, mut rx) = mpsc::channel(4);
    let (_handle, control) = spectop::bench::runner::control();
    let (run, ()) =
        tokio::join!(spectop::bench::runner::run(setup, tx, control), async { while rx.recv().await.is_some() {} });
    run
}
