//! Who may ask: the bearer key, and the check of the `Host` header where there is no key.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};
use sha2::{Digest, Sha256};

use super::context::Context;
use super::error::ApiError;

/// Digest of the key. Comparing digests takes the same time wherever a guess goes wrong, and whatever its length.
#[derive(Clone)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn new(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    fn matches(&self, guess: &[u8]) -> bool {
        let guess: [u8; 32] = Sha256::digest(guess).into();
        let difference = self.0.iter().zip(guess).fold(0u8, |acc, (a, b)| acc | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

/// Lets a request through when it has the key. `/health` is open, for load balancers and container probes.
pub(super) async fn guard(State(context): State<Context>, request: Request, next: Next) -> Result<Response, ApiError> {
    match &context.key {
        Some(_) if request.uri().path() == "/health" => {}
        Some(key) => {
            if !bearer(request.headers()).is_some_and(|guess| key.matches(guess)) {
                return Err(ApiError::Unauthorized);
            }
        }
        None => {
            if let Some(host) = foreign_host(&request) {
                return Err(ApiError::ForeignHost(host));
            }
        }
    }
    Ok(next.run(request).await)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The host name of the request when it is one that a stranger could have made point at this machine. Without a key,
/// a web page could otherwise read prompts and answers by letting its own name resolve to 127.0.0.1.
fn foreign_host(request: &Request) -> Option<String> {
    let host = match request.uri().host() {
        Some(host) => host,
        None => request.headers().get(HOST)?.to_str().unwrap_or("?"),
    };
    let name = host_name(host).trim_end_matches('.').to_ascii_lowercase();
    let ours = name.parse::<IpAddr>().is_ok()
        || !name.contains('.') // nobody outside can register a name without a dot
        || name.ends_with(".localhost")
        || name.ends_with(".internal"); // reserved; containers reach their host by such a name
    (!ours).then_some(name)
}

/// The host without port and brackets.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_key_itself_matches() {
        let key = Key::new("secret");
        assert!(key.matches(b"secret"));
        for guess in ["", "secre", "secret ", "Secret", "secrets"] {
            assert!(!key.matches(guess.as_bytes()), "{guess}");
        }
    }

    fn asks(host: &str) -> Option<String> {
        let request = Request::builder().uri("/").header(HOST, host).body(Body::empty()).ok()?;
        foreign_host(&request)
    }

    #[test]
    fn local_names_pass_and_others_do_not() {
        for host in
            ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:80", "[::1]", "::1", "a.localhost:3", "box", ""]
        {
            assert_eq!(asks(host), None, "{host}");
        }
        assert_eq!(asks("host.docker.internal:8080"), None);
        assert_eq!(asks("evil.example:8080").as_deref(), Some("evil.example"));
        assert_eq!(asks("evil.example.").as_deref(), Some("evil.example"));
    }

    proptest! {
        #[test]
        fn headers_never_panic(host in "\\PC{0,40}", auth in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = host_name(&host);
            let mut headers = HeaderMap::new();
            if let Ok(value) = http::HeaderValue::from_bytes(&auth) {
                headers.insert(AUTHORIZATION, value);
            }
            let _ = bearer(&headers);
        }
    }
}
