//! An engine that says what it is told to say, and a server on top of it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use spectop::engine::api::{Delta, EngineError, GenerateRequest, Generation};
use spectop::engine::sampling::Suggested;
use spectop::protocol::SCHEMA_VERSION;
use spectop::protocol::event::{Event, FinishReason, RequestMetrics, Sample};
use spectop::protocol::mode::{Limits, Mode, ModeChange, ModeRequest, ModeSettings};
use spectop::protocol::state::{Counters, ModelInfo, Readiness, StageTimes, State};
use spectop::server::backend::Backend;
use spectop::server::{Options, SensorSource, bind};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What happens to one submission.
pub enum Script {
    /// These deltas, at once.
    Say(Vec<Delta>),
    /// These deltas, then silence until the generation is dropped.
    Hang(Vec<Delta>),
    /// Refused.
    Refuse(EngineError),
}

/// Name of the model that is served.
pub const MODEL: &str = "toy \"7\"\\B";

/// The double. Without a script it answers "ok".
pub struct Scripted {
    pub state: Mutex<State>,
    pub scripts: Mutex<VecDeque<Script>>,
    pub submitted: Mutex<Vec<GenerateRequest>>,
    /// What the model's publishers suggest.
    pub suggested: Mutex<Suggested>,
    pub modes: Mutex<Vec<ModeRequest>>,
    pub dropped: Arc<AtomicUsize>,
    pub events: broadcast::Sender<Arc<Event>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scripted {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state()),
            scripts: Mutex::default(),
            submitted: Mutex::default(),
            suggested: Mutex::default(),
            modes: Mutex::default(),
            dropped: Arc::default(),
            events: broadcast::channel(16).0,
        })
    }

    pub fn script(&self, script: Script) {
        locked(&self.scripts).push_back(script);
    }

    pub fn readiness(&self, readiness: Readiness) {
        locked(&self.state).readiness = readiness;
    }

    pub fn last_request(&self) -> GenerateRequest {
        locked(&self.submitted).last().cloned().expect("something was submitted")
    }

    /// Waits until as many generations were dropped.
    pub async fn until_dropped(&self, count: usize) {
        let all = async {
            while self.dropped.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(2), all).await.expect("a client that goes away frees its generation");
    }
}

impl Backend for Scripted {
    fn submit(&self, request: GenerateRequest) -> Result<Generation, EngineError> {
        let id = request.id.clone().unwrap_or_else(|| "made-up".into());
        locked(&self.submitted).push(request);
        let script = locked(&self.scripts).pop_front();
        let (deltas, hang) = match script {
            None => (vec![tokens(&[1], "ok"), done("", FinishReason::Stop)], false),
            Some(Script::Say(deltas)) => (deltas, false),
            Some(Script::Hang(deltas)) => (deltas, true),
            Some(Script::Refuse(error)) => return Err(error),
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        for delta in deltas {
            let _ = sender.send(delta);
        }
        if hang {
            let dropped = self.dropped.clone();
            tokio::spawn(async move {
                sender.closed().await;
                dropped.fetch_add(1, Ordering::SeqCst);
            });
        }
        Ok(Generation { id, deltas: receiver })
    }

    fn set_mode(&self, change: ModeRequest) -> BoxFuture<'_, Result<ModeChange, EngineError>> {
        locked(&self.modes).push(change);
        let settings = {
            let mut state = locked(&self.state);
            state.mode = state.mode.with(change);
            state.mode
        };
        Box::pin(async move {
            if settings.tree_budget == 13 {
                return Err(EngineError::Invalid { field: "tree_budget", problem: "13 brings bad luck".into() });
            }
            Ok(ModeChange { settings, effective_round: 7, at_ms: 1 })
        })
    }

    fn state(&self) -> State {
        locked(&self.state).clone()
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.events.subscribe()
    }

    fn publish(&self, event: Event) {
        let _ = self.events.send(Arc::new(event));
    }

