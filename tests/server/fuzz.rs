//! No body makes the server fail.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value};

use crate::scripted::Running;

const NAMES: &[&str] = &[
    "messages",
    "prompt",
    "model",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "include_usage",
    "n",
    "logprobs",
    "presence_penalty",
    "tools",
    "ignore_eos",
    "spectop",
    "mode",
    "block_size",
    "tree_budget",
    "chain_seed",
    "trace",
    "role",
    "content",
    "type",
    "text",
    "response_format",
];

const WORDS: &[&str] =
    &["user", "system", "assistant", "off", "dflash", "ddtree", "default", "text", "", "🙂", "\u{0}"];

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2i64..20).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(WORDS).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from), object(inner)]
    })
}

fn object(inner: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    let name = prop_oneof![8 => prop::sample::select(NAMES).prop_map(str::to_owned), 1 => "\\PC{0,8}"];
    prop::collection::vec((name, inner), 0..8)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

/// A valid request with some fields replaced: gets past the first checks more often.
fn nearly_valid() -> impl Strategy<Value = Value> {
    object(json()).prop_map(|changes| {
        let mut body = serde_json::json!({"prompt": "x", "messages": [{"role": "user", "content": "x"}]});
        if let (Some(body), Value::Object(changes)) = (body.as_object_mut(), changes) {
            body.extend(changes);
        }
        body
    })
}

#[test]
fn random_bodies() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let server = runtime.block_on(Running::start());
    let path = prop::sample::select(&["/v1/chat/completions", "/v1/completions", "/spec/mode"][..]);
    let body = prop_oneof![
        3 => nearly_valid().prop_map(|v| v.to_string().into_bytes()),
        1 => json().prop_map(|v| v.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ];
    let mut runner = TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(path, body), |(path, body)| {
        let url = server.url(path);
        let request = if path == "/spec/mode" { server.client.put(url) } else { server.client.post(url) };
        let (status, text) = runtime.block_on(async {
            let request = request.header("content-type", "application/json").body(body);
            let response = request.send().await.expect("an answer");
            (response.status().as_u16(), response.text().await.expect("a body"))
        });
        prop_assert!(status < 500 || status == 503, "{} {}", status, text);
        if status >= 400 {
            let error: Value = serde_json::from_str(&text).expect("JSON");
            prop_assert!(error["error"]["message"].is_string(), "{}", text);
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
