//! What the servers of others have in common: a state put together from what they tell, and regular questions.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::attach::Ended;
use super::error::SourceError;
use super::native::Client;
use super::probe::Probe;
use super::prom::Scrape;
use crate::protocol::SCHEMA_VERSION;
use crate::protocol::mode::{Limits, Mode, ModeSettings};
use crate::protocol::state::{Counters, ModelInfo, Readiness, State};

/// Time between two looks at the metrics.
pub(super) const METRICS_PAUSE: Duration = Duration::from_millis(500);

/// A state of a server that has none: no modes are on offer, so that nobody tries to switch, and what is not known
/// is empty.
pub(super) fn state(server: &str, found: &Probe, notice: String) -> State {
    State {
        schema: SCHEMA_VERSION,
        server: server.to_owned(),
        version: found.version.clone().unwrap_or_default(),
        pid: 0,
        uptime_s: 0.0,
        readiness: Readiness::Ready,
        target: found.model.as_deref().map(model),
        draft: None,
        device: None,
        mode: ModeSettings { mode: Mode::Off, block_size: 0, tree_budget: 0, chain_seed: false },
        limits: Limits {
            modes: Vec::new(),
            block_size: [0, 0],
            tree_budget: [0, 0],
            context: found.context.unwrap_or(0),
            max_running: 0,
            max_waiting: 0,
        },
        counters: Counters::default(),
        running: 0,
        waiting: 0,
        notice: Some(notice),
    }
}

/// A model of which only the name is known.
pub(super) fn model(name: &str) -> ModelInfo {
    ModelInfo {
        name: name.to_owned(),
        architecture: String::new(),
        source: String::new(),
        parameters: 0,
        bytes: 0,
        dtype: String::new(),
        layers: 0,
        vocab: 0,
    }
}

/// A clock that does not catch up on ticks that a slow server or reader made us miss.
pub(super) fn ticks(pause: Duration) -> Interval {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// `GET /metrics`; `None` where the server has none.
pub(super) async fn scrape(client: &Client) -> Result<Option<Scrape>, Ended> {
    let answer = client.get("/metrics").await?;
    match answer.status {
        404 | 405 => Ok(None),
        _ => Ok(Some(Scrape::parse(&String::from_utf8_lossy(&answer.success()?)))),
    }
}

/// Metrics that were there have gone: another server, or another configuration, answers now.
pub(super) fn metrics_gone() -> Ended {
    SourceError::Malformed("/metrics is gone".into()).into()
}

/// A gauge as a count.
pub(super) fn count(value: Option<f64>) -> usize {
    value.filter(|value| *value >= 0.0).map_or(0, |value| value.round() as usize)
}
