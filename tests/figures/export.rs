//! Exports: the keys that other tools read, the schema, and a report that holds together.

use std::collections::BTreeSet;

use serde_json::Value;
use spectop::bench::export::{self, ExportError, Format, plot};
use spectop::protocol::mode::ModeRequest;
use spectop::protocol::run::{Purpose, Run, RunStatus};

use super::run::Simulation;
use super::schema::complaints;

fn run() -> Run {
    Simulation::default().run()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn schema() -> Value {
    json(export::RUN_JSON_SCHEMA)
}

/// A run with every optional field absent and with nothing measured.
fn bare() -> Run {
    let mut run = Simulation { suites: vec![], ..Simulation::default() }.run();
    run.requests.clear();
    (run.env.target, run.env.draft, run.env.device) = (None, None, None);
    (run.env.sensors_before, run.env.sensors_after, run.meta.finished_ms) = (None, None, None);
    run
}

#[test]
fn our_own_format_fits_its_schema_and_comes_back() {
    let ladder = Simulation { concurrency: vec![1, 8], suites: vec![("story", 3)], ..Simulation::default() };
    for run in [run(), bare(), ladder.run()] {
        let text = export::run_json(&run).unwrap();
        let found = complaints(&schema(), &json(&text));
        assert!(found.is_empty(), "{}", found[..found.len().min(10)].join("\n"));
        let back: Run = serde_json::from_str(&text).unwrap();
        assert!(back == run, "floats come back to the bit");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let good = json(&export::run_json(&run()).unwrap());
    let wrong = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        complaints(&schema(), &bad)
    };
    let table = [
        ("/schema", Value::from("run.v2"), "/schema"),
        ("/meta/status", Value::from("done"), "/meta/status"),
        ("/requests/0/tokens", Value::from(-1), "/requests/0/tokens"),
        ("/requests/0/status", Value::Null, "/requests/0/status"),
        ("/compare/0/interval", serde_json::json!([1.0]), "/compare/0/interval"),
        ("/compare/0/by_prompt/0", serde_json::json!(["a", "b", 1.0]), "/compare/0/by_prompt/0/1"),
        ("/summary/0", serde_json::json!({}), "/summary/0"),
    ];
    for (path, value, place) in table {
        let found = wrong(path, value);
        assert!(!found.is_empty() && found.iter().all(|c| c.starts_with(place)), "{path}: {found:?}");
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

fn with_stats(names: &[&str], statistics: &[&str]) -> Vec<String> {
    names.iter().flat_map(|name| statistics.iter().map(move |s| format!("{s}_{name}_ms"))).collect()
}

#[test]
fn vllm_files_have_vllms_keys() {
    let run = run();
    let out = json(&export::vllm(&run, "ddtree r64").unwrap());
    let mut expected: BTreeSet<String> = [
        "date",
        "endpoint_type",
        "backend",
        "label",
        "model_id",
        "tokenizer_id",
        "num_prompts",
        "request_rate",
        "burstiness",
        "max_concurrency",
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "request_goodput",
        "output_throughput",
        "total_token_throughput",
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "generated_texts",
        "errors",
        "max_output_tokens_per_s",
        "max_concurrent_requests",
        "spec_decode_acceptance_rate",
        "spec_decode_acceptance_length",
        "spec_decode_num_drafts",
        "spec_decode_draft_tokens",
        "spec_decode_accepted_tokens",
        "spec_decode_per_position_acceptance_rates",
    ]
    .map(String::from)
    .into();
    expected
        .extend(with_stats(&["ttft", "tpot", "itl", "e2el"], &["mean", "median", "std", "p50", "p90", "p95", "p99"]));
    assert_eq!(keys(&out), expected);

    let n = out["num_prompts"].as_u64().unwrap() as usize;
    for column in
        ["input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "generated_texts", "errors"]
    {
        assert_eq!(out[column].as_array().unwrap().len(), n, "{column}");
    }
    assert_eq!((out["completed"].as_u64(), out["failed"].as_u64()), (Some(n as u64 - 1), Some(1)));
    // What one answer is: seconds, and gaps that lead from the first token to the last.
    let measured = run.requests.iter().find(|r| r.purpose == Purpose::Measure && r.mode == "ddtree r64").unwrap();
    assert!((out["ttfts"][0].as_f64().unwrap() * 1000.0 - measured.ttft_ms.unwrap()).abs() < 1e-9);
    let gaps: f64 = out["itls"][0].as_array().unwrap().iter().map(|gap| gap.as_f64().unwrap()).sum();
    let end = out["latencies"][0].as_f64().unwrap();
    assert!((out["ttfts"][0].as_f64().unwrap() + gaps - end).abs() < 1e-9);
    assert_eq!(out["itls"][0].as_array().unwrap().len(), measured.chunks.len() - 1);
    let failed = out["errors"].as_array().unwrap().iter().position(|e| e != "").unwrap();
    assert_eq!((&out["output_lens"][failed], out["itls"][failed].as_array().unwrap().len()), (&Value::from(0), 0));
    let tau = out["spec_decode_acceptance_length"].as_f64().unwrap();
    let positions: f64 =
        out["spec_decode_per_position_acceptance_rates"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
    assert!((tau - 1.0 - positions).abs() < 1e-9, "Σ of the positions is τ − 1");
    // Without drafts vLLM leaves the block out.
    let off = json(&export::vllm(&run, "off").unwrap());
    assert!(keys(&off).iter().all(|key| !key.starts_with("spec_decode")));
    assert_eq!(off["max_concurrent_requests"], 1);
}

#[test]
fn sglang_lines_have_sglangs_keys() {
    let text = export::sglang(&run(), "dflash b16").unwrap();
    assert_eq!(text.matches('\n').count(), 1, "one line, to be appended to a file");
    let out = json(&text);
    let mut expected: BTreeSet<String> = [
        "tag",
        "backend",
        "dataset_name",
        "request_rate",
        "max_concurrency",
        "sharegpt_output_len",
        "random_input_len",
        "random_output_len",
        "random_range_ratio",
        "duration",
        "completed",
        "total_input_tokens",
        "total_output_tokens",
        "total_output_tokens_retokenized",
        "request_throughput",
        "input_throughput",
        "output_throughput",
        "output_throughput_retokenized",
        "total_throughput",
        "total_throughput_retokenized",
        "concurrency",
        "accept_length",
        "max_output_tokens_per_s",
        "max_concurrent_requests",
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "generated_texts",
        "errors",
        "p90_e2e_latency_ms",
        "p95_itl_ms",
        "max_itl_ms",
    ]
    .map(String::from)
    .into();
    expected.extend(with_stats(&["e2e_latency", "ttft", "tpot", "itl"], &["mean", "median", "std", "p99"]));
    assert_eq!(keys(&out), expected);
    let (lens, itls) = (out["output_lens"].as_array().unwrap(), out["itls"].as_array().unwrap());
    for (len, itls) in lens.iter().zip(itls) {
        assert_eq!(itls.as_array().unwrap().len() as u64 + u64::from(len.as_u64() > Some(0)), len.as_u64().unwrap());
    }
    assert!(out["concurrency"].as_f64().unwrap() <= 1.0 && out["accept_length"].as_f64().unwrap() > 1.0);
}

#[test]
fn aiperf_files_have_values_with_units() {
    let run = run();
    let records = export::aiperf_records(&run, "ddtree r64").unwrap();
    let records: Vec<Value> = records.lines().map(json).collect();
    assert_eq!(records.len(), 75);
    let metadata = [
        "benchmark_phase",
        "cancellation_time_ns",
        "conversation_id",
        "record_processor_id",
        "request_ack_ns",
        "request_end_ns",
        "request_start_ns",
        "session_num",
        "turn_index",
        "was_cancelled",
        "worker_id",
        "x_correlation_id",
        "x_request_id",
    ];
    let (failed, good): (Vec<&Value>, Vec<&Value>) = records.iter().partition(|r| !r["error"].is_null());
    assert_eq!(failed.len(), 1);
    assert!(failed[0]["metrics"].as_object().unwrap().is_empty() && failed[0]["error"]["message"].is_string());
    for record in good {
        assert_eq!(keys(record), ["error", "metadata", "metrics"].map(String::from).into());
        assert_eq!(keys(&record["metadata"]), metadata.map(String::from).into());
        assert!(record["metadata"]["request_end_ns"].as_u64() > record["metadata"]["request_start_ns"].as_u64());
        for (name, metric) in record["metrics"].as_object().unwrap() {
            assert_eq!(keys(metric), ["unit", "value"].map(String::from).into(), "{name}");
        }
        for name in ["time_to_first_token", "request_latency", "inter_token_latency", "output_sequence_length"] {
            assert!(record["metrics"][name]["value"].is_number(), "{name}");
        }
        assert!(record["metrics"]["inter_chunk_latency"]["value"].is_array());
    }
    let aggregate = json(&export::aiperf(&run, "ddtree r64").unwrap());
    let over_requests = [
        "unit", "avg", "min", "max", "std", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "count", "sum",
    ];
    for name in [
        "request_latency",
        "time_to_first_token",
        "inter_token_latency",
        "output_sequence_length",
        "inter_chunk_latency",
    ] {
        assert_eq!(keys(&aggregate[name]), over_requests.map(String::from).into(), "{name}");
    }
    for name in ["request_count", "request_throughput", "output_token_throughput", "benchmark_duration"] {
        assert_eq!(keys(&aggregate[name]), ["avg", "unit"].map(String::from).into(), "{name}");
    }
    assert_eq!(
        (&aggregate["request_count"]["avg"], &aggregate["error_request_count"]["avg"]),
        (&74.0.into(), &1.0.into())
    );
}

#[test]
fn one_mode_formats_want_one_mode() {
    let one = run();
    let ladder = Simulation { concurrency: vec![1, 4], suites: vec![("story", 3)], ..Simulation::default() }.run();
    let error = |run: &Run, mode| export::write(Format::Vllm, run, mode).unwrap_err();
    assert!(matches!(error(&one, None), ExportError::ModeNeeded { format: Format::Vllm, .. }));
    let message = error(&one, Some("turbo")).to_string();
    assert!(message.contains("\"turbo\"") && message.contains("off, ") && message.contains("ddtree r256"), "{message}");
    let message = error(&ladder, Some("off")).to_string();
    assert!(message.contains("off@1, off@4"), "{message}");
    let four = json(&export::write(Format::Vllm, &ladder, Some("off@4")).unwrap());
    assert_eq!((four["max_concurrency"].as_u64(), four["num_prompts"].as_u64()), (Some(4), Some(9)));
    assert!(matches!(error(&bare(), Some("off")), ExportError::UnknownMode { .. }));
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
        let text = export::write(format, &one, format.one_mode().then_some("off")).unwrap();
        assert!(text.len() > 1_000, "{format}");
    }
    assert!("pdf".parse::<Format>().unwrap_err().to_string().contains("aiperf-records"));
}

/// Rows of RFC 4180.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (vec![], vec![], String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => cell.extend(chars.next()),
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut cell)),
            ('\r', false) => {}
            ('\n', false) => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => cell.push(c),
        }
    }
    rows
}

