//! What a completion request asks for, read from its JSON.

use serde_json::{Map, Value};

use super::fields::{Fields, refuse_unsupported};
use super::{Shape, messages};
use crate::engine::api::Sampling;
use crate::protocol::mode::ModeRequest;
use crate::server::error::ApiError;
use crate::server::mode_request;

/// Stop texts that a request may have.
const MAX_STOPS: usize = 16;

/// Bytes that each may have: the engine holds back that much text while one may be beginning.
const MAX_STOP_BYTES: usize = 1024;

/// Greatest temperature.
const MAX_TEMPERATURE: f64 = 5.0;

/// What to continue.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Prompt {
    /// A conversation.
    Chat(Vec<Value>),
    /// A text.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

/// A checked request. What only the engine's state can tell (model, mode ranges, lengths) is checked later.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub model: Option<String>,
    pub prompt: Prompt,
    pub max_tokens: Option<usize>,
    pub sampling: Sampling,
    pub stop: Vec<String>,
    pub ignore_eos: bool,
    pub stream: bool,
    pub include_usage: bool,
    pub mode: ModeRequest,
    pub trace: bool,
}

impl Ask {
    /// Reads a request of this shape.
    pub(super) fn read(body: &Map<String, Value>, shape: Shape) -> Result<Self, ApiError> {
        let fields = Fields(body);
        refuse_unsupported(fields)?;
        let prompt = match shape {
            Shape::Chat => Prompt::Chat(messages::read(fields.get("messages"))?),
            Shape::Text => prompt(fields.get("prompt"))?,
        };
        let include_usage = match fields.object("stream_options")? {
            Some(options) => Fields(options).flag("include_usage")?,
            None => false,
        };
        let (mode, trace) = match fields.object("spectop")? {
            Some(own) => (mode_request::parse(own, &["trace"])?, Fields(own).flag("trace")?),
            None => (ModeRequest::default(), false),
        };
        Ok(Self {
            model: fields.text("model")?.map(str::to_owned),
            prompt,
            max_tokens: max_tokens(fields)?,
            sampling: sampling(fields)?,
            stop: stop(fields.get("stop"))?,
            ignore_eos: fields.flag("ignore_eos")?,
            stream: fields.flag("stream")?,
            include_usage,
            mode,
            trace,
        })
    }
}

fn max_tokens(fields: Fields<'_>) -> Result<Option<usize>, ApiError> {
    // Both are read, so that a bad value is told even when the other one wins.
    let mut given = None;
    for name in ["max_tokens", "max_completion_tokens"] {
        match fields.integer(name)? {
            None => {}
            Some(n @ 1..) => given = usize::try_from(n).ok(),
            Some(_) => return Err(ApiError::value(name, format!("{name} must be at least 1"))),
        }
    }
    Ok(given)
}

fn sampling(fields: Fields<'_>) -> Result<Sampling, ApiError> {
    let temperature = fields.number("temperature", 0.0, MAX_TEMPERATURE)?.unwrap_or(1.0) as f32;
    let top_p = fields.number("top_p", 0.0, 1.0)?.unwrap_or(1.0) as f32;
    // -1 is vLLM's way to say "all".
    let top_k = match fields.integer("top_k")? {
        None | Some(-1) => 0,
        Some(k) => usize::try_from(k).map_err(|_| ApiError::value("top_k", "top_k must be 0 (all) or greater"))?,
    };
    // Any 64 bits make a seed; negative ones are as good as others.
    let seed = match fields.get("seed") {
        None => None,
        Some(value) => match value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)) {
            Some(seed) => Some(seed),
            None => return Err(ApiError::value("seed", "seed must be a whole number")),
        },
    };
    Ok(Sampling { temperature, top_p, top_k, seed })
}

fn stop(value: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let bad = |message: String| ApiError::value("stop", message);
    let texts: Vec<&str> = match value {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => items
            .iter()
            .map(Value::as_str)
            .collect::<Option<_>>()
            .ok_or_else(|| bad("stop must be a string or an array of strings".into()))?,
        Some(_) => return Err(bad("stop must be a string or an array of strings".into())),
    };
    if texts.len() > MAX_STOPS {
        return Err(bad(format!("stop may have at most {MAX_STOPS} texts, not {}", texts.len())));
    }
    if texts.iter().any(|text| text.is_empty() || text.len() > MAX_STOP_BYTES) {
        return Err(bad(format!("a stop text must have from 1 to {MAX_STOP_BYTES} bytes")));
    }
    Ok(texts.into_iter().map(str::to_owned).collect())
}

