//! Summaries, comparisons and losslessness over made-up requests.

use super::run::Simulation;
use spectop::bench::compare::{METRICS, compare_with};
use spectop::bench::summary::{compare, summarise};
use spectop::protocol::run::{Comparison, ModeSummary, Purpose, RequestRecord, RequestStatus, Run, Verdict};

fn find<'a>(summary: &'a [ModeSummary], suite: &str, mode: &str) -> &'a ModeSummary {
    summary.iter().find(|s| s.suite == suite && s.mode == mode).expect("the entry")
}

fn versus<'a>(compare: &'a [Comparison], suite: &str, mode: &str, metric: &str) -> &'a Comparison {
    compare.iter().find(|c| c.suite == suite && c.mode == mode && c.metric == metric).expect("the entry")
}

fn small() -> Simulation {
    let mut simulation = Simulation { suites: vec![("story", 3), ("math", 5)], ..Simulation::default() };
    simulation.modes.truncate(3);
    simulation
}

/// A record with only what a test is about.
fn record(run: &Run, mode: &str, prompt: &str, repeat: usize) -> RequestRecord {
    let found = run.requests.iter().find(|r| {
        r.purpose == Purpose::Measure
            && r.suite == "story"
            && r.mode == mode
            && r.prompt_id == prompt
            && r.repeat == repeat
    });
    found.expect("the record").clone()
}

#[test]
fn every_suite_mode_and_level_has_its_entry() {
    let run = Simulation { concurrency: vec![1, 4], ..small() }.run();
    let names: Vec<(String, usize, String)> =
        run.summary.iter().map(|s| (s.suite.clone(), s.concurrency, s.mode.clone())).collect();
    let mut expected = Vec::new();
    for suite in ["story", "math", "all"] {
        for level in [1, 4] {
            for mode in ["off", "dflash b16", "ddtree r16"] {
                expected.push((suite.to_owned(), level, mode.to_owned()));
            }
        }
    }
    assert_eq!(names, expected);
    assert_eq!(run.compare.len(), 3 * 2 * 2 * METRICS.len(), "suites × levels × modes × metrics");
}

#[test]
fn ends_are_kept_apart() {
    let run = small().run();
    let all = find(&run.summary, "all", "dflash b16");
    assert_eq!((all.timed_out, all.failed), (1, 0));
    assert_eq!(all.finished + all.cut_short + all.timed_out, 8 * 3);
    assert!(all.cut_short > 0, "some prompts want more than the limit");
    assert_eq!(all.decode_tok_s.n as usize, all.finished + all.cut_short, "failures have no speed");
    assert_eq!(all.e2e_ms.n as usize, all.finished + all.cut_short);
}

#[test]
fn warm_up_and_brackets_are_left_out() {
    let mut run = small().run();
    let before = summarise(&run.requests);
    for record in run.requests.iter_mut().filter(|r| r.purpose != Purpose::Measure) {
        record.decode_tok_s = Some(1e9);
        record.tokens = 1_000_000;
    }
    assert_eq!(summarise(&run.requests), before);
    assert_eq!(compare(&run.plan, &run.requests), run.compare);
    run.requests.retain(|r| r.purpose != Purpose::Measure);
    assert!(summarise(&run.requests).is_empty());
    assert!(compare(&run.plan, &run.requests).is_empty());
}

#[test]
fn latencies_per_token_and_per_step_are_told_apart() {
    let run = small().run();
    let (off, tree) = (find(&run.summary, "all", "off"), find(&run.summary, "all", "ddtree r16"));
    assert_eq!(off.itl_ms, off.step_gap_ms, "plain decoding brings one token a step");
    assert!(tree.itl_ms.n > 2 * tree.step_gap_ms.n);
    assert!(tree.itl_ms.mean < off.itl_ms.mean && tree.step_gap_ms.mean > off.step_gap_ms.mean);
    // Both divide the same total time: Σ gaps.
    let total = |s: &ModeSummary| {
        (s.itl_ms.mean.unwrap() * s.itl_ms.n as f64, s.step_gap_ms.mean.unwrap() * s.step_gap_ms.n as f64)
    };
    let (by_token, by_step) = total(tree);
    assert!((by_token - by_step).abs() < 1e-6 * by_step);
    let speed = tree.token_weighted_tok_s.unwrap();
    assert!((speed - 1000.0 / tree.itl_ms.mean.unwrap()).abs() < 1e-9 * speed);
}