#[test]
fn csv_is_square_and_quoted() {
    let mut run = run();
    run.requests[0].error = Some("a \"b\",\r\nc".into());
    let table = rows(&export::csv(&run));
    assert_eq!(table.len(), run.requests.len() + 1);
    assert!(table.iter().all(|row| row.len() == table[0].len()));
    let column = |name: &str| table[0].iter().position(|head| head == name).unwrap();
    assert_eq!(table[1][column("error")], "a \"b\",\r\nc");
    let last = run.requests.last().unwrap();
    assert_eq!(table[table.len() - 1][column("ttft_ms")], last.ttft_ms.unwrap().to_string());
    assert_eq!((table[1][column("purpose")].as_str(), table[1][column("count")].as_str()), ("warmup", "exact"));
    let summary = rows(&export::csv_summary(&run));
    assert_eq!(summary.len(), run.summary.len() + 1);
    assert!(summary.iter().all(|row| row.len() == summary[0].len()));
    assert!(summary[0].contains(&"decode_tok_s_ratio_low".into()) && summary[0].contains(&"itl_ms_p99".into()));
    assert_eq!(export::csv(&bare()), "");
}

#[test]
fn markdown_tables_hold_together() {
    let mut run = run();
    run.compare[0].p_holm = Some(0.2);
    let text = export::markdown(&run);
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(table.len(), 2 + 4 * 7, "suites and all, by mode");
    assert!(table.iter().all(|line| cells(line) == cells(table[0])), "{text}");
    assert!(text.matches('<').count() == text.matches("\\<").count(), "titles are no markup");
    assert!(text.contains("faster\\*") && text.contains("exploratory"), "a star is explained");
    assert!(text.contains("1 of 30 differs") && text.contains("> ⚠ GPU 0"));
}

