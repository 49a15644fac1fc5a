//! Tests of the text of a request.

use super::*;
use crate::protocol::mode::Mode;
use crate::protocol::state::StageTimes;
use crate::protocol::trace::{Proposed, RoundEnd};

fn round(step: u64, mode: Mode, proposed: &[(&str, usize)], accepted: &[usize], committed: &[&[u8]]) -> Round {
    Round {
        request: "r".into(),
        round: step,
        step,
        mode,
        proposed: proposed
            .iter()
            .map(|(text, parent)| Proposed {
                token: Token::new(1, text.as_bytes()),
                logprob: -0.1,
                parent: *parent,
                depth: 1,
            })
            .collect(),
        left_out: Vec::new(),
        accepted: accepted.to_vec(),
        bonus: Token::default(),
        committed: committed.iter().map(|b| Token::new(1, b)).collect(),
        accepted_drafts: accepted.len().saturating_sub(1),
        end: RoundEnd::Mismatch,
        shadow_hit: None,
        stages: StageTimes::default(),
        rows: 1,
        context: 0,
        at_ms: 0,
    }
}

fn shown(stream: &Stream) -> Vec<(String, Kind)> {
    stream.lines().iter().flatten().map(|p| (p.text.clone(), p.kind)).collect()
}

#[test]
fn a_round_becomes_accepted_rejected_bonus_boundary() {
    let mut s = Stream::new("r");
    s.round(&round(0, Mode::Dflash, &[("a", 0), ("b", 1), ("c", 2), ("d", 3)], &[0, 1, 2], &[b"a", b"b", b"X"]));
    let kinds = [Kind::Accepted, Kind::Accepted, Kind::Rejected, Kind::Rejected, Kind::Bonus, Kind::Boundary];
    let texts = ["a", "b", "‹c›", "‹d›", "X", "│"];
    let want: Vec<_> = texts.iter().map(ToString::to_string).zip(kinds).collect();
    assert_eq!(shown(&s), want);
    assert_eq!(s.tau(), Some(3.0));
}

#[test]
fn split_characters_are_joined_and_broken_ones_replaced() {
    let mut s = Stream::new("r");
    let bytes = "漢".as_bytes();
    s.round(&round(0, Mode::Off, &[], &[0], &[&bytes[..1]]));
    assert!(shown(&s).is_empty());
    s.round(&round(1, Mode::Off, &[], &[0], &[&bytes[1..]]));
    assert_eq!(shown(&s), [("漢".to_owned(), Kind::Plain)]);
    s.round(&round(2, Mode::Off, &[], &[0], &[&[0xff], b"ok", &bytes[..2]]));
    let mut end = RequestEvent {
        id: "r".into(),
        phase: RequestPhase::Finished,
        at_ms: 0,
        prompt_tokens: 1,
        max_tokens: 2,
        prompt_tail: None,
        token: None,
        finish_reason: Some(FinishReason::Stop),
        metrics: None,
        error: None,
    };
    s.request(&end);
    let text: String = shown(&s).into_iter().map(|(t, _)| t).collect();
    assert_eq!(text, "漢\u{fffd}ok\u{fffd}");
    end.phase = RequestPhase::Failed;
    s.request(&end);
    assert!(!s.active());
}

#[test]
fn missed_rounds_are_said() {
    let mut s = Stream::new("r");
    s.round(&round(4, Mode::Off, &[], &[0], &[b"a"]));
    s.round(&round(7, Mode::Off, &[], &[0], &[b"b"]));
    let text: String = shown(&s).into_iter().map(|(t, _)| t).collect();
    assert_eq!(text, "[joined in the middle]a [2 rounds not seen]b");
}

#[test]
fn texts_and_lines_are_bounded() {
    let mut s = Stream::new("r");
    let long: Vec<&[u8]> = vec![b"x"; MAX_LINE * 3];
    s.round(&round(0, Mode::Off, &[], &[0], &long));
    assert!(s.lines().iter().all(|l| l.len() <= MAX_LINE));
    let breaks = "\n".repeat(MAX_PIECES * 2);
    s.round(&round(1, Mode::Off, &[], &[0], &[breaks.as_bytes()]));
    assert!(s.lines().len() <= MAX_PIECES);
    for step in 2..40 {
        s.round(&round(step, Mode::Off, &[], &[0], &long));
    }
    assert!(s.lines().iter().map(Vec::len).sum::<usize>() <= MAX_PIECES);
}

#[test]
fn crooked_trees_do_not_loop() {
    let mut s = Stream::new("r");
    s.round(&round(0, Mode::Ddtree, &[("a", 2), ("b", 1), ("c", 0)], &[0], &[b"X"]));
    s.round(&round(1, Mode::Ddtree, &[("a", 9), ("b", 0)], &[0, 77], &[b"Y"]));
    assert_eq!(s.rounds, 2);
}