    fn sample(&self) -> Sample {
        Sample { tau: Some(3.5), per_pos: vec![0.75, 0.5], kv_used: 25, kv_capacity: 100, ..Sample::default() }
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn encode_chat(&self, messages: &[Value], switches: &Map<String, Value>) -> Result<Vec<u32>, EngineError> {
        let mut text: String = messages.iter().filter_map(|m| m["content"].as_str()).collect();
        if switches.get("enable_thinking") == Some(&Value::Bool(false)) {
            text.push_str("<think></think>");
        }
        self.encode(&text)
    }

    fn suggested_sampling(&self) -> Suggested {
        *locked(&self.suggested)
    }

    fn model_name(&self) -> Option<String> {
        locked(&self.state).target.as_ref().map(|m| m.name.clone())
    }
}

fn state() -> State {
    State {
        schema: SCHEMA_VERSION,
        server: "spectop".into(),
        version: "0".into(),
        pid: 1,
        uptime_s: 1.0,
        readiness: Readiness::Ready,
        target: Some(ModelInfo {
            name: MODEL.into(),
            architecture: "llama".into(),
            source: "embedded".into(),
            parameters: 1,
            bytes: 1,
            dtype: "F32".into(),
            layers: 1,
            vocab: 1000,
        }),
        draft: None,
        device: None,
        mode: ModeSettings { mode: Mode::Dflash, block_size: 8, tree_budget: 32, chain_seed: true },
        limits: Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 16],
            tree_budget: [1, 64],
            context: 600,
            max_running: 8,
            max_waiting: 64,
        },
        counters: Counters {
            rounds: 10,
            drafted: 70,
            accepted: 20,
            committed: 30,
            accepted_per_pos: vec![8, 6, 4],
            ..Counters::default()
        },
        running: 1,
        waiting: 2,
        notice: None,
    }
}

pub fn tokens(ids: &[u32], text: &str) -> Delta {
    Delta::Tokens { ids: ids.to_vec(), text: text.into(), margins: vec![0.5; ids.len()] }
}

pub fn done(text: &str, reason: FinishReason) -> Delta {
    Delta::Done { reason, text: text.into(), metrics: Box::new(metrics()) }
}

/// 4 tokens from 2 rounds that accepted 2 of 14 drafts.
pub fn metrics() -> RequestMetrics {
    RequestMetrics {
        mode: state().mode,
        modes: vec![(Mode::Dflash, 2)],
        prompt_tokens: 5,
        tokens: 4,
        rounds: 2,
        drafted: 14,
        accepted: 2,
        tau: Some(1.5),
        accepted_hist: vec![1, 0, 1],
        queue_ms: 0.5,
        ttft_ms: Some(1.0),
        e2e_ms: 2.0,
        decode_tok_s: None,
        prefill_tok_s: Some(100.0),
        stages: StageTimes::default(),
    }
}

/// A server that runs.
pub struct Running {
    pub backend: Arc<Scripted>,
    pub addr: SocketAddr,
    pub client: reqwest::Client,
    pub shutdown: CancellationToken,
    pub task: JoinHandle<()>,
}

impl Running {
    pub async fn start() -> Self {
        Self::with(Scripted::new(), None, None).await
    }

    pub async fn with(backend: Arc<Scripted>, key: Option<&str>, sensors: Option<SensorSource>) -> Self {
        let options = Options { host: "127.0.0.1".into(), port: 0, api_key: key.map(str::to_owned) };
        let mut bound = bind(&options).await.expect("a free port");
        if let Some(sensors) = sensors {
            bound = bound.with_sensors(sensors);
        }
        let addr = bound.addr();
        let shutdown = CancellationToken::new();
        let (engine, token) = (backend.clone(), shutdown.clone());
        let task = tokio::spawn(async move { bound.run_backend(engine, token).await.expect("a clean end") });
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { backend, addr, client, shutdown, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        self.client.get(self.url(path)).send().await.expect("an answer")
    }

    pub async fn post(&self, path: &str, body: &Value) -> reqwest::Response {
        self.client.post(self.url(path)).json(body).send().await.expect("an answer")
    }

    pub async fn put(&self, path: &str, body: &Value) -> reqwest::Response {
        self.client.put(self.url(path)).json(body).send().await.expect("an answer")
    }
}

/// Frames of an event stream: event name and data; comments are left out.
pub fn frames(text: &str) -> Vec<(Option<String>, String)> {
    text.split_terminator("\n\n")
        .filter(|frame| !frame.starts_with(':'))
        .map(|frame| {
            let field = |name: &str| frame.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned);
            (field("event: "), field("data: ").expect("a frame has data"))
        })
        .collect()
}

/// Reads an event stream as it comes.
pub struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    pub fn new(response: reqwest::Response) -> Self {
        Self { response, text: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let frame: String = self.text.drain(..end + 2).collect();
                if let Some((name, data)) = frames(&frame).pop() {
                    let event = Event::parse(&name.expect("events have names"), &data).expect("valid JSON");
                    return Some(event.expect("a known event"));
                }
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(5), self.response.chunk());
            let chunk = chunk.await.expect("something within 5 s").expect("a whole stream")?;
            self.text.push_str(std::str::from_utf8(&chunk).expect("frames are written whole"));
        }
    }

    /// The next event that this accepts; others are passed over.
    pub async fn until(&mut self, accept: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if accept(&event) {
                return event;
            }
        }
    }
}