/// Complaints about tags that do not match, by a reader of the little HTML that we write.
fn unbalanced(html: &str) -> Option<String> {
    const EMPTY: [&str; 2] = ["meta", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>')?;
        let tag = &rest[at + 1..end];
        let name = tag.split([' ', '\n', '/']).find(|part| !part.is_empty())?;
        if tag.starts_with('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Some(format!("</{name}> after {last:?}")),
            }
        } else if !tag.ends_with('/') && !EMPTY.contains(&name) {
            open.push(name);
        }
        rest = &rest[end + 1..];
        if name == "style" && !tag.starts_with('/') {
            rest = &rest[rest.find("</style>")?..];
        }
    }
    open.pop().map(|name| format!("<{name}> is left open"))
}

#[test]
fn the_report_is_whole() {
    let run = run();
    let html = export::html(&run);
    assert_eq!(unbalanced(&html), None);
    for id in [
        "speedup",
        "comparisons",
        "budget",
        "acceptance",
        "prompts",
        "stages",
        "timeline",
        "differences",
        "figures",
        "provenance",
    ] {
        assert_eq!(html.matches(&format!("<section id=\"{id}\">")).count(), 1, "{id}");
    }
    assert!(!html.contains("id=\"concurrency\""), "no ladder without several levels");
    for outside in ["http-equiv", "src=", "href=", "@import", "url(", "<script", "<link"] {
        assert!(!html.contains(outside), "{outside}: the file needs nothing else");
    }
    assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count());
    assert!(html.contains("prefers-color-scheme: dark"));
    assert!(html.contains("&lt;script&gt;alert(1)") && !html.contains("<script>"), "an answer is text");
    assert!(html.contains("first different token 31") && html.contains("no near tie"));
    for words in [
        "29 finished, 1 failed (3 retries)",
        "n&lt;20",
        "Qwen3-8B-DFlash-b16",
        "held down: sw power cap",
        &run.plan.hash,
    ] {
        assert!(html.contains(words), "{words}");
    }
    for number in ["NaN", "inf", "Infinity"] {
        assert!(!html.contains(&format!("\"{number}")) && !html.contains(&format!(">{number}")), "{number}");
    }
}

