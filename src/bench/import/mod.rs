//! Result files of others, and our own, as runs: for the compare screen and for reports.
//!
//! `run.v1` comes back as it was written. vLLM's and SGLang's files become runs with [`RunStatus::Imported`]: one mode a
//! file, or one a line where a file was appended to. What such a file does not say stays absent, and `warnings` says so.

mod detail;
mod figures;
mod lenient;

use serde_json::{Map, Value};

use crate::protocol::mode::ModeRequest;
use crate::protocol::run::{
    Environment, Losslessness, ModeSpec, ModeSummary, RUN_SCHEMA, RequestRecord, Run, RunMeta, RunPlan, RunStatus,
    SuiteInfo,
};

use super::summary::{compare, distinct, summarise};

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No JSON.
    #[error("{name}, line {line}: {error}")]
    Json {
        /// The file.
        name: String,
        /// Line of the file, from 1.
        line: usize,
        /// What is wrong there.
        error: String,
    },
    /// A run of a version that we do not know.
    #[error("{name} is a run in format \"{schema}\"; this version reads {RUN_SCHEMA}")]
    Version {
        /// The file.
        name: String,
        /// Its format.
        schema: String,
    },
    /// JSON, but no result file.
    #[error("{name} is no result file of spectop, vLLM (bench serve) or SGLang (bench_serving): {why}")]
    Unknown {
        /// The file.
        name: String,
        /// What is missing.
        why: String,
    },
    /// A result file whose arrays do not fit together.
    #[error("{name}: {why}")]
    Broken {
        /// The file.
        name: String,
        /// What does not fit.
        why: String,
    },
}

/// Which tool wrote a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Vllm,
    Sglang,
}

impl Tool {
    /// Both write `duration`, `completed` and `output_throughput`; the names of the rest differ.
    fn of(result: &Map<String, Value>) -> Option<Self> {
        let has = |key: &str| result.contains_key(key);
        if !has("duration") || !has("output_throughput") {
            None
        } else if has("total_throughput") || has("mean_e2e_latency_ms") || has("accept_length") {
            Some(Tool::Sglang)
        } else if has("total_token_throughput") || has("mean_ttft_ms") || has("mean_e2el_ms") {
            Some(Tool::Vllm)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Vllm => "vllm",
            Tool::Sglang => "sglang",
        }
    }
}

/// Reads a file's text; `name` is the file's name, for labels and messages.
pub fn read(name: &str, text: &str) -> Result<Run, ImportError> {
    let values =
        lenient::values(text).map_err(|(line, error)| ImportError::Json { name: name.to_owned(), line, error })?;
    let unknown = |why: &str| ImportError::Unknown { name: name.to_owned(), why: why.to_owned() };
    if let [Value::Object(only)] = values.as_slice()
        && let Some(schema) = only.get("schema").and_then(Value::as_str)
    {
        if schema != RUN_SCHEMA {
            return Err(ImportError::Version { name: name.to_owned(), schema: schema.to_owned() });
        }
        // From the text and not from the value, so that an error has a line.
        return serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| ImportError::Json {
            name: name.to_owned(),
            line: error.line(),
            error: error.to_string(),
        });
    }
    let mut results = Vec::new();
    for value in &values {
        let Value::Object(result) = value else { return Err(unknown("it holds no JSON objects")) };
        let tool = Tool::of(result).ok_or_else(|| {
            unknown("there is no duration, output_throughput and mean_ttft_ms or mean_e2e_latency_ms")
        })?;
        results.push((tool, result));
    }
    let Some((tool, first)) = results.first().copied() else { return Err(unknown("it is empty")) };
    assemble(name, tool, first, &results)
}

