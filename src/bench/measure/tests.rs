use super::*;
use crate::source::Usage;

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

struct Answer {
    sent: Instant,
    pieces: Vec<Piece>,
}

impl Answer {
    fn new() -> Self {
        Self { sent: Instant::now(), pieces: Vec::new() }
    }

    fn piece(mut self, at: f64, text: &str, reasoning: bool, ids: &[u32]) -> Self {
        let at = self.sent + ms(at);
        self.pieces.push(Piece { at, text: text.into(), reasoning, ids: ids.to_vec(), margins: vec![], total: None });
        self
    }

    fn end(self, at: f64, reason: &str, usage: Option<u64>) -> Seen {
        let ended = self.sent + ms(at);
        let usage = usage.map(|completion_tokens| Usage { prompt_tokens: 5, completion_tokens });
        let end = ChatEnd { finish_reason: reason.into(), usage, metrics: None, model: None, at: ended };
        Seen { sent: self.sent, pieces: self.pieces, end: Ok(end), ended }
    }
}

fn near(given: Option<f64>, want: f64) {
    assert!(given.is_some_and(|given| (given - want).abs() < 1e-3), "{given:?} is not {want}");
}

#[test]
fn the_whole_first_chunk_is_subtracted() {
    let seen = Answer::new()
        .piece(100.0, "a", false, &[1, 2, 3])
        .piece(150.0, "b", false, &[4, 5])
        .piece(200.0, "c", false, &[6, 7, 8])
        .end(210.0, "stop", None);
    let figures = figures(&seen, None);
    near(figures.decode_tok_s, 50.0);
    near(figures.ttft_ms, 100.0);
    near(Some(figures.e2e_ms), 210.0);
    near(Figures::step_ms(&figures.chunks), 50.0);
    assert_eq!((figures.tokens, figures.count, figures.status), (8, CountKind::Exact, RequestStatus::Finished));
}

#[test]
fn what_one_read_brought_is_one_chunk() {
    let seen = Answer::new()
        .piece(100.0, "a", false, &[1])
        .piece(100.0, "b", false, &[2])
        .piece(200.0, "c", false, &[3])
        .piece(200.0, "", false, &[4, 5])
        .end(200.0, "length", None);
    let figures = figures(&seen, None);
    let tokens: Vec<usize> = figures.chunks.iter().map(|chunk| chunk.tokens).collect();
    assert_eq!((tokens, figures.status), (vec![2, 3], RequestStatus::CutShort));
    near(figures.decode_tok_s, 30.0);
}

#[test]
fn text_without_a_token_is_no_step() {
    let seen = Answer::new()
        .piece(10.0, "", false, &[1])
        .piece(20.0, "好", false, &[2, 3])
        .piece(90.0, "…", false, &[])
        .end(95.0, "stop", Some(3));
    let figures = figures(&seen, None);
    assert_eq!((figures.chunks.len(), figures.tokens), (2, 3));
    near(figures.decode_tok_s, 200.0);
    near(figures.ttft_ms, 10.0);
}

#[test]
fn thinking_counts_for_the_first_token_only() {
    let seen = Answer::new()
        .piece(10.0, "hm", true, &[])
        .piece(30.0, "so", true, &[])
        .piece(70.0, "4", false, &[])
        .end(80.0, "stop", Some(6));
    let figures = figures(&seen, None);
    near(figures.ttft_ms, 10.0);
    near(figures.ttfat_ms, 70.0);
    assert_eq!((figures.tokens, figures.count), (6, CountKind::Usage));
    assert_eq!(join(&seen.pieces), "<think>hmso</think>4");
}

#[test]
fn one_chunk_has_no_speed_and_an_empty_answer_no_times() {
    let one = figures(&Answer::new().piece(10.0, "4", false, &[1, 2]).end(12.0, "stop", None), None);
    assert_eq!((one.decode_tok_s, one.tokens), (None, 2));
    let none = figures(&Answer::new().end(12.0, "stop", Some(1)), None);
    assert_eq!((none.ttft_ms, none.ttfat_ms, none.decode_tok_s, none.tokens), (None, None, None, 1));
}

#[test]
fn failures_have_no_speed_but_keep_what_came() {
    let mut seen = Answer::new().piece(10.0, "a", false, &[1]).piece(20.0, "b", false, &[2]).end(30.0, "stop", None);
    let wrong = figures(&seen, Some("another model".into()));
    assert_eq!((wrong.status, wrong.decode_tok_s), (RequestStatus::Failed, None));
    seen.end = Err(Broken::TimedOut);
    let late = figures(&seen, None);
    assert_eq!((late.status, late.tokens, late.decode_tok_s), (RequestStatus::TimedOut, 2, None));
    near(late.ttft_ms, 10.0);
    assert!(late.error.is_some());
}

#[test]
fn models_may_be_longer_but_not_others() {
    for (asked, answered, same) in [
        ("SmolLM2", "SmolLM2", true),
        ("Qwen/Qwen3-8B", "qwen3-8b", true),
        ("qwen3-8b", "Qwen/Qwen3-8B", true),
        ("gpt-x", "gpt-x-2026-01-01", true),
        ("/models/a/", "a", true),
        ("qwen3-8b", "qwen3-80b", false),
        ("qwen3-8b", "qwen3", false),
        ("a", "b", false),
    ] {
        assert_eq!(same_model(asked, answered), same, "{asked} {answered}");
    }
}
