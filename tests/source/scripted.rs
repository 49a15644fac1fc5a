//! Servers that do what a test tells them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use spectop::protocol::event::Event;
use spectop::protocol::mode::{Limits, Mode, ModeSettings};
use spectop::protocol::state::{Counters, Readiness, StageTimes, State};
use spectop::protocol::trace::{Round, RoundEnd, Token};
use spectop::source::{CHANNEL_CAPACITY, Client, Connection, Update, attach};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running server; dropping it closes its port and all its connections.
pub struct Server {
    pub address: SocketAddr,
    task: JoinHandle<()>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Server {
    /// Serves on any free port.
    pub async fn start(app: Router) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), app).await
    }

    /// Serves on this port, in a runtime of its own, so that ending it ends the open connections too, as the death of
    /// a process does.
    pub async fn start_at(address: SocketAddr, app: Router) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bind = async move {
            for _ in 0..100 {
                if let Ok(listener) = TcpListener::bind(address).await {
                    return listener;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("cannot bind {address}");
        };
        let listener = runtime.spawn(bind).await.unwrap();
        let address = listener.local_addr().unwrap();
        // Small pieces must go out at once, as those of a real model server do.
        let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
        let task = runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, task, runtime: Some(runtime) }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.address.to_string(), None).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// A state as our server sends it.
pub fn state() -> State {
    State {
        schema: spectop::protocol::SCHEMA_VERSION,
        server: "spectop".into(),
        version: "0.1.0".into(),
        pid: 7,
        uptime_s: 1.0,
        readiness: Readiness::Ready,
        target: None,
        draft: None,
        device: None,
        mode: ModeSettings { mode: Mode::Dflash, block_size: 8, tree_budget: 32, chain_seed: true },
        limits: Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 16],
            tree_budget: [1, 256],
            context: 4096,
            max_running: 4,
            max_waiting: 16,
        },
        counters: Counters::default(),
        running: 0,
        waiting: 0,
        notice: None,
    }
}

pub fn round(number: u64) -> Event {
    Event::Round(Round {
        request: "r1".into(),
        round: number,
        step: number,
        mode: Mode::Off,
        proposed: Vec::new(),
        left_out: vec![],
        accepted: vec![0],
        bonus: Token::new(1, "好".as_bytes()),
        committed: vec![Token::new(1, "好".as_bytes())],
        accepted_drafts: 0,
        end: RoundEnd::Plain,
        shadow_hit: None,
        stages: StageTimes::default(),
        rows: 1,
        context: 9,
        at_ms: 1,
    })
}

/// An event as it is on the wire.
pub fn wire(event: &Event) -> String {
    format!("event: {}\ndata: {}\n\n", event.name(), event.data().unwrap())
}

/// An event stream that is fed by the channel and stays open until the sender is dropped.
pub fn sse(feed: mpsc::Receiver<String>) -> Response {
    let chunks = ReceiverStream::new(feed).map(|text| Ok::<_, Infallible>(Bytes::from(text)));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(chunks)).into_response()
}

/// Our server: a state, and an event stream for which `feed` is called once a connection.
pub fn native<F>(feed: F) -> Router
where
    F: Fn() -> mpsc::Receiver<String> + Clone + Send + Sync + 'static,
{
    Router::new()
        .route("/spec/state", get(|| async { axum::Json(state()) }))
        .route("/spec/events", get(move || std::future::ready(sse(feed()))))
}

/// A stream that says these events and then stays open and silent.
pub fn saying(texts: Vec<String>) -> mpsc::Receiver<String> {
    let (tx, rx) = mpsc::channel(16);
    tokio::spawn(async move {
        for text in texts {
            if tx.send(text).await.is_err() {
                return;
            }
        }
        tx.closed().await;
    });
    rx
}

/// A reader that is attached until it is dropped.
pub struct Attached {
    pub updates: mpsc::Receiver<Update>,
    pub task: JoinHandle<()>,
    pub stop: CancellationToken,
    _stop: DropGuard,
}

impl Attached {
    pub fn to(client: Client) -> Self {
        let (tx, updates) = mpsc::channel(CHANNEL_CAPACITY);
        let stop = CancellationToken::new();
        let task = tokio::spawn(attach(client, tx, stop.clone()));
        Self { updates, task, _stop: stop.clone().drop_guard(), stop }
    }

    pub async fn next(&mut self) -> Update {
        timeout(Duration::from_secs(10), self.updates.recv()).await.expect("an update in time").expect("an update")
    }

    /// The next change of the connection, whatever events come before.
    pub async fn connection(&mut self) -> Connection {
        loop {
            if let Update::Connection(connection) = self.next().await {
                return connection;
            }
        }
    }

    /// The next event, whatever happens to the connection.
    pub async fn event(&mut self) -> Event {
        loop {
            if let Update::Event(event) = self.next().await {
                return event;
            }
        }
    }
}