#[test]
fn everything_foreign_is_escaped() {
    let evil = "<img src=x onerror=alert(1)>\"'&\u{1b}[31m";
    let mut run = Simulation { suites: vec![("story", 3)], ..Simulation::default() }.run();
    run.meta.title = evil.into();
    run.meta.id = evil.into();
    run.meta.made_by = evil.into();
    run.env.server = evil.into();
    run.env.server_version = Some(evil.into());
    run.env.model = Some(evil.into());
    run.env.client = evil.into();
    run.plan.prefix_cache = evil.into();
    run.plan.suites[0].source = evil.into();
    run.warnings = vec![evil.into()];
    let mode = format!("ddtree{evil}");
    run.plan.modes[2].label.clone_from(&mode);
    for record in &mut run.requests {
        (record.suite, record.prompt_id) = (evil.into(), format!("{evil}{}", record.prompt_id));
        if record.mode == "ddtree r16" {
            record.mode.clone_from(&mode);
            record.text = Some(evil.into());
            record.token_ids = None;
        }
    }
    run.summary = spectop::bench::summary::summarise(&run.requests);
    run.compare = spectop::bench::summary::compare(&run.plan, &run.requests);
    let html = export::html(&run);
    assert_eq!(unbalanced(&html), None);
    assert!(!html.contains("<img") && !html.contains('\u{1b}') && html.contains("&lt;img src=x"));
    for plot in plot::plots(&run) {
        assert!(!plot.standalone().contains("<img") && !plot.standalone().contains('\u{1b}'), "{}", plot.id);
    }
}

