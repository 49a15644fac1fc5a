//! `GET /metrics`: Prometheus text format 0.0.4. Own names, and beside them those of vLLM, so that dashboards made for
//! vLLM work on this server too.

use std::fmt::{Display, Write};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use super::context::Context;
use crate::protocol::event::Sample;
use crate::protocol::mode::Mode;
use crate::protocol::state::{self, Readiness};

/// Everything as text.
pub(super) async fn metrics(context: State<Context>) -> Response {
    let state = context.backend.state();
    let sample = context.recent_sample();
    let mut page = Page::default();
    own(&mut page, &state, &sample, context.event_readers());
    if let Some(model) = context.backend.model_name() {
        vllm(&mut page, &model, &state, &sample);
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.text).into_response()
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page being written.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// A family's heading.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn series(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn counter(&mut self, name: &str, labels: Labels<'_>, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.series(name, labels, value);
    }

    fn gauge(&mut self, name: &str, labels: Labels<'_>, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.series(name, labels, value);
    }

    /// A gauge that is left out while there is nothing to say: absent is not 0.
    fn maybe(&mut self, name: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.gauge(name, &[], help, value);
        }
    }

    /// One series a position, from 0.
    fn by_position<T: Display>(&mut self, name: &str, kind: &str, labels: Labels<'_>, help: &str, values: &[T]) {
        if values.is_empty() {
            return;
        }
        self.family(name, kind, help);
        for (position, value) in values.iter().enumerate() {
            let position = position.to_string();
            let mut labels = labels.to_vec();
            labels.push(("position", &position));
            self.series(name, &labels, value);
        }
    }
}

/// A label value with the characters escaped that the format gives a meaning.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}

fn own(page: &mut Page, state: &state::State, sample: &Sample, readers: usize) {
    let name = |model: &Option<state::ModelInfo>| model.as_ref().map_or_else(String::new, |m| m.name.clone());
    let device = state.device.as_ref().map_or("", |d| d.name.as_str());
    let info: Labels<'_> = &[
        ("version", &state.version),
        ("model", &name(&state.target)),
        ("draft", &name(&state.draft)),
        ("device", device),
    ];
    page.gauge("spectop_info", info, "Version, models and device.", 1);
    let ready = u8::from(state.readiness == Readiness::Ready);
    page.gauge("spectop_ready", &[], "1 when requests are answered.", ready);
    page.gauge("spectop_uptime_seconds", &[], "Seconds since the start.", state.uptime_s);
    page.family("spectop_mode", "gauge", "1 for the mode in force.");
    for mode in Mode::ALL {
        page.series("spectop_mode", &[("mode", mode.name())], u8::from(mode == state.mode.mode));
    }
    page.gauge("spectop_block_size", &[], "Slots of a draft block, seed included.", state.mode.block_size);
    page.gauge("spectop_tree_budget", &[], "DDTree node budget, root excluded.", state.mode.tree_budget);
    counters(page, &state.counters);
    page.gauge("spectop_requests_running", &[], "Requests being decoded.", state.running);
    page.gauge("spectop_requests_waiting", &[], "Requests in the queue.", state.waiting);
    page.gauge("spectop_event_readers", &[], "Readers of /spec/events.", readers);
    page.gauge("spectop_kv_used_tokens", &[], "Cache rows in use.", sample.kv_used);
    page.gauge("spectop_kv_capacity_tokens", &[], "Cache rows that there are.", sample.kv_capacity);
    page.maybe("spectop_acceptance_length", "Tokens per round over the last window, bonus included.", sample.tau);
    page.maybe("spectop_decode_tokens_per_second", "Decoding rate over the last window.", sample.decode_tok_s);
    page.maybe("spectop_prefill_tokens_per_second", "Prefill rate over the last window.", sample.prefill_tok_s);
    page.maybe("spectop_rounds_per_second", "Rounds over the last window.", sample.rounds_s);
    page.maybe("spectop_verify_rows", "Mean rows of a verify pass over the last window.", sample.rows);
    page.maybe("spectop_shadow_rescue_ratio", "Share of shadow mismatches found in the tree.", sample.shadow_rescue);
    page.by_position(
        "spectop_acceptance_by_position",
        "gauge",
        &[],
        "Share of the last window's drafting rounds that accepted this position.",
        &sample.per_pos,
    );
}

