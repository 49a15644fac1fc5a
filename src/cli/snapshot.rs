//! `spectop snapshot`: what a server is and does, once, for people or for scripts.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{ClientArgs, Exit, Failure, out};
use crate::protocol::SCHEMA_VERSION;
use crate::protocol::event::{Event, Sample};
use crate::protocol::state::{Readiness, State};
use crate::source::{self, Client, Connection, ServerKind, SourceError, Update};

/// Time for figures after the connection. A state without figures is a snapshot too.
const WAIT: Duration = Duration::from_millis(1200);

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let exit = match error {
            SourceError::Unreachable { .. } => Exit::Unreachable,
            SourceError::BadUrl { .. } | SourceError::BadKey => Exit::Usage,
            SourceError::Auth | SourceError::Server { .. } | SourceError::Malformed(_) => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

/// Prints the snapshot on the standard output.
pub fn run(client: ClientArgs, json: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let text = runtime.block_on(async {
        let ClientArgs { url, api_key } = client;
        let client = Client::new(&url, api_key.as_deref())?;
        let snapshot = take(&client).await?;
        if json { snapshot.json() } else { Ok(snapshot.text()) }
    })?;
    out::print(&text)?;
    Ok(())
}

/// What a server is and does.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its address.
    pub url: String,
    /// Which server it is.
    pub kind: ServerKind,
    /// What it runs.
    pub state: State,
    /// Its figures, if it gave any in time.
    pub sample: Option<Sample>,
}

/// Attaches for a moment.
pub async fn take(client: &Client) -> Result<Snapshot, Failure> {
    let kind = source::probe(client).await?.kind;
    // Figures of other servers are differences: the second look is the first that has any.
    let enough = if kind == ServerKind::Native { 1 } else { 2 };
    let (tx, mut updates) = mpsc::channel(source::CHANNEL_CAPACITY);
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(source::attach(client.clone(), tx, stop));

    let mut state = None;
    let mut sample = None;
    let mut samples = 0;
    let mut until = Instant::now() + Duration::from_secs(10);
    while samples < enough || state.is_none() {
        let Ok(Some(update)) = timeout_at(until, updates.recv()).await else { break };
        match update {
            Update::Event(Event::Hello(hello)) => {
                state = Some(*hello);
                until = Instant::now() + WAIT;
                if kind == ServerKind::OpenAi {
                    break;
                }
            }
            Update::Event(Event::Sample(latest)) => {
                sample = Some(*latest);
                samples += 1;
            }
            Update::Connection(Connection::Lost { reason, .. }) if state.is_none() => {
                let message = format!("cannot reach {}: {reason}", client.url());
                return Err(Failure::new(Exit::Unreachable, message));
            }
            _ => {}
        }
    }
    let state = match state {
        Some(state) => state,
        None if kind == ServerKind::Native => client.state().await?,
        None => return Err(Failure::new(Exit::Unreachable, format!("{} tells nothing", client.url()))),
    };
    Ok(Snapshot { url: client.url().to_owned(), kind, state, sample })
}

impl Snapshot {
    fn json(&self) -> Result<String, Failure> {
        let object = json!({
            "schema": SCHEMA_VERSION,
            "url": self.url,
            "kind": self.kind.name(),
            "state": self.state,
            "sample": self.sample,
        });
        serde_json::to_string_pretty(&object)
            .map(|text| text + "\n")
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot write JSON: {error}")))
    }

