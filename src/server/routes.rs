//! Which path is answered by whom.

use std::any::Any;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::error;

use super::context::Context;
use super::error::ApiError;
use super::{auth, control, openai, prometheus, telemetry};

/// All routes with their guards.
pub(super) fn router(context: Context) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(openai::chat_completions))
        .route("/v1/completions", post(openai::completions))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{*model}", get(openai::model))
        .route("/health", get(telemetry::health))
        .route("/spec/state", get(telemetry::state))
        .route("/spec/events", get(telemetry::events))
        .route("/spec/mode", put(control::set_mode))
        .route("/metrics", get(prometheus::metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(context.clone(), auth::guard))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(context)
}

async fn no_route(request: Request) -> ApiError {
    ApiError::NoRoute(request.uri().path().to_owned())
}

async fn no_method(request: Request) -> ApiError {
    ApiError::Method(request.method().to_string())
}

/// A panic is a bug; the client still gets an answer, and the other connections go on.
#[allow(clippy::needless_pass_by_value)] // the layer hands over the box
fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let what = cause
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| cause.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown cause".into());
    error!("a request handler panicked: {what}");
    ApiError::Internal("the server failed on this request; this is a bug".into()).into_response()
}
