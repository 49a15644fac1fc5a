//! A load generator in the place of the engine, behind the real server: real HTTP, real event streams, made-up rounds at
//! an exact rate. Nothing is generated; what is measured with it is the dashboard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::engine::api::{EngineError, GenerateRequest, Generation};
use crate::protocol::SCHEMA_VERSION;
use crate::protocol::event::{Event, RequestEvent, RequestPhase, Sample};
use crate::protocol::mode::{Limits, Mode, ModeChange, ModeRequest, ModeSettings};
use crate::protocol::state::{Counters, DeviceInfo, ModelInfo, Readiness, StageTimes, State};
use crate::protocol::trace::{Proposed, Round, RoundEnd, Token};
use crate::server::backend::Backend;

/// Events that a reader may lag behind, as in the engine.
const CHANNEL: usize = 2048;
/// Rounds after which a request ends and the next one begins.
const ROUNDS: u64 = 400;
/// The text that is written again and again, a token a word.
const TEXT: &str =
    "A speculative decoder guesses several tokens at once and lets the target check them in one forward pass .";

/// See the module.
pub struct Load {
    events: broadcast::Sender<Arc<Event>>,
    /// Rounds a second, and tokens a round.
    rate: AtomicU32,
    tokens: AtomicU32,
    /// Rounds sent since the start.
    sent: AtomicU64,
    started: Instant,
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

impl Load {
    /// A generator that is idle.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            events: broadcast::channel(CHANNEL).0,
            rate: AtomicU32::new(0),
            tokens: AtomicU32::new(1),
            sent: AtomicU64::new(0),
            started: Instant::now(),
        })
    }

    /// Sends so many rounds a second with so many tokens each; 0 is idle.
    pub fn set(&self, rounds_s: u32, tokens: u32) {
        self.tokens.store(tokens.max(1), Ordering::SeqCst);
        self.rate.store(rounds_s, Ordering::SeqCst);
    }

    /// Rounds sent since the start.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Sends so many rounds at once: more than any reader can take, so that the server must leave some out.
    pub fn flood(&self, rounds: u64) {
        let first = self.sent.fetch_add(rounds, Ordering::SeqCst);
        for n in first..first + rounds {
            self.round(n);
        }
    }

    /// Sends rounds as set, until it is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut ticks = interval(Duration::from_millis(5));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut due = 0.0;
        loop {
            ticks.tick().await;
            due += f64::from(self.rate.load(Ordering::SeqCst)) * 0.005;
            while due >= 1.0 {
                due -= 1.0;
                let n = self.sent.fetch_add(1, Ordering::SeqCst);
                self.round(n);
            }
        }
    }

    fn round(&self, n: u64) {
        let (request, step) = (n / ROUNDS, n % ROUNDS);
        let id = format!("load-{request}");
        if step == 0 {
            if let Some(before) = request.checked_sub(1) {
                self.phase(&format!("load-{before}"), RequestPhase::Finished);
            }
            self.phase(&id, RequestPhase::Started);
        }
        self.publish(Event::Round(round(id, n, step, self.tokens.load(Ordering::SeqCst) as usize)));
    }

    fn phase(&self, id: &str, phase: RequestPhase) {
        self.publish(Event::Request(RequestEvent {
            id: id.to_owned(),
            phase,
            at_ms: now_ms(),
            prompt_tokens: 12,
            max_tokens: 4096,
            prompt_tail: (phase == RequestPhase::Started).then(|| "What does a load generator write?".into()),
            token: None,
            finish_reason: None,
            metrics: None,
            error: None,
        }));
    }
}

