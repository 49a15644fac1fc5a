//! Public suites from the Hugging Face hub: files of JSON lines where a repository has them, rows from the hub's
//! viewer where it has only Parquet.

use std::time::Duration;

use futures_util::StreamExt;
use hf_hub::HFClient;
use serde_json::Value;

use super::{Prompt, SuiteError, line};

/// Where the hub's viewer answers.
const VIEWER: &str = "https://datasets-server.huggingface.co";

/// Rows that the viewer gives at once.
const PAGE: usize = 100;

/// Prompts taken when no number was asked for: enough for an interval, and what the published results use.
const DEFAULT_PROMPTS: usize = 128;

/// Bytes of a file that are read at most.
const LIMIT: usize = 256 << 20;

const CONNECT: Duration = Duration::from_secs(4);
const STALL: Duration = Duration::from_secs(30);

/// A public suite.
pub(super) struct Public {
    pub name: &'static str,
    owner: &'static str,
    repository: &'static str,
    part: Part,
}

enum Part {
    /// A file of JSON lines.
    File(&'static str),
    /// Configuration and split, in Parquet.
    Rows(&'static str, &'static str),
}

const fn public(name: &'static str, owner: &'static str, repository: &'static str, part: Part) -> Public {
    Public { name, owner, repository, part }
}

pub(super) const PUBLIC: [Public; 7] = [
    public("gsm8k", "openai", "gsm8k", Part::Rows("main", "test")),
    public("humaneval", "openai", "openai_humaneval", Part::Rows("openai_humaneval", "test")),
    public("mt-bench", "HuggingFaceH4", "mt_bench_prompts", Part::File("raw/question.jsonl")),
    public("math-500", "HuggingFaceH4", "MATH-500", Part::File("test.jsonl")),
    public("mbpp", "google-research-datasets", "mbpp", Part::Rows("sanitized", "test")),
    public("livecodebench", "livecodebench", "code_generation_lite", Part::File("test6.jsonl")),
    public("alpaca", "tatsu-lab", "alpaca", Part::Rows("default", "train")),
];

impl Public {
    /// For the record: repository and part.
    pub(super) fn source(&self) -> String {
        match self.part {
            Part::File(file) => format!("huggingface {}/{} {file}", self.owner, self.repository),
            Part::Rows(config, split) => format!("huggingface {}/{} {config}/{split}", self.owner, self.repository),
        }
    }
}

/// Fetches the first prompts of a suite.
pub(super) async fn fetch(public: &Public, limit: usize) -> Result<Vec<Prompt>, SuiteError> {
    let limit = if limit == usize::MAX { DEFAULT_PROMPTS } else { limit };
    let offline = ["HF_HUB_OFFLINE", "SPECTOP_OFFLINE"].iter().any(|name| {
        std::env::var(name).is_ok_and(|v| matches!(v.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
    });
    let result = if offline {
        Err("HF_HUB_OFFLINE or SPECTOP_OFFLINE is set".to_owned())
    } else {
        match public.part {
            Part::File(file) => from_file(public, file, limit).await,
            Part::Rows(config, split) => from_rows(VIEWER, public, config, split, limit).await,
        }
    };
    result.map_err(|problem| SuiteError::Hub { name: public.name.to_owned(), from: public.source(), problem })
}

fn http() -> Result<reqwest::Client, String> {
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(STALL)
        .user_agent(concat!("spectop/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| reason(&error))
}

/// Reads lines until there are enough of them: nobody waits for the rest of a large file.
async fn from_file(public: &Public, file: &str, limit: usize) -> Result<Vec<Prompt>, String> {
    let client = HFClient::builder()
        .client(http()?)
        .cache_enabled(false)
        .retry_max_attempts(1)
        .build()
        .map_err(|error| reason(&error))?;
    let repository = client.dataset(public.owner, public.repository);
    let open = repository.download_file_stream().filename(file).send();
    let (_, mut stream) = tokio::time::timeout(STALL, open)
        .await
        .map_err(|_| format!("no answer within {} s", STALL.as_secs()))?
        .map_err(|error| reason(&error))?;
    let mut bytes: Vec<u8> = Vec::new();
    let mut lines = 0;
    while lines < limit {
        let chunk = tokio::time::timeout(STALL, stream.next())
            .await
            .map_err(|_| format!("nothing came for {} s", STALL.as_secs()))?;
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|error| reason(&error))?;
        lines += chunk.split(|byte| *byte == b'\n').count() - 1;
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LIMIT {
            return Err(format!("its lines are longer than {} MiB in all", LIMIT >> 20));
        }
    }
    line::read_all(&bytes, file, public.name, limit).map_err(|error| error.to_string())
}

async fn from_rows(
    viewer: &str,
    public: &Public,
    config: &str,
    split: &str,
    limit: usize,
) -> Result<Vec<Prompt>, String> {
    let http = http()?;
    let dataset = format!("{}%2F{}", public.owner, public.repository);
    let mut prompts = Vec::new();
    while prompts.len() < limit {
        let (offset, length) = (prompts.len(), PAGE.min(limit - prompts.len()));
        let url =
            format!("{viewer}/rows?dataset={dataset}&config={config}&split={split}&offset={offset}&length={length}");
        let answer = http.get(url).send().await.and_then(reqwest::Response::error_for_status);
        let page: Value = answer.map_err(|e| reason(&e))?.json().await.map_err(|e| reason(&e))?;
        let rows = page["rows"].as_array().ok_or("the viewer's answer has no rows")?;
        for row in rows {
            let number = prompts.len() + 1;
            let object = row["row"].as_object().ok_or("a row is no object")?;
            let prompt = line::read(object, public.name, number).map_err(|e| format!("row {number}: {e}"))?;
            prompts.push(prompt);
        }
        if rows.len() < length {
            break;
        }
    }
    Ok(prompts)
}

/// The innermost cause says what happened, the outer ones only repeat the address.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use axum::extract::Query;
    use axum::routing::get;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn rows_are_read_page_by_page() {
        #[derive(serde::Deserialize)]
        struct Ask {
            dataset: String,
            offset: usize,
            length: usize,
        }
        let answer = |Query(ask): Query<Ask>| async move {
            assert_eq!(ask.dataset, "openai/gsm8k");
            assert!(ask.length <= PAGE);
            let rows: Vec<_> = (ask.offset..(ask.offset + ask.length).min(130))
                .map(|n| json!({"row_idx": n, "row": {"question": format!("q{n}"), "answer": "1"}}))
                .collect();
            axum::Json(json!({"rows": rows}))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let viewer = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/rows", get(answer))).await });
        let all = from_rows(&viewer, &PUBLIC[0], "main", "test", 128).await.unwrap();
        assert_eq!(all.len(), 128);
        assert_eq!((all[127].turns[0].as_str(), all[127].id.as_str()), ("q127", "line 128"));
        assert_eq!(from_rows(&viewer, &PUBLIC[0], "main", "test", 1000).await.unwrap().len(), 130);
        let error = from_rows("http://127.0.0.1:9", &PUBLIC[0], "main", "test", 1).await.unwrap_err();
        assert!(!error.is_empty());
    }
}
