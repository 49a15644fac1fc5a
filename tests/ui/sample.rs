//! A made-up benchmark run through the real types: what the drawing tests show.

use spectop::protocol::event::RequestMetrics;
use spectop::protocol::mode::{Mode, ModeRequest, ModeSettings};
use spectop::protocol::run::{
    ChunkRecord, Comparison, CountKind, Divergence, Environment, Losslessness, ModeSpec, ModeSummary, Purpose,
    RUN_SCHEMA, RequestRecord, RequestStatus, Run, RunMeta, RunPlan, RunStatus, Spread, SuiteInfo, Verdict,
};
use spectop::protocol::state::{Readiness, StageTimes};

use crate::session;

pub const TITLE: &str = "sample for drawing tests";

/// Label, settings asked for, decode tok/s, τ.
fn modes() -> Vec<(&'static str, ModeRequest, f64, f64)> {
    let tree = |r| ModeRequest { tree_budget: Some(r), ..ModeRequest::mode(Mode::Ddtree) };
    vec![
        ("off", ModeRequest::mode(Mode::Off), 228.0, 1.0),
        ("dflash b8", ModeRequest { block_size: Some(8), ..ModeRequest::mode(Mode::Dflash) }, 262.0, 2.9),
        ("ddtree r8", tree(8), 271.0, 3.1),
        ("ddtree r16", tree(16), 246.0, 3.5),
        ("ddtree r32", tree(32), 171.0, 3.8),
    ]
}

fn spread(n: u64, mean: f64) -> Spread {
    Spread {
        n,
        mean: Some(mean),
        std: Some(mean * 0.08),
        min: Some(mean * 0.8),
        max: Some(mean * 1.3),
        p50: Some(mean * 0.99),
        p95: (n >= 20).then_some(mean * 1.2),
        p99: (n >= 100).then_some(mean * 1.28),
    }
}

fn summary(suite: &str, label: &str, speed: f64, tau: f64) -> ModeSummary {
    let requests = if suite == "all" { 45 } else { 15 };
    let n = requests as u64;
    let drafts = label != "off";
    let per_pos: Vec<f64> = (0..7).map(|k| if drafts { ((tau - 1.0) / tau).powi(k + 1) } else { 0.0 }).collect();
    let hist: Vec<u64> = (0..8).map(|k| (1000.0 * (1.0 / tau) * ((tau - 1.0) / tau).powi(k)) as u64).collect();
    ModeSummary {
        suite: suite.into(),
        mode: label.into(),
        concurrency: 1,
        finished: requests - 3,
        cut_short: 3,
        failed: 0,
        timed_out: 0,
        retries: 0,
        decode_tok_s: spread(n, speed),
        e2e_tok_s: spread(n, speed * 0.9),
        ttft_ms: spread(n, 36.8),
        ttfat_ms: spread(n, 36.8),
        tpot_ms: spread(n, 1000.0 / speed),
        itl_ms: spread(n * 100, 1000.0 / speed),
        step_gap_ms: spread(n * 40, 1000.0 * tau / speed),
        e2e_ms: spread(n, 600.0),
        token_weighted_tok_s: Some(speed * 1.01),
        throughput_tok_s: Some(speed * 0.88),
        tau_pooled: Some(tau),
        tau_macro: Some(tau * 0.98),
        per_pos: if drafts { per_pos } else { Vec::new() },
        accepted_hist: if drafts { hist } else { Vec::new() },
        stages: Some(StageTimes { draft: 900.0, build: 12.0, verify: 4100.0, commit: 80.0 }),
        server_decode_tok_s: Some(speed),
        server_ttft_ms: Some(36.0),
        j_per_token: None,
        tokens: requests * 110,
    }
}

fn comparison(suite: &str, label: &str, ratio: f64) -> Comparison {
    let interval = [ratio * 0.94, ratio * 1.07];
    let verdict = if interval[0] > 1.0 {
        Verdict::Faster
    } else if interval[1] < 1.0 {
        Verdict::Slower
    } else {
        Verdict::NoDifferenceShown
    };
    let compared = if suite == "all" { 45 } else { 15 };
    let differs = usize::from(label == "ddtree r16" && suite != "builtin");
    Comparison {
        suite: suite.into(),
        mode: label.into(),
        baseline: "off".into(),
        concurrency: 1,
        metric: "decode_tok_s".into(),
        prompts: compared / 3,
        ratio: Some(ratio),
        interval: Some(interval),
        p: Some(0.01),
        p_holm: Some(0.03),
        verdict,
        token_weighted_ratio: Some(ratio * 1.01),
        by_prompt: vec![("code".into(), 230.0, 230.0 * ratio)],
        lossless: Losslessness {
            checked: true,
            compared,
            identical: compared - differs,
            baseline_differs: 0,
            by: "token ids".into(),
            divergences: (0..differs)
                .map(|_| Divergence {
                    suite: "story".into(),
                    prompt_id: "code".into(),
                    turn: 0,
                    repeat: 1,
                    index: 95,
                    unit: "token".into(),
                    baseline: "    for item in items:\n        total += item.price\n    return total".into(),
                    other: "    for item in items:\n        total = total + item.price\n    return total".into(),
                    baseline_id: Some(4117),
                    other_id: Some(446),
                    margin: Some(0.0001),
                    same_end: true,
                })
                .collect(),
        },
    }
}

