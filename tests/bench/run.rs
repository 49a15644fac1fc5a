//! Whole runs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use spectop::bench::runner::{BenchError, Start, control, prepare};
use spectop::bench::{journal, runner};
use spectop::protocol::run::{Purpose, RequestStatus, Run, RunProgress, RunStatus};
use tokio::sync::mpsc;

use crate::fake::{Fake, Reply, chunk, end, lock, options, run, setup, short};

fn of(run: &Run, purpose: Purpose) -> usize {
    run.requests.iter().filter(|record| record.purpose == purpose).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_sends_what_was_planned_and_keeps_it() {
    let fake = Fake::new(|_, _| short());
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let setup = setup(Some(&server), dir.path(), Start::New(options(&["off", "dflash:4", "ddtree:16:noseed"])));
    let (tx, mut rx) = mpsc::channel(4);
    let (_handle, control) = control();
    let (result, told) = tokio::join!(runner::run(setup, tx, control), async {
        let mut told = Vec::new();
        while let Some(progress) = rx.recv().await {
            told.push(progress);
        }
        told
    });
    let run = result.unwrap();
    assert_eq!((run.meta.status, run.schema.as_str()), (RunStatus::Complete, "run.v1"));
    // 3 prompts × 2 repeats × 3 modes.
    assert_eq!((of(&run, Purpose::Measure), of(&run, Purpose::Bracket)), (18, 6));
    let warm = of(&run, Purpose::Warmup);
    assert!((9..=24).contains(&warm), "{warm}");
    assert_eq!(fake.requests(), run.requests.len());
    let mut met = HashMap::new();
    for record in &run.requests {
        assert_eq!((record.status, record.tokens, record.retries), (RequestStatus::Finished, 6, 0));
        assert_eq!(record.token_ids, Some(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(record.text.as_deref(), Some("a b c"));
        if record.purpose == Purpose::Measure {
            *met.entry((record.prompt_id.clone(), record.mode.clone(), record.repeat)).or_insert(0) += 1;
        }
    }
    assert!(met.len() == 18 && met.values().all(|n| *n == 1));
    let labels: HashSet<_> = run.requests.iter().map(|record| record.mode.as_str()).collect();
    assert_eq!(labels, HashSet::from(["off", "dflash b4", "ddtree r16 noseed"]));
    assert!(run.requests.windows(2).all(|pair| pair[0].sent_ms <= pair[1].sent_ms));
    let asked = lock(&fake.asked);
    let own: HashSet<String> = asked.iter().map(|body| body["spectop"].to_string()).collect();
    assert!(own.contains(r#"{"block_size":4,"mode":"dflash","trace":true}"#), "{own:?}");
    assert!(asked.iter().all(|body| body["temperature"] == 0.0 && body["stream"] == true));

    assert!(matches!(&told[0], RunProgress::Planned { estimate_s: Some(_), .. }));
    let count = |wanted: fn(&RunProgress) -> bool| told.iter().filter(|progress| wanted(progress)).count();
    assert_eq!(count(|p| matches!(p, RunProgress::Sending { .. })), run.requests.len());
    assert_eq!(count(|p| matches!(p, RunProgress::Done(_))), run.requests.len());
    assert!(count(|p| matches!(p, RunProgress::Interim { .. })) >= 1);
    let Some(RunProgress::Ended { run: last, file: Some(file) }) = told.last() else { panic!("no end") };
    assert_eq!(**last, run);
    let kept: Run = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    // Reading a number may change its last bit.
    assert_eq!((&kept.meta, &kept.plan, kept.requests.len()), (&run.meta, &run.plan, run.requests.len()));
    let contents = journal::Contents::read(&std::path::Path::new(file).with_extension("jsonl")).unwrap();
    let ids = |requests: &[spectop::protocol::run::RequestRecord]| -> HashSet<usize> {
        requests.iter().map(|record| record.seq).collect()
    };
    assert_eq!(ids(&contents.records), ids(&run.requests));
    assert_eq!(journal::list(dir.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_dry_run_sends_nothing() {
    let fake = Fake::new(|_, _| short());
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let prepared = prepare(&setup(Some(&server), dir.path(), Start::New(options(&[])))).await.unwrap();
    assert_eq!(prepared.options.modes, ["off", "dflash", "ddtree"]);
    assert!(prepared.estimate_s.is_some());
    assert_eq!((fake.requests(), std::fs::read_dir(dir.path()).unwrap().count()), (0, 0));
}

#[tokio::test]
async fn servers_that_cannot_switch_are_told_apart_by_address() {
    let (a, b) = (Fake::new(|_, _| short()), Fake::new(|_, _| short()));
    let (server_a, server_b) = (a.foreign().await, b.foreign().await);
    let dir = tempfile::tempdir().unwrap();
    let error = run(setup(Some(&server_a), dir.path(), Start::New(options(&["off", "dflash"])))).await.unwrap_err();
    assert!(matches!(error, BenchError::Mode(_)) && error.to_string().contains("URL1"), "{error}");
    let error = run(setup(None, dir.path(), Start::New(options(&["as-is"])))).await.unwrap_err();
    assert!(matches!(error, BenchError::NoServer(_)), "{error}");

    let words = [format!("off={}", server_a.address), format!("mtp={}", server_b.address)];
    let run = run(setup(None, dir.path(), Start::New(options(&[&words[0], &words[1]])))).await.unwrap();
    assert_eq!(of(&run, Purpose::Measure), 12);
    assert_eq!(run.env.model.as_deref(), Some("some-model"));
    assert_eq!(run.plan.prefix_cache, "as_is");
    assert!(run.warnings.iter().any(|warning| warning.contains("prefix cache")), "{:?}", run.warnings);
    let asked = lock(&b.asked);
    assert!(asked.iter().all(|body| body["model"] == "some-model" && body.get("spectop").is_none()));
    assert_eq!(a.requests() + asked.len(), run.requests.len());
}

#[tokio::test]
async fn turns_get_the_answers_of_their_own_mode() {
    let dir = tempfile::tempdir().unwrap();
    let suite = dir.path().join("talk.jsonl");
    std::fs::write(&suite, "{\"turns\":[\"one\",\"two\",\"three\"],\"system\":\"be brief\",\"id\":\"t\"}\n").unwrap();
    let fake = Fake::new(|_, body| {
        let text =
            format!("{}-{}", body["spectop"]["mode"].as_str().unwrap(), body["messages"].as_array().unwrap().len());
        Reply::Say(vec![(0.0, chunk(&text, &[1])), (0.0, end("stop", Some(1)))])
    });
    let server = fake.native().await;
    let mut options = options(&["off", "ddtree"]);
    options.suites = vec![suite.display().to_string()];
    let run = run(setup(Some(&server), dir.path(), Start::New(options))).await.unwrap();
    assert_eq!(of(&run, Purpose::Measure), 2 * 2 * 3);
    for body in lock(&fake.asked).iter().filter(|body| body["messages"].as_array().unwrap().len() == 6) {
        let said: Vec<&str> =
            body["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
        let mode = body["spectop"]["mode"].as_str().unwrap();
        let answers = [format!("{mode}-2"), format!("{mode}-4")];
        assert_eq!(said, ["be brief", "one", &answers[0], "two", &answers[1], "three"]);
    }
}

#[tokio::test]
async fn a_failed_turn_fails_the_ones_after_it_and_nothing_is_hidden() {
    let dir = tempfile::tempdir().unwrap();
    let suite = dir.path().join("talk.jsonl");
    std::fs::write(&suite, "{\"turns\":[\"one\",\"two\"],\"id\":\"t\"}\n").unwrap();
    let fake = Fake::new(|_, body| {
        // Answers of the warm-up are short, and only they may go well.
        if body["max_tokens"] == 64 { Reply::Refuse(422) } else { short() }
    });
    let server = fake.native().await;
    let mut options = options(&["off"]);
    (options.suites, options.max_tokens, options.repeats) = (vec![suite.display().to_string()], 64, 1);
    let run = run(setup(Some(&server), dir.path(), Start::New(options))).await.unwrap();
    let measured: Vec<_> = run.requests.iter().filter(|record| record.purpose == Purpose::Measure).collect();
    assert_eq!(measured.len(), 2);
    assert!(measured.iter().all(|record| record.status == RequestStatus::Failed));
    assert!(measured[0].error.as_deref().unwrap().contains("422"));
    assert!(measured[1].error.as_deref().unwrap().contains("not sent"));
    assert!(run.warnings.iter().any(|warning| warning.contains("422")), "{:?}", run.warnings);
}

#[tokio::test]
async fn no_more_than_asked_for_are_in_flight_and_of_one_mode() {
    let fake =
        Fake::new(|_, _| Reply::Say(vec![(5.0, chunk("a", &[1])), (10.0, chunk("b", &[2])), (0.0, end("stop", None))]));
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&["off", "dflash"]);
    (options.suites, options.prompts, options.repeats) = (vec!["builtin".into()], Some(7), 1);
    options.concurrency = vec![3];
    let run = run(setup(Some(&server), dir.path(), Start::New(options))).await.unwrap();
    assert_eq!(fake.most.load(Ordering::SeqCst), 3);
    let measured: Vec<_> = run.requests.iter().filter(|record| record.purpose == Purpose::Measure).collect();
    assert_eq!(measured.len(), 14);
    for a in &measured {
        for b in measured.iter().filter(|b| b.mode != a.mode) {
            let apart = a.sent_ms + a.e2e_ms <= b.sent_ms + 1.0 || b.sent_ms + b.e2e_ms <= a.sent_ms + 1.0;
            assert!(apart, "{} and {} overlap", a.seq, b.seq);
        }
    }
}

#[tokio::test]
async fn a_pause_holds_and_a_stop_keeps() {
    let fake = Fake::new(|_, _| short());
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let (tx, mut rx) = mpsc::channel(1);
    let (handle, control) = control();
    let setup = setup(Some(&server), dir.path(), Start::New(options(&["off", "dflash"])));
    let running = tokio::spawn(runner::run(setup, tx, control));
    let mut measured = 0;
    let mut paused = false;
    while let Some(progress) = rx.recv().await {
        match progress {
            RunProgress::Done(record) if record.purpose == Purpose::Measure => {
                measured += 1;
                match measured {
                    2 => handle.toggle_pause(),
                    4 => handle.stop(),
                    _ => {}
                }
            }
            RunProgress::Paused(true) => {
                paused = true;
                let before = fake.requests();
                tokio::time::sleep(Duration::from_millis(150)).await;
                assert_eq!(fake.requests(), before);
                handle.toggle_pause();
            }
            _ => {}
        }
    }
    let run = running.await.unwrap().unwrap();
    assert!(paused);
    assert_eq!(run.meta.status, RunStatus::Stopped);
    let kept = of(&run, Purpose::Measure);
    assert!((4..12).contains(&kept), "{kept}");
}

#[tokio::test]
async fn the_wrong_mode_and_lost_tokens_are_noticed() {
    let fake = Fake::new(|_, body| {
        let mode = if body["spectop"]["mode"] == "dflash" { "off" } else { "ddtree" };
        let metrics = serde_json::json!({"mode": {"mode": mode, "block_size": 8, "tree_budget": 32, "chain_seed": true},
            "modes": [[mode, 2]], "prompt_tokens": 3, "tokens": 7, "rounds": 2, "drafted": 14, "accepted": 1,
            "tau": 1.5, "accepted_hist": [1, 1], "queue_ms": 0.1, "ttft_ms": 5.0, "e2e_ms": 9.0,
            "decode_tok_s": null, "prefill_tok_s": null,
            "stages": {"draft": 1.0, "build": 0.0, "verify": 2.0, "commit": 0.1}});
        let last: Value = serde_json::json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "spectop": metrics});
        Reply::Say(vec![(0.0, chunk("a", &[1, 2])), (0.0, format!("data: {last}\n\ndata: [DONE]\n\n"))])
    });
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(&["ddtree", "dflash"]);
    (options.prompts, options.repeats) = (Some(1), 1);
    let run = run(setup(Some(&server), dir.path(), Start::New(options))).await.unwrap();
    let text = run.warnings.join("\n");
    assert!(
        text.contains("the server decoded in mode off") && text.contains("2 tokens came, the server counts 7"),
        "{text}"
    );
    assert_eq!(run.requests[0].server.as_ref().unwrap().tau, Some(1.5));
    assert_eq!(run.requests[0].prompt_tokens, Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_may_choose_and_another_mode_may_not() {
    let fake = Fake::new(|_, _| {
        let metrics = serde_json::json!({
            "mode": {"mode": "dflash", "block_size": 8, "tree_budget": 16, "chain_seed": true}, "modes": [["dflash", 2]],
            "prompt_tokens": 3, "tokens": 2, "rounds": 2, "drafted": 14, "accepted": 0, "tau": 1.0,
            "accepted_hist": [2], "queue_ms": 0.0, "ttft_ms": 1.0, "e2e_ms": 2.0, "decode_tok_s": 1.0,
            "prefill_tok_s": 1.0, "stages": spectop::protocol::state::StageTimes::default()
        });
        let end =
            serde_json::json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "spectop": metrics});
        let text = format!("data: {end}\n\ndata: [DONE]\n\n");
        Reply::Say(vec![(1.0, chunk("a", &[1])), (1.0, chunk("b", &[2])), (0.0, text)])
    });
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let run = run(setup(Some(&server), dir.path(), Start::New(options(&["off", "auto"])))).await.unwrap();
    assert!(run.requests.iter().all(|record| record.server.is_some()));
    let about = |label: &str| run.warnings.iter().filter(|warning| warning.contains(label)).count();
    assert!(about("off: the server decoded") > 0 || about("→ off") > 0, "{:?}", run.warnings);
    assert_eq!((about("→ auto"), about("warm-up auto")), (0, 0), "{:?}", run.warnings);
}
