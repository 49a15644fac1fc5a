//! Taking the port, and letting go of it.

use std::time::{Duration, Instant};

use serde_json::json;
use spectop::server::{Options, ServerError, bind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scripted::{Events, Running, Script, tokens};

fn options(host: &str, port: u16, key: Option<&str>) -> Options {
    Options { host: host.into(), port, api_key: key.map(str::to_owned) }
}

async fn refused(options: Options) -> ServerError {
    match bind(&options).await {
        Err(error) => error,
        Ok(bound) => panic!("{options:?} listens on {}", bound.addr()),
    }
}

#[tokio::test]
async fn a_taken_port_is_told() {
    let first = bind(&options("127.0.0.1", 0, None)).await.expect("a free port");
    let port = first.addr().port();
    let error = refused(options("127.0.0.1", port, None)).await;
    assert_eq!(
        error.to_string(),
        format!("port {port} on 127.0.0.1 is taken; choose another with --port, or 0 for any free one")
    );
}

#[tokio::test]
async fn other_machines_need_a_key() {
    for host in ["0.0.0.0", "::", "[::]"] {
        assert!(matches!(refused(options(host, 0, None)).await, ServerError::KeyNeeded { .. }), "{host}");
        assert!(matches!(refused(options(host, 0, Some(""))).await, ServerError::KeyNeeded { .. }), "{host}");
    }
    assert!(bind(&options("0.0.0.0", 0, Some("k"))).await.is_ok());
    assert!(bind(&options("localhost", 0, None)).await.is_ok());
}

#[tokio::test]
async fn bad_hosts_are_told() {
    for host in ["", " ", "no such host", "192.0.2.1"] {
        let error = refused(options(host, 0, Some("k"))).await;
        assert!(matches!(error, ServerError::BadHost { .. }), "{host}: {error}");
    }
}

#[tokio::test]
async fn shutdown_ends_event_streams_at_once_and_answers_soon() {
    let server = Running::start().await;
    let mut events = Events::new(server.get("/spec/events").await);
    events.next().await;
    server.shutdown.cancel();
    while events.next().await.is_some() {}
    let begin = Instant::now();
    server.task.await.expect("no panic");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());

    let server = Running::start().await;
    server.backend.script(Script::Hang(vec![tokens(&[1], "a")]));
    let mut answer = server.post("/v1/completions", &json!({"prompt": "x", "stream": true})).await;
    assert!(answer.chunk().await.expect("a chunk").is_some());
    server.shutdown.cancel();
    let begin = Instant::now();
    server.task.await.expect("no panic");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    server.backend.until_dropped(1).await;
}

#[tokio::test]
async fn garbage_and_huge_heads_hurt_nobody() {
    let server = Running::start().await;
    for garbage in [b"\x16\x03\x01\x00\xff".to_vec(), vec![b'A'; 200_000], b"GET / HTTP/9.9\r\n\r\n".to_vec()] {
        let mut stream = TcpStream::connect(server.addr).await.expect("a connection");
        let _ = stream.write_all(&garbage).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await.expect("an end");
        assert!(!answer.starts_with(b"HTTP/1.1 2") && !answer.starts_with(b"HTTP/1.1 5"));
    }
    assert_eq!(server.get("/health").await.status(), 200);
}
