//! A line of SGLang's `bench_serving --output-file … --output-details`.

use serde_json::{Map, Value, json};

use crate::bench::summary::{counts, steps};
use crate::protocol::run::{RequestRecord, Run};

use super::ExportError;
use super::one_mode::{OneMode, put_stats, seconds};
use super::vllm::error;

/// One mode as SGLang's own client would have written it, one line. `itls` are per token (a gap is divided among the
/// tokens that came with it), as SGLang's native backend counts them. What its client gets by tokenising again is the
/// server's own count here.
pub fn sglang(run: &Run, mode: &str) -> Result<String, ExportError> {
    let one = OneMode::of(run, mode)?;
    let (input, output) = (one.input_tokens(), one.output_tokens());
    let both = input.map(|input| (input + output) as f64);
    let (most_tokens, most_running) = one.peaks();
    let sum_latency: f64 = one.latencies_ms().iter().sum();
    let dataset = run.plan.suites.iter().map(|suite| suite.name.as_str()).collect::<Vec<_>>().join("+");
    let tau = one.drafting().map(|(rounds, _, accepted)| 1.0 + accepted as f64 / rounds as f64);
    let mut out = Map::new();
    let entries = [
        ("tag", json!(one.label)),
        ("backend", json!("sglang-oai-chat")),
        ("dataset_name", json!(dataset)),
        ("request_rate", json!("inf")),
        ("max_concurrency", json!(one.concurrency)),
        ("sharegpt_output_len", Value::Null),
        ("random_input_len", Value::Null),
        ("random_output_len", Value::Null),
        ("random_range_ratio", Value::Null),
        ("duration", json!(one.duration_s)),
        ("completed", json!(one.good.len())),
        ("total_input_tokens", json!(input)),
        ("total_output_tokens", json!(output)),
        ("total_output_tokens_retokenized", json!(output)),
        ("request_throughput", json!(one.per_second(one.good.len() as f64))),
        ("input_throughput", json!(input.and_then(|input| one.per_second(input as f64)))),
        ("output_throughput", json!(one.per_second(output as f64))),
        ("output_throughput_retokenized", json!(one.per_second(output as f64))),
        ("total_throughput", json!(both.and_then(|both| one.per_second(both)))),
        ("total_throughput_retokenized", json!(both.and_then(|both| one.per_second(both)))),
        ("concurrency", json!(one.per_second(seconds(sum_latency)))),
        ("accept_length", json!(tau)),
        ("max_output_tokens_per_s", json!(most_tokens as f64)),
        ("max_concurrent_requests", json!(most_running)),
        ("input_lens", one.all.iter().map(|r| json!(r.prompt_tokens)).collect()),
        ("output_lens", one.all.iter().map(|r| json!(if counts(r) { r.tokens } else { 0 })).collect()),
        ("ttfts", one.all.iter().map(|r| json!(r.ttft_ms.map_or(0.0, seconds))).collect()),
        ("itls", one.all.iter().map(|r| json!(by_token(r).map(seconds).collect::<Vec<_>>())).collect()),
        ("generated_texts", one.all.iter().map(|r| json!(r.text.as_deref().unwrap_or(""))).collect()),
        ("errors", one.all.iter().map(|r| json!(error(r))).collect()),
    ];
    out.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    let itls: Vec<f64> = one.good.iter().flat_map(|r| by_token(r)).collect();
    put_stats(&mut out, "e2e_latency_ms", &one.latencies_ms(), &[90, 99]);
    put_stats(&mut out, "ttft_ms", &one.ttfts_ms(), &[99]);
    put_stats(&mut out, "tpot_ms", &one.tpots_ms(), &[99]);
    put_stats(&mut out, "itl_ms", &itls, &[95, 99]);
    out.insert("max_itl_ms".into(), json!(itls.iter().copied().fold(0.0, f64::max)));
    Ok(format!("{}\n", Value::Object(out)))
}

/// Milliseconds of each token after the first chunk.
fn by_token(record: &RequestRecord) -> impl Iterator<Item = f64> {
    let steps = if counts(record) { steps(record) } else { Vec::new() };
    steps.into_iter().flat_map(|step| std::iter::repeat_n(step.gap_ms / step.tokens as f64, step.tokens))
}
