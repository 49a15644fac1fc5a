//! A made-up but realistic session, as typed events.

use std::time::Duration;

use spectop::protocol::event::{
    Event, FinishReason, Latencies, Level, LogLine, Percentiles, RequestEvent, RequestPhase, Sample,
};
use spectop::protocol::mode::{Limits, Mode, ModeChange, ModeSettings};
use spectop::protocol::sensor::{GpuReading, HostReading, Sensors};
use spectop::protocol::state::{Counters, DeviceInfo, ModelInfo, Readiness, StageTimes, State};
use spectop::protocol::trace::{Proposed, Round, RoundEnd, Token};
use spectop::source::{Connection, ServerKind, Update};
use spectop::ui::app::{Look, Model, Msg};
use spectop::ui::color::Depth;

pub const START_MS: u64 = 1_796_000_000_000;

pub const TEXT: &str = "A hash map keeps its entries in buckets. To find a key, it hashes the key, takes the bucket that \
the hash names, and compares the keys there one by one.\n\n1. Hash the key: `h = hash(key)`.\n2. Take the bucket `h % \
n`.\n3. Compare: 漢字 and émojis 👩‍💻 are keys too.\n\n```rust\nfn get(&self, key: &K) -> Option<&V> {\n    \
let bucket = &self.buckets[self.index(key)];\n    bucket.iter().find(|(k, _)| k == key).map(|(_, v)| v)\n}\n```\n\nWhen \
the table grows too full, it is rebuilt with twice as many buckets, and every entry moves to its new place. That costs \
time once, but over many insertions the cost per insertion stays constant.\n";

pub fn settings(mode: Mode) -> ModeSettings {
    ModeSettings { mode, block_size: 8, tree_budget: 32, chain_seed: true }
}

pub fn state(readiness: Readiness, notice: Option<&str>) -> State {
    let model = |name: &str, architecture: &str| ModelInfo {
        name: name.into(),
        architecture: architecture.into(),
        source: "embedded".into(),
        parameters: 134_515_008,
        bytes: 92_000_000,
        dtype: "Q4_1+Q8_0".into(),
        layers: 30,
        vocab: 49_152,
    };
    State {
        schema: 1,
        server: "spectop".into(),
        version: "0.1.0".into(),
        pid: 4711,
        uptime_s: 134.0,
        readiness,
        target: Some(model("SmolLM2-135M-Instruct", "llama")),
        draft: Some(model("smollm2-dflash-b8", "dflash")),
        device: Some(DeviceInfo {
            kind: "cpu".into(),
            name: "Example CPU".into(),
            threads: 2,
            kernels: "avx512-vnni".into(),
        }),
        mode: settings(Mode::Off),
        limits: Limits {
            modes: Mode::ALL.to_vec(),
            block_size: [2, 16],
            tree_budget: [1, 256],
            context: 8192,
            max_running: 8,
            max_waiting: 64,
        },
        counters: Counters::default(),
        running: 0,
        waiting: 0,
        notice: notice.map(str::to_owned),
    }
}

pub fn host() -> Sensors {
    Sensors {
        gpus: Vec::new(),
        host: HostReading {
            cpu_name: "AMD EPYC 9654 96-Core Processor".into(),
            cores: 2,
            cpu_percent: Some(93.4),
            per_core: vec![97.0, 89.8],
            mem_used: Some(3_328_599_654),
            mem_total: Some(8_375_186_227),
            rss: Some(220_200_960),
            no_gpu_reason: Some("libnvidia-ml.so.1 was not found: no NVIDIA driver".into()),
        },
    }
}

pub fn gpus(count: u32) -> Sensors {
    let mut sensors = host();
    sensors.host.no_gpu_reason = None;
    sensors.gpus = (0..count)
        .map(|index| GpuReading {
            index,
            name: "NVIDIA H200".into(),
            uuid: None,
            util_percent: if index == 1 { None } else { Some(93.0) },
            mem_used: Some(65_700_000_000),
            mem_total: Some(150_100_000_000),
            power_w: Some(412.3),
            power_limit_w: Some(700.0),
            temp_c: Some(61.0),
            sm_mhz: Some(1755),
            throttle: if index == 0 { vec!["power cap".into()] } else { Vec::new() },
            energy_j: None,
        })
        .collect();
    sensors
}

pub fn sample(at_ms: u64, mode: Mode, wobble: f64, sensors: Sensors) -> Sample {
    let (tok_s, tau, depth) = match mode {
        Mode::Off => (70.0, 1.0, 0),
        Mode::Dflash => (212.0, 3.9, 7),
        _ => (268.0, 5.1, 7),
    };
    let per = |n, p50: f64| Percentiles {
        n,
        p50: Some(p50),
        p95: (n >= 20).then_some(p50 * 1.4),
        p99: (n >= 100).then_some(p50 * 1.9),
    };
    Sample {
        at_ms,
        window_s: 5.0,
        tok_s: Some(tok_s * (1.0 + 0.25 * wobble)),
        decode_tok_s: Some(tok_s),
        prefill_tok_s: Some(812.0),
        rounds_s: Some(tok_s / tau),
        tau: Some(tau),
        per_pos: (0..depth).map(|k| 0.96f64.powi(k) * (1.0 - 0.09 * f64::from(k))).collect(),
        stages: Some(StageTimes {
            draft: if mode == Mode::Off { 0.0 } else { 3.1 },
            build: if mode == Mode::Ddtree { 0.42 } else { 0.0 },
            verify: if mode == Mode::Ddtree { 14.2 } else { 13.4 },
            commit: 0.63,
        }),
        rows: Some(if mode == Mode::Ddtree { 33.0 } else { 8.0 }),
        shadow_rescue: (mode == Mode::Shadow).then_some(0.34),
        latency: Latencies { ttft: per(12, 38.2), itl: per(900, 4.6), step: per(240, 17.9), e2e: per(12, 2130.0) },
        auto: None,
        running: 1,
        waiting: 0,
        kv_used: 412,
        kv_capacity: 8192,
        generated_total: 900,
        sensors,
    }
}

