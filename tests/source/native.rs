//! The client of our own server: requests and chat.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post, put};
use serde_json::{Value, json};
use spectop::protocol::mode::{Mode, ModeRequest};
use spectop::source::{ChatDelta, ChatMessage, ChatRequest, Client, ServerKind, SourceError, probe};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::scripted::{Server, sse, state};

#[tokio::test]
async fn state_mode_metrics_and_health() {
    let app = Router::new()
        .route("/spec/state", get(|| async { axum::Json(state()) }))
        .route("/metrics", get(|| async { "spectop_rounds_total 3\n" }))
        .route("/health", get(|| async { (StatusCode::SERVICE_UNAVAILABLE, r#"{"error":{"message":"loading"}}"#) }))
        .route(
            "/spec/mode",
            put(|body: axum::Json<Value>| async move {
                if body["block_size"] == 99 {
                    let text = r#"{"error":{"message":"block_size must be 2 to 16"}}"#;
                    return (StatusCode::UNPROCESSABLE_ENTITY, text.to_owned());
                }
                assert_eq!(body.0, json!({"mode": "ddtree"}));
                let answer = json!({"mode": "ddtree", "block_size": 8, "tree_budget": 32, "chain_seed": true,
                                    "effective_round": 17, "at_ms": 5});
                (StatusCode::OK, answer.to_string())
            }),
        );
    let server = Server::start(app).await;
    let client = server.client();
    assert_eq!(client.state().await.unwrap(), state());
    assert_eq!(probe(&client).await.unwrap().kind, ServerKind::Native);
    assert_eq!(client.metrics_text().await.unwrap(), "spectop_rounds_total 3\n");
    assert_eq!(client.health().await, Err(SourceError::Server { status: 503, message: "loading".into() }));
    let change = client.set_mode(ModeRequest::mode(Mode::Ddtree)).await.unwrap();
    assert_eq!((change.effective_round, change.settings.mode), (17, Mode::Ddtree));
    let bad = ModeRequest { block_size: Some(99), ..ModeRequest::default() };
    let error = client.set_mode(bad).await.unwrap_err();
    assert_eq!(error.to_string(), "the server answered 422: block_size must be 2 to 16");
}

#[tokio::test]
async fn the_key_is_sent_and_its_absence_explained() {
    let app = Router::new().route(
        "/spec/state",
        get(|headers: HeaderMap| async move {
            if headers.get("authorization").is_some_and(|value| value == "Bearer s3cret") {
                axum::Json(state()).into_response()
            } else {
                StatusCode::UNAUTHORIZED.into_response()
            }
        }),
    );
    let server = Server::start(app).await;
    let url = format!("http://{}/", server.address);
    let with = Client::new(&url, Some("s3cret")).unwrap();
    assert!(with.state().await.is_ok());
    assert!(!format!("{with:?}").contains("s3cret"), "a key must not be logged");
    let error = server.client().state().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server wants a key, or another one than this: give it with --api-key or SPECTOP_API_KEY"
    );
    assert_eq!(probe(&server.client()).await.unwrap_err(), SourceError::Auth);
    assert_eq!(Client::new(&url, Some("with\nbreak")).unwrap_err(), SourceError::BadKey);
}

#[tokio::test]
async fn nobody_there_and_nonsense_are_told_apart() {
    let address = Server::start(Router::new()).await.address;
    let client = Client::new(&address.to_string(), None).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let error = client.state().await.unwrap_err().to_string();
    assert!(error.contains("cannot reach http://127.0.0.1:") && error.contains("connection refused"), "{error}");

    let server = Server::start(Router::new().route("/spec/state", get(|| async { "hello" }))).await;
    assert!(matches!(server.client().state().await, Err(SourceError::Malformed(_))));
    let error = probe(&server.client()).await.unwrap_err().to_string();
    assert!(error.contains("is it a model server?"), "{error}");
    assert!(matches!(Client::new("ftp://x", None), Err(SourceError::BadUrl { .. })));
}

fn request() -> ChatRequest {
    ChatRequest { messages: vec![ChatMessage::user("你好")], max_tokens: Some(4), ..ChatRequest::default() }
}

/// A chat server that answers with what `texts` gives, and then ends the answer.
async fn chat_server(texts: &'static [&'static str]) -> Server {
    let answer = move |body: axum::Json<Value>| async move {
        assert_eq!(body["messages"][0]["content"], "你好");
        assert_eq!(body["stream"], true);
        let (tx, rx) = mpsc::channel(16);
        for text in texts {
            tx.send((*text).to_owned()).await.unwrap();
        }
        sse(rx)
    };
    Server::start(Router::new().route("/v1/chat/completions", post(answer))).await
}

#[tokio::test]
async fn an_answer_comes_in_pieces_and_ends_once() {
    let server = chat_server(&[
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n: alive\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"世界 😀\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7},\
         \"spectop\":{\"mode\":{\"mode\":\"dflash\",\"block_size\":8,\"tree_budget\":32,\"chain_seed\":true},\
         \"modes\":[[\"dflash\",2]],\"prompt_tokens\":3,\"tokens\":4,\"rounds\":2,\"drafted\":14,\"accepted\":1,\
         \"tau\":1.5,\"accepted_hist\":[1,1],\"queue_ms\":0.1,\"ttft_ms\":5.0,\"e2e_ms\":9.0,\"decode_tok_s\":null,\
         \"prefill_tok_s\":null,\"stages\":{\"draft\":1.0,\"build\":0.0,\"verify\":2.0,\"commit\":0.1}}}\n\n",
        "data: [DONE]\n\n",
    ])
    .await;
    let mut stream = server.client().chat(&request()).await.unwrap();
    let mut texts = Vec::new();
    let end = loop {
        match stream.next().await.unwrap().unwrap() {
            ChatDelta::Text { text, reasoning, .. } => texts.push((text, reasoning)),
            ChatDelta::End(end) => break end,
        }
    };
    assert_eq!(texts, [("hm".to_owned(), true), ("世界 😀".to_owned(), false)]);
    assert_eq!(end.finish_reason, "stop");
    assert_eq!(end.usage.unwrap().completion_tokens, 4);
    assert_eq!(end.metrics.unwrap().tau, Some(1.5));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_broken_answer_is_an_error_and_not_an_end() {
    const BROKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    for (texts, expected) in [
        (&[BROKEN] as &'static [&'static str], "broke off"),
        (&[BROKEN, "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n"], "500: out of memory"),
        (&[BROKEN, "data: {nonsense\n\n"], "cannot be read"),
    ] {
        let server = chat_server(texts).await;
        let mut stream = server.client().chat(&request()).await.unwrap();
        assert!(matches!(stream.next().await, Some(Ok(ChatDelta::Text { .. }))));
        let error = stream.next().await.unwrap().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn refusals_carry_the_message() {
    let refuse = || async { (StatusCode::TOO_MANY_REQUESTS, r#"{"error":{"message":"queue is full"}}"#) };
    let server = Server::start(Router::new().route("/v1/chat/completions", post(refuse))).await;
    let error = server.client().chat(&request()).await.err().unwrap();
    assert_eq!(error, SourceError::Server { status: 429, message: "queue is full".into() });
}

#[tokio::test]
async fn dropping_the_answer_closes_the_connection() {
    let (gone_tx, mut gone) = mpsc::channel(1);
    let answer = move || {
        let gone_tx = gone_tx.clone();
        async move {
            let (tx, rx) = mpsc::channel(1);
            tokio::spawn(async move {
                let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
                while tx.send(piece.to_owned()).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let _ = gone_tx.send(()).await;
            });
            sse(rx)
        }
    };
    let server = Server::start(Router::new().route("/v1/chat/completions", post(answer))).await;
    let mut stream = server.client().chat(&request()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    timeout(Duration::from_secs(5), gone.recv()).await.expect("the server notices").unwrap();
}
