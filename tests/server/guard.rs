//! Who may ask.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scripted::{Running, Scripted};

#[tokio::test]
async fn everything_but_health_needs_the_key() {
    let server = Running::with(Scripted::new(), Some("s3cret"), None).await;
    assert_eq!(server.get("/health").await.status(), 200);
    for path in ["/v1/models", "/spec/state", "/spec/events", "/metrics", "/nothing", "/health/"] {
        let response = server.get(path).await;
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let error: Value = response.json().await.expect("JSON");
        assert_eq!(error["error"]["code"], "invalid_api_key");
    }
    assert_eq!(server.put("/spec/mode", &json!({"mode": "off"})).await.status(), 401);
    assert_eq!(server.post("/v1/completions", &json!({"prompt": "x"})).await.status(), 401);
    for (header, status) in [
        ("Bearer s3cret", 200),
        ("bearer s3cret", 200),
        ("Bearer s3cre", 401),
        ("Bearer s3cret2", 401),
        ("Bearer ", 401),
        ("Basic s3cret", 401),
        ("s3cret", 401),
    ] {
        let request = server.client.get(server.url("/spec/state")).header("authorization", header);
        assert_eq!(request.send().await.expect("an answer").status(), status, "{header}");
    }
}

/// The status line's code for a request to this host name.
async fn as_host(server: &Running, host: &str) -> String {
    let mut stream = TcpStream::connect(server.addr).await.expect("a connection");
    let head = format!("GET /spec/state HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn strange_host_names_need_a_key() {
    let open = Running::start().await;
    assert_eq!(as_host(&open, "localhost:80").await, "200");
    assert_eq!(as_host(&open, "rebound.example").await, "403");
    let keyed = Running::with(Scripted::new(), Some("k"), None).await;
    assert_eq!(as_host(&keyed, "rebound.example").await, "401");
}
