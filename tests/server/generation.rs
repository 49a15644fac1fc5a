//! Completions, whole and streamed, in the OpenAI shapes.

use serde::Deserialize;
use serde_json::{Value, json};
use spectop::engine::api::EngineError;
use spectop::engine::sampling::Suggested;
use spectop::protocol::event::{FinishReason, RequestMetrics};
use spectop::protocol::mode::{Mode, ModeRequest};

use crate::scripted::{MODEL, Running, Script, done, frames, metrics, tokens};

/// The parts of OpenAI's shape that its clients insist on.
#[derive(Debug, Deserialize)]
struct Chunk {
    id: String,
    object: String,
    created: u64,
    model: String,
    system_fingerprint: String,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    spectop: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    index: u32,
    delta: Option<Delta>,
    message: Option<Message>,
    text: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    role: Option<String>,
    content: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    completion_tokens_details: Details,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Details {
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

const USAGE: Usage = Usage {
    prompt_tokens: 5,
    completion_tokens: 4,
    total_tokens: 9,
    completion_tokens_details: Details { accepted_prediction_tokens: 2, rejected_prediction_tokens: 12 },
};

fn chat(more: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    body
}

/// "你好🙂!" where 好 and 🙂 take two tokens each: the engine's text lags behind its tokens.
fn split_characters() -> Script {
    Script::Say(vec![
        tokens(&[10], "你"),
        tokens(&[11], ""),
        tokens(&[12, 13], "好"),
        tokens(&[14], "🙂"),
        done("!", FinishReason::Stop),
    ])
}

async fn chunks(server: &Running, path: &str, body: &Value) -> Vec<Chunk> {
    let response = server.post(path, body).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.expect("a whole stream");
    let mut frames = frames(&text);
    let (name, last) = frames.pop().expect("some frames");
    assert_eq!((name, last.as_str()), (None, "[DONE]"));
    frames.iter().map(|(_, data)| serde_json::from_str(data).expect("OpenAI's shape")).collect()
}

fn contents(chunks: &[Chunk]) -> String {
    let texts = chunks.iter().flat_map(|c| &c.choices);
    texts.filter_map(|c| c.delta.as_ref().map_or(c.text.clone(), |d| d.content.clone())).collect()
}

#[tokio::test]
async fn a_whole_chat_answer() {
    let server = Running::start().await;
    server.backend.script(split_characters());
    let response = server.post("/v1/chat/completions", &chat(json!({}))).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.text().await.expect("a body");
    let answer: Chunk = serde_json::from_str(&body).expect("OpenAI's shape");
    assert!(answer.id.starts_with("chatcmpl-"), "{}", answer.id);
    assert_eq!(server.backend.last_request().id.as_deref(), Some(answer.id.as_str()));
    assert_eq!((answer.object.as_str(), answer.model.as_str()), ("chat.completion", MODEL));
    assert!(answer.created > 1_600_000_000);
    assert!(answer.system_fingerprint.starts_with("spectop-"));
    let choice = &answer.choices[0];
    let message = choice.message.as_ref().expect("a message");
    assert_eq!((message.role.as_str(), message.content.as_str()), ("assistant", "你好🙂!"));
    assert_eq!((choice.index, choice.finish_reason.as_deref()), (0, Some("stop")));
    assert_eq!(answer.usage, Some(USAGE));
    let own: RequestMetrics = serde_json::from_value(answer.spectop.expect("metrics")).expect("all of them");
    assert_eq!(own, metrics());
}

#[tokio::test]
async fn a_streamed_chat_answer() {
    let server = Running::start().await;
    server.backend.script(split_characters());
    let chunks = chunks(&server, "/v1/chat/completions", &chat(json!({"stream": true}))).await;
    let first = chunks[0].choices[0].delta.as_ref().expect("a delta");
    assert_eq!((first.role.as_deref(), first.content.as_deref()), (Some("assistant"), Some("")));
    assert_eq!(contents(&chunks), "你好🙂!");
    // Role, three pieces, the held-back one, the end: nothing for the token without text.
    assert_eq!(chunks.len(), 6);
    assert!(chunks.iter().all(|c| c.object == "chat.completion.chunk" && c.id == chunks[0].id && c.usage.is_none()));
    assert!(chunks[1..].iter().all(|c| c.choices[0].delta.as_ref().is_some_and(|d| d.role.is_none())));
    let (end, before) = chunks.split_last().expect("an end");
    assert!(before.iter().all(|c| c.choices[0].finish_reason.is_none() && c.spectop.is_none()));
    assert_eq!(end.choices[0].finish_reason.as_deref(), Some("stop"));
    let own: RequestMetrics = serde_json::from_value(end.spectop.clone().expect("metrics")).expect("all of them");
    assert_eq!(own, metrics());
}

#[tokio::test]
async fn usage_comes_in_a_chunk_of_its_own() {
    let server = Running::start().await;
    for (path, body) in [
        ("/v1/chat/completions", chat(json!({"stream": true, "stream_options": {"include_usage": true}}))),
        ("/v1/completions", json!({"prompt": "x", "stream": true, "stream_options": {"include_usage": true}})),
    ] {
        server.backend.script(split_characters());
        let chunks = chunks(&server, path, &body).await;
        let (usage, others) = chunks.split_last().expect("chunks");
        assert!(usage.choices.is_empty());
        assert_eq!(usage.usage, Some(USAGE));
        assert!(others.iter().all(|c| c.usage.is_none()));
    }
}

#[tokio::test]
async fn a_trace_has_every_token_id() {
    let server = Running::start().await;
    server.backend.script(split_characters());
    let body = chat(json!({"stream": true, "spectop": {"trace": true}}));
    let chunks = chunks(&server, "/v1/chat/completions", &body).await;
    let ids: Vec<u64> = chunks
        .iter()
        .filter_map(|c| c.spectop.as_ref()?.get("token_ids")?.as_array())
        .flatten()
        .filter_map(Value::as_u64)
        .collect();
    assert_eq!(ids, [10, 11, 12, 13, 14]);
    assert_eq!(contents(&chunks), "你好🙂!");

    server.backend.script(split_characters());
    let whole: Value = server
        .post("/v1/chat/completions", &chat(json!({"spectop": {"trace": true}})))
        .await
        .json()
        .await
        .expect("JSON");
    assert_eq!(whole["spectop"]["token_ids"], json!([10, 11, 12, 13, 14]));
    assert_eq!(whole["spectop"]["tau"], json!(1.5));
}

#[tokio::test]
async fn text_completions() {
    let server = Running::start().await;
    server.backend.script(split_characters());
    let whole: Chunk = server.post("/v1/completions", &json!({"prompt": "ab"})).await.json().await.expect("the shape");
    assert_eq!(whole.object, "text_completion");
    assert!(whole.id.starts_with("cmpl-"));
    assert_eq!(whole.choices[0].text.as_deref(), Some("你好🙂!"));
    assert_eq!(whole.usage, Some(USAGE));
    assert_eq!(server.backend.last_request().prompt, [97, 98]);

    server.backend.script(split_characters());
    let chunks = chunks(&server, "/v1/completions", &json!({"prompt": [7, 8], "stream": true})).await;
    assert_eq!(contents(&chunks), "你好🙂!");
    assert_eq!(chunks.last().and_then(|c| c.choices[0].finish_reason.as_deref()), Some("stop"));
    assert_eq!(server.backend.last_request().prompt, [7, 8]);
}

#[tokio::test]
async fn parameters_reach_the_engine() {
    let server = Running::start().await;
    let body = chat(json!({
        "model": "default", "max_completion_tokens": 9, "temperature": 0, "top_p": 0.5, "top_k": 3, "seed": 4,
        "stop": ["a", "b"], "ignore_eos": true,
        "spectop": {"mode": "ddtree", "block_size": 4, "tree_budget": 16, "chain_seed": false},
    }));
    assert_eq!(server.post("/v1/chat/completions", &body).await.status(), 200);
    let request = server.backend.last_request();
    assert_eq!((request.max_tokens, request.ignore_eos), (9, true));
    assert_eq!((request.sampling.temperature, request.sampling.top_p), (0.0, 0.5));
    assert_eq!((request.sampling.top_k, request.sampling.seed), (3, Some(4)));
    assert_eq!(request.stop, ["a", "b"]);
    let mode =
        ModeRequest { mode: Some(Mode::Ddtree), block_size: Some(4), tree_budget: Some(16), chain_seed: Some(false) };
    assert_eq!(request.mode, mode);
}

#[tokio::test]
async fn thinking_can_be_switched_off() {
    let server = Running::start().await;
    for (body, prompt) in [
        (json!({}), "hi"),
        (json!({"enable_thinking": true}), "hi"),
        (json!({"enable_thinking": false}), "hi<think></think>"),
        (json!({"chat_template_kwargs": {"enable_thinking": false}}), "hi<think></think>"),
    ] {
        assert_eq!(server.post("/v1/chat/completions", &chat(body.clone())).await.status(), 200, "{body}");
        let ids: Vec<u32> = prompt.bytes().map(u32::from).collect();
        assert_eq!(server.backend.last_request().prompt, ids, "{body}");
    }
    let taken = chat(json!({"chat_template_kwargs": {"messages": []}}));
    assert_eq!(server.post("/v1/chat/completions", &taken).await.status(), 400);
}

/// As vLLM and SGLang do it: what a request leaves open is as the model's publishers suggest.
#[tokio::test]
async fn sampling_that_is_left_open_is_as_published() {
    let server = Running::start().await;
    *server.backend.suggested.lock().expect("not poisoned") =
        Suggested { temperature: Some(0.25), top_p: Some(0.5), top_k: Some(20) };
    server.post("/v1/chat/completions", &chat(json!({"top_p": 1}))).await;
    let sampling = server.backend.last_request().sampling;
    assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k), (0.25, 1.0, 20));
}

