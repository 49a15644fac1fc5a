//! What can go wrong with a server, in words that say what to do.

use std::error::Error;

/// Why a server could not be asked, or what it answered instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Nobody answers there.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The server.
        url: String,
        /// Why, in words.
        reason: String,
    },
    /// A key is missing or wrong.
    #[error("the server wants a key, or another one than this: give it with --api-key or SPECTOP_API_KEY")]
    Auth,
    /// The server refused.
    #[error("the server answered {status}: {message}")]
    Server {
        /// HTTP status; 200 for an error inside a stream that had begun.
        status: u16,
        /// The server's own message.
        message: String,
    },
    /// The address makes no sense.
    #[error("\"{url}\" is no server address: {reason}; use e.g. http://127.0.0.1:8080")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key cannot be put into a header.
    #[error("the API key has characters that cannot be sent")]
    BadKey,
    /// The answer is not what it should be.
    #[error("the server's answer cannot be read: {0}")]
    Malformed(String),
}

impl SourceError {
    /// From a failed request.
    pub(super) fn from_request(url: &str, error: &reqwest::Error) -> Self {
        Self::Unreachable { url: url.to_owned(), reason: explain(error) }
    }

    /// From an answer that is not a success.
    pub(super) fn from_status(status: u16, body: &[u8]) -> Self {
        match status {
            401 => Self::Auth,
            300..=399 => {
                Self::Server { status, message: "it redirects elsewhere; use the address that it points to".to_owned() }
            }
            _ => Self::Server { status, message: message_of(body) },
        }
    }
}

/// The shortest true description of a failed request: reqwest's own text repeats the URL and hides the cause.
fn explain(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut root: &dyn Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    if let Some(io) = root.downcast_ref::<std::io::Error>() {
        return explain_io(io);
    }
    root.to_string()
}

fn explain_io(error: &std::io::Error) -> String {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused => "connection refused (is the server running?)".into(),
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => "the connection broke".into(),
        Kind::TimedOut => "no answer in time".into(),
        Kind::UnexpectedEof => "the server closed the connection".into(),
        _ => error.to_string(),
    }
}

/// The cause of a failed stream, in words.
pub(super) fn explain_cause(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<reqwest::Error>() {
        Some(error) => explain(error),
        None => error.to_string(),
    }
}

/// The message in an error body: the OpenAI shape, FastAPI's `detail`, or the text itself.
pub(super) fn message_of(body: &[u8]) -> String {
    const LIMIT: usize = 400;
    let text = String::from_utf8_lossy(body);
    let json: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let named = json.as_ref().and_then(|json| {
        let error = json.get("error");
        [error.and_then(|error| error.get("message")), error, json.get("message"), json.get("detail")]
            .into_iter()
            .flatten()
            .find_map(|value| value.as_str().map(str::to_owned))
    });
    let message = named.unwrap_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "));
    match message.char_indices().nth(LIMIT) {
        _ if message.is_empty() => "(no message)".into(),
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_message_is_found_in_every_usual_shape() {
        let cases: [(&str, &str); 7] = [
            (r#"{"error":{"message":"queue is full","type":"x"}}"#, "queue is full"),
            (r#"{"error":"no such model"}"#, "no such model"),
            (r#"{"object":"error","message":"too long"}"#, "too long"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            ("<html>\n  Bad gateway </html>", "<html> Bad gateway </html>"),
            ("", "(no message)"),
            (r#"{"detail":[{"loc":1}]}"#, r#"{"detail":[{"loc":1}]}"#),
        ];
        for (body, message) in cases {
            assert_eq!(message_of(body.as_bytes()), message);
        }
        assert_eq!(message_of("ü".repeat(1000).as_bytes()).chars().count(), 401);
    }

    #[test]
    fn statuses_become_advice() {
        assert_eq!(SourceError::from_status(401, b"{}"), SourceError::Auth);
        // A 403 is about something else than the key, e.g. the host name in the address.
        let text = SourceError::from_status(403, br#"{"error":{"message":"wrong host"}}"#).to_string();
        assert_eq!(text, "the server answered 403: wrong host");
        let text = SourceError::from_status(429, br#"{"error":{"message":"queue is full"}}"#).to_string();
        assert_eq!(text, "the server answered 429: queue is full");
        assert!(SourceError::from_status(307, b"").to_string().contains("redirects"));
    }
}