/// A round that commits so many tokens: drafts that were accepted, and the bonus; one more draft was rejected.
fn round(request: String, n: u64, step: u64, tokens: usize) -> Round {
    let words: Vec<&str> = TEXT.split(' ').collect();
    let token = |i: usize| {
        let at = (n as usize * tokens + i) % words.len();
        Token::new(at as u32, format!("{}{}", words[at], if at + 1 == words.len() { "\n" } else { " " }).as_bytes())
    };
    let committed: Vec<Token> = (0..tokens).map(token).collect();
    let drafts = tokens - 1;
    let mut proposed: Vec<Proposed> = committed[..drafts]
        .iter()
        .enumerate()
        .map(|(i, t)| Proposed { token: t.clone(), logprob: -0.2, parent: i, depth: i + 1 })
        .collect();
    if drafts > 0 {
        let wrong = Token::new(99, b"wrong ");
        proposed.push(Proposed { token: wrong, logprob: -0.9, parent: drafts, depth: tokens });
    }
    Round {
        request,
        round: n,
        step,
        mode: if drafts > 0 { Mode::Dflash } else { Mode::Off },
        proposed,
        left_out: Vec::new(),
        accepted: (0..=drafts).collect(),
        bonus: committed[drafts].clone(),
        committed,
        accepted_drafts: drafts,
        end: if drafts > 0 { RoundEnd::Mismatch } else { RoundEnd::Plain },
        shadow_hit: None,
        stages: StageTimes { draft: 2.0, build: 0.1, verify: 7.5, commit: 0.2 },
        rows: tokens,
        context: step as usize * tokens,
        at_ms: now_ms(),
    }
}

fn settings() -> ModeSettings {
    ModeSettings { mode: Mode::Dflash, block_size: 8, tree_budget: 16, chain_seed: true }
}

impl Backend for Load {
    fn submit(&self, _: GenerateRequest) -> Result<Generation, EngineError> {
        Err(EngineError::Internal("this is a load generator: it answers no prompts".into()))
    }

    fn set_mode(&self, _: ModeRequest) -> BoxFuture<'_, Result<ModeChange, EngineError>> {
        Box::pin(async { Err(EngineError::Internal("this is a load generator: it has one mode".into())) })
    }

    fn state(&self) -> State {
        State {
            schema: SCHEMA_VERSION,
            server: "spectop".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            readiness: Readiness::Ready,
            target: Some(ModelInfo {
                name: "load-generator".into(),
                architecture: "none".into(),
                source: "made-up rounds".into(),
                parameters: 0,
                bytes: 0,
                dtype: "none".into(),
                layers: 0,
                vocab: 100,
            }),
            draft: None,
            device: Some(DeviceInfo {
                kind: "none".into(),
                name: "load generator".into(),
                threads: 0,
                kernels: "none".into(),
            }),
            mode: settings(),
            limits: Limits {
                modes: vec![Mode::Dflash],
                block_size: [2, 16],
                tree_budget: [1, 64],
                context: 8192,
                max_running: 1,
                max_waiting: 0,
            },
            counters: Counters::default(),
            running: usize::from(self.rate.load(Ordering::SeqCst) > 0),
            waiting: 0,
            notice: Some("load generator: nothing here is generated".into()),
        }
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.events.subscribe()
    }

    fn publish(&self, event: Event) {
        // Nobody reads while the dashboard is not there yet.
        let _ = self.events.send(Arc::new(event));
    }

    fn sample(&self) -> Sample {
        let (rounds, tokens) = (self.rate.load(Ordering::SeqCst), self.tokens.load(Ordering::SeqCst));
        let rate = (rounds > 0).then(|| f64::from(rounds) * f64::from(tokens));
        Sample {
            at_ms: now_ms(),
            window_s: 5.0,
            tok_s: rate,
            decode_tok_s: rate,
            rounds_s: (rounds > 0).then(|| f64::from(rounds)),
            tau: (rounds > 0).then(|| f64::from(tokens)),
            per_pos: if rounds > 0 { (0..tokens).map(|d| 1.0 / f64::from(d + 1)).collect() } else { Vec::new() },
            running: usize::from(rounds > 0),
            kv_used: (self.sent() % 4000) as usize,
            kv_capacity: 8192,
            generated_total: self.sent() * u64::from(tokens),
            ..Sample::default()
        }
    }

    fn encode(&self, _: &str) -> Result<Vec<u32>, EngineError> {
        Ok(vec![0])
    }

    fn encode_chat(&self, _: &[Value], _: &Map<String, Value>) -> Result<Vec<u32>, EngineError> {
        Ok(vec![0])
    }

    fn model_name(&self) -> Option<String> {
        Some("load-generator".into())
    }
}
