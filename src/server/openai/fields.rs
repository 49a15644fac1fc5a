//! Typed access to the fields of a request object. `null` counts as absent, as OpenAI's own clients send it.

use serde_json::{Map, Value};

use crate::server::error::ApiError;

/// A request object.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(ApiError::value(name, format!("{name} must be true or false"))),
        }
    }

    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::value(name, format!("{name} must be a string"))),
        }
    }

    pub(super) fn integer(self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(n) => Ok(Some(n)),
                None => Err(ApiError::value(name, format!("{name} must be a whole number"))),
            },
        }
    }

    pub(super) fn number(self, name: &str, least: f64, greatest: f64) -> Result<Option<f64>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(x) if (least..=greatest).contains(&x) => Ok(Some(x)),
                _ => Err(ApiError::value(name, format!("{name} must be a number from {least} to {greatest}"))),
            },
        }
    }

    pub(super) fn object(self, name: &str) -> Result<Option<&'a Map<String, Value>>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(ApiError::value(name, format!("{name} must be an object"))),
        }
    }
}

/// Name, whether a value asks for nothing, and what to say when it does ask for something.
type Unsupported = (&'static str, fn(&Value) -> bool, &'static str);

/// Parameters that would change the answer and are not implemented. They are refused unless they ask for nothing;
/// parameters that do not change the answer (`user`, `metadata`, `store` …) are ignored.
const UNSUPPORTED: &[Unsupported] = &[
    ("presence_penalty", is_zero, PENALTY),
    ("frequency_penalty", is_zero, PENALTY),
    ("repetition_penalty", is_one, PENALTY),
    ("logit_bias", is_empty, "logit_bias is not supported with speculative decoding here"),
    ("min_p", is_zero, "min_p is not supported here; use top_p or top_k"),
    ("n", is_one, "only one answer per request is supported (n = 1)"),
    ("best_of", is_one, "only one answer per request is supported (best_of = 1)"),
    ("logprobs", is_false, LOGPROBS),
    ("top_logprobs", is_zero, LOGPROBS),
    ("prompt_logprobs", is_zero, LOGPROBS),
    ("echo", is_false, "echo is not supported here"),
    ("suffix", is_empty, "suffix is not supported here"),
    ("tools", is_empty, TOOLS),
    ("functions", is_empty, TOOLS),
    ("response_format", is_text, CONSTRAINED),
    ("guided_json", is_empty, CONSTRAINED),
    ("guided_regex", is_empty, CONSTRAINED),
    ("guided_choice", is_empty, CONSTRAINED),
    ("guided_grammar", is_empty, CONSTRAINED),
    ("structured_outputs", is_empty, CONSTRAINED),
    ("min_tokens", is_zero, "min_tokens is not supported here; use ignore_eos"),
    ("stop_token_ids", is_empty, "stop_token_ids are not supported here; use stop"),
    ("bad_words", is_empty, "bad_words are not supported here"),
];

const PENALTY: &str = "penalties are not supported with speculative decoding here; leave them at their neutral value";
const LOGPROBS: &str = "log-probabilities are not returned here; leave out logprobs";
const TOOLS: &str = "tools and functions are not supported here";
const CONSTRAINED: &str = "constrained output is not supported here; leave it out or ask for text";

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_false(value: &Value) -> bool {
    *value == Value::Bool(false)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        Value::String(s) => s.is_empty(),
        _ => false,
    }
}

fn is_text(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("text")
}

/// Refuses what [`UNSUPPORTED`] lists.
pub(super) fn refuse_unsupported(fields: Fields<'_>) -> Result<(), ApiError> {
    for (name, neutral, message) in UNSUPPORTED {
        if fields.get(name).is_some_and(|value| !neutral(value)) {
            return Err(ApiError::unsupported(name, *message));
        }
    }
    Ok(())
}
