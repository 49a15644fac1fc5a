//! The OpenAI routes: chat completions, completions, models.

mod answer;
mod ask;
mod fields;
mod messages;
mod streaming;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use self::answer::{End, Heading, Traced};
use self::ask::{Ask, Prompt};
use super::body::JsonObject;
use super::context::Context;
use super::error::ApiError;
use super::mode_request;
use crate::engine::api::{Delta, EngineError, GenerateRequest, Generation};
use crate::protocol::state;

/// Tokens generated when the request does not say how many.
const DEFAULT_MAX_TOKENS: usize = 512;

/// The name that stands for whatever is served.
const DEFAULT_MODEL: &str = "default";

/// Which of the two completion routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Text,
}

impl Shape {
    fn id(self) -> String {
        let prefix = match self {
            Shape::Chat => "chatcmpl",
            Shape::Text => "cmpl",
        };
        format!("{prefix}-{:016x}", rand::random::<u64>())
    }

    /// Where the prompt is.
    fn prompt_param(self) -> &'static str {
        match self {
            Shape::Chat => "messages",
            Shape::Text => "prompt",
        }
    }
}

/// `POST /v1/chat/completions`.
pub(super) async fn chat_completions(
    State(context): State<Context>,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    complete(&context, &body, Shape::Chat).await
}

/// `POST /v1/completions`.
pub(super) async fn completions(
    State(context): State<Context>,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    complete(&context, &body, Shape::Text).await
}

/// `GET /v1/models`: one entry, or none while loading.
pub(super) async fn models(State(context): State<Context>) -> Json<Value> {
    let data: Vec<_> = context.backend.model_name().map(|name| model_entry(&name)).into_iter().collect();
    Json(json!({"object": "list", "data": data}))
}

/// `GET /v1/models/{model}`.
pub(super) async fn model(State(context): State<Context>, Path(asked): Path<String>) -> Result<Json<Value>, ApiError> {
    let served = served(&context)?;
    check_model(Some(&asked), &served)?;
    Ok(Json(model_entry(&served)))
}

fn model_entry(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "spectop"})
}

fn served(context: &Context) -> Result<String, ApiError> {
    let unknown = || EngineError::Loading("the model's name is not known yet".into());
    context.backend.model_name().ok_or_else(|| unknown().into())
}

fn check_model(asked: Option<&str>, served: &str) -> Result<(), ApiError> {
    match asked {
        Some(asked) if asked != served && asked != DEFAULT_MODEL => {
            Err(ApiError::NoModel { asked: asked.chars().take(200).collect(), served: served.to_owned() })
        }
        _ => Ok(()),
    }
}

async fn complete(context: &Context, body: &Map<String, Value>, shape: Shape) -> Result<Response, ApiError> {
    let ask = Ask::read(body, shape)?;
    context.check_ready()?;
    let model = served(context)?;
    check_model(ask.model.as_deref(), &model)?;
    let state = context.backend.state();
    mode_request::check(&ask.mode, &state.limits)?;
    let (stream, trace, include_usage) = (ask.stream, ask.trace, ask.include_usage);
    let request = generate_request(context, ask, shape, &state).await?;
    let generation = context.backend.submit(request).map_err(|error| refusal(error, shape))?;
    let heading = Heading::new(shape, &generation.id, &model);
    if stream {
        Ok(streaming::respond(heading, generation, trace, include_usage))
    } else {
        collect(&heading, generation, trace).await
    }
}

/// An engine error, with the parameter that this route calls the prompt.
fn refusal(error: EngineError, shape: Shape) -> ApiError {
    match ApiError::from(error) {
        ApiError::Invalid { code: code @ "context_length_exceeded", message, .. } => {
            ApiError::Invalid { param: Some(shape.prompt_param().to_owned()), code, message }
        }
        other => other,
    }
}

async fn generate_request(
    context: &Context,
    ask: Ask,
    shape: Shape,
    state: &state::State,
) -> Result<GenerateRequest, ApiError> {
    let prompt = encode(context, ask.prompt).await.map_err(|error| refusal(error, shape))?;
    if prompt.is_empty() {
        return Err(ApiError::value(shape.prompt_param(), "the prompt has no tokens"));
    }
    if let Some(vocab) = state.target.as_ref().map(|target| target.vocab)
        && let Some(id) = prompt.iter().find(|id| **id as usize >= vocab)
    {
        return Err(ApiError::value("prompt", format!("token id {id} is not below the vocabulary's {vocab}")));
    }
    let limit = state.limits.context;
    let room = limit.saturating_sub(prompt.len());
    if room == 0 {
        return Err(refusal(EngineError::PromptTooLong { prompt: prompt.len(), context: limit }, shape));
    }
    // More than fits is no error: the answer then ends at the context's limit, with finish_reason "length".
    let max_tokens = ask.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS).min(room);
    Ok(GenerateRequest {
        id: Some(shape.id()),
        prompt,
        max_tokens,
        sampling: ask.sampling.or(context.backend.suggested_sampling()),
        stop: ask.stop,
        ignore_eos: ask.ignore_eos,
        mode: ask.mode,
    })
}

/// Token ids of the prompt. Tokenising megabytes takes a while, which must not hold up the event streams.
async fn encode(context: &Context, prompt: Prompt) -> Result<Vec<u32>, EngineError> {
    // The semaphore is never closed; without a permit the work is merely not bounded.
    let permit = context.admission.clone().acquire_owned().await.ok();
    let backend = context.backend.clone();
    let work = move || {
        let _permit = permit;
        match prompt {
            Prompt::Chat(messages, switches) => backend.encode_chat(&messages, &switches),
            Prompt::Text(text) => backend.encode(&text),
            Prompt::Ids(ids) => Ok(ids),
        }
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(EngineError::Internal(format!("reading the prompt: {error}"))),
    }
}

/// Waits for the end and answers at once. When the client goes away this future is dropped, and with it the generation.
async fn collect(heading: &Heading, mut generation: Generation, trace: bool) -> Result<Response, ApiError> {
    let mut answer = String::new();
    let mut all_ids = Vec::new();
    let mut all_margins = Vec::new();
    loop {
        match generation.deltas.recv().await {
            Some(Delta::Tokens { ids, text, margins }) => {
                answer.push_str(&text);
                if trace {
                    all_ids.extend(ids);
                    all_margins.extend(margins);
                }
            }
            Some(Delta::Done { reason, text, metrics }) => {
                answer.push_str(&text);
                let traced = trace.then_some(Traced { token_ids: &all_ids, margins: &all_margins });
                let json = heading
                    .whole(&answer, &End { reason, metrics }, traced)
                    .map_err(|error| ApiError::Internal(error.to_string()))?;
                return Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], json).into_response());
            }
            Some(Delta::Failed(error)) => return Err(refusal(error, heading.shape)),
            None => return Err(EngineError::Stopped.into()),
        }
    }
}
