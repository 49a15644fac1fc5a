//! A client that goes away frees its generation at once.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scripted::{Running, Script, tokens};

/// A request written by hand, so that the connection is ours to close.
async fn send(server: &Running, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(server.addr).await.expect("a connection");
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.expect("written");
    stream
}

async fn until_submitted(server: &Running) {
    let submitted = || server.backend.submitted.lock().map_or(0, |s| s.len());
    while submitted() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn while_streaming() {
    let server = Running::start().await;
    server.backend.script(Script::Hang(vec![tokens(&[1], "first")]));
    let mut stream = send(&server, &json!({"prompt": "x", "stream": true})).await;
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("first") {
        assert!(stream.read_buf(&mut seen).await.expect("bytes") > 0);
    }
    drop(stream);
    server.backend.until_dropped(1).await;
}

#[tokio::test]
async fn before_the_first_token() {
    let server = Running::start().await;
    server.backend.script(Script::Hang(vec![]));
    let stream = send(&server, &json!({"prompt": "x", "stream": true})).await;
    until_submitted(&server).await;
    drop(stream);
    server.backend.until_dropped(1).await;
}

#[tokio::test]
async fn without_streaming() {
    let server = Running::start().await;
    server.backend.script(Script::Hang(vec![tokens(&[1], "first")]));
    let stream = send(&server, &json!({"prompt": "x"})).await;
    until_submitted(&server).await;
    drop(stream);
    server.backend.until_dropped(1).await;
}

#[tokio::test]
async fn many_at_once() {
    let server = Running::start().await;
    let mut streams = Vec::new();
    for i in 0..40 {
        server.backend.script(Script::Hang(vec![tokens(&[1], "a")]));
        streams.push(send(&server, &json!({"prompt": "x", "stream": i % 2 == 0})).await);
    }
    while server.backend.submitted.lock().map_or(0, |s| s.len()) < 40 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(streams);
    server.backend.until_dropped(40).await;
    assert_eq!(server.get("/health").await.status(), 200);
}