fn prompt(value: Option<&Value>) -> Result<Prompt, ApiError> {
    const SHAPES: &str = "prompt must be a string, an array with one string, or an array of token ids";
    let bad = |message: &str| ApiError::value("prompt", message);
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(Prompt::Text(text.clone())),
        Some(Value::Array(items)) => match items.as_slice() {
            [Value::String(text)] if !text.is_empty() => Ok(Prompt::Text(text.clone())),
            [Value::Array(ids)] => token_ids(ids).ok_or_else(|| bad(SHAPES)),
            [Value::String(_) | Value::Array(_), _, ..] => Err(bad("only one prompt per request is supported")),
            ids => token_ids(ids).ok_or_else(|| bad(SHAPES)),
        },
        Some(Value::String(_)) => Err(bad("prompt is empty")),
        _ => Err(bad(SHAPES)),
    }
}

fn token_ids(items: &[Value]) -> Option<Prompt> {
    let ids = items.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect::<Option<Vec<_>>>()?;
    (!ids.is_empty()).then_some(Prompt::Ids(ids))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> Result<Ask, ApiError> {
        let mut body = value.as_object().cloned().unwrap_or_default();
        body.entry("prompt").or_insert_with(|| "x".into());
        Ask::read(&body, Shape::Text)
    }

    #[test]
    fn defaults_are_openais() {
        let ask = text(&json!({"max_tokens": null, "stop": null, "n": 1, "user": "me"}));
        let want = Ask {
            model: None,
            prompt: Prompt::Text("x".into()),
            max_tokens: None,
            sampling: Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed: None },
            stop: vec![],
            ignore_eos: false,
            stream: false,
            include_usage: false,
            mode: ModeRequest::default(),
            trace: false,
        };
        assert_eq!(ask, Ok(want));
    }

    #[test]
    fn prompts_come_in_three_shapes() {
        for (given, want) in [
            (json!("a"), Prompt::Text("a".into())),
            (json!(["a"]), Prompt::Text("a".into())),
            (json!([1, 2]), Prompt::Ids(vec![1, 2])),
            (json!([[1, 2]]), Prompt::Ids(vec![1, 2])),
        ] {
            assert_eq!(prompt(Some(&given)), Ok(want), "{given}");
        }
        for given in [
            json!(""),
            json!([""]),
            json!([]),
            json!([[]]),
            json!(["a", "b"]),
            json!([[1], [2]]),
            json!([-1]),
            json!({}),
            json!([4_294_967_296_u64]),
        ] {
            assert!(prompt(Some(&given)).is_err(), "{given}");
        }
    }

    #[test]
    fn neutral_values_of_unsupported_parameters_pass() {
        let neutral = json!({
            "presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "logit_bias": {}, "n": 1,
            "logprobs": false, "tools": [], "response_format": {"type": "text"}, "top_k": -1, "seed": -3,
        });
        assert!(text(&neutral).is_ok());
    }

    #[test]
    fn bad_values_name_their_parameter() {
        for (body, name) in [
            (json!({"presence_penalty": 0.5}), "presence_penalty"),
            (json!({"frequency_penalty": "x"}), "frequency_penalty"),
            (json!({"tools": [{}]}), "tools"),
            (json!({"n": 2}), "n"),
            (json!({"logprobs": true}), "logprobs"),
            (json!({"logprobs": 3}), "logprobs"),
            (json!({"response_format": {"type": "json_object"}}), "response_format"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"max_tokens": 1.5}), "max_tokens"),
            (json!({"max_completion_tokens": -1}), "max_completion_tokens"),
            (json!({"temperature": -0.1}), "temperature"),
            (json!({"temperature": 5.1}), "temperature"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"top_p": 1.1}), "top_p"),
            (json!({"top_k": -2}), "top_k"),
            (json!({"seed": 1.5}), "seed"),
            (json!({"stop": [1]}), "stop"),
            (json!({"stop": ""}), "stop"),
            (json!({"stop": vec!["x"; 17]}), "stop"),
            (json!({"stream": 1}), "stream"),
            (json!({"stream_options": true}), "stream_options"),
            (json!({"spectop": 1}), "spectop"),
            (json!({"model": 1}), "model"),
        ] {
            match text(&body) {
                Err(ApiError::Invalid { param, .. }) => assert_eq!(param.as_deref(), Some(name), "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}
