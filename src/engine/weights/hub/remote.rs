//! Asking the hub: which files a repository has, and for their bytes.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hf_hub::repository::download::HFByteStream;
use hf_hub::{HFClient, HFError};
use serde::Deserialize;

use super::cache::home;
use super::error::HubError;
use super::reference::RepoRef;
use super::wanted::Remote;

/// Without a network the answer must come within seconds.
const CONNECT: Duration = Duration::from_secs(5);
/// Until an answer begins.
const OPEN: Duration = Duration::from_secs(30);
/// Without any byte.
const STALL: Duration = Duration::from_secs(30);
/// Longest list of files that is read.
const MAX_LIST: usize = 64 << 20;
/// Where the hub is, unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";

/// The hub, asked about one repository.
pub(super) struct Hub<'a> {
    http: reqwest::Client,
    client: HFClient,
    endpoint: String,
    token: Option<String>,
    repo: &'a RepoRef,
}

/// What the hub says about a repository. `hf-hub` itself does not read the hashes of large files.
#[derive(Deserialize)]
struct Listing {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

/// Bytes of a file as they come.
pub(super) struct Download {
    stream: HFByteStream,
}

impl Download {
    /// The next piece; `Ok(None)` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let piece = tokio::time::timeout(STALL, self.stream.next()).await;
        match piece.map_err(|_| format!("nothing came for {} s", STALL.as_secs()))? {
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(error)) => Err(innermost(&error)),
            None => Ok(None),
        }
    }
}