#[test]
fn chunks_without_tokens_pass_their_time_on() {
    let run = small().run();
    let mut records = vec![record(&run, "off", "code", 0)];
    let plain = summarise(&records);
    let chunk = records[0].chunks[5];
    records[0].chunks.insert(6, spectop::protocol::run::ChunkRecord { at_ms: chunk.at_ms + 1.0, tokens: 0 });
    assert_eq!(summarise(&records), plain);
}

#[test]
fn tau_is_pooled_and_macro() {
    let run = small().run();
    let tree = find(&run.summary, "all", "ddtree r16");
    let servers: Vec<_> = run
        .requests
        .iter()
        .filter(|r| r.purpose == Purpose::Measure && r.mode == "ddtree r16")
        .filter_map(|r| r.server.as_ref())
        .collect();
    let committed: f64 = servers.iter().map(|m| m.tau.unwrap() * m.rounds as f64).sum();
    let rounds: u64 = servers.iter().map(|m| m.rounds).sum();
    assert!((tree.tau_pooled.unwrap() - committed / rounds as f64).abs() < 1e-12);
    assert!(tree.tau_macro.is_some() && tree.tau_macro != tree.tau_pooled);
    assert_eq!(tree.accepted_hist.iter().sum::<u64>(), rounds);
    assert!((tree.per_pos[0] - (rounds - tree.accepted_hist[0]) as f64 / rounds as f64).abs() < 1e-12);
    assert!(tree.per_pos.windows(2).all(|pair| pair[0] >= pair[1]));
    let off = find(&run.summary, "all", "off");
    assert_eq!((off.tau_pooled, off.per_pos.len()), (Some(1.0), 0));
    assert!(tree.stages.unwrap().build > 0.0 && tree.j_per_token.is_some() && tree.server_decode_tok_s.is_some());
}

#[test]
fn throughput_counts_overlapping_requests_once() {
    let run = small().run();
    let mut records = vec![record(&run, "off", "code", 0), record(&run, "off", "code", 1)];
    for record in &mut records {
        (record.sent_ms, record.e2e_ms, record.tokens) = (0.0, 1_000.0, 100);
    }
    records[1].sent_ms = 500.0;
    let throughput = |records: &[RequestRecord]| summarise(records)[0].throughput_tok_s.unwrap();
    assert!((throughput(&records) - 200.0 / 1.5).abs() < 1e-9, "1.5 s in flight");
    records[1].sent_ms = 9_000.0;
    assert!((throughput(&records) - 100.0).abs() < 1e-9, "the pause between them is another mode's");
}

#[test]
fn ratios_are_geometric_over_prompts() {
    let run = small().run();
    let c = versus(&run.compare, "math", "ddtree r16", "decode_tok_s");
    assert_eq!(c.prompts, 5);
    let mut logs = Vec::new();
    for prompt in 1..=5 {
        let of = |mode: &str, repeat: usize| {
            run.requests
                .iter()
                .find(|r| {
                    r.purpose == Purpose::Measure
                        && r.prompt_id == format!("math-{prompt:02}")
                        && r.mode == mode
                        && r.repeat == repeat
                })
                .and_then(|r| r.decode_tok_s)
                .unwrap()
        };
        logs.push((0..3).map(|repeat| (of("ddtree r16", repeat) / of("off", repeat)).ln()).sum::<f64>() / 3.0);
    }
    let expected = (logs.iter().sum::<f64>() / 5.0).exp();
    assert!((c.ratio.unwrap() - expected).abs() < 1e-12);
    let [low, high] = c.interval.unwrap();
    assert!(low < expected && expected < high);
    assert_eq!(c.verdict, Verdict::Faster);
    assert_eq!(c.by_prompt.len(), 5);
    assert!(c.by_prompt.iter().all(|(id, ..)| id.starts_with("math-")));
    let all = versus(&run.compare, "all", "ddtree r16", "decode_tok_s");
    assert_eq!(all.prompts, 8);
    assert!(all.by_prompt.iter().any(|(id, ..)| id == "story/one word"));
    assert!(all.p_holm >= all.p);
}

