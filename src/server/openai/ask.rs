//! What a completion request asks for, read from its JSON.

use serde_json::{Map, Value};

use super::fields::{Fields, refuse_unsupported};
use super::{Shape, messages};
use crate::engine::api::Sampling;
use crate::engine::chat_template::GIVEN;
use crate::engine::sampling::Suggested;
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
    /// A conversation, and switches for the chat template.
    Chat(Vec<Value>, Map<String, Value>),
    /// A text.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

/// How to choose tokens, as far as the request says so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    seed: Option<u64>,
}

impl Asked {
    /// What the request leaves open is as the model's publishers suggest (as vLLM and SGLang do it), and where they say
    /// nothing as OpenAI has it.
    pub(super) fn or(self, suggested: Suggested) -> Sampling {
        Sampling {
            temperature: self.temperature.or(suggested.temperature).unwrap_or(1.0),
            top_p: self.top_p.or(suggested.top_p).unwrap_or(1.0),
            top_k: self.top_k.or(suggested.top_k).unwrap_or(0),
            seed: self.seed,
        }
    }
}

/// A checked request. What only the engine's state can tell (model, mode ranges, lengths) is checked later.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub model: Option<String>,
    pub prompt: Prompt,
    pub max_tokens: Option<usize>,
    pub sampling: Asked,
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
            Shape::Chat => Prompt::Chat(messages::read(fields.get("messages"))?, switches(fields)?),
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

/// Switches for the chat template: `chat_template_kwargs`, as vLLM and SGLang have them, and `enable_thinking` by itself.
fn switches(fields: Fields<'_>) -> Result<Map<String, Value>, ApiError> {
    let mut all = fields.object("chat_template_kwargs")?.cloned().unwrap_or_default();
    if let Some(name) = GIVEN.iter().find(|name| all.contains_key(**name)) {
        let message = format!("chat_template_kwargs may not have {name}, which every template is given");
        return Err(ApiError::value("chat_template_kwargs", message));
    }
    if fields.get("enable_thinking").is_some() {
        all.insert("enable_thinking".into(), fields.flag("enable_thinking")?.into());
    }
    Ok(all)
}

fn sampling(fields: Fields<'_>) -> Result<Asked, ApiError> {
    let temperature = fields.number("temperature", 0.0, MAX_TEMPERATURE)?.map(|t| t as f32);
    let top_p = fields.number("top_p", 0.0, 1.0)?.map(|p| p as f32);
    // -1 is vLLM's way to say "all".
    let top_k = match fields.integer("top_k")? {
        None => None,
        Some(-1) => Some(0),
        Some(k) => Some(usize::try_from(k).map_err(|_| ApiError::value("top_k", "top_k must be 0 (all) or greater"))?),
    };
    // Any 64 bits make a seed; negative ones are as good as others.
    let seed = match fields.get("seed") {
        None => None,
        Some(value) => match value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)) {
            Some(seed) => Some(seed),
            None => return Err(ApiError::value("seed", "seed must be a whole number")),
        },
    };
    Ok(Asked { temperature, top_p, top_k, seed })
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
    fn what_is_left_open_is_as_published() {
        let asked = |value: Value| text(&value).expect("a good request").sampling;
        let published = Suggested { temperature: Some(0.6), top_p: Some(0.95), top_k: Some(20) };
        let open = asked(json!({"seed": 1}));
        let plain = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed: Some(1) };
        assert_eq!(open.or(Suggested::default()), plain);
        assert_eq!(open.or(published), Sampling { temperature: 0.6, top_p: 0.95, top_k: 20, seed: Some(1) });
        let said = asked(json!({"temperature": 0, "top_p": 1, "top_k": -1, "seed": 1}));
        assert_eq!(said.or(published), Sampling { temperature: 0.0, ..plain });
    }

    #[test]
    fn switches_are_for_the_template() {
        let chat = |extra: Value| -> Result<Value, ApiError> {
            let mut body = extra.as_object().cloned().expect("an object");
            body.insert("messages".into(), json!([{"role": "user", "content": "x"}]));
            match Ask::read(&body, Shape::Chat)?.prompt {
                Prompt::Chat(_, switches) => Ok(Value::Object(switches)),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(chat(json!({})), Ok(json!({})));
        let off = json!({"enable_thinking": false});
        assert_eq!(chat(off.clone()), Ok(off.clone()));
        assert_eq!(chat(json!({"chat_template_kwargs": off})), Ok(off));
        let both = json!({"chat_template_kwargs": {"x": 1, "enable_thinking": false}, "enable_thinking": true});
        assert_eq!(chat(both), Ok(json!({"x": 1, "enable_thinking": true})));
        assert!(chat(json!({"chat_template_kwargs": {"messages": []}})).is_err());
        assert!(chat(json!({"chat_template_kwargs": 3})).is_err());
        assert!(chat(json!({"enable_thinking": "no"})).is_err());
    }

    #[test]
    fn defaults_are_openais() {
        let ask = text(&json!({"max_tokens": null, "stop": null, "n": 1, "user": "me"}));
        let want = Ask {
            model: None,
            prompt: Prompt::Text("x".into()),
            max_tokens: None,
            sampling: Asked { temperature: None, top_p: None, top_k: None, seed: None },
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
