//! Chat completions: the request, and the answer as it comes in.

use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{SourceError, message_of};
use super::sse::{EventStream, Frame, Message};
use crate::protocol::event::RequestMetrics;
use crate::protocol::mode::ModeRequest;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

impl ChatMessage {
    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: "user".into(), content: content.into() }
    }
}

/// A chat completion to ask for. Absent fields are left to the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// Model name: our server needs none, others do.
    pub model: Option<String>,
    /// Tokens to generate at most.
    pub max_tokens: Option<usize>,
    /// 0 is greedy.
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    pub top_p: Option<f32>,
    /// Keep the K most probable tokens.
    pub top_k: Option<usize>,
    /// Random seed.
    pub seed: Option<u64>,
    /// End the answer before any of these texts.
    pub stop: Vec<String>,
    /// Mode for this request only; empty leaves the server's, and sends nothing that other servers might refuse.
    pub mode: ModeRequest,
    /// Ask for the tokens behind the text; only our server knows this.
    pub trace: bool,
    /// Ask for the token count with every chunk; vLLM and SGLang know this, others may refuse it.
    pub continuous_usage: bool,
}

impl ChatRequest {
    pub(super) fn body(&self) -> String {
        let messages: Vec<Value> =
            self.messages.iter().map(|m| json!({"role": m.role, "content": m.content})).collect();
        let mut body = json!({
            "messages": messages,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if self.continuous_usage {
            body["stream_options"]["continuous_usage_stats"] = true.into();
        }
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                body[key] = value;
            }
        };
        set("model", self.model.as_deref().map(Value::from));
        set("max_tokens", self.max_tokens.map(Value::from));
        set("temperature", self.temperature.map(decimal));
        set("top_p", self.top_p.map(decimal));
        set("top_k", self.top_k.map(Value::from));
        set("seed", self.seed.map(Value::from));
        set("stop", (!self.stop.is_empty()).then(|| Value::from(self.stop.clone())));
        set("spectop", self.own());
        body.to_string()
    }

    /// What only our server understands; nothing when nothing of it is asked for.
    fn own(&self) -> Option<Value> {
        if self.mode.is_empty() && !self.trace {
            return None;
        }
        let mut own = serde_json::to_value(self.mode).ok()?;
        if self.trace {
            own["trace"] = true.into();
        }
        Some(own)
    }
}

/// A 32-bit number as it was typed: 0.7 and not 0.699999988079071.
fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatDelta {
    /// Some text.
    Text {
        /// The text; whole characters. Empty where a trace or a count tells of tokens that are no whole character yet.
        text: String,
        /// Whether it is the model's thinking rather than its answer.
        reasoning: bool,
        /// When its bytes were read. Pieces that one read brought have the same time.
        at: Instant,
        /// Its tokens, where a trace was asked for.
        token_ids: Vec<u32>,
        /// Gap between the two best logits before each of them, where the server tells.
        margins: Vec<f32>,
        /// Generated tokens so far, this piece included, where the server tells with every piece.
        total_tokens: Option<u64>,
    },
    /// The answer is complete; nothing follows.
    End(Box<ChatEnd>),
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatEnd {
    /// `stop`, `length` or `cancelled`; other servers have more words.
    pub finish_reason: String,
    /// Token counts, from the server.
    pub usage: Option<Usage>,
    /// Our server's metrics of this request.
    pub metrics: Option<RequestMetrics>,
    /// Name of the model that answered.
    pub model: Option<String>,
    /// When the end was read.
    pub at: Instant,
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    #[serde(default)]
    pub completion_tokens: u64,
}

/// An answer as it comes in. Dropping it closes the connection.
pub struct ChatStream {
    events: EventStream,
    url: String,
    id: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    metrics: Option<RequestMetrics>,
    model: Option<String>,
    /// Tokens counted by the last piece that had a count.
    counted: Option<u64>,
    over: bool,
}

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    spectop: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    // Two spellings are in use.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
}

impl ChatStream {
    pub(super) fn new(events: EventStream, url: &str) -> Self {
        Self {
            events,
            url: url.to_owned(),
            id: None,
            finish_reason: None,
            usage: None,
            metrics: None,
            model: None,
            counted: None,
            over: false,
        }
    }

