//! Server addresses as people type them.

use reqwest::Url;

use super::error::SourceError;

/// The base URL, without a trailing slash: `host:port` gets `http://`, and a trailing `/v1` (what OpenAI clients
/// are configured with) is dropped.
pub(super) fn normalise(given: &str) -> Result<Url, SourceError> {
    let bad = |reason: &str| SourceError::BadUrl { url: given.to_owned(), reason: reason.to_owned() };
    let trimmed = given.trim();
    if trimmed.is_empty() {
        return Err(bad("it is empty"));
    }
    let full = if trimmed.contains("://") {
        trimmed.to_owned()
    } else if let Some(rest) = trimmed.strip_prefix(':') {
        format!("http://127.0.0.1:{rest}")
    } else if trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        // The URL parser would take a bare number for an IPv4 address.
        return Err(bad("it is a bare number"));
    } else {
        format!("http://{trimmed}")
    };
    let mut url = Url::parse(&full).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("only http and https are spoken"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("the host is missing"));
    }
    if url.port() == Some(0) {
        return Err(bad("port 0 is no port"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("a name and password cannot be given in it"));
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Whether the address means this machine: proxies are left out then.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host_str().unwrap_or_default() {
        "localhost" | "[::1]" => true,
        host => host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_spelling_is_understood() {
        let cases = [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            (" localhost:8080/ ", "http://localhost:8080"),
            (":9000", "http://127.0.0.1:9000"),
            ("gpu-box", "http://gpu-box"),
            ("http://host:1/", "http://host:1"),
            ("http://host:1/v1/", "http://host:1"),
            ("https://host/llm/v1?x=1#y", "https://host/llm"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("https://host:443/", "https://host"),
        ];
        for (given, expected) in cases {
            assert_eq!(normalise(given).unwrap().as_str().trim_end_matches('/'), expected, "{given}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for given in [
            "",
            "  ",
            "http://",
            "ftp://host",
            "8080",
            "http://host:99999",
            "host:0",
            "http://a b",
            "http://u:p@h",
            "::",
        ] {
            let error = normalise(given).unwrap_err();
            assert!(matches!(error, SourceError::BadUrl { .. }), "{given}: {error}");
            assert!(error.to_string().contains("use e.g. http://"), "{error}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        for (url, expected) in [
            ("127.0.0.9:1", true),
            ("localhost", true),
            ("[::1]:1", true),
            ("10.0.0.1", false),
            ("127.example.com", false),
        ] {
            assert_eq!(is_loopback(&normalise(url).unwrap()), expected, "{url}");
        }
    }
}