#[test]
fn plots_appear_where_there_is_data() {
    let ids = |run: &Run| plot::plots(run).iter().map(|plot| plot.id).collect::<Vec<_>>();
    let full = run();
    assert_eq!(ids(&full), ["speedup", "budget", "acceptance", "prompts", "stages", "timeline"]);
    let ladder = Simulation { concurrency: vec![1, 4], suites: vec![("story", 3)], ..Simulation::default() }.run();
    assert!(ids(&ladder).contains(&"concurrency"));
    let mut one_budget = Simulation { suites: vec![("story", 3)], ..Simulation::default() };
    one_budget.modes.truncate(3);
    assert!(!ids(&one_budget.run()).contains(&"budget"), "one budget is no curve");
    assert!(ids(&bare()).is_empty());
    assert!(export::html(&bare()).contains("Nothing was measured"));
    // A server that tells nothing: no acceptance, no stages, and modes that are known by label only.
    let mut foreign = full.clone();
    for record in &mut foreign.requests {
        record.server = None;
    }
    for mode in &mut foreign.plan.modes {
        mode.request = ModeRequest::default();
    }
    foreign.summary = spectop::bench::summary::summarise(&foreign.requests);
    assert_eq!(ids(&foreign), ["speedup", "prompts", "timeline"]);
    for plot in plot::plots(&full) {
        let svg = plot.standalone();
        assert_eq!(unbalanced(&svg), None, "{}", plot.id);
        assert!(
            svg.starts_with("<svg xmlns=") && svg.contains("<style>") && !svg.contains("NaN") && !svg.contains("inf")
        );
    }
}

#[test]
fn two_prompts_and_stopped_runs_are_said_to_be() {
    let mut run = Simulation { suites: vec![("story", 1)], ..Simulation::default() }.run();
    run.meta.status = RunStatus::Stopped;
    let html = export::html(&run);
    assert!(html.contains("not enough data (1 prompt)") && html.contains("This run is stopped early"));
    run.plan.temperature = 0.7;
    run.compare = spectop::bench::summary::compare(&run.plan, &run.requests);
    assert!(export::html(&run).contains("above temperature 0 outputs may differ by right"));
}

/// Writes the report to look at: `cargo test --test figures write_report -- --ignored`, then `target/tmp/report.html`.
#[test]
#[ignore = "writes files to look at"]
fn write_report() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let run = run();
    std::fs::write(folder.join("report.html"), export::html(&run)).unwrap();
    std::fs::write(folder.join("report.md"), export::markdown(&run)).unwrap();
    std::fs::write(folder.join("run.json"), export::run_json(&run).unwrap()).unwrap();
    for plot in plot::plots(&run) {
        std::fs::write(folder.join(format!("{}.svg", plot.id)), plot.standalone()).unwrap();
    }
    let ladder =
        Simulation { concurrency: vec![1, 2, 4, 8], suites: vec![("story", 3)], ..Simulation::default() }.run();
    std::fs::write(folder.join("ladder.html"), export::html(&ladder)).unwrap();
}
