//! The servers of a run: what answers there, and what it can do.

use std::path::Path;
use std::time::Duration;

use super::BenchError;
use crate::bench::modes::Offer;
use crate::protocol::mode::Mode;
use crate::protocol::run::{Environment, ModeSpec};
use crate::protocol::state::{ModelInfo, Readiness, State};
use crate::source::{Client, Probe, ServerKind, probe};

/// Pause between two looks at a server that is loading.
const LOOK: Duration = Duration::from_millis(200);

/// Tokens that make a server's own counters good for an estimate.
const ENOUGH_TOKENS: u64 = 100;

/// A server.
pub(super) struct Endpoint {
    pub client: Client,
    probe: Probe,
    /// Ours only.
    state: Option<State>,
}

impl Endpoint {
    /// Asks who answers; waits while our server is loading.
    pub async fn open(client: Client) -> Result<Self, BenchError> {
        let probe = probe(&client).await?;
        let state = if probe.kind == ServerKind::Native { Some(ready_state(&client).await?) } else { None };
        Ok(Self { client, probe, state })
    }

    pub fn is_native(&self) -> bool {
        self.probe.kind == ServerKind::Native
    }

    /// Whether the server runs on this machine.
    pub fn is_local(&self) -> bool {
        let host = self.client.url().split_once("://").map_or(self.client.url(), |(_, rest)| rest);
        ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local))
    }

    /// Whether it sends a running count when asked to.
    pub fn counts_continuously(&self) -> bool {
        matches!(self.probe.kind, ServerKind::Vllm | ServerKind::Sglang)
    }

    /// Model to name in requests: ours needs none.
    pub fn asked_model(&self) -> Option<String> {
        self.probe.model.clone()
    }

    /// Model that must answer.
    pub fn model(&self) -> Option<String> {
        let target = self.state.as_ref().and_then(|state| state.target.as_ref());
        target.map(|target| target.name.clone()).or_else(|| self.probe.model.clone())
    }

    pub fn offer(&self) -> Offer {
        Offer { switch: self.state.as_ref().map(|state| (state.limits.clone(), state.mode)) }
    }

    /// Tokens per second so far, from the server's own counters.
    pub fn speed(&self) -> Option<f64> {
        let counters = &self.state.as_ref()?.counters;
        let seconds = counters.stage_seconds.total();
        (counters.committed >= ENOUGH_TOKENS && seconds > 0.0).then(|| counters.committed as f64 / seconds)
    }

    /// Whether requests of the server may run side by side.
    pub fn max_running(&self) -> Option<usize> {
        self.state.as_ref().map(|state| state.limits.max_running).filter(|most| *most > 0)
    }

    pub fn notice(&self) -> Option<String> {
        self.state.as_ref()?.notice.clone()
    }

    pub fn environment(&self) -> Environment {
        let state = self.state.as_ref();
        let version = state.map(|state| state.version.clone()).or_else(|| self.probe.version.clone());
        Environment {
            server: self.probe.kind.name().to_owned(),
            server_version: version,
            model: self.model(),
            target: state.and_then(|state| state.target.clone()).map(without_folders),
            draft: state.and_then(|state| state.draft.clone()).map(without_folders),
            device: state.and_then(|state| state.device.clone()),
            client: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            sensors_before: None,
            sensors_after: None,
        }
    }
}

async fn ready_state(client: &Client) -> Result<State, BenchError> {
    loop {
        let state = client.state().await?;
        match &state.readiness {
            Readiness::Ready => return Ok(state),
            Readiness::Failed { reason } => return Err(BenchError::NotReady(reason.clone())),
            Readiness::Loading { .. } => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Opens the servers that modes name; returns all servers, and which of them is whose.
pub(super) async fn open_all(
    main: Option<Endpoint>,
    specs: &[ModeSpec],
    api_key: Option<&str>,
) -> Result<(Vec<Endpoint>, Vec<usize>), BenchError> {
    let has_main = main.is_some();
    let mut endpoints: Vec<Endpoint> = main.into_iter().collect();
    let mut by_mode = Vec::with_capacity(specs.len());
    for spec in specs {
        let at = match &spec.url {
            None if has_main => 0,
            None => return Err(BenchError::NoServer(spec.label.clone())),
            Some(url) => {
                let client = Client::new(url, api_key)?;
                let known = endpoints.iter().position(|endpoint| endpoint.client.url() == client.url());
                if known.is_none() {
                    endpoints.push(Endpoint::open(client).await?);
                }
                known.unwrap_or(endpoints.len() - 1)
            }
        };
        // Our server may have lost its drafter since the run was begun.
        if let Some((limits, _)) = endpoints[at].offer().switch
            && spec.request.mode.is_some_and(|mode: Mode| !limits.modes.contains(&mode))
        {
            return Err(BenchError::NotReady(format!("it does not offer {} any more", spec.label)));
        }
        by_mode.push(at);
    }
    Ok((endpoints, by_mode))
}

/// A run is made to be sent: where a model lies on this machine is nobody's business, and says nothing about it.
fn without_folders(mut model: ModelInfo) -> ModelInfo {
    if let Some(name) = Path::new(&model.source).file_name() {
        model.source = name.to_string_lossy().into_owned();
    }
    model
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_names() {
        let model = |source: &str| ModelInfo {
            name: String::new(),
            architecture: String::new(),
            source: source.into(),
            parameters: 0,
            bytes: 0,
            dtype: String::new(),
            layers: 0,
            vocab: 0,
        };
        assert_eq!(without_folders(model("/home/me/secret/a.gguf")).source, "a.gguf");
        assert_eq!(without_folders(model("embedded")).source, "embedded");
    }
}
