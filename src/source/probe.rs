//! Finding out which server answers.

use serde_json::Value;

use super::error::SourceError;
use super::native::Client;
use super::prom::Scrape;
use super::{ServerKind, sglang};

/// What a first look at a server told.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Which server it is.
    pub kind: ServerKind,
    /// Name of the served model, from `/v1/models` (other servers than ours).
    pub model: Option<String>,
    /// Tokens a sequence may have, where the server tells (other servers than ours).
    pub context: Option<usize>,
    /// The server's version, where it tells (other servers than ours).
    pub version: Option<String>,
}

/// Asks until it is clear which server answers.
pub async fn probe(client: &Client) -> Result<Probe, SourceError> {
    let state = client.get("/spec/state").await?;
    match state.status {
        // Only our server guards or fails this path; behind a gateway a 5xx means that nobody is there.
        401 | 403 | 300..=399 | 500.. => return Err(SourceError::from_status(state.status, &state.body)),
        _ => {}
    }
    if state.json().is_some_and(|json| json["server"] == "spectop") {
        return Ok(Probe { kind: ServerKind::Native, model: None, context: None, version: None });
    }

    let models = client.get("/v1/models").await?;
    let first = models.json().and_then(|json| json["data"].get(0).cloned()).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let found = |kind, version| Probe {
        kind,
        model: text(&first["id"]),
        context: first["max_model_len"].as_u64().and_then(|n| usize::try_from(n).ok()),
        version,
    };

    let metrics = client.get("/metrics").await?;
    let scrape =
        if metrics.is_success() { Scrape::parse(&String::from_utf8_lossy(&metrics.body)) } else { Scrape::default() };
    let owner = first["owned_by"].as_str().unwrap_or_default();
    if scrape.has_prefix("sglang:") || owner == "sglang" {
        let version = sglang::server_info(client).await?.and_then(|info| text(&info["version"]));
        return Ok(found(ServerKind::Sglang, version));
    }
    let version = client.get("/version").await?.json().and_then(|json| text(&json["version"]));
    if scrape.has_prefix("vllm:") || owner == "vllm" {
        return Ok(found(ServerKind::Vllm, version));
    }
    // SGLang without metrics, in a version that names its models after somebody else.
    if let Some(info) = sglang::server_info(client).await? {
        return Ok(found(ServerKind::Sglang, text(&info["version"])));
    }
    if models.json().is_some_and(|json| json["data"].is_array()) {
        return Ok(found(ServerKind::OpenAi, version));
    }
    // vLLM guards only /v1 with its key, so that the version alone may answer.
    if matches!(models.status, 401 | 403) {
        return Err(SourceError::from_status(models.status, &models.body));
    }
    Err(SourceError::Malformed(format!(
        "{} answers, but neither /spec/state nor /v1/models: is it a model server?",
        client.url()
    )))
}
