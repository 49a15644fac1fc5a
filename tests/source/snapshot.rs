//! `spectop snapshot`.

use axum::Router;
use axum::routing::get;
use serde_json::json;
use spectop::cli::snapshot::take;
use spectop::cli::{ClientArgs, Exit, snapshot};
use spectop::protocol::event::{Event, Sample};
use spectop::source::ServerKind;

use crate::scripted::{Server, native, saying, state, wire};

#[tokio::test]
async fn a_snapshot_of_our_server_has_state_and_sample() {
    let sample = Sample { tau: Some(3.25), ..Sample::default() };
    let event = Event::Sample(Box::new(sample.clone()));
    let server =
        Server::start(native(move || saying(vec![wire(&Event::Hello(Box::new(state()))), wire(&event)]))).await;
    let snapshot = take(&server.client()).await.unwrap();
    assert_eq!(snapshot.kind, ServerKind::Native);
    assert_eq!((snapshot.state, snapshot.sample), (state(), Some(sample)));
}

#[tokio::test]
async fn a_server_without_figures_gives_a_snapshot_in_time() {
    let begin = std::time::Instant::now();
    let server = Server::start(native(|| saying(vec![wire(&Event::Hello(Box::new(state())))]))).await;
    assert_eq!(take(&server.client()).await.unwrap().sample, None);
    let models = json!({"data": [{"id": "m"}]});
    let server = Server::start(Router::new().route("/v1/models", get(|| async move { axum::Json(models) }))).await;
    let snapshot = take(&server.client()).await.unwrap();
    assert_eq!((snapshot.kind, snapshot.sample), (ServerKind::OpenAi, None));
    assert!(begin.elapsed().as_secs_f64() < 4.0);
}

#[test]
fn failures_have_their_exit_codes() {
    let run = |url: &str| {
        let failure = snapshot::run(ClientArgs { url: url.into(), api_key: None }, true).unwrap_err();
        (failure.exit, failure.message)
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (exit, message) = run(&free.to_string());
    assert_eq!(exit, Exit::Unreachable);
    assert!(message.contains("connection refused"), "{message}");
    assert_eq!(run("nonsense://x").0, Exit::Usage);
}
