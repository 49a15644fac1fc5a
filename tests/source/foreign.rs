//! Servers of others: recognising them, and their figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};
use spectop::protocol::event::Event;
use spectop::protocol::mode::Mode;
use spectop::source::{Connection, ServerKind, probe};

use crate::scripted::{Attached, Server};

fn models(owner: &str) -> Router {
    let answer = json!({"object": "list", "data": [
        {"id": "org/model-4b", "object": "model", "owned_by": owner, "max_model_len": 32768}]});
    Router::new().route("/v1/models", get(|| async move { axum::Json(answer) }))
}

fn answering(app: Router, path: &'static str, answer: Value) -> Router {
    app.route(path, get(|| async move { axum::Json(answer) }))
}

async fn kind(app: Router) -> ServerKind {
    let server = Server::start(app).await;
    let found = probe(&server.client()).await.unwrap();
    assert_eq!(found.model.as_deref(), Some("org/model-4b"));
    found.kind
}

#[tokio::test]
async fn every_server_is_recognised() {
    let metrics = |text: &'static str| Router::new().route("/metrics", get(move || async move { text }));
    assert_eq!(kind(models("vllm")).await, ServerKind::Vllm);
    assert_eq!(kind(models("me").merge(metrics("vllm:num_requests_running 0\n"))).await, ServerKind::Vllm);
    assert_eq!(kind(models("sglang")).await, ServerKind::Sglang);
    assert_eq!(kind(models("me").merge(metrics("sglang:gen_throughput 0\n"))).await, ServerKind::Sglang);
    for path in ["/server_info", "/get_server_info"] {
        let app = answering(models("me"), path, json!({"internal_states": [{}], "tp_size": 1}));
        assert_eq!(kind(app).await, ServerKind::Sglang, "{path}");
    }
    // The other server's path of the same name.
    let app = answering(models("vllm"), "/server_info", json!({"vllm_config": "…"}));
    assert_eq!(kind(app).await, ServerKind::Vllm);
    assert_eq!(kind(models("me").merge(metrics("llamacpp:tokens 0\n"))).await, ServerKind::OpenAi);
}

#[tokio::test]
async fn a_gateway_without_a_server_behind_it_is_an_error() {
    let app = Router::new().fallback(|| async { (StatusCode::BAD_GATEWAY, "<html>Bad Gateway</html>") });
    let server = Server::start(app).await;
    let error = probe(&server.client()).await.unwrap_err().to_string();
    assert!(error.contains("502") && error.contains("Bad Gateway"), "{error}");
}

#[tokio::test]
async fn vllm_gives_a_state_without_modes_and_samples() {
    let looks = Arc::new(AtomicU64::new(0));
    let metrics = move || {
        let look = looks.fetch_add(1, Ordering::Relaxed);
        async move {
            format!(
                "vllm:num_requests_running{{engine=\"0\"}} 1.0\n\
                 vllm:generation_tokens_total{{engine=\"0\"}} {}\n\
                 vllm:spec_decode_num_drafts_total{{engine=\"0\"}} {}\n\
                 vllm:spec_decode_num_accepted_tokens_total{{engine=\"0\"}} {}\n",
                look * 40,
                look * 10,
                look * 30
            )
        }
    };
    let app = answering(models("vllm"), "/version", json!({"version": "0.20.1"})).route("/metrics", get(metrics));
    let server = Server::start(app).await;
    let mut attached = Attached::to(server.client());
    assert_eq!(attached.connection().await, Connection::Connecting);
    assert_eq!(attached.connection().await, Connection::Connected { kind: ServerKind::Vllm });
    let Event::Hello(state) = attached.event().await else { panic!("hello first") };
    assert_eq!((state.server.as_str(), state.version.as_str()), ("vllm", "0.20.1"));
    assert_eq!(state.target.unwrap().name, "org/model-4b");
    assert_eq!(state.limits.context, 32768);
    assert!(state.limits.modes.is_empty() && state.notice.is_some());
    let Event::Sample(first) = attached.event().await else { panic!("sample") };
    assert_eq!((first.tau, first.tok_s, first.running), (None, None, 1));
    let Event::Sample(second) = attached.event().await else { panic!("sample") };
    assert_eq!(second.tau, Some(4.0));
    let speed = second.tok_s.unwrap();
    assert!((20.0..=90.0).contains(&speed), "40 tokens in half a second: {speed}");
}

#[tokio::test]
async fn sglang_without_metrics_still_tells_its_acceptance() {
    let info = json!({"version": "0.5.9", "tp_size": 1, "speculative_algorithm": "DFLASH",
                      "speculative_num_draft_tokens": 16, "speculative_draft_model_path": "org/drafter",
                      "internal_states": [{"avg_spec_accept_length": 3.5, "last_gen_throughput": 210.0}]});
    let server = Server::start(answering(models("sglang"), "/get_server_info", info)).await;
    let mut attached = Attached::to(server.client());
    let Event::Hello(state) = attached.event().await else { panic!("hello first") };
    assert_eq!((state.mode.mode, state.mode.block_size), (Mode::Dflash, 16));
    assert_eq!(state.draft.unwrap().name, "org/drafter");
    assert!(state.notice.unwrap().contains("--enable-metrics"));
    let Event::Sample(sample) = attached.event().await else { panic!("sample") };
    assert_eq!((sample.tau, sample.tok_s), (Some(3.5), Some(210.0)));
}

#[tokio::test]
async fn a_plain_server_gives_a_state_and_no_figures() {
    let server = Server::start(models("me")).await;
    let mut attached = Attached::to(server.client());
    let Event::Hello(state) = attached.event().await else { panic!("hello first") };
    assert_eq!(state.server, "openai");
    drop(server);
    let lost = attached.connection().await;
    assert!(matches!(lost, Connection::Connected { .. } | Connection::Lost { .. }), "{lost:?}");
}

#[tokio::test]
async fn a_lost_metrics_server_is_noticed() {
    let server = Server::start(models("vllm").route("/metrics", get(|| async { "vllm:x 1\n" }))).await;
    let mut attached = Attached::to(server.client());
    attached.event().await;
    drop(server);
    let begin = std::time::Instant::now();
    while !matches!(attached.connection().await, Connection::Lost { .. }) {}
    assert!(begin.elapsed().as_secs_f64() < 2.0);
}
