//! A server that speaks as much of the hub's language as fetching models takes: the list of files with their hashes,
//! and files with ranges, redirected to another address when they are large.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use axum::routing::get;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Commit of every repository.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Files from here on are large ones: with a SHA-256, and redirected.
const LARGE: usize = 10_000;

/// A repository.
#[derive(Clone, Default)]
pub struct Repo {
    pub files: Vec<(String, Bytes)>,
    /// Answers with this status and error code.
    pub refuses: Option<(u16, &'static str)>,
    /// Refuses only the files.
    pub gated_files: bool,
    /// Ends every answer with a file after so many bytes.
    pub breaks_after: Option<usize>,
    /// Says a size of this file that it does not have.
    pub claims: Option<u64>,
    /// Gives other bytes than it announced.
    pub lies: bool,
}

impl Repo {
    /// With these files.
    pub fn new(files: Vec<(String, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name, Bytes::from(bytes))).collect();
        Self { files, ..Self::default() }
    }
}

/// A request for a file: its path, the range, and the token that came along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub range: Option<String>,
    pub token: Option<String>,
}

#[derive(Clone, Default)]
struct Shared {
    repos: Arc<Mutex<HashMap<String, Repo>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// The server; it ends with the test.
pub struct Hub {
    pub address: String,
    shared: Shared,
    _runtime: tokio::runtime::Runtime,
}

impl Hub {
    pub fn start(repos: Vec<(&str, Repo)>) -> Self {
        let shared = Shared::default();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let app = Router::new()
            .route("/api/models/{owner}/{name}/revision/{revision}", get(list))
            .route("/{owner}/{name}/resolve/{revision}/{*path}", get(resolve))
            .route("/cdn/{owner}/{name}/{*path}", get(cdn))
            .with_state(shared.clone());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, app).await });
        let hub = Self { address, shared, _runtime: runtime };
        for (id, repo) in repos {
            hub.put(id, repo);
        }
        hub
    }

    /// Adds or replaces a repository.
    pub fn put(&self, id: &str, repo: Repo) {
        self.shared.repos.lock().expect("a lock").insert(id.to_owned(), repo);
    }

    /// What was asked for since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.shared.asked.lock().expect("a lock"))
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(n.into(), 16).expect("a digit");
    Sha256::digest(bytes).iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn refusal(status: u16, code: &str) -> Response<Body> {
    let answer = Response::builder().status(status).header("x-error-code", code);
    answer.body(Body::from("{}")).expect("an answer")
}

fn note(shared: &Shared, path: &str, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let asked = Asked { path: path.to_owned(), range: text(header::RANGE), token: text(header::AUTHORIZATION) };
    shared.asked.lock().expect("a lock").push(asked);
}

async fn list(
    State(shared): State<Shared>,
    Path((owner, name, revision)): Path<(String, String, String)>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response<Body> {
    note(&shared, "list", &headers);
    let Some(repo) = shared.repos.lock().expect("a lock").get(&format!("{owner}/{name}")).cloned() else {
        return refusal(401, "RepoNotFound"); // what the hub says to strangers
    };
    if let Some((status, code)) = repo.refuses {
        return refusal(status, code);
    }
    if revision != "main" && revision != COMMIT {
        return refusal(404, "RevisionNotFound");
    }
    assert_eq!(query.get("blobs").map(String::as_str), Some("true"), "sizes and hashes are asked for");
    let siblings: Vec<Value> = repo
        .files
        .iter()
        .map(|(path, bytes)| {
            let size = repo.claims.unwrap_or(bytes.len() as u64);
            let lfs = json!({ "sha256": sha256(bytes), "size": size, "pointerSize": 133 });
            let lfs = if bytes.len() >= LARGE { lfs } else { Value::Null };
            json!({ "rfilename": path, "size": size, "blobId": format!("{:040x}", bytes.len()), "lfs": lfs })
        })
        .collect();
    let text = json!({ "id": format!("{owner}/{name}"), "sha": COMMIT, "siblings": siblings }).to_string();
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(Body::from(text)).expect("an answer")
}

async fn resolve(
    State(shared): State<Shared>,
    Path((owner, name, _, path)): Path<(String, String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    let Some(repo) = shared.repos.lock().expect("a lock").get(&format!("{owner}/{name}")).cloned() else {
        return refusal(401, "RepoNotFound");
    };
    if repo.gated_files {
        return refusal(if headers.contains_key(header::AUTHORIZATION) { 403 } else { 401 }, "GatedRepo");
    }
    match repo.files.iter().find(|(file, _)| *file == path) {
        None => refusal(404, "EntryNotFound"),
        Some((_, bytes)) if bytes.len() >= LARGE => Response::builder()
            .status(StatusCode::FOUND)
            .header(header::LOCATION, format!("/cdn/{owner}/{name}/{path}"))
            .body(Body::empty())
            .expect("an answer"),
        Some((_, bytes)) => {
            note_file(&shared, &method, &path, &headers);
            give(&repo, bytes, &headers)
        }
    }
}

async fn cdn(
    State(shared): State<Shared>,
    Path((owner, name, path)): Path<(String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    let repo = shared.repos.lock().expect("a lock").get(&format!("{owner}/{name}")).cloned().unwrap_or_default();
    note_file(&shared, &method, &path, &headers);
    let found = repo.files.iter().find(|(file, _)| *file == path).map(|(_, bytes)| bytes.clone());
    found.map_or_else(|| refusal(404, "EntryNotFound"), |bytes| give(&repo, &bytes, &headers))
}

/// Questions about a file are not noted, only fetching it.
fn note_file(shared: &Shared, method: &Method, path: &str, headers: &HeaderMap) {
    if method == Method::GET {
        note(shared, path, headers);
    }
}

fn give(repo: &Repo, bytes: &Bytes, headers: &HeaderMap) -> Response<Body> {
    let bytes = if repo.lies { Bytes::from(vec![7; bytes.len()]) } else { bytes.clone() };
    let range = headers.get(header::RANGE).and_then(|v| v.to_str().ok()).map(|text| {
        let (from, to) = text.trim_start_matches("bytes=").split_once('-').expect("a range");
        let to = to.parse::<usize>().map_or(bytes.len(), |last| (last + 1).min(bytes.len()));
        from.parse().expect("a start")..to
    });
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let part = bytes.slice(range.unwrap_or(0..bytes.len()));
    let answer = Response::builder().status(status).header(header::CONTENT_LENGTH, part.len());
    let body = match repo.breaks_after.filter(|&n| n < part.len()) {
        None => Body::from(part),
        Some(n) => {
            let pieces = [Ok(part.slice(..n)), Err(std::io::Error::other("cut"))];
            Body::from_stream(futures_util::stream::iter(pieces))
        }
    };
    answer.body(body).expect("an answer")
}
