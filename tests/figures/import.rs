//! Result files of other tools as runs.

use serde_json::{Value, json};
use spectop::bench::export;
use spectop::bench::import::{ImportError, read};
use spectop::bench::summary::summarise;
use spectop::protocol::run::{ModeSummary, Purpose, RequestRecord, RequestStatus, Run, RunStatus, Verdict};

use super::run::Simulation;
use super::schema::complaints;

fn run() -> Run {
    Simulation { suites: vec![("story", 3), ("math", 6)], ..Simulation::default() }.run()
}

fn valid(run: &Run) {
    let schema = serde_json::from_str(export::RUN_JSON_SCHEMA).unwrap();
    let found = complaints(&schema, &serde_json::to_value(run).unwrap());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// `vllm bench serve` without `--save-detailed`: totals alone, with what Python writes for no number.
fn vllm_totals() -> String {
    r#"{"date": "20251103-101500", "backend": "openai-chat", "label": null, "model_id": "Qwen/Qwen3-8B",
        "num_prompts": 80, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4, "duration": 96.4,
        "completed": 79, "failed": 1, "total_input_tokens": 21010, "total_output_tokens": 40448,
        "request_throughput": 0.819, "request_goodput": null, "output_throughput": 419.6,
        "total_token_throughput": 637.5, "max_output_tokens_per_s": 640.0, "max_concurrent_requests": 6,
        "spec_decode_acceptance_rate": 28.1, "spec_decode_acceptance_length": 3.81, "spec_decode_num_drafts": 10613,
        "spec_decode_draft_tokens": 106130, "spec_decode_accepted_tokens": 29822,
        "spec_decode_per_position_acceptance_rates": [0.83, 0.62, 0.45],
        "mean_ttft_ms": 61.2, "median_ttft_ms": 58.0, "std_ttft_ms": 11.0, "p99_ttft_ms": 97.0,
        "mean_tpot_ms": 9.3, "median_tpot_ms": 9.0, "std_tpot_ms": 1.5, "p99_tpot_ms": NaN,
        "mean_itl_ms": 35.1, "median_itl_ms": 34.2, "std_itl_ms": 4.0, "p99_itl_ms": 48.0}"#
        .to_owned()
}

#[test]
fn our_own_runs_come_back_as_they_were() {
    let run = run();
    assert!(read("run.json", &export::run_json(&run).unwrap()).unwrap() == run);
}

fn good(run: &Run, mode: &str) -> Vec<RequestRecord> {
    let fits = |r: &&RequestRecord| r.purpose == Purpose::Measure && r.mode == mode;
    let mut records: Vec<RequestRecord> = run.requests.iter().filter(fits).cloned().collect();
    records.sort_by(|a, b| a.sent_ms.total_cmp(&b.sent_ms));
    records
}

fn near(a: Option<f64>, b: Option<f64>) {
    let (a, b) = (a.expect("known"), b.expect("known"));
    assert!((a - b).abs() <= 1e-6 * b.abs(), "{a} {b}");
}

#[test]
fn a_vllm_file_gives_back_what_was_measured() {
    let run = run();
    for mode in ["off", "ddtree r64"] {
        let imported = read("bench-07.json", &export::vllm(&run, mode).unwrap()).unwrap();
        valid(&imported);
        assert_eq!((imported.meta.status, imported.env.server.as_str()), (RunStatus::Imported, "vllm"));
        assert_eq!((imported.plan.modes[0].label.as_str(), imported.meta.started_ms), (mode, run.meta.started_ms));
        let (before, after) = (good(&run, mode), &imported.requests);
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(after) {
            assert_eq!(before.status == RequestStatus::Failed, after.status == RequestStatus::Failed);
            if after.status == RequestStatus::Failed {
                assert_eq!(after.error, before.error);
                continue;
            }
            near(after.ttft_ms, before.ttft_ms);
            near(after.decode_tok_s, before.decode_tok_s);
            assert_eq!(
                (after.tokens, after.prompt_tokens, &after.text),
                (before.tokens, before.prompt_tokens, &before.text)
            );
            assert_eq!(after.chunks.iter().map(|chunk| chunk.tokens).sum::<usize>(), after.tokens);
        }
        let all = |run: &Run| run.summary.iter().find(|s| s.suite == "all" && s.mode == mode).unwrap().clone();
        let (before, after): (ModeSummary, ModeSummary) = (all(&run), all(&imported));
        near(after.decode_tok_s.mean, before.decode_tok_s.mean);
        near(after.ttft_ms.p95, before.ttft_ms.p95);
        near(after.step_gap_ms.p99, before.step_gap_ms.p99);
        assert_eq!(after.finished, before.finished + before.cut_short, "the file does not tell them apart");
        if mode != "off" {
            near(after.per_pos.first().copied(), before.per_pos.first().copied());
            assert!(after.tau_pooled.unwrap() > 2.0);
        }
        assert!(imported.warnings.iter().any(|w| w.contains("cut short")));
        assert!(export::html(&imported).contains("bench serve"));
    }
}