fn request(seq: usize, purpose: Purpose, prompt: &str, mode: usize, repeat: usize) -> RequestRecord {
    let (label, wish, speed, tau) = modes()[mode];
    let tokens = 96;
    let first = 36.0 + (seq % 5) as f64;
    let rounds = (tokens as f64 / tau) as usize;
    RequestRecord {
        seq,
        purpose,
        suite: if repeat == 1 { "builtin".into() } else { "story".into() },
        prompt_id: prompt.into(),
        turn: 0,
        mode: label.into(),
        repeat,
        order: mode,
        concurrency: 1,
        status: if seq.is_multiple_of(7) { RequestStatus::CutShort } else { RequestStatus::Finished },
        error: None,
        retries: 0,
        sent_ms: seq as f64 * 480.0,
        ttft_ms: Some(first),
        ttfat_ms: Some(first),
        e2e_ms: first + 1000.0 * tokens as f64 / speed,
        tokens,
        prompt_tokens: Some(31),
        count: CountKind::Exact,
        decode_tok_s: Some(speed * (1.0 + 0.01 * (seq % 4) as f64)),
        e2e_tok_s: Some(speed * 0.9),
        tpot_ms: Some(1000.0 / speed),
        chunks: vec![ChunkRecord { at_ms: first, tokens: 1 }, ChunkRecord { at_ms: first + 400.0, tokens: tokens - 1 }],
        finish_reason: Some("stop".into()),
        token_ids: None,
        margins: None,
        text: None,
        output_hash: format!("{prompt}-{}", if label == "ddtree r16" && repeat == 1 { "b" } else { "a" }),
        server: Some(RequestMetrics {
            mode: ModeSettings { mode: Mode::Off, block_size: 8, tree_budget: 16, chain_seed: true }.with(wish),
            modes: vec![(wish.mode.unwrap_or(Mode::Off), rounds as u64)],
            prompt_tokens: 31,
            tokens,
            rounds: rounds as u64,
            drafted: 7 * rounds as u64,
            accepted: (tokens - rounds) as u64,
            tau: Some(tau),
            accepted_hist: vec![1, 2, 3],
            queue_ms: 0.1,
            ttft_ms: Some(first),
            e2e_ms: 420.0,
            decode_tok_s: Some(speed),
            prefill_tok_s: Some(900.0),
            stages: StageTimes::default(),
        }),
        energy_j: None,
    }
}

/// The whole run.
pub fn run() -> Run {
    let all = modes();
    let mut summaries = Vec::new();
    let mut compare = Vec::new();
    for (suite, factor) in [("all", 1.0), ("story", 0.93), ("builtin", 1.08)] {
        for (i, (label, _, speed, tau)) in all.iter().enumerate() {
            let speed = if i == 0 { *speed } else { speed * factor };
            summaries.push(summary(suite, label, speed, *tau));
            if i > 0 {
                compare.push(comparison(suite, label, speed / all[0].2));
            }
        }
    }
    let mut requests: Vec<_> = (0..5).map(|m| request(m, Purpose::Warmup, "hello", m, 0)).collect();
    for (repeat, prompt) in ["code", "explanation", "one-word"].into_iter().enumerate() {
        for mode in 0..5 {
            requests.push(request(requests.len(), Purpose::Measure, prompt, mode, repeat));
        }
    }
    let state = session::state(Readiness::Ready, None);
    Run {
        schema: RUN_SCHEMA.into(),
        meta: RunMeta {
            id: "20261201-112000-ab12".into(),
            title: TITLE.into(),
            started_ms: session::START_MS,
            finished_ms: Some(session::START_MS + 110_000),
            status: RunStatus::Complete,
            made_by: "spectop 0.1.0".into(),
        },
        plan: RunPlan {
            suites: vec![
                SuiteInfo { name: "story".into(), prompts: 3, source: "built in".into() },
                SuiteInfo { name: "builtin".into(), prompts: 12, source: "built in".into() },
            ],
            modes: all
                .iter()
                .map(|(label, wish, ..)| ModeSpec { label: (*label).into(), request: *wish, url: None })
                .collect(),
            repeats: 3,
            concurrency: vec![1],
            temperature: 0.0,
            max_tokens: 128,
            seed: 7,
            prefix_cache: "none".into(),
            hash: "c0ffee".into(),
        },
        env: Environment {
            server: "spectop".into(),
            server_version: Some("0.1.0".into()),
            model: Some("SmolLM2-135M-Instruct".into()),
            target: state.target,
            draft: state.draft,
            device: state.device,
            client: "linux x86_64".into(),
            sensors_before: None,
            sensors_after: None,
        },
        requests,
        summary: summaries,
        compare,
        warnings: vec!["the baseline drifted by 3.4 % between start and end: the machine was not quiet".into()],
    }
}
