//! `PUT /spec/mode`: the switch.

use axum::Json;
use axum::extract::State;

use super::body::JsonObject;
use super::context::Context;
use super::error::ApiError;
use super::mode_request;
use crate::protocol::mode::ModeChange;

/// Switches the mode and answers when the next round will run under it.
pub(super) async fn set_mode(
    State(context): State<Context>,
    JsonObject(body): JsonObject,
) -> Result<Json<ModeChange>, ApiError> {
    let change = mode_request::parse(&body, &[])?;
    context.check_ready()?;
    mode_request::check(&change, &context.backend.state().limits)?;
    Ok(Json(context.backend.set_mode(change).await?))
}
