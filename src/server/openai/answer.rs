//! Answers in the OpenAI shapes, whole and in chunks.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::Shape;
use crate::protocol::event::{FinishReason, RequestMetrics};

/// What all chunks of an answer share.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    pub shape: Shape,
    pub id: Arc<str>,
    pub model: Arc<str>,
    pub created: u64,
}

impl Heading {
    /// For an answer that begins now.
    pub(super) fn new(shape: Shape, id: &str, model: &str) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        Self { shape, id: id.into(), model: model.into(), created }
    }

    fn envelope<'a, C>(&'a self, object: &'static str, choices: Vec<C>) -> Envelope<'a, C> {
        Envelope {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            system_fingerprint: concat!("spectop-", env!("CARGO_PKG_VERSION")),
            choices,
            usage: Omit,
            spectop: None,
        }
    }

    /// The whole answer.
    pub(super) fn whole(&self, text: &str, end: &End, trace: Option<Traced<'_>>) -> Result<String, serde_json::Error> {
        let extra = Some(Extra { metrics: Some(&end.metrics), trace });
        let finish_reason = Some(end.reason.name());
        let usage = Usage::of(&end.metrics);
        match self.shape {
            Shape::Chat => {
                let message = Message { role: "assistant", content: text, refusal: None };
                let choice = ChatChoice { index: 0, message, logprobs: None, finish_reason };
                let envelope = self.envelope("chat.completion", vec![choice]);
                serde_json::to_string(&Envelope { usage: Given(Some(usage)), spectop: extra, ..envelope })
            }
            Shape::Text => {
                let choice = TextChoice { index: 0, text, logprobs: None, finish_reason };
                let envelope = self.envelope("text_completion", vec![choice]);
                serde_json::to_string(&Envelope { usage: Given(Some(usage)), spectop: extra, ..envelope })
            }
        }
    }

    /// One chunk.
    pub(super) fn chunk(&self, piece: &Piece<'_>, usage_follows: bool) -> Result<String, serde_json::Error> {
        let spectop = (piece.end.is_some() || piece.trace.is_some())
            .then(|| Extra { metrics: piece.end.map(|end| &*end.metrics), trace: piece.trace });
        // OpenAI: with include_usage, every chunk but the last has a usage of null.
        let usage = if usage_follows { Given(None) } else { Omit };
        let finish_reason = piece.end.map(|end| end.reason.name());
        match self.shape {
            Shape::Chat => {
                let delta = ChatDelta { role: piece.role, content: piece.text };
                let choice = DeltaChoice { index: 0, delta, logprobs: None, finish_reason };
                let envelope = self.envelope("chat.completion.chunk", vec![choice]);
                serde_json::to_string(&Envelope { usage, spectop, ..envelope })
            }
            Shape::Text => {
                let text = piece.text.unwrap_or_default();
                let choice = TextChoice { index: 0, text, logprobs: None, finish_reason };
                let envelope = self.envelope("text_completion", vec![choice]);
                serde_json::to_string(&Envelope { usage, spectop, ..envelope })
            }
        }
    }

    /// The chunk that only has the usage.
    pub(super) fn usage_chunk(&self, metrics: &RequestMetrics) -> Result<String, serde_json::Error> {
        let object = match self.shape {
            Shape::Chat => "chat.completion.chunk",
            Shape::Text => "text_completion",
        };
        let envelope = self.envelope::<()>(object, Vec::new());
        serde_json::to_string(&Envelope { usage: Given(Some(Usage::of(metrics))), ..envelope })
    }
}

/// How an answer ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub reason: FinishReason,
    pub metrics: Box<RequestMetrics>,
}

/// Contents of one chunk.
#[derive(Debug, Default)]
pub(super) struct Piece<'a> {
    pub role: Option<&'static str>,
    pub text: Option<&'a str>,
    /// Tokens of the chunk, when the client asked for a trace.
    pub trace: Option<Traced<'a>>,
    pub end: Option<&'a End>,
}

/// `usage`, which may also be left out: absent and `null` are different things to OpenAI's clients.
#[derive(Debug, Clone, Copy)]
enum MaybeUsage {
    Omit,
    Given(Option<Usage>),
}
use MaybeUsage::{Given, Omit};

impl MaybeUsage {
    fn omitted(&self) -> bool {
        matches!(self, Omit)
    }
}

impl Serialize for MaybeUsage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Omit | Given(None) => serializer.serialize_none(),
            Given(Some(usage)) => usage.serialize(serializer),
        }
    }
}

#[derive(Serialize)]
struct Envelope<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'static str,
    choices: Vec<C>,
    #[serde(skip_serializing_if = "MaybeUsage::omitted")]
    usage: MaybeUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    spectop: Option<Extra<'a>>,
}

#[derive(Serialize)]
struct ChatChoice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct DeltaChoice<'a> {
    index: u32,
    delta: ChatDelta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct ChatDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

#[derive(Serialize)]
struct TextChoice<'a> {
    index: u32,
    text: &'a str,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Extra<'a> {
    #[serde(flatten)]
    metrics: Option<&'a RequestMetrics>,
    #[serde(flatten)]
    trace: Option<Traced<'a>>,
}

/// What a trace adds: the tokens behind the text.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Traced<'a> {
    /// Token ids.
    pub token_ids: &'a [u32],
    /// Gap between the target's two best logits before each of them: where it is tiny, another engine may rightly choose
    /// the other token.
    pub margins: &'a [f32],
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    completion_tokens_details: Details,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Details {
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

impl Usage {
    fn of(metrics: &RequestMetrics) -> Self {
        Self {
            prompt_tokens: metrics.prompt_tokens,
            completion_tokens: metrics.tokens,
            total_tokens: metrics.prompt_tokens + metrics.tokens,
            completion_tokens_details: Details {
                accepted_prediction_tokens: metrics.accepted,
                rejected_prediction_tokens: metrics.drafted.saturating_sub(metrics.accepted),
            },
        }
    }
}
