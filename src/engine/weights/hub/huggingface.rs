//! The default target from the Hugging Face hub.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use hf_hub::HFClient;

use super::store::Store;
use super::{Progress, loading};

const OWNER: &str = "QuantFactory";
const REPOSITORY: &str = "SmolLM2-135M-Instruct-GGUF";

/// Without a network the answer must come within seconds.
const CONNECT: Duration = Duration::from_secs(4);
/// Until the first byte is on its way.
const OPEN: Duration = Duration::from_secs(10);
/// Without any byte.
const STALL: Duration = Duration::from_secs(30);

pub(super) fn fetch(store: &Store, progress: &mut Progress<'_>) -> Result<PathBuf, String> {
    progress(loading("asking the Hugging Face hub for SmolLM2-135M-Instruct", 0, 0));
    // The engine's thread has no runtime of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    let result = runtime.block_on(download(store, progress));
    // A name look-up that hangs must not hold us up: it cannot be cancelled, but nobody needs it.
    runtime.shutdown_background();
    result
}

async fn download(store: &Store, progress: &mut Progress<'_>) -> Result<PathBuf, String> {
    let http = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(STALL)
        .user_agent(concat!("spectop/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| reason(&e))?;
    let client =
        HFClient::builder().client(http).cache_enabled(false).retry_max_attempts(1).build().map_err(|e| reason(&e))?;
    let repository = client.model(OWNER, REPOSITORY);
    let open = repository.download_file_stream().filename(store.wanted.name).send();
    let (_, mut stream) = tokio::time::timeout(OPEN, open)
        .await
        .map_err(|_| format!("no answer within {} s", OPEN.as_secs()))?
        .map_err(|e| reason(&e))?;
    let mut part = store.part()?;
    loop {
        let chunk = tokio::time::timeout(STALL, stream.next())
            .await
            .map_err(|_| format!("nothing came for {} s, after {} bytes", STALL.as_secs(), part.written))?;
        let Some(chunk) = chunk else { return part.finish() };
        part.write(&chunk.map_err(|e| reason(&e))?)?;
        part.report("fetching SmolLM2-135M-Instruct from the Hugging Face hub", progress);
    }
}

/// The innermost cause says what happened ("Connection refused"), the outer ones only repeat the address.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