    /// The server's name of this request, once it has said anything: events of our server call it the same.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The next piece; `None` after [`ChatDelta::End`] or an error.
    pub async fn next(&mut self) -> Option<Result<ChatDelta, SourceError>> {
        while !self.over {
            let outcome = match self.events.next().await {
                Some(Ok(Frame::Comment)) => continue,
                Some(Ok(Frame::Event(message))) if message.data.trim() == "[DONE]" => Some(self.end(message.at)),
                Some(Ok(Frame::Event(message))) => self.read(&message).transpose(),
                Some(Err(error)) => Some(Err(error)),
                None => Some(self.end(Instant::now())),
            };
            if let Some(outcome) = outcome {
                self.over = !matches!(outcome, Ok(ChatDelta::Text { .. }));
                return Some(outcome);
            }
        }
        None
    }

    fn end(&mut self, at: Instant) -> Result<ChatDelta, SourceError> {
        let Some(finish_reason) = self.finish_reason.take() else {
            let reason = "the answer broke off before its end".to_owned();
            return Err(SourceError::Unreachable { url: self.url.clone(), reason });
        };
        let end =
            ChatEnd { finish_reason, usage: self.usage, metrics: self.metrics.take(), model: self.model.take(), at };
        Ok(ChatDelta::End(Box::new(end)))
    }

    fn read(&mut self, message: &Message) -> Result<Option<ChatDelta>, SourceError> {
        let chunk: Chunk = serde_json::from_str(&message.data)
            .map_err(|error| SourceError::Malformed(format!("a chunk of the answer: {error}")))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            let message = message_of(message.data.as_bytes());
            return Err(SourceError::Server { status: status.unwrap_or(200), message });
        }
        self.id = self.id.take().or(chunk.id);
        self.usage = chunk.usage.or(self.usage);
        self.model = chunk.model.or_else(|| self.model.take());
        let mut trace = Trace::default();
        if let Some(own) = chunk.spectop {
            // What is not of our making is as good as nothing; the text matters more.
            trace = Trace::deserialize(&own).unwrap_or_default();
            self.metrics = serde_json::from_value(own).ok().or_else(|| self.metrics.take());
        }
        let Some(choice) = chunk.choices.into_iter().flatten().next() else { return Ok(None) };
        if choice.finish_reason.is_some() {
            self.finish_reason = choice.finish_reason;
        }
        let Some(delta) = choice.delta else { return Ok(None) };
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (text, reasoning) = match some(delta.content) {
            Some(text) => (text, false),
            None => match some(delta.reasoning_content).or_else(|| some(delta.reasoning)) {
                Some(text) => (text, true),
                None => (String::new(), false),
            },
        };
        let total_tokens = chunk.usage.map(|usage| usage.completion_tokens);
        let before = self.counted;
        self.counted = total_tokens.or(before);
        // A count that first comes with the end is the total and tells of no piece.
        let counted = before.zip(total_tokens).is_some_and(|(before, total)| total > before);
        if text.is_empty() && trace.token_ids.is_empty() && !counted {
            return Ok(None);
        }
        let Trace { token_ids, margins } = trace;
        Ok(Some(ChatDelta::Text { text, reasoning, at: message.at, token_ids, margins, total_tokens }))
    }
}

/// The tokens behind a piece of text, as our server tells them when asked for a trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Trace {
    token_ids: Vec<u32>,
    margins: Vec<f32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mode::Mode;

    #[test]
    fn only_what_was_asked_for_is_sent() {
        let plain = ChatRequest { messages: vec![ChatMessage::user("hi")], ..ChatRequest::default() };
        assert_eq!(
            serde_json::from_str::<Value>(&plain.body()).unwrap(),
            json!({"messages": [{"role": "user", "content": "hi"}], "stream": true,
                   "stream_options": {"include_usage": true}})
        );
        let full = ChatRequest {
            model: Some("m".into()),
            max_tokens: Some(5),
            temperature: Some(0.7),
            top_p: Some(0.9),
            top_k: Some(40),
            seed: Some(u64::MAX),
            stop: vec!["END".into()],
            mode: ModeRequest { tree_budget: Some(32), ..ModeRequest::mode(Mode::Ddtree) },
            continuous_usage: true,
            ..plain.clone()
        };
        let body: Value = serde_json::from_str(&full.body()).unwrap();
        assert_eq!(body["temperature"], json!(0.7));
        assert_eq!(body["seed"], json!(u64::MAX));
        assert_eq!(body["spectop"], json!({"mode": "ddtree", "tree_budget": 32}));
        assert_eq!(body["stop"], json!(["END"]));
        assert_eq!(body["stream_options"], json!({"include_usage": true, "continuous_usage_stats": true}));
        let traced = ChatRequest { trace: true, ..plain };
        assert_eq!(serde_json::from_str::<Value>(&traced.body()).unwrap()["spectop"], json!({"trace": true}));
    }
}
