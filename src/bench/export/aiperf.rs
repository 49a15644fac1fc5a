//! AIPerf's two files: records as JSON lines (`profile_export.jsonl`) and the aggregate (`profile_export_aiperf.json`).

use serde_json::{Map, Value, json};

use crate::bench::stats::{mean, percentile, std};
use crate::bench::summary::{counts, steps};
use crate::protocol::run::{Purpose, RequestRecord, RequestStatus, Run, RunStatus};

use super::ExportError;
use super::one_mode::{OneMode, latency_ms, seconds, tpot_ms};
use super::words::iso_date;

const PERCENTILES: [u32; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];
/// Version of their aggregate's shape: the last that has no blocks which only their own orchestrator can fill.
const SCHEMA_VERSION: &str = "1.1";

/// One line a request, failures included.
pub fn aiperf_records(run: &Run, mode: &str) -> Result<String, ExportError> {
    let one = OneMode::of(run, mode)?;
    let mut lines = one.all.iter().map(|record| record_line(run, record).to_string()).collect::<Vec<_>>().join("\n");
    lines.push('\n');
    Ok(lines)
}

fn record_line(run: &Run, record: &RequestRecord) -> Value {
    let at = |ms: f64| run.meta.started_ms * 1_000_000 + (ms * 1e6).max(0.0) as u64;
    let id = format!("{}-{}", run.meta.id, record.seq);
    let session = format!("{}/{}", record.suite, record.prompt_id);
    let mut metrics = Map::new();
    if counts(record) {
        for (name, unit, value) in metrics_of(record) {
            metrics.insert(name.into(), json!({ "value": value, "unit": unit }));
        }
        let gaps: Vec<f64> = steps(record).iter().map(|step| step.gap_ms).collect();
        metrics.insert("inter_chunk_latency".into(), json!({ "value": gaps, "unit": "ms" }));
    }
    let error = (!counts(record)).then(|| {
        let timed_out = record.status == RequestStatus::TimedOut;
        json!({
            "code": if timed_out { json!(499) } else { Value::Null },
            "type": if timed_out { "RequestTimeoutError" } else { "RequestError" },
            "message": record.error.as_deref().unwrap_or("failed"),
        })
    });
    json!({
        "metadata": {
            "session_num": record.seq,
            "x_request_id": id,
            "x_correlation_id": format!("{session}#{}", record.repeat),
            "conversation_id": session,
            "turn_index": record.turn,
            "request_start_ns": at(record.sent_ms),
            "request_ack_ns": Value::Null,
            "request_end_ns": at(record.sent_ms + record.e2e_ms),
            "worker_id": "spectop",
            "record_processor_id": "spectop",
            "benchmark_phase": if record.purpose == Purpose::Warmup { "warmup" } else { "profiling" },
            "was_cancelled": false,
            "cancellation_time_ns": Value::Null,
        },
        "metrics": metrics,
        "error": error,
    })
}

/// The scalar metrics of an answer: name, unit, value.
fn metrics_of(record: &RequestRecord) -> Vec<(&'static str, &'static str, f64)> {
    let tpot = tpot_ms(record);
    let tau = record.server.as_ref().filter(|m| m.drafted > 0).and_then(|m| m.tau);
    [
        ("input_sequence_length", "tokens", record.prompt_tokens.map(|n| n as f64)),
        ("output_sequence_length", "tokens", Some(record.tokens as f64)),
        ("output_token_count", "tokens", Some(record.tokens as f64)),
        ("time_to_first_token", "ms", record.ttft_ms),
        ("request_latency", "ms", Some(latency_ms(record))),
        ("inter_token_latency", "ms", tpot),
        ("output_token_throughput_per_user", "tokens/sec/user", tpot.filter(|t| *t > 0.0).map(|t| 1000.0 / t)),
        ("spec_decode_acceptance_length", "ratio", tau),
    ]
    .into_iter()
    .filter_map(|(name, unit, value)| Some((name, unit, value?)))
    .collect()
}

