//! Reading request bodies: bounded in size and time, and only JSON objects.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use futures_util::StreamExt;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::error::ApiError;

/// Bytes that a body may have.
pub const MAX_BODY: usize = 2 * 1024 * 1024;

/// Time in which it must have arrived.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of an oversized body that are read and thrown away, so that a client which is still writing gets to read the
/// answer instead of a reset connection.
const DRAIN: usize = 32 * 1024 * 1024;

/// Time for that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A request body that is a JSON object.
#[derive(Debug)]
pub(super) struct JsonObject(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for JsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = match timeout(BODY_TIMEOUT, read(&parts.headers, body)).await {
            Ok(read) => read?,
            Err(_) => return Err(ApiError::SlowBody),
        };
        // A page in a browser can post anything to localhost without asking, except with this content type.
        if !declared_json(&parts.headers) {
            return Err(ApiError::NotJson);
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(malformed("the body must be a JSON object")),
            Err(error) => Err(malformed(format!("the body is not valid JSON: {error}"))),
        }
    }
}

fn malformed(message: impl Into<String>) -> ApiError {
    ApiError::Invalid { param: None, code: "invalid_json", message: message.into() }
}

fn declared_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    let mut too_large = declared.is_some_and(|n| n > MAX_BODY as u64);
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    while !too_large {
        let Some(chunk) = stream.next().await else { return Ok(bytes) };
        let chunk = chunk.map_err(|error| malformed(format!("the body broke off: {error}")))?;
        too_large = bytes.len() + chunk.len() > MAX_BODY;
        if !too_large {
            bytes.extend_from_slice(&chunk);
        }
    }
    let drain = async {
        let mut left = DRAIN;
        while let Some(Ok(chunk)) = stream.next().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
    };
    // Whether the rest came in time does not matter: the answer is the same.
    let _ = timeout(DRAIN_TIMEOUT, drain).await;
    Err(ApiError::TooLarge(MAX_BODY))
}
