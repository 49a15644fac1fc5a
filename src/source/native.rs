//! The client of one server: state, mode switch, metrics, chat. What every request shares is fixed here: the key, no
//! redirects (they would carry the key elsewhere), no proxy on the way to this machine, bounded answers, time limits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::redirect::Policy;
use serde::de::DeserializeOwned;

use super::address;
use super::chat::{ChatRequest, ChatStream};
use super::error::SourceError;
use super::sse::EventStream;
use super::transport::Transport;
use crate::protocol::mode::{ModeChange, ModeRequest};
use crate::protocol::state::State;

/// Longest answer that is read into memory.
const BODY_LIMIT: usize = 32 << 20;

/// Time to make a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Time for an answer that a healthy server gives at once.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// A server, ours or another. Cloning is cheap and shares the connections.
#[derive(Debug, Clone)]
pub struct Client {
    base: Arc<str>,
    http: reqwest::Client,
}

impl Client {
    /// A client of the server at this address: `host:port`, or a URL. Nothing is sent yet.
    pub fn new(url: &str, api_key: Option<&str>) -> Result<Self, SourceError> {
        let url = address::normalise(url)?;
        let mut headers = HeaderMap::new();
        if let Some(key) = api_key.map(str::trim).filter(|key| !key.is_empty()) {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| SourceError::BadKey)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("spectop/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(CONNECT_WAIT);
        if address::is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let base: Arc<str> = url.as_str().trim_end_matches('/').into();
        let http = builder.build().map_err(|error| SourceError::from_request(&base, &error))?;
        Ok(Self { base, http })
    }

    /// The address, normalised and without a trailing slash.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// `GET /spec/state`.
    pub async fn state(&self) -> Result<State, SourceError> {
        self.json(Method::GET, "/spec/state", None).await
    }

    /// `GET /health`: an error says why the server cannot generate.
    pub async fn health(&self) -> Result<(), SourceError> {
        self.get("/health").await?.success().map(drop)
    }

    /// `PUT /spec/mode`.
    pub async fn set_mode(&self, wish: ModeRequest) -> Result<ModeChange, SourceError> {
        let body = serde_json::to_string(&wish).map_err(|error| SourceError::Malformed(error.to_string()))?;
        self.json(Method::PUT, "/spec/mode", Some(body)).await
    }

    /// `GET /metrics`: the Prometheus text.
    pub async fn metrics_text(&self) -> Result<String, SourceError> {
        let body = self.get("/metrics").await?.success()?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Starts a chat completion. Dropping the stream closes the connection, which cancels the request on the server.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatStream, SourceError> {
        let events = self.events("/v1/chat/completions", Some(request.body())).await?;
        Ok(ChatStream::new(events, self.url()))
    }

    /// Whether anybody answers at all, whatever they say.
    pub async fn ping(&self) -> Result<(), SourceError> {
        self.get("/health").await.map(drop)
    }

    /// Opens an event stream.
    pub(super) async fn events(&self, path: &str, json: Option<String>) -> Result<EventStream, SourceError> {
        EventStream::open(Transport::new(self.http.clone()), &self.at(path), json).await
    }

    /// One GET, whatever the status.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, SourceError> {
        self.send(Method::GET, path, None).await
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<T, SourceError> {
        let body = self.send(method, path, body).await?.success()?;
        serde_json::from_slice(&body).map_err(|error| SourceError::Malformed(format!("{path}: {error}")))
    }

    async fn send(&self, method: Method, path: &str, json: Option<String>) -> Result<Answer, SourceError> {
        let failed = |error: reqwest::Error| SourceError::from_request(&self.base, &error);
        let mut request = self.http.request(method, self.at(path)).timeout(ANSWER_WAIT);
        if let Some(json) = json {
            request = request.header(header::CONTENT_TYPE, "application/json").body(json);
        }
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > BODY_LIMIT {
                return Err(SourceError::Malformed(format!("{path} is longer than {} MiB", BODY_LIMIT >> 20)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body: body.into() })
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// Status and body of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body of a success, or what the server said instead.
    pub(super) fn success(self) -> Result<Bytes, SourceError> {
        if self.is_success() { Ok(self.body) } else { Err(SourceError::from_status(self.status, &self.body)) }
    }

    /// The body as JSON, if it is a success and JSON.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        if self.is_success() { serde_json::from_slice(&self.body).ok() } else { None }
    }
}