/// One mode's aggregate. Blocks of figures over requests have the whole set; rates and totals have `avg` alone.
pub fn aiperf(run: &Run, mode: &str) -> Result<String, ExportError> {
    let one = OneMode::of(run, mode)?;
    let mut out = Map::new();
    let span = (
        one.all.iter().map(|r| r.sent_ms).fold(f64::INFINITY, f64::min),
        one.all.iter().map(|r| r.sent_ms + r.e2e_ms).fold(0.0, f64::max),
    );
    let date = |ms: f64| iso_date(run.meta.started_ms + ms.max(0.0) as u64);
    let entries = [
        ("schema_version", json!(SCHEMA_VERSION)),
        ("benchmark_id", json!(run.meta.id)),
        ("start_time", json!(date(span.0))),
        ("end_time", json!(date(span.1))),
        ("was_cancelled", json!(run.meta.status == RunStatus::Stopped)),
        (
            "input_config",
            json!({
                "made_by": run.meta.made_by,
                "mode": one.label,
                "model": run.env.model,
                "concurrency": one.concurrency,
                "temperature": run.plan.temperature,
                "max_tokens": run.plan.max_tokens,
                "random_seed": run.plan.seed,
                "suites": run.plan.suites,
                "plan_hash": run.plan.hash,
            }),
        ),
        ("error_summary", errors(&one)),
    ];
    out.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    let mut samples: Vec<(&str, &str, Vec<f64>)> = Vec::new();
    for (name, unit, value) in one.good.iter().flat_map(|record| metrics_of(record)) {
        match samples.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., values)) => values.push(value),
            None => samples.push((name, unit, vec![value])),
        }
    }
    let gaps = one.good.iter().flat_map(|r| steps(r)).map(|step| step.gap_ms).collect();
    samples.push(("inter_chunk_latency", "ms", gaps));
    for (name, unit, values) in samples {
        out.extend(block(unit, values).map(|block| (name.to_owned(), block)));
    }
    let output = one.output_tokens() as f64;
    let single = [
        ("request_count", "requests", Some(one.good.len() as f64)),
        ("error_request_count", "requests", Some((one.all.len() - one.good.len()) as f64)),
        ("request_throughput", "requests/sec", one.per_second(one.good.len() as f64)),
        ("output_token_throughput", "tokens/sec", one.per_second(output)),
        ("total_output_tokens", "tokens", Some(output)),
        ("benchmark_duration", "sec", Some(one.duration_s)),
        ("effective_concurrency", "requests", one.per_second(seconds(one.latencies_ms().iter().sum()))),
    ];
    for (name, unit, value) in single {
        out.extend(value.map(|value| (name.to_owned(), json!({ "unit": unit, "avg": value }))));
    }
    Ok(format!("{:#}\n", Value::Object(out)))
}

fn block(unit: &str, mut values: Vec<f64>) -> Option<Value> {
    values.sort_by(f64::total_cmp);
    let mut block = Map::new();
    block.insert("unit".into(), json!(unit));
    block.insert("avg".into(), json!(mean(&values)?));
    block.insert("min".into(), json!(values.first()?));
    block.insert("max".into(), json!(values.last()?));
    for percent in PERCENTILES {
        block.insert(format!("p{percent}"), json!(percentile(&values, f64::from(percent))?));
    }
    block.extend(std(&values).map(|std| ("std".to_owned(), json!(std))));
    block.insert("count".into(), json!(values.len()));
    block.insert("sum".into(), json!(values.iter().sum::<f64>()));
    Some(Value::Object(block))
}

fn errors(one: &OneMode<'_>) -> Value {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for record in one.all.iter().filter(|record| !counts(record)) {
        let message = record.error.as_deref().unwrap_or("failed");
        match counted.iter_mut().find(|(known, _)| *known == message) {
            Some((_, count)) => *count += 1,
            None => counted.push((message, 1)),
        }
    }
    counted
        .into_iter()
        .map(|(message, count)| json!({ "error_details": { "type": "RequestError", "message": message }, "count": count }))
        .collect()
}
