//! A result file of `vllm bench serve --save-result --save-detailed`.

use serde_json::{Map, Value, json};

use crate::bench::summary::{counts, per_pos, steps};
use crate::protocol::run::{RequestRecord, Run};

use super::ExportError;
use super::one_mode::{OneMode, latency_ms, put_stats, seconds};
use super::words::compact_date;

/// Percentiles in it. vLLM writes a 99th whatever the number of requests, and readers look for it.
const PERCENTILES: [u32; 4] = [50, 90, 95, 99];

/// One mode as vLLM's own client would have written it. Times are seconds in the arrays, milliseconds in the figures;
/// `itls` are gaps between chunks; `duration` is the time in which a request of this mode was in flight, since modes
/// take turns.
pub fn vllm(run: &Run, mode: &str) -> Result<String, ExportError> {
    let one = OneMode::of(run, mode)?;
    let mut out = Map::new();
    let model = run.env.model.as_deref();
    let (most_tokens, most_running) = one.peaks();
    let entries = [
        ("date", json!(compact_date(run.meta.started_ms))),
        ("endpoint_type", json!("openai-chat")),
        ("backend", json!("openai-chat")),
        ("label", json!(one.label)),
        ("model_id", json!(model)),
        ("tokenizer_id", json!(model)),
        ("num_prompts", json!(one.all.len())),
        ("request_rate", json!("inf")),
        ("burstiness", json!(1.0)),
        ("max_concurrency", json!(one.concurrency)),
        ("duration", json!(one.duration_s)),
        ("completed", json!(one.good.len())),
        ("failed", json!(one.all.len() - one.good.len())),
        ("total_input_tokens", json!(one.input_tokens())),
        ("total_output_tokens", json!(one.output_tokens())),
        ("request_throughput", json!(one.per_second(one.good.len() as f64))),
        ("request_goodput", Value::Null),
        ("output_throughput", json!(one.per_second(one.output_tokens() as f64))),
        (
            "total_token_throughput",
            json!(one.input_tokens().and_then(|input| one.per_second((input + one.output_tokens()) as f64))),
        ),
        ("input_lens", one.all.iter().map(|r| json!(r.prompt_tokens)).collect()),
        ("output_lens", one.all.iter().map(|r| json!(if counts(r) { r.tokens } else { 0 })).collect()),
        ("ttfts", one.all.iter().map(|r| json!(r.ttft_ms.map_or(0.0, seconds))).collect()),
        ("itls", one.all.iter().map(|r| json!(gaps(r))).collect()),
        ("latencies", one.all.iter().map(|r| json!(seconds(latency_ms(r)))).collect()),
        ("start_times", one.all.iter().map(|r| json!(seconds(r.sent_ms))).collect()),
        ("generated_texts", one.all.iter().map(|r| json!(r.text.as_deref().unwrap_or(""))).collect()),
        ("errors", one.all.iter().map(|r| json!(error(r))).collect()),
        ("max_output_tokens_per_s", json!(most_tokens as f64)),
        ("max_concurrent_requests", json!(most_running)),
    ];
    out.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    if let Some((rounds, drafted, accepted)) = one.drafting() {
        let per_position = one.summary(run).map(|s| per_pos(&s.accepted_hist)).unwrap_or_default();
        let entries = [
            ("spec_decode_acceptance_rate", json!(accepted as f64 / drafted as f64 * 100.0)),
            ("spec_decode_acceptance_length", json!(1.0 + accepted as f64 / rounds as f64)),
            ("spec_decode_num_drafts", json!(rounds)),
            ("spec_decode_draft_tokens", json!(drafted)),
            ("spec_decode_accepted_tokens", json!(accepted)),
            ("spec_decode_per_position_acceptance_rates", json!(per_position)),
        ];
        out.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    }
    let gaps: Vec<f64> = one.good.iter().flat_map(|r| steps(r)).map(|step| step.gap_ms).collect();
    put_stats(&mut out, "ttft_ms", &one.ttfts_ms(), &PERCENTILES);
    put_stats(&mut out, "tpot_ms", &one.tpots_ms(), &PERCENTILES);
    put_stats(&mut out, "itl_ms", &gaps, &PERCENTILES);
    put_stats(&mut out, "e2el_ms", &one.latencies_ms(), &PERCENTILES);
    Ok(format!("{}\n", Value::Object(out)))
}

fn gaps(record: &RequestRecord) -> Vec<f64> {
    if counts(record) { steps(record).iter().map(|step| seconds(step.gap_ms)).collect() } else { Vec::new() }
}

/// Empty for a good answer; never empty for another, since readers tell failures by it.
pub fn error(record: &RequestRecord) -> &str {
    if counts(record) { "" } else { record.error.as_deref().filter(|e| !e.is_empty()).unwrap_or("failed") }
}