fn counters(page: &mut Page, counters: &state::Counters) {
    for (name, help, value) in [
        ("spectop_rounds_total", "Verify rounds with a proposal.", counters.rounds),
        ("spectop_plain_rounds_total", "Rounds without a proposal.", counters.plain_rounds),
        ("spectop_draft_tokens_total", "Draft tokens proposed (nodes, for trees).", counters.drafted),
        ("spectop_accepted_tokens_total", "Draft tokens accepted, bonus excluded.", counters.accepted),
        ("spectop_committed_tokens_total", "Tokens committed by rounds, bonus included.", counters.committed),
        ("spectop_verified_rows_total", "Rows of verify passes.", counters.verified_rows),
        ("spectop_shadow_hits_total", "Shadow mismatches found in the tree.", counters.shadow_hits),
        ("spectop_shadow_misses_total", "Shadow rounds that ended in a mismatch.", counters.shadow_misses),
        ("spectop_prompt_tokens_total", "Prompt tokens prefilled.", counters.prompt_tokens),
        ("spectop_generated_tokens_total", "Tokens generated.", counters.generated_tokens),
    ] {
        page.counter(name, &[], help, value);
    }
    page.by_position(
        "spectop_accepted_per_position_total",
        "counter",
        &[],
        "Rounds that accepted the draft token at this position.",
        &counters.accepted_per_pos,
    );
    page.family("spectop_requests_total", "counter", "Requests by outcome.");
    for (outcome, value) in [
        ("finished", counters.requests_finished),
        ("cancelled", counters.requests_cancelled),
        ("failed", counters.requests_failed),
    ] {
        page.series("spectop_requests_total", &[("outcome", outcome)], value);
    }
    page.family("spectop_stage_seconds_total", "counter", "Seconds by stage of a round.");
    let stages = counters.stage_seconds;
    for (stage, value) in
        [("draft", stages.draft), ("build", stages.build), ("verify", stages.verify), ("commit", stages.commit)]
    {
        page.series("spectop_stage_seconds_total", &[("stage", stage)], value);
    }
}

fn vllm(page: &mut Page, model: &str, state: &state::State, sample: &Sample) {
    let labels: Labels<'_> = &[("model_name", model), ("engine", "0")];
    let counters = &state.counters;
    for (name, help, value) in [
        ("vllm:spec_decode_num_drafts_total", "Draft rounds.", counters.rounds),
        ("vllm:spec_decode_num_draft_tokens_total", "Draft tokens proposed.", counters.drafted),
        ("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.", counters.accepted),
        ("vllm:prompt_tokens_total", "Prompt tokens prefilled.", counters.prompt_tokens),
        ("vllm:generation_tokens_total", "Tokens generated.", counters.generated_tokens),
    ] {
        page.counter(name, labels, help, value);
    }
    page.by_position(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "counter",
        labels,
        "Draft tokens accepted by position.",
        &counters.accepted_per_pos,
    );
    page.gauge("vllm:num_requests_running", labels, "Requests being decoded.", state.running);
    page.gauge("vllm:num_requests_waiting", labels, "Requests in the queue.", state.waiting);
    if sample.kv_capacity > 0 {
        let share = sample.kv_used as f64 / sample.kv_capacity as f64;
        page.gauge("vllm:kv_cache_usage_perc", labels, "Share of the cache in use, 1 is full.", share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.gauge("x", &[("a", "q\"\\\nz"), ("b", "é")], "Help.", 1.5);
        assert_eq!(page.text, "# HELP x Help.\n# TYPE x gauge\nx{a=\"q\\\"\\\\\\nz\",b=\"é\"} 1.5\n");
    }
}