fn assemble(
    name: &str,
    tool: Tool,
    first: &Map<String, Value>,
    results: &[(Tool, &Map<String, Value>)],
) -> Result<Run, ImportError> {
    let stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    let labels = labels(stem, results);
    let suite = text(first, &["dataset_name"]).unwrap_or_else(|| "imported".into());
    let mut requests: Vec<RequestRecord> = Vec::new();
    let mut files: Vec<figures::Figures> = Vec::new();
    let mut warnings = Vec::new();
    for ((tool, result), label) in results.iter().zip(&labels) {
        let place = detail::Place { suite: &suite, mode: label, concurrency: concurrency(result), seq: requests.len() };
        let broken = |why: String| ImportError::Broken { name: name.to_owned(), why };
        let found = detail::records(result, &place).map_err(broken)?;
        if found.is_empty() {
            warnings.push(format!("{label}: only totals; the file holds no single requests"));
        }
        requests.extend(found);
        files.push(figures::Figures::of(*tool, result, &suite, label, concurrency(result)));
    }
    let same_prompts = same_prompts(results);
    let plan = plan(&suite, &labels, results);
    let mut summary = summarise(&requests);
    for file in &files {
        file.complete(&mut summary);
    }
    let comparable = requests.len() > 1 && labels.len() > 1 && same_prompts;
    let mut compare = if comparable { compare(&plan, &requests) } else { Vec::new() };
    for comparison in &mut compare {
        // The files do not name the temperature, so whether outputs must be equal is not known.
        comparison.lossless = Losslessness::default();
    }
    if !requests.is_empty() {
        warnings.push(
            "the file does not say whether an answer ended by itself or was cut short: all count as finished; tokens of a \
             chunk are estimated where a chunk brought several"
                .into(),
        );
    }
    if labels.len() > 1 && !same_prompts {
        warnings.push("the results do not show that they are over the same prompts: they are not compared".into());
    }
    let requests_s = results.iter().map(|(_, result)| number(result, "duration").unwrap_or(0.0)).sum::<f64>();
    let started_ms = text(first, &["date"]).and_then(|date| detail::epoch_ms(&date)).unwrap_or(0);
    Ok(Run {
        schema: RUN_SCHEMA.into(),
        meta: RunMeta {
            id: stem.to_owned(),
            title: stem.to_owned(),
            started_ms,
            finished_ms: (started_ms > 0).then(|| started_ms + (requests_s * 1000.0) as u64),
            status: RunStatus::Imported,
            made_by: match tool {
                Tool::Vllm => "vllm bench serve".into(),
                Tool::Sglang => "sglang bench_serving".into(),
            },
        },
        plan,
        env: Environment {
            server: tool.name().into(),
            server_version: None,
            model: text(first, &["model_id", "model"]).or_else(|| {
                first.get("server_info").and_then(Value::as_object).and_then(|info| text(info, &["model_path"]))
            }),
            client: String::new(),
            ..Environment::default()
        },
        requests,
        summary: ordered(summary, &labels),
        compare,
        warnings,
    })
}

/// Summaries in the order of the modes; entries made from totals come after those made from requests.
fn ordered(mut summary: Vec<ModeSummary>, labels: &[String]) -> Vec<ModeSummary> {
    let place = |s: &ModeSummary| labels.iter().position(|label| *label == s.mode);
    summary.sort_by_key(|s| (s.suite == super::summary::ALL, s.concurrency, place(s)));
    summary
}

/// A label a result, unique: its own, or the file's name.
fn labels(stem: &str, results: &[(Tool, &Map<String, Value>)]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (_, result) in results {
        let wanted = text(result, &["label", "tag"]).unwrap_or_else(|| stem.to_owned());
        let mut label = wanted.clone();
        let mut number = 2;
        while labels.contains(&label) {
            label = format!("{wanted} #{number}");
            number += 1;
        }
        labels.push(label);
    }
    labels
}

fn plan(suite: &str, labels: &[String], results: &[(Tool, &Map<String, Value>)]) -> RunPlan {
    let prompts = results
        .iter()
        .filter_map(|(_, result)| number(result, "num_prompts").or_else(|| number(result, "completed")))
        .fold(0.0, f64::max);
    RunPlan {
        suites: vec![SuiteInfo { name: suite.to_owned(), prompts: prompts as usize, source: "imported".into() }],
        modes: labels
            .iter()
            .map(|label| ModeSpec { label: label.clone(), request: ModeRequest::default(), url: None })
            .collect(),
        repeats: 1,
        concurrency: distinct(results.iter().map(|(_, result)| concurrency(result))),
        temperature: 0.0,
        max_tokens: 0,
        seed: 0,
        prefix_cache: "as_is".into(),
        hash: String::new(),
    }
}

/// Whether all results name the same prompts: both tools send a data set in its order, so equal lengths of all prompts
/// are as much of a proof as the files hold.
fn same_prompts(results: &[(Tool, &Map<String, Value>)]) -> bool {
    let lengths: Vec<Option<&Vec<Value>>> =
        results.iter().map(|(_, result)| result.get("input_lens").and_then(Value::as_array)).collect();
    lengths.windows(2).all(|pair| pair[0].is_some() && pair[0] == pair[1])
}

/// Requests in flight at most; 1 where no limit was set would be wrong, so the most that were seen, or 0.
fn concurrency(result: &Map<String, Value>) -> usize {
    ["max_concurrency", "max_concurrent_requests"].iter().find_map(|key| number(result, key)).map_or(0, |n| n as usize)
}

fn number(result: &Map<String, Value>, key: &str) -> Option<f64> {
    result.get(key).and_then(Value::as_f64).filter(|value| value.is_finite())
}

fn text(result: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let found = keys.iter().find_map(|key| result.get(*key).and_then(Value::as_str));
    found.filter(|text| !text.is_empty()).map(str::to_owned)
}
