//! A conversation as the chat template wants it: roles it knows, content as one string.

use serde_json::{Map, Value};

use crate::server::error::ApiError;

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// Checks and simplifies the messages.
pub(super) fn read(value: Option<&Value>) -> Result<Vec<Value>, ApiError> {
    let messages = match value {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => return Err(bad("messages must be an array with at least one message")),
    };
    messages.iter().enumerate().map(|(i, message)| one(i, message)).collect()
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::value("messages", message)
}

fn one(i: usize, message: &Value) -> Result<Value, ApiError> {
    let Value::Object(message) = message else {
        return Err(bad(format!("messages[{i}] must be an object with role and content")));
    };
    let role = match message.get("role").and_then(Value::as_str) {
        Some(role) if ROLES.contains(&role) => role,
        _ => return Err(bad(format!("messages[{i}].role must be one of {}", ROLES.join(", ")))),
    };
    for call in ["tool_calls", "function_call"] {
        if message.get(call).is_some_and(|v| !v.is_null() && v.as_array().is_none_or(|calls| !calls.is_empty())) {
            return Err(ApiError::unsupported("messages", format!("messages[{i}].{call} is not supported here")));
        }
    }
    let mut plain = Map::new();
    // "developer" is OpenAI's newer name for what chat templates call "system".
    let role = if role == "developer" { "system" } else { role };
    plain.insert("role".into(), role.into());
    plain.insert("content".into(), content(i, message.get("content"))?.into());
    if let Some(Value::String(name)) = message.get("name") {
        plain.insert("name".into(), name.clone().into());
    }
    Ok(Value::Object(plain))
}

fn content(i: usize, content: Option<&Value>) -> Result<String, ApiError> {
    match content {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => parts.iter().map(|part| text_of(i, part)).collect(),
        _ => Err(bad(format!("messages[{i}].content must be a string or an array of text parts"))),
    }
}

fn text_of(i: usize, part: &Value) -> Result<&str, ApiError> {
    match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
        (Some("text"), Some(text)) => Ok(text),
        (Some(kind), _) if kind != "text" => Err(ApiError::unsupported(
            "messages",
            format!("messages[{i}].content has a part that is no text; this server reads text only"),
        )),
        _ => Err(bad(format!("messages[{i}].content: a part must look like {{\"type\":\"text\",\"text\":\"…\"}}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_become_one_string() {
        let given = json!([
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "é"}], "name": "x"},
        ]);
        let want = vec![
            json!({"role": "system", "content": "be brief"}),
            json!({"role": "user", "content": "aé", "name": "x"}),
        ];
        assert_eq!(read(Some(&given)), Ok(want));
    }

    #[test]
    fn what_is_no_conversation_is_refused() {
        for given in [
            json!(null),
            json!([]),
            json!("hello"),
            json!(["hello"]),
            json!([{"content": "x"}]),
            json!([{"role": "king", "content": "x"}]),
            json!([{"role": "user"}]),
            json!([{"role": "user", "content": 3}]),
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
            json!([{"role": "user", "content": ["x"]}]),
            json!([{"role": "assistant", "content": "x", "tool_calls": [{}]}]),
        ] {
            assert!(read(Some(&given)).is_err(), "{given}");
        }
        assert!(read(None).is_err());
    }
}
