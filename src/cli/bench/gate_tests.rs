use super::*;
use crate::protocol::run::{Environment, Losslessness, RunMeta, RunPlan, RunStatus};

fn compare(mode: &str, ratio: Option<f64>, verdict: Verdict, identical: usize) -> Comparison {
    Comparison {
        suite: "all".into(),
        mode: mode.into(),
        baseline: "off".into(),
        concurrency: 1,
        metric: "decode_tok_s".into(),
        prompts: 3,
        ratio,
        interval: None,
        p: None,
        p_holm: None,
        verdict,
        token_weighted_ratio: None,
        by_prompt: vec![],
        lossless: Losslessness {
            checked: true,
            compared: 3,
            identical,
            by: "token ids".into(),
            ..Losslessness::default()
        },
    }
}

fn run(compare: Vec<Comparison>) -> Run {
    Run {
        schema: "run.v1".into(),
        meta: RunMeta {
            id: "r1".into(),
            title: String::new(),
            started_ms: 0,
            finished_ms: None,
            status: RunStatus::Complete,
            made_by: String::new(),
        },
        plan: RunPlan {
            suites: vec![],
            modes: vec![],
            repeats: 1,
            concurrency: vec![1],
            temperature: 0.0,
            max_tokens: 1,
            seed: 0,
            prefix_cache: "none".into(),
            hash: String::new(),
        },
        env: Environment::default(),
        requests: vec![],
        summary: vec![],
        compare,
        warnings: vec!["unstable: 5 %".into()],
    }
}

fn fails(gate: &str, run: &Run) -> usize {
    parse(gate).unwrap().check(std::slice::from_ref(run), &[]).len()
}

#[test]
fn gates_fail_when_they_should() {
    let good = run(vec![
        compare("dflash b8", Some(0.9), Verdict::Slower, 3),
        compare("ddtree r16", Some(1.2), Verdict::Faster, 2),
        compare("ddtree r32", None, Verdict::NotEnoughData, 3),
    ]);
    for (gate, count) in [
        ("ddtree r16<1.1", 0),
        ("ddtree r16 < 1.3", 1),
        ("ddtree<1.1", 1), // r32 is not known
        ("dflash>0.8", 1),
        ("dflash.ratio<0.9", 0),
        ("medusa<1", 1),
        ("dflash.tau<1", 1),
        ("lossless", 1),
        ("slower", 1),
        ("failed", 0),
        ("unstable", 1),
        ("run<0.9", 1),
    ] {
        assert_eq!(fails(gate, &good), count, "{gate}");
    }
    let mut e2e = compare("dflash b8", Some(0.5), Verdict::Slower, 3);
    e2e.metric = "e2e_tok_s".into();
    let both = run(vec![compare("dflash b8", Some(1.5), Verdict::Faster, 3), e2e]);
    assert_eq!((fails("dflash<1", &both), fails("slower", &both)), (0, 0), "a gate is about decoding");
    let told = parse("dflash>1").unwrap().check(std::slice::from_ref(&both), &[]);
    assert_eq!(told, ["gate dflash b8: the speed-up of decoding is 1.500 > 1"]);
    assert_eq!(fails("lossless", &run(vec![])), 1, "nothing compared is nothing proved");
    let across = [compare("off @ r2", Some(0.8), Verdict::Slower, 3)];
    assert_eq!(parse("run<0.9").unwrap().check(&[good], &across).len(), 1);
}

#[test]
fn nonsense_is_refused() {
    for text in ["", "fast", "<1", "ddtree<", "ddtree<x", "ddtree<nan", "ddtree.speed<1"] {
        assert!(parse(text).is_err(), "{text}");
    }
}