#[test]
fn the_order_of_requests_does_not_move_an_interval() {
    let run = small().run();
    let mut turned = run.requests.clone();
    turned.reverse();
    let key = |c: &Comparison| (c.suite.clone(), c.mode.clone(), c.metric.clone());
    let mut a = compare_with(&run.plan, &run.requests, 500);
    let mut b = compare_with(&run.plan, &turned, 500);
    a.sort_by_key(key);
    b.sort_by_key(key);
    assert_eq!(a, b);
}

#[test]
fn a_mode_like_the_baseline_shows_no_difference() {
    let mut simulation = small();
    simulation.modes.truncate(2);
    let mut run = simulation.run();
    // The second mode's speeds are the baseline's of another repeat: true ratio 1.
    let speeds: Vec<(String, usize, f64)> = run
        .requests
        .iter()
        .filter(|r| r.mode == "off" && r.purpose == Purpose::Measure)
        .map(|r| (format!("{}{}", r.suite, r.prompt_id), r.repeat, r.decode_tok_s.unwrap()))
        .collect();
    for r in run.requests.iter_mut().filter(|r| r.mode != "off") {
        let key = (format!("{}{}", r.suite, r.prompt_id), (r.repeat + 1) % 3);
        r.decode_tok_s =
            speeds.iter().find(|(id, repeat, _)| (id, *repeat) == (&key.0, key.1)).map(|(.., speed)| *speed);
    }
    let compared = compare(&run.plan, &run.requests);
    let c = versus(&compared, "all", "dflash b16", "decode_tok_s");
    assert_eq!(c.verdict, Verdict::NoDifferenceShown, "{c:?}");
}

#[test]
fn one_prompt_is_said_to_be_too_few() {
    let run = Simulation { suites: vec![("story", 1)], ..small() }.run();
    let c = versus(&run.compare, "story", "ddtree r16", "decode_tok_s");
    assert_eq!((c.prompts, c.verdict, c.interval, c.p_holm), (1, Verdict::NotEnoughData, None, None));
    assert!(c.ratio.is_some(), "the point may be shown, the word may not follow it");
}

#[test]
fn long_answers_weigh_more_in_the_token_weighted_ratio() {
    let run = small().run();
    let records: Vec<RequestRecord> =
        ["off", "ddtree r16"].iter().flat_map(|m| ["code", "explanation"].map(|p| record(&run, m, p, 0))).collect();
    let c = compare(&run.plan, &records);
    let c = versus(&c, "story", "ddtree r16", "e2e_tok_s");
    let speed = |at: usize| {
        let pair = &records[at..at + 2];
        pair.iter().map(|r| r.tokens).sum::<usize>() as f64 / pair.iter().map(|r| r.e2e_ms).sum::<f64>()
    };
    assert!((c.token_weighted_ratio.unwrap() - speed(2) / speed(0)).abs() < 1e-9);
}

mod lossless {
    use super::*;

    fn check(run: &Run, records: &[RequestRecord]) -> spectop::protocol::run::Losslessness {
        versus(&compare_with(&run.plan, records, 10), "story", "dflash b16", "decode_tok_s").lossless.clone()
    }

    fn pair() -> (Run, Vec<RequestRecord>) {
        let mut run = small().run();
        run.plan.modes.truncate(2);
        let records = ["off", "dflash b16"].iter().flat_map(|m| [0, 1].map(|r| record(&run, m, "code", r))).collect();
        (run, records)
    }

    #[test]
    fn equal_ids_are_identical() {
        let (run, records) = pair();
        let l = check(&run, &records);
        assert_eq!((l.checked, l.compared, l.identical, l.baseline_differs), (true, 2, 2, 0));
        assert_eq!((l.by.as_str(), l.divergences.len()), ("token ids", 0));
    }

