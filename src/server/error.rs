//! Every refusal, and its JSON in the OpenAI shape: `{"error":{"message","type","param","code"}}`.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::engine::api::EngineError;

/// Fields of a mode request. The engine reports a bad one by name; it is then a 422 like every bad mode value.
pub(super) const MODE_FIELDS: [&str; 4] = ["mode", "block_size", "tree_budget", "chain_seed"];

/// A request that is not answered as asked.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiError {
    /// 400: a parameter is missing, malformed, out of range or not supported.
    Invalid {
        /// Which one, when it is one.
        param: Option<String>,
        /// Word for programs.
        code: &'static str,
        /// Sentence for people.
        message: String,
    },
    /// 401: no key, or the wrong one.
    Unauthorized,
    /// 403: the `Host` header names another machine (see `auth`).
    ForeignHost(String),
    /// 404: no such path.
    NoRoute(String),
    /// 404: another model is served.
    NoModel {
        /// The name asked for.
        asked: String,
        /// The name served.
        served: String,
    },
    /// 405.
    Method(String),
    /// 408: the body did not come in time.
    SlowBody,
    /// 413: the body is larger than this many bytes.
    TooLarge(usize),
    /// 415: the body is not declared as JSON.
    NotJson,
    /// 422: a mode setting that this server cannot take.
    Mode {
        /// Which one.
        param: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// 429: a bound is reached.
    Busy {
        /// Word for programs.
        code: &'static str,
        /// Sentence for people.
        message: String,
    },
    /// 503: cannot generate.
    Unavailable {
        /// Word for programs.
        code: &'static str,
        /// Sentence for people.
        message: String,
        /// Whether trying again soon can help.
        retry: bool,
    },
    /// 500.
    Internal(String),
}

impl ApiError {
    /// A bad value of one parameter.
    pub(super) fn value(param: &str, message: impl Into<String>) -> Self {
        Self::Invalid { param: Some(param.to_owned()), code: "invalid_value", message: message.into() }
    }

    /// A parameter that this server does not implement.
    pub(super) fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::Invalid { param: Some(param.to_owned()), code: "unsupported_parameter", message: message.into() }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::ForeignHost(_) => StatusCode::FORBIDDEN,
            Self::NoRoute(_) | Self::NoModel { .. } => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Mode { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Unauthorized => "authentication_error",
            Self::ForeignHost(_) => "permission_error",
            Self::Busy { .. } => "rate_limit_error",
            Self::Unavailable { .. } => "service_unavailable",
            Self::Internal(_) => "server_error",
            _ => "invalid_request_error",
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid { code, .. } | Self::Busy { code, .. } | Self::Unavailable { code, .. } => code,
            Self::Unauthorized => "invalid_api_key",
            Self::ForeignHost(_) => "host_not_allowed",
            Self::NoRoute(_) => "not_found",
            Self::NoModel { .. } => "model_not_found",
            Self::Method(_) => "method_not_allowed",
            Self::SlowBody => "request_timeout",
            Self::TooLarge(_) => "request_too_large",
            Self::NotJson => "unsupported_media_type",
            Self::Mode { .. } => "invalid_mode",
            Self::Internal(_) => "internal_error",
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::Invalid { param, .. } => param.as_deref(),
            Self::Mode { param, .. } => Some(param),
            Self::NoModel { .. } => Some("model"),
            _ => None,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Invalid { message, .. }
            | Self::Mode { message, .. }
            | Self::Busy { message, .. }
            | Self::Unavailable { message, .. }
            | Self::Internal(message) => message.clone(),
            Self::Unauthorized => {
                "this server needs its key: send it as \"Authorization: Bearer KEY\" (spectop: --api-key or SPECTOP_API_KEY)"
                    .into()
            }
            Self::ForeignHost(host) => format!(
                "this server has no key and answers to localhost only, not to the host name \"{host}\"; start it with --api-key to reach it under other names"
            ),
            Self::NoRoute(path) => format!("there is nothing at {path}"),
            Self::NoModel { asked, served } => {
                format!("the model \"{asked}\" is not served here; use \"{served}\" or \"default\"")
            }
            Self::Method(method) => format!("{method} is not allowed here"),
            Self::SlowBody => "the body did not arrive in time".into(),
            Self::TooLarge(limit) => format!("the body is larger than {limit} bytes"),
            Self::NotJson => "send the body with \"Content-Type: application/json\"".into(),
        }
    }

    /// The body, also used as an event inside a stream that has begun.
    pub(super) fn json(&self) -> Value {
        json!({"error": {
            "message": self.message(),
            "type": self.kind(),
            "param": self.param(),
            "code": self.code(),
        }})
    }

    /// Seconds after which a client may try again.
    fn retry_after(&self) -> Option<&'static str> {
        match self {
            Self::Busy { .. } => Some("1"),
            Self::Unavailable { retry: true, .. } => Some("2"),
            _ => None,
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Loading(_) => Self::Unavailable { code: "model_loading", message, retry: true },
            EngineError::Load(_) => Self::Unavailable { code: "model_failed", message, retry: false },
            EngineError::Stopped => Self::Unavailable { code: "engine_stopped", message, retry: false },
            EngineError::QueueFull { .. } => Self::Busy { code: "queue_full", message },
            EngineError::PromptTooLong { .. } => {
                Self::Invalid { param: Some("messages".into()), code: "context_length_exceeded", message }
            }
            EngineError::Invalid { field, .. } if MODE_FIELDS.contains(&field) => {
                Self::Mode { param: field.into(), message }
            }
            EngineError::Invalid { field, .. } => Self::value(field, message),
            EngineError::Internal(_) => Self::Internal(message),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if self == Self::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