impl<'a> Hub<'a> {
    pub(super) fn new(repo: &'a RepoRef) -> Result<Self, HubError> {
        let failed = |e: &dyn std::error::Error| HubError::Network { repo: repo.to_string(), problem: innermost(e) };
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(STALL)
            .user_agent(concat!("spectop/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| failed(&e))?;
        let endpoint = std::env::var("HF_ENDPOINT").ok().filter(|e| !e.is_empty()).unwrap_or_else(|| ENDPOINT.into());
        let token = token();
        let builder = HFClient::builder().client(http.clone()).endpoint(&endpoint);
        let builder = builder.cache_enabled(false).retry_max_attempts(1);
        let builder = if let Some(token) = &token { builder.token(token) } else { builder };
        let client = builder.build().map_err(|e| failed(&e))?;
        Ok(Self { http, client, endpoint: endpoint.trim_end_matches('/').to_owned(), token, repo })
    }

    /// The commit that the revision stands for, and the files in it.
    pub(super) async fn list(&self) -> Result<(String, Vec<Remote>), HubError> {
        let text = tokio::time::timeout(OPEN, self.listing()).await.map_err(|_| self.late())??;
        let listing: Listing =
            serde_json::from_slice(&text).map_err(|e| self.network(&format!("its answer cannot be read: {e}")))?;
        let hash = |text: &String, len: usize| text.len() == len && text.chars().all(|c| c.is_ascii_hexdigit());
        let commit = listing.sha.filter(|sha| hash(sha, 40)).ok_or_else(|| self.network("it named no commit"))?;
        let files = listing.siblings.into_iter().filter_map(|file| {
            let lfs = file.lfs.as_ref();
            let sha256 = lfs.and_then(|l| l.sha256.clone()).filter(|s| hash(s, 64));
            // Large files have git's id of a pointer; what tells their contents is the hash beside it.
            let etag = sha256.clone().or(file.blob_id.filter(|id| hash(id, 40)))?;
            let size = lfs.and_then(|l| l.size).or(file.size)?;
            let inside = file.rfilename.split('/').all(|p| !matches!(p, "" | "." | ".."));
            inside.then_some(Remote { path: file.rfilename, size, etag, sha256 })
        });
        Ok((commit, files.collect()))
    }

    async fn listing(&self) -> Result<Vec<u8>, HubError> {
        let mut address =
            reqwest::Url::parse(&self.endpoint).map_err(|e| self.network(&format!("HF_ENDPOINT: {e}")))?;
        let (owner, name) = self.repo.split();
        address
            .path_segments_mut()
            .map_err(|()| self.network("HF_ENDPOINT is no web address"))?
            .pop_if_empty()
            .extend(["api", "models", owner, name, "revision", self.repo.revision()]);
        address.set_query(Some("blobs=true"));
        let ask = self.http.get(address);
        let ask = if let Some(token) = &self.token { ask.bearer_auth(token) } else { ask };
        let mut answer = ask.send().await.map_err(|e| self.network(&innermost(&e)))?;
        if !answer.status().is_success() {
            let header = |name: &str| answer.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
            return Err(self.refused(answer.status().as_u16(), header("x-error-code"), header("x-error-message")));
        }
        let mut text = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|e| self.network(&innermost(&e)))? {
            text.extend_from_slice(&piece);
            if text.len() > MAX_LIST {
                return Err(self.network("its list of files is too long"));
            }
        }
        Ok(text)
    }

    /// Begins to fetch a file, or a part of it.
    pub(super) async fn open(&self, commit: &str, file: &str, range: Option<Range<u64>>) -> Result<Download, HubError> {
        let (owner, name) = self.repo.split();
        let repository = self.client.model(owner, name);
        let ask = repository.download_file_stream().filename(file).revision(commit).maybe_range(range).send();
        let (_, stream) = self.in_time(ask).await?;
        Ok(Download { stream })
    }

    async fn in_time<T>(&self, ask: impl Future<Output = Result<T, HFError>>) -> Result<T, HubError> {
        tokio::time::timeout(OPEN, ask).await.map_err(|_| self.late())?.map_err(|e| self.explain(&e))
    }

    fn late(&self) -> HubError {
        self.network(&format!("no answer within {} s", OPEN.as_secs()))
    }

    pub(super) fn network(&self, problem: &str) -> HubError {
        HubError::Network { repo: self.repo.to_string(), problem: problem.to_owned() }
    }

    fn explain(&self, error: &HFError) -> HubError {
        match error {
            HFError::Http { context }
            | HFError::AuthRequired { context }
            | HFError::Forbidden { context }
            | HFError::Conflict { context }
            | HFError::RateLimited { context, .. } => self.refused(
                context.status.as_u16(),
                context.error_code.as_deref().unwrap_or_default(),
                context.server_message.as_deref().unwrap_or_default(),
            ),
            HFError::RepoNotFound { context, .. }
            | HFError::RevisionNotFound { context, .. }
            | HFError::EntryNotFound { context, .. } => {
                self.refused(404, context.as_ref().and_then(|c| c.error_code.as_deref()).unwrap_or_default(), "")
            }
            other => self.network(&innermost(other)),
        }
    }

    /// The hub says "not found" for what may not be seen, and both 401 and 403 for what is gated: a header tells which.
    fn refused(&self, status: u16, code: &str, message: &str) -> HubError {
        let (repo, token) = (self.repo.id.clone(), self.token.is_some());
        let no_revision = || HubError::NoRevision { repo: repo.clone(), revision: self.repo.revision().to_owned() };
        match (status, code) {
            (_, "GatedRepo") => HubError::Gated { repo, token },
            (_, "RevisionNotFound") => no_revision(),
            (401, _) if token && code != "RepoNotFound" => HubError::BadToken { repo },
            (_, "RepoNotFound") | (401, _) => HubError::NoRepository { repo, token },
            (404, _) if self.repo.revision.is_some() => no_revision(),
            (404, _) => HubError::NoRepository { repo, token },
            (403, _) => HubError::Gated { repo, token },
            (429, _) => HubError::RateLimited { repo },
            _ => HubError::Server { repo, status, message: message.to_owned() },
        }
    }
}

/// The user's token, from where all programs of the hub keep it.
fn token() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
    if set("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some() {
        return None;
    }
    let file = |path: std::path::PathBuf| std::fs::read_to_string(path).ok();
    let found = set("HF_TOKEN")
        .or_else(|| set("HF_TOKEN_PATH").and_then(|path| file(path.into())))
        .or_else(|| file(home().join("token")))?;
    let token = found.trim().to_owned();
    (!token.is_empty()).then_some(token)
}

/// The innermost cause says what happened ("Connection refused"), the outer ones only repeat the address.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