pub fn request(id: &str, phase: RequestPhase, at_ms: u64) -> RequestEvent {
    RequestEvent {
        id: id.into(),
        phase,
        at_ms,
        prompt_tokens: 21,
        max_tokens: 512,
        prompt_tail: (phase == RequestPhase::Started).then(|| "How does a hash map find a key?".into()),
        token: None,
        finish_reason: (phase == RequestPhase::Finished).then_some(FinishReason::Stop),
        metrics: None,
        error: None,
    }
}

/// The text in pieces as a tokenizer would cut it: words with their leading space, some characters split into bytes.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut word: Vec<u8> = Vec::new();
    for c in text.chars() {
        let mut bytes = [0; 4];
        let encoded = c.encode_utf8(&mut bytes).as_bytes();
        if !c.is_ascii() {
            if !word.is_empty() {
                out.push(Token::new(1, &std::mem::take(&mut word)));
            }
            out.extend(encoded.iter().map(|b| Token::new(2, &[*b])));
            continue;
        }
        if (!c.is_alphanumeric() || word.len() > 6) && !word.is_empty() && word != b" " {
            out.push(Token::new(1, &std::mem::take(&mut word)));
        }
        word.extend_from_slice(encoded);
        if c == '\n' {
            out.push(Token::new(1, &std::mem::take(&mut word)));
        }
    }
    if !word.is_empty() {
        out.push(Token::new(1, &word));
    }
    out
}

/// A round that takes `take` tokens: all but the last are accepted drafts; the last is the bonus.
pub fn round(id: &str, step: u64, mode: Mode, taken: &[Token], at_ms: u64) -> Round {
    let drafts = taken.len().saturating_sub(1);
    let mut proposed: Vec<Proposed> = Vec::new();
    if mode != Mode::Off {
        for (i, token) in taken[..drafts].iter().enumerate() {
            proposed.push(Proposed { token: token.clone(), logprob: -0.1, parent: i, depth: i + 1 });
        }
        for (i, wrong) in [" the", " other"].iter().enumerate() {
            let parent = drafts + i;
            proposed.push(Proposed {
                token: Token::new(9, wrong.as_bytes()),
                logprob: -0.7,
                parent,
                depth: parent + 1,
            });
        }
    }
    let sample = sample(at_ms, mode, 0.0, Sensors::default());
    Round {
        request: id.into(),
        round: step.saturating_add(1000),
        step,
        mode,
        proposed,
        left_out: Vec::new(),
        accepted: (0..=drafts).collect(),
        bonus: taken.last().cloned().unwrap_or_default(),
        committed: taken.to_vec(),
        accepted_drafts: if mode == Mode::Off { 0 } else { drafts },
        end: if mode == Mode::Off { RoundEnd::Plain } else { RoundEnd::Mismatch },
        shadow_hit: None,
        stages: sample.stages.unwrap_or_default(),
        rows: 8,
        context: 100,
        at_ms,
    }
}

pub fn look(theme: &str) -> Look {
    Look::new(Some(theme), Depth::True, false).expect("a built-in theme")
}

/// A fresh model of this size.
pub fn model(theme: &str, columns: u16, rows: u16) -> Model {
    let mut model = Model::new("http://127.0.0.1:8080", look(theme), START_MS);
    model.update(Msg::Resize(columns, rows));
    model
}

/// Feeds a model with a whole session: loading, a request that goes through three modes, samples all along. Returns the
/// time at its end.
pub fn play(model: &mut Model, sensors: &Sensors, notice: Option<&str>) -> u64 {
    let event = |e| Msg::Source(Update::Event(e));
    let mut now = START_MS;
    model.update(Msg::LocalSensors(host()));
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(event(Event::Hello(Box::new(state(Readiness::Ready, notice)))));
    model.update(event(Event::Log(LogLine {
        at_ms: now,
        level: Level::Info,
        source: "engine".into(),
        message: "target and drafter loaded in 0.8 s (avx512-vnni, 2 threads)".into(),
    })));
    model.update(event(Event::Request(request("r-1", RequestPhase::Started, now))));
    let all = tokens(&TEXT.repeat(3));
    let (mut at, mut step) = (0, 0u64);
    for (mode, rounds) in [(Mode::Off, 90), (Mode::Dflash, 30), (Mode::Ddtree, 60)] {
        model.update(event(Event::Mode(ModeChange {
            settings: settings(mode),
            effective_round: step.saturating_add(1000),
            at_ms: now,
        })));
        for n in 0..rounds {
            let take = match mode {
                Mode::Off => 1,
                Mode::Dflash => 2 + (n * 7) % 4,
                _ => 3 + (n * 5) % 5,
            };
            let taken: Vec<Token> = (0..take).map(|i| all[(at + i) % all.len()].clone()).collect();
            at += take;
            model.update(event(Event::Round(round("r-1", step, mode, &taken, now))));
            step += 1;
            now += 125;
            if n % 2 == 0 {
                model.update(Msg::Tick { now_ms: now });
                let wobble = (f64::from(n as u32) * 0.9).sin();
                model.update(event(Event::Sample(Box::new(sample(now, mode, wobble, sensors.clone())))));
            }
        }
    }
    model.update(Msg::Tick { now_ms: now });
    now
}

/// The server goes away.
pub fn lose(model: &mut Model) {
    model.update(Msg::Source(Update::Connection(Connection::Lost {
        reason: "connection refused".into(),
        retry_in: Duration::from_secs(4),
    })));
}
