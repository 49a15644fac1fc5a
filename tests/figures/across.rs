//! Two runs against each other.

use super::run::Simulation;
use spectop::bench::across::across;
use spectop::protocol::run::{Comparison, Purpose, RequestRecord, RequestStatus, Run};

fn run(id: &str) -> Run {
    let mut simulation = Simulation { suites: vec![("story", 3)], ..Simulation::default() };
    simulation.modes.truncate(2);
    let mut run = simulation.run();
    run.meta.id = id.into();
    run
}

fn measured(run: &mut Run) -> impl Iterator<Item = &mut RequestRecord> {
    run.requests.iter_mut().filter(|r| {
        r.purpose == Purpose::Measure && matches!(r.status, RequestStatus::Finished | RequestStatus::CutShort)
    })
}

/// Every answer ends after `limit` tokens.
fn limit(run: &mut Run, limit: usize) {
    run.plan.max_tokens = limit;
    for record in measured(run).filter(|record| record.tokens > limit) {
        record.tokens = limit;
        record.token_ids.as_mut().expect("ids").truncate(limit);
        record.status = RequestStatus::CutShort;
        record.text = Some("cut".into());
        record.output_hash = "cut".into();
    }
}

fn of<'a>(comparisons: &'a [Comparison], mode: &str) -> &'a Comparison {
    let found = comparisons.iter().find(|c| c.mode == mode && c.suite == "all" && c.metric == "decode_tok_s");
    found.expect("the comparison")
}

#[test]
fn a_mode_is_compared_with_itself() {
    let (first, mut second) = (run("r1"), run("r2"));
    measured(&mut second).for_each(|record| record.decode_tok_s = record.decode_tok_s.map(|speed| speed * 2.0));
    let result = across(&first, &second);
    assert_eq!(result.notes, Vec::<String>::new());
    let off = of(&result.comparisons, "off @ r2");
    assert_eq!(off.baseline, "off @ r1");
    assert!((off.ratio.unwrap() - 2.0).abs() < 1e-9);
    assert!(off.lossless.compared > 0);
    assert_eq!(off.lossless.compared, off.lossless.identical);
}

#[test]
fn an_answer_cut_short_by_a_smaller_limit_is_compared_as_far_as_it_goes() {
    let (first, mut second) = (run("r1"), run("r2"));
    limit(&mut second, 20);
    for (a, b) in [(&first, &second), (&second, &first)] {
        let result = across(a, b);
        let off = &of(&result.comparisons, &format!("off @ {}", b.meta.id)).lossless;
        assert!(off.compared > 0);
        assert_eq!(off.compared, off.identical);
        assert!(result.notes.iter().any(|note| note.contains("token limit") && note.contains("20")), "{result:?}");
    }
    // A difference within that length is still one.
    measured(&mut second).for_each(|record| record.token_ids.as_mut().unwrap()[3] += 1);
    let result = across(&first, &second);
    let off = &of(&result.comparisons, "off @ r2").lossless;
    assert!(off.compared > 0 && off.identical == 0 && off.divergences[0].index == 3, "{off:?}");
}

#[test]
fn a_turn_after_a_shortened_one_answers_another_history() {
    let two_turns = |run: &mut Run| {
        let mut second: Vec<RequestRecord> = measured(run).map(|record| record.clone()).collect();
        for record in &mut second {
            record.turn = 1;
        }
        run.requests.extend(second);
    };
    let (mut first, mut second) = (run("r1"), run("r2"));
    two_turns(&mut first);
    two_turns(&mut second);
    let whole = of(&across(&first, &second).comparisons, "off @ r2").lossless.compared;
    limit(&mut second, 5);
    let cut = of(&across(&first, &second).comparisons, "off @ r2").lossless.compared;
    assert_eq!(cut * 2, whole);
}

#[test]
fn without_ids_only_whole_answers_are_compared() {
    let (mut first, mut second) = (run("r1"), run("r2"));
    limit(&mut second, 20);
    for record in measured(&mut first).chain(measured(&mut second)) {
        record.token_ids = None;
    }
    assert_eq!(of(&across(&first, &second).comparisons, "off @ r2").lossless.compared, 0);
}

#[test]
fn what_else_differs_is_said() {
    let (first, mut second) = (run("r1"), run("r2"));
    second.env.model = Some("another".into());
    second.plan.temperature = 1.0;
    let result = across(&first, &second);
    assert!(
        result.notes.iter().any(|note| note.contains("other model") && note.contains("another in r2")),
        "{result:?}"
    );
    assert!(!of(&result.comparisons, "off @ r2").lossless.checked);
    second.plan.temperature = 0.0;
    second.plan.prefix_cache = "nonce".into();
    let result = across(&first, &second);
    assert_eq!(of(&result.comparisons, "off @ r2").lossless.compared, 0, "prompts differ by a random line");
}