#[tokio::test]
async fn max_tokens_is_what_fits() {
    let server = Running::start().await;
    for (prompt, given, want) in [
        ("ab".to_owned(), json!(null), 512),
        ("a".repeat(500), json!(null), 100),
        ("ab".to_owned(), json!(u32::MAX), 598),
    ] {
        let body = json!({"prompt": prompt, "max_tokens": given, "model": MODEL});
        assert_eq!(server.post("/v1/completions", &body).await.status(), 200);
        let request = server.backend.last_request();
        assert_eq!(request.max_tokens, want);
        assert_eq!(request.sampling.temperature, 1.0);
    }
}

#[tokio::test]
async fn a_failure_in_the_middle_ends_the_stream_with_an_error() {
    let server = Running::start().await;
    let failing =
        || Script::Say(vec![tokens(&[1], "a"), spectop::engine::api::Delta::Failed(EngineError::Internal("x".into()))]);
    server.backend.script(failing());
    let text =
        server.post("/v1/chat/completions", &chat(json!({"stream": true}))).await.text().await.expect("a stream");
    let (_, last) = frames(&text).pop().expect("frames");
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(last["error"]["type"], "server_error");
    assert!(!text.contains("[DONE]"));

    server.backend.script(failing());
    assert_eq!(server.post("/v1/chat/completions", &chat(json!({}))).await.status(), 500);
    // The engine's thread ended without a word.
    server.backend.script(Script::Say(vec![tokens(&[1], "a")]));
    assert_eq!(server.post("/v1/chat/completions", &chat(json!({}))).await.status(), 503);
}

#[tokio::test]
async fn models_are_listed() {
    let server = Running::start().await;
    let list: Value = server.get("/v1/models").await.json().await.expect("JSON");
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], MODEL);
    assert_eq!(list["data"][0]["object"], "model");
    assert_eq!(server.get("/v1/models/default").await.status(), 200);
    assert_eq!(server.get("/v1/models/gpt-4").await.status(), 404);
}