    #[test]
    fn the_first_difference_is_shown_with_its_margin() {
        let (run, mut records) = pair();
        records[2].token_ids.as_mut().unwrap()[7] = 1;
        records[0].margins.as_mut().unwrap()[7] = 0.001;
        records[2].text = records[2].text.as_ref().map(|t| t.replacen("größer", "gräßer", 1));
        records[2].finish_reason = Some("length".into());
        records[0].finish_reason = Some("stop".into());
        let l = check(&run, &records);
        assert_eq!((l.compared, l.identical), (2, 1));
        let d = &l.divergences[0];
        assert_eq!((d.index, d.unit.as_str(), d.other_id, d.same_end), (7, "token", Some(1), false));
        assert_eq!(d.baseline_id, Some(records[0].token_ids.as_ref().unwrap()[7]));
        assert!((d.margin.unwrap() - 0.001).abs() < 1e-6);
        assert!(d.baseline.contains("größer") && d.other.contains("gräßer"), "{d:?}");
    }

    #[test]
    fn an_answer_that_stops_earlier_differs_at_its_end() {
        let (run, mut records) = pair();
        let ids = records[2].token_ids.as_mut().unwrap();
        ids.pop();
        let len = ids.len();
        let d = check(&run, &records).divergences[0].clone();
        assert_eq!((d.index, d.other_id, d.baseline_id.is_some()), (len, None, true));
    }

    #[test]
    fn without_ids_bytes_are_compared_and_without_text_hashes() {
        let (run, mut records) = pair();
        records[2].token_ids = None;
        assert_eq!(check(&run, &records).by, "text");
        records[2].text.as_mut().unwrap().push('x');
        let l = check(&run, &records);
        let d = &l.divergences[0];
        assert_eq!((d.unit.as_str(), d.index, d.margin), ("byte", records[0].text.as_ref().unwrap().len(), None));
        for r in &mut records {
            (r.token_ids, r.text) = (None, None);
        }
        assert_eq!(check(&run, &records).identical, 2);
        records[3].output_hash = "other".into();
        let l = check(&run, &records);
        assert_eq!((l.compared, l.identical, l.divergences.len()), (2, 1, 0), "a hash has no first difference");
        records[3].output_hash = String::new();
        assert_eq!(check(&run, &records).compared, 1);
    }

    #[test]
    fn the_baselines_own_noise_is_counted() {
        let (run, mut records) = pair();
        records[1].token_ids.as_mut().unwrap()[0] += 1;
        let l = check(&run, &records);
        assert_eq!((l.baseline_differs, l.identical), (1, 1));
    }

    #[test]
    fn above_temperature_zero_nothing_is_claimed() {
        let (mut run, records) = pair();
        run.plan.temperature = 0.7;
        let l = check(&run, &records);
        assert_eq!((l.checked, l.compared), (false, 0));
    }

    #[test]
    fn later_turns_after_a_difference_are_left_out() {
        let (run, mut records) = pair();
        let mut second: Vec<RequestRecord> = records.clone();
        for r in &mut second {
            r.turn = 1;
        }
        records[2].token_ids.as_mut().unwrap()[0] += 1;
        records.append(&mut second);
        let l = check(&run, &records);
        assert_eq!((l.compared, l.identical), (3, 2), "the second turn of repeat 0 answers another history");
    }

    #[test]
    fn failed_answers_are_not_compared() {
        let (run, mut records) = pair();
        records[2].status = RequestStatus::TimedOut;
        records[2].token_ids = Some(vec![]);
        assert_eq!(check(&run, &records).compared, 1);
    }

    #[test]
    fn at_most_twenty_differences_are_kept() {
        let run = Simulation { suites: vec![("story", 3), ("math", 9)], ..small() }.run();
        let mut records = run.requests.clone();
        for r in records.iter_mut().filter(|r| r.mode == "dflash b16") {
            r.token_ids = r.token_ids.take().map(|mut ids| {
                ids[0] += 1;
                ids
            });
        }
        let compared = compare_with(&run.plan, &records, 10);
        let l = &versus(&compared, "all", "dflash b16", "e2e_tok_s").lossless;
        assert_eq!((l.divergences.len(), l.identical, l.compared), (20, 0, 35));
    }
}