    /// The table for people. Values that are not known have no line, or a dash.
    fn text(&self) -> String {
        let Self { url, kind, state, sample } = self;
        let mut table = Table::default();
        table.row("server", format!("{url} ({} {})", kind.name(), state.version));
        table.row(
            "status",
            match &state.readiness {
                Readiness::Ready => "ready".into(),
                Readiness::Loading { what, fraction: Some(f) } => format!("loading {:.0} %: {what}", f * 100.0),
                Readiness::Loading { what, fraction: None } => format!("loading: {what}"),
                Readiness::Failed { reason } => format!("failed: {reason}"),
            },
        );
        if let Some(target) = &state.target {
            table.row("target", format!("{} {}", target.name, target.dtype));
        }
        if let Some(draft) = &state.draft {
            table.row("draft", format!("{} {}", draft.name, draft.dtype));
        }
        if let Some(device) = &state.device {
            table.row("device", format!("{} {} {}", device.kind, device.name, device.kernels));
        }
        if !state.limits.modes.is_empty() {
            table.row("mode", state.mode.label());
        }
        if let Some(sample) = sample {
            table.row("speed", format!("{} tok/s, {} rounds/s", number(sample.tok_s), number(sample.rounds_s)));
            let tau = sample.tau.map_or_else(|| "—".into(), |tau| format!("{tau:.2}"));
            table.row("τ", format!("{tau} over {:.1} s", sample.window_s));
            if !sample.per_pos.is_empty() {
                let shares: Vec<_> = sample.per_pos.iter().map(|share| format!("{:.0}%", share * 100.0)).collect();
                table.row("accepted", format!("{} (by position)", shares.join(" ")));
            }
            if let Some(auto) = &sample.auto {
                let does = match auto.nodes {
                    0 => format!("plain decoding, drafts again in {} rounds", auto.pause),
                    n => format!("{}, {n} drafts", auto.chosen),
                };
                let rates = [auto.off_tok_s, auto.dflash_tok_s, auto.ddtree_tok_s].map(|rate| format!("{rate:.0}"));
                table.row(
                    "auto",
                    format!("{does} (off {}, chain {}, tree {} tok/s expected)", rates[0], rates[1], rates[2]),
                );
            }
            table.row("requests", format!("{} running, {} waiting", sample.running, sample.waiting));
            if sample.kv_capacity > 0 {
                let share = 100.0 * sample.kv_used as f64 / sample.kv_capacity as f64;
                table.row("cache", format!("{} of {} tokens ({share:.0} %)", sample.kv_used, sample.kv_capacity));
            }
            for gpu in &sample.sensors.gpus {
                let gib = |bytes: Option<u64>| number(bytes.map(|bytes| bytes as f64 / f64::from(1 << 30)));
                table.row(
                    &format!("gpu {}", gpu.index),
                    format!(
                        "{}: {} %, {} of {} GiB, {} W, {} °C",
                        gpu.name,
                        number(gpu.util_percent),
                        gib(gpu.mem_used),
                        gib(gpu.mem_total),
                        number(gpu.power_w),
                        number(gpu.temp_c)
                    ),
                );
            }
        }
        if let Some(notice) = &state.notice {
            table.row("note", notice);
        }
        table.text
    }
}

#[derive(Default)]
struct Table {
    text: String,
}

impl Table {
    fn row(&mut self, name: &str, value: impl AsRef<str>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{name:<9} {}", value.as_ref().trim_end());
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "—".into(), |value| format!("{value:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::Forecast;
    use crate::protocol::mode::Mode;
    use crate::protocol::state::Counters;

    #[test]
    fn the_table_has_a_line_for_what_is_known() {
        let state = serde_json::from_value(json!({
            "schema": 1, "server": "spectop", "version": "0.1.0", "pid": 1, "uptime_s": 1.0, "status": "ready",
            "mode": {"mode": "ddtree", "block_size": 8, "tree_budget": 32, "chain_seed": true},
            "limits": {"modes": ["off", "ddtree"], "block_size": [2, 16], "tree_budget": [1, 64], "context": 4096,
                       "max_running": 1, "max_waiting": 1},
            "counters": Counters::default(), "running": 0, "waiting": 0}));
        let sample = Sample {
            auto: Some(Forecast {
                off_tok_s: 300.0,
                dflash_tok_s: 512.4,
                ddtree_tok_s: 530.6,
                chosen: Mode::Ddtree,
                nodes: 9,
                pause: 0,
                draft_ms: 1.0,
                verify_ms: 5.0,
            }),
            tau: Some(3.25),
            per_pos: vec![0.9, 0.5],
            running: 1,
            kv_used: 100,
            kv_capacity: 400,
            window_s: 10.0,
            ..Sample::default()
        };
        let snapshot = Snapshot {
            url: "http://h:1".into(),
            kind: ServerKind::Native,
            state: state.unwrap(),
            sample: Some(sample),
        };
        let expected = "\
server    http://h:1 (spectop 0.1.0)
status    ready
mode      ddtree r32
speed     — tok/s, — rounds/s
τ         3.25 over 10.0 s
accepted  90% 50% (by position)
auto      ddtree, 9 drafts (off 300, chain 512, tree 531 tok/s expected)
requests  1 running, 0 waiting
cache     100 of 400 tokens (25 %)
";
        assert_eq!(snapshot.text(), expected);
        let json: serde_json::Value = serde_json::from_str(&snapshot.json().unwrap()).unwrap();
        assert_eq!((&json["kind"], &json["schema"]), (&json!("spectop"), &json!(1)));
        assert_eq!(json["sample"]["tau"], 3.25);
    }

    #[test]
    fn absent_is_a_dash_and_never_a_zero() {
        assert_eq!(number(None), "—");
        assert_eq!(number(Some(0.0)), "0.0");
    }
}