#[test]
fn sglang_lines_become_modes_and_are_compared() {
    let run = run();
    let text: String = ["off", "dflash b16", "ddtree r128"].iter().map(|m| export::sglang(&run, m).unwrap()).collect();
    let imported = read("runs/sg.jsonl", &text).unwrap();
    valid(&imported);
    let labels: Vec<&str> = imported.plan.modes.iter().map(|mode| mode.label.as_str()).collect();
    assert_eq!(labels, ["off", "dflash b16", "ddtree r128"]);
    assert_eq!((imported.meta.title.as_str(), imported.env.server.as_str()), ("sg", "sglang"));
    // Prompts differ in order between modes here, so lengths do not prove that they are the same.
    let lens = |line: &str| serde_json::from_str::<Value>(line).unwrap()["input_lens"].clone();
    let lines: Vec<&str> = text.lines().collect();
    let same = lines.windows(2).all(|pair| lens(pair[0]) == lens(pair[1]));
    assert_eq!(!imported.compare.is_empty(), same);
    // The same line twice is the same speed.
    let twice = format!("{}\n{}", lines[0], lines[0].replace("\"tag\":\"off\"", "\"tag\":\"again\""));
    let imported = read("sg.jsonl", &twice).unwrap();
    assert_eq!(imported.compare.len(), 4);
    assert!(imported.compare.iter().all(|c| c.verdict == Verdict::NoDifferenceShown && c.ratio == Some(1.0)));
    assert!(imported.compare.iter().all(|c| !c.lossless.checked), "the temperature is not known");
    assert!(export::html(&imported).contains("imported files do not say"));
}

#[test]
fn totals_alone_give_figures_without_requests() {
    let imported = read("out/spec_k7.json", &vllm_totals()).unwrap();
    valid(&imported);
    assert!(imported.requests.is_empty() && imported.compare.is_empty());
    assert_eq!((imported.meta.title.as_str(), imported.env.model.as_deref()), ("spec_k7", Some("Qwen/Qwen3-8B")));
    let s = &imported.summary[1];
    assert_eq!((s.suite.as_str(), s.mode.as_str(), s.concurrency), ("all", "spec_k7", 4));
    assert_eq!((s.finished, s.failed, s.tokens), (79, 1, 40_448));
    assert_eq!((s.tau_pooled, s.throughput_tok_s, s.per_pos.len()), (Some(3.81), Some(419.6), 3));
    near(s.decode_tok_s.p50, Some(1000.0 / 9.0));
    assert_eq!((s.decode_tok_s.mean, s.ttft_ms.p99, s.tpot_ms.p99), (None, None, None), "79 requests have no 99th");
    near(s.ttft_ms.std, Some(11.0 * (79.0_f64 / 78.0).sqrt()));
    assert_eq!((s.step_gap_ms.mean, s.itl_ms.mean), (Some(35.1), None), "their ITL is a gap between chunks");
    assert!(imported.warnings[0].contains("only totals"));
    assert!(export::html(&imported).contains("spec_k7") && export::markdown(&imported).contains("spec\\_k7"));
}

#[test]
fn appended_results_get_labels_of_their_own() {
    let imported = read("k.json", &format!("{}\n{}", vllm_totals(), vllm_totals())).unwrap();
    let labels: Vec<&str> = imported.plan.modes.iter().map(|mode| mode.label.as_str()).collect();
    assert_eq!(labels, ["k", "k #2"]);
    assert_eq!(imported.summary.len(), 4);
    assert!(imported.compare.is_empty());
}

#[test]
fn what_is_no_result_file_is_said_to_be_none() {
    let error = |text: &str| read("x.json", text).unwrap_err();
    assert!(matches!(error("{\n\"a\": }"), ImportError::Json { line: 2, .. }));
    assert!(matches!(error("{\"schema\": \"run.v9\"}"), ImportError::Version { .. }));
    assert!(matches!(error("{\"schema\": \"run.v1\"}"), ImportError::Json { .. }), "a run without its parts");
    for text in ["", "[1, 2]", "{}", "{\"results\": []}", "3"] {
        assert!(matches!(error(text), ImportError::Unknown { .. }), "{text}");
    }
    let broken = json!({ "duration": 1.0, "output_throughput": 1.0, "mean_ttft_ms": 1.0, "output_lens": [3, 4], "ttfts": [0.1] });
    let message = error(&broken.to_string()).to_string();
    assert!(message.contains("x.json: ttfts has 1 entries, output_lens 2"), "{message}");
}

#[test]
fn odd_values_do_no_harm() {
    let odd = json!({
        "duration": 1.0, "output_throughput": -3, "mean_ttft_ms": "fast", "completed": -5, "num_prompts": 1e300,
        "max_concurrency": null, "label": 7, "date": "yesterday",
        "output_lens": [3, null, -2, 5, 1], "ttfts": [0.1, "x", 0.1, -1.0, 0.2],
        "itls": [[0.1, "y"], 5, [], [0.1], []], "errors": ["", "", "", "", ""], "start_times": [1e300, 0, 1, 2, 3],
        "generated_texts": [null, 1, "", "a", "b"],
    });
    let imported = read("", &odd.to_string()).unwrap();
    let states: Vec<bool> = imported.requests.iter().map(|r| r.status == RequestStatus::Finished).collect();
    assert_eq!(states, [true, false, false, true, true]);
    assert_eq!(summarise(&imported.requests).len(), 2);
    let html = export::html(&imported);
    assert!(html.len() > 1_000);
}
