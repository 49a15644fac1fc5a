//! Every refusal has its status and the OpenAI shape.

use serde_json::{Value, json};
use spectop::engine::api::EngineError;
use spectop::protocol::state::Readiness;
use spectop::server::MAX_BODY;

use crate::scripted::{Running, Script};

/// Checks the shape; gives message, param and code.
async fn refused(response: reqwest::Response, status: u16) -> (String, Option<String>, String) {
    let got = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(got, status, "{body}");
    let error = body["error"].as_object().expect("an error object");
    assert_eq!(error.len(), 4, "{error:?}");
    assert!(error["type"].is_string());
    let text = |name: &str| error[name].as_str().map(str::to_owned);
    (text("message").expect("a message"), text("param"), text("code").expect("a code"))
}

#[tokio::test]
async fn bad_requests() {
    let server = Running::start().await;
    let hi = json!([{"role": "user", "content": "hi"}]);
    for (path, body, status, param, code) in [
        ("/v1/chat/completions", json!({}), 400, Some("messages"), "invalid_value"),
        ("/v1/chat/completions", json!({"messages": []}), 400, Some("messages"), "invalid_value"),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": ""}]}),
            400,
            Some("messages"),
            "invalid_value",
        ),
        ("/v1/chat/completions", json!({"messages": hi, "max_tokens": 0}), 400, Some("max_tokens"), "invalid_value"),
        (
            "/v1/chat/completions",
            json!({"messages": hi, "presence_penalty": 1}),
            400,
            Some("presence_penalty"),
            "unsupported_parameter",
        ),
        ("/v1/chat/completions", json!({"messages": hi, "model": "gpt"}), 404, Some("model"), "model_not_found"),
        (
            "/v1/chat/completions",
            json!({"messages": hi, "spectop": {"mode": "beam"}}),
            422,
            Some("mode"),
            "invalid_mode",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": hi, "spectop": {"tree_budget": 65}}),
            422,
            Some("tree_budget"),
            "invalid_mode",
        ),
        ("/v1/completions", json!({"prompt": "a".repeat(600)}), 400, Some("prompt"), "context_length_exceeded"),
        ("/v1/completions", json!({"prompt": [1, 1000]}), 400, Some("prompt"), "invalid_value"),
        ("/v1/completions", json!({"prompt": ["a", "b"]}), 400, Some("prompt"), "invalid_value"),
        ("/v1/completions", json!([1]), 400, None, "invalid_json"),
    ] {
        let (message, got_param, got_code) = refused(server.post(path, &body).await, status).await;
        assert_eq!((got_param.as_deref(), got_code.as_str()), (param, code), "{body} {message}");
    }
}

#[tokio::test]
async fn malformed_json() {
    let server = Running::start().await;
    let deep = "[".repeat(100_000);
    for body in ["", "{", "{\"prompt\": \u{1}}", "nul", "{\"temperature\": 1e999}", deep.as_str()] {
        let request = server.client.post(server.url("/v1/completions")).header("content-type", "application/json");
        let response = request.body(body.to_owned()).send().await.expect("an answer");
        let (_, _, code) = refused(response, 400).await;
        assert_eq!(code, "invalid_json");
    }
    let request = server.client.post(server.url("/v1/completions")).header("content-type", "application/json");
    refused(request.body(vec![b'"', 0xff, b'"']).send().await.expect("an answer"), 400).await;
}

#[tokio::test]
async fn only_json_is_read() {
    let server = Running::start().await;
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let mut request = server.client.post(server.url("/v1/completions")).body("{\"prompt\":\"x\"}");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        refused(request.send().await.expect("an answer"), 415).await;
    }
    let request = server.client.post(server.url("/v1/completions")).body("{\"prompt\":\"x\"}");
    let response = request.header("content-type", "Application/JSON; charset=utf-8").send().await;
    assert_eq!(response.expect("an answer").status(), 200);
}

#[tokio::test]
async fn bodies_are_bounded() {
    let server = Running::start().await;
    for size in [MAX_BODY + 1, 3 * MAX_BODY] {
        let request = server.client.post(server.url("/v1/completions")).header("content-type", "application/json");
        refused(request.body(vec![b' '; size]).send().await.expect("an answer"), 413).await;
    }
    // Without a declared length, too.
    let piece = || Ok::<_, std::io::Error>(vec![b' '; 100_000]);
    let stream = futures_util::stream::iter((0..40).map(move |_| piece()));
    let request = server.client.post(server.url("/v1/completions")).header("content-type", "application/json");
    refused(request.body(reqwest::Body::wrap_stream(stream)).send().await.expect("an answer"), 413).await;
    // The greatest that is allowed.
    let mut body = b"{\"prompt\":\"x\"}".to_vec();
    body.resize(MAX_BODY, b' ');
    let request = server.client.post(server.url("/v1/completions")).header("content-type", "application/json");
    assert_eq!(request.body(body).send().await.expect("an answer").status(), 200);
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let server = Running::start().await;
    refused(server.get("/").await, 404).await;
    refused(server.get("/v1/nothing").await, 404).await;
    let response = server.get("/v1/chat/completions").await;
    assert_eq!(response.headers()["allow"], "POST");
    refused(response, 405).await;
    refused(server.post("/spec/mode", &json!({})).await, 405).await;
    refused(server.post("/metrics", &json!({})).await, 405).await;
}

#[tokio::test]
async fn the_engines_refusals() {
    let server = Running::start().await;
    for stream in [false, true] {
        for (error, status, code) in [
            (EngineError::QueueFull { waiting: 64 }, 429, "queue_full"),
            (EngineError::Loading("x".into()), 503, "model_loading"),
            (EngineError::Load("x".into()), 503, "model_failed"),
            (EngineError::Stopped, 503, "engine_stopped"),
            (EngineError::Internal("x".into()), 500, "internal_error"),
            (EngineError::PromptTooLong { prompt: 9, context: 8 }, 400, "context_length_exceeded"),
            (EngineError::Invalid { field: "stop", problem: "x".into() }, 400, "invalid_value"),
            (EngineError::Invalid { field: "block_size", problem: "x".into() }, 422, "invalid_mode"),
        ] {
            server.backend.script(Script::Refuse(error));
            let response = server.post("/v1/completions", &json!({"prompt": "x", "stream": stream})).await;
            let retry = response.headers().contains_key("retry-after");
            let (_, _, got) = refused(response, status).await;
            assert_eq!(got, code);
            assert_eq!(retry, matches!(code, "queue_full" | "model_loading"), "{code}");
        }
    }
}

#[tokio::test]
async fn nothing_is_generated_while_loading() {
    let server = Running::start().await;
    let loading = Readiness::Loading { what: "reading toy".into(), fraction: Some(0.5) };
    for (readiness, code, status) in [
        (loading, "model_loading", "loading"),
        (Readiness::Failed { reason: "no such file".into() }, "model_failed", "failed"),
    ] {
        server.backend.readiness(readiness);
        let health = server.get("/health").await;
        assert_eq!(health.status(), 503);
        assert_eq!(health.json::<Value>().await.expect("JSON")["status"], status);
        let response = server.post("/v1/completions", &json!({"prompt": "x"})).await;
        assert_eq!(response.headers().contains_key("retry-after"), status == "loading");
        assert_eq!(refused(response, 503).await.2, code);
        assert_eq!(refused(server.put("/spec/mode", &json!({"mode": "off"})).await, 503).await.2, code);
        assert_eq!(server.get("/spec/state").await.status(), 200);
        assert_eq!(server.get("/metrics").await.status(), 200);
    }
}
