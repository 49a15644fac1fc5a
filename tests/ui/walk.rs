//! Playground, tree, race and GPU: walking through rounds, comparing attempts, replaying runs.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;
use spectop::protocol::event::{Event, FinishReason, RequestEvent, RequestPhase};
use spectop::protocol::mode::{Mode, ModeChange, ModeRequest};
use spectop::protocol::state::Readiness;
use spectop::protocol::trace::{Proposed, Round, RoundEnd, Token};
use spectop::source::{Connection, ServerKind, Update};
use spectop::ui::app::{Answer, Effect, EffectResult, Model, Msg};
use spectop::ui::race::Stage;
use spectop::ui::screen::Screen;

use crate::dashboard::{draw, text};
use crate::session::{self, START_MS};

pub fn press(model: &mut Model, code: KeyCode) -> Vec<Effect> {
    model.update(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

pub fn key(model: &mut Model, c: char) -> Vec<Effect> {
    press(model, KeyCode::Char(c))
}

fn event(model: &mut Model, event: Event) -> Vec<Effect> {
    model.update(Msg::Source(Update::Event(event)))
}

fn has(model: &Model, words: &[&str]) {
    let screen = text(&draw(model));
    for word in words {
        assert!(screen.contains(word), "no {word:?} in\n{screen}");
    }
}

pub fn idle(theme: &str, columns: u16, rows: u16) -> Model {
    let mut model = session::model(theme, columns, rows);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    event(&mut model, Event::Hello(Box::new(session::state(Readiness::Ready, None))));
    model
}

/// A token whose id stands for its text.
fn token(text: &str) -> Token {
    let id = text.bytes().fold(7u32, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)));
    Token::new(id, text.as_bytes())
}

fn node(text: &str, p: f32, parent: usize, depth: usize) -> Proposed {
    Proposed { token: token(text), logprob: p.ln(), parent, depth }
}

/// seed ─ " the" .60 ─ " cat" .70
///      └ " a" .30 ─── " dog" .40        left out: " an" .05
/// The target takes " a" and goes on with `bonus`.
pub fn tree(id: &str, step: u64, bonus: &str, at_ms: u64) -> Round {
    let mut round = session::round(id, step, Mode::Ddtree, &[token(" a"), token(bonus)], at_ms);
    round.proposed =
        vec![node(" the", 0.6, 0, 1), node(" cat", 0.7, 1, 2), node(" a", 0.3, 0, 1), node(" dog", 0.4, 3, 2)];
    round.left_out = vec![node(" an", 0.05, 0, 1)];
    round.accepted = vec![0, 3];
    round.end = RoundEnd::Mismatch;
    round
}

fn plain(id: &str, step: u64, text: &str, at_ms: u64) -> Round {
    session::round(id, step, Mode::Off, &[token(text)], at_ms)
}

/// What the server tells of a request that answers `Once` and then these rounds.
fn told(model: &mut Model, id: &str, begun_ms: u64, rounds: &[Round]) -> Vec<Effect> {
    let mut effects = Vec::new();
    let at = |phase, at_ms| RequestEvent { at_ms, ..session::request(id, phase, at_ms) };
    for phase in [RequestPhase::Queued, RequestPhase::Started] {
        effects.extend(event(model, Event::Request(at(phase, begun_ms))));
    }
    let first = RequestEvent { token: Some(token("Once")), ..at(RequestPhase::FirstToken, begun_ms + 40) };
    effects.extend(event(model, Event::Request(first)));
    for round in rounds {
        effects.extend(event(model, Event::Round(round.clone())));
    }
    let end = rounds.last().map_or(begun_ms, |r| r.at_ms);
    let last = RequestEvent { finish_reason: Some(FinishReason::Stop), ..at(RequestPhase::Finished, end) };
    effects.extend(event(model, Event::Request(last)));
    effects
}

/// The tag and the mode of the one prompt that is sent.
fn sent(effects: &[Effect]) -> (u64, ModeRequest) {
    let [Effect::Generate(prompt)] = effects else { panic!("{effects:?}") };
    (prompt.tag, prompt.mode)
}

fn answered(model: &mut Model, tag: u64, id: &str) -> Vec<Effect> {
    model.update(Msg::Answer(Answer { tag, id: Some(id.into()), text: "Once".into() }));
    model.update(Msg::EffectResult(EffectResult::Generate { tag, result: Ok(()) }))
}

/// A playground with one answer of three tree rounds.
pub fn walked(theme: &str, columns: u16, rows: u16) -> Model {
    let mut model = idle(theme, columns, rows);
    key(&mut model, '2');
    press(&mut model, KeyCode::Enter);
    model.update(Msg::Paste("Tell me a story.".into()));
    let (tag, _) = sent(&press(&mut model, KeyCode::Enter));
    let rounds: Vec<_> = [" bird", " fish", " cow"]
        .iter()
        .enumerate()
        .map(|(i, bonus)| tree("r1", i as u64, bonus, START_MS + 60 + 20 * i as u64))
        .collect();
    told(&mut model, "r1", START_MS, &rounds);
    answered(&mut model, tag, "r1");
    model
}

#[test]
fn tab_and_digits_go_through_all_screens() {
    let mut model = idle("mono", 120, 36);
    for screen in Screen::ALL {
        assert_eq!(model.screen, screen);
        press(&mut model, KeyCode::Tab);
    }
    assert_eq!(model.screen, Screen::Dashboard);
    press(&mut model, KeyCode::BackTab);
    assert_eq!(model.screen, Screen::Race);
    for screen in Screen::ALL {
        let tab = model.tab_key(screen).chars().next().expect("a key");
        key(&mut model, tab);
        assert_eq!(model.screen, screen);
        has(&model, &[screen.name()]);
    }
}

#[test]
fn a_prompt_is_written_and_its_answer_walked_through() {
    let mut model = idle("mono", 80, 24);
    key(&mut model, '2');
    has(&model, &["press Enter and write a prompt", "One prompt, round by round."]);
    press(&mut model, KeyCode::Enter);
    for c in "a2".chars() {
        key(&mut model, c);
    }
    assert_eq!((model.editor.text(), model.screen), ("a2", Screen::Playground), "digits are text here");
    press(&mut model, KeyCode::F(4));
    press(&mut model, KeyCode::F(4));
    has(&model, &["F4 mode dflash"]);
    let (_, mode) = sent(&press(&mut model, KeyCode::F(5)));
    assert_eq!(mode, ModeRequest::mode(Mode::Dflash));
    has(&model, &["answer · dflash b8 · sent"]);
    assert_eq!(key(&mut model, 'r'), [], "one at a time");

    let mut model = walked("mono", 80, 24);
    has(
        &model,
        &["7 tok · 3 rounds · τ 2.00", "Tell me a story.", "Once a bird a fish", "round 3 of 3", "accepted 1 + 1"],
    );
    key(&mut model, 'h');
    key(&mut model, 'h');
    has(&model, &["round 1 of 3", "✓ \" a\"", ".30", "✗ \" dog\"", ".40", "★ \" bird\"", "\" the\" .60"]);
    has(&model, &["the target chose \" bird\" where \" dog\" was drafted"]);
    model.update(Msg::Resize(120, 24));
    has(&model, &["draft 3.10 build .42 verify 14.2 commit .63 ms"]);
    model.update(Msg::Resize(80, 24));
    let buf = draw(&model);
    let marked: String = buf
        .content
        .iter()
        .enumerate()
        .filter(|(i, c)| (6..14).contains(&(i / 80)) && c.modifier.contains(Modifier::REVERSED))
        .map(|(_, c)| c.symbol().to_owned())
        .collect();
    assert!(marked.contains(" a‹ dog› bird") && !marked.contains("fish"), "{marked:?}");
    key(&mut model, 'G');
    has(&model, &["round 3 of 3", "newest"]);
}

#[test]
fn another_mode_is_compared_with_the_first() {
    let mut model = walked("mono", 100, 30);
    let (tag, mode) = sent(&key(&mut model, 'r'));
    assert_eq!(mode, ModeRequest::mode(Mode::Dflash), "the server's mode, off, was tried");
    let words = [" a", " bird", " a", " fish", " a", " cow"];
    let rounds = |id: &str, words: &[&str]| -> Vec<Round> {
        words.iter().enumerate().map(|(i, w)| plain(id, i as u64, w, START_MS + 60 + 30 * i as u64)).collect()
    };
    told(&mut model, "r2", START_MS, &rounds("r2", &words));
    answered(&mut model, tag, "r2");
    has(&model, &["= identical to 1 (off): 7 of 7 tokens", "1 off", "2 dflash b8"]);
    let (tag, mode) = sent(&key(&mut model, 't'));
    assert_eq!(mode, ModeRequest::mode(Mode::Ddtree));
    told(&mut model, "r3", START_MS, &rounds("r3", &[" a", " bird", " the", " end"]));
    answered(&mut model, tag, "r3");
    has(&model, &["≠ differs from 1 (off) at token 4", "⟨ a fish", "⟨ the end⟩"]);
    key(&mut model, 'k');
    has(&model, &["= identical"]);
    session::lose(&mut model);
    assert_eq!(key(&mut model, 'o'), []);
    has(&model, &["not connected"]);
}

#[test]
fn a_tree_shows_what_became_of_everybody() {
    let mut model = walked("mono", 100, 30);
    key(&mut model, '3');
    has(&model, &["● \" a\" .30", "★ \" cow\"", "✗ \" dog\" .40", "✗ \" the\" .60", "○ \" cat\" .70", "· \" an\" .05"]);
    has(&model, &["this tree got 1 + 1 tokens", "the chain alone would have got 0 + 1", "▲ 1 more", "2● 2"]);
    key(&mut model, 'h');
    has(&model, &["round 2 of 3", "★ \" fish\"", "held"]);
    press(&mut model, KeyCode::Down);
    has(&model, &["node \" a\"", "accepted: the target chose it too"]);
    for _ in 0..9 {
        press(&mut model, KeyCode::Down);
    }
    has(&model, &["left out: the budget went to heavier candidates", "depth 1"]);
    key(&mut model, 'x');
    assert!(!text(&draw(&model)).contains("\" an\""));
    for _ in 0..3 {
        key(&mut model, 'z');
    }
    let screen = text(&draw(&model));
    assert!(screen.contains("\" the\"") && !screen.contains("\" dog\""), "{screen}");
}

#[test]
fn a_tree_is_live_until_one_steps_or_freezes() {
    let mut model = walked("mono", 100, 30);
    key(&mut model, '3');
    event(&mut model, Event::Round(tree("r1", 3, " hen", START_MS + 200)));
    has(&model, &["round 4 of 4", "★ \" hen\""]);
    key(&mut model, 'h');
    event(&mut model, Event::Round(tree("r9", 0, " cat", START_MS + 300)));
    has(&model, &["round 3 of 4", "★ \" cow\""]);
    key(&mut model, 'f');
    has(&model, &["★ \" cat\""]);
    key(&mut model, ' ');
    event(&mut model, Event::Round(tree("r9", 1, " owl", START_MS + 320)));
    has(&model, &["frozen", "★ \" cat\""]);
    key(&mut model, ' ');
    has(&model, &["★ \" owl\""]);
    key(&mut model, 'n');
    has(&model, &["looking at r1"]);
}

/// A race that was run and is about to be replayed, 60 s after the beginning.
pub fn raced(columns: u16, rows: u16) -> Model {
    let mut model = idle("mono", columns, rows);
    model.update(Msg::Tick { now_ms: START_MS + 60_000 });
    key(&mut model, '8');
    let (tag, mode) = sent(&key(&mut model, 's'));
    assert_eq!(mode, ModeRequest::mode(Mode::Off));
    let words = [" a", " bird", " a", " fish"];
    let slow: Vec<_> = words
        .iter()
        .enumerate()
        .map(|(i, w)| plain("a", i as u64, w, START_MS + 1_040 + 400 * (i as u64 + 1)))
        .collect();
    told(&mut model, "a", START_MS + 1_000, &slow);
    let effects = answered(&mut model, tag, "a");
    let (tag, mode) = sent(&effects);
    assert_eq!(mode, ModeRequest::mode(Mode::Ddtree), "the second lane follows the first");
    let fast = [tree("b", 0, " bird", START_MS + 5_440), tree("b", 1, " fish", START_MS + 5_840)];
    // The client may be done before the server's last word is in.
    assert_eq!(answered(&mut model, tag, "b"), []);
    assert!(matches!(model.race.stage, Stage::Running(1)));
    told(&mut model, "b", START_MS + 5_000, &fast);
    model
}

#[test]
fn a_race_runs_both_modes_and_replays_their_times() {
    let mut model = raced(120, 36);
    assert_eq!(model.race.stage, Stage::Replay { since_ms: START_MS + 60_000 });
    has(&model, &["REPLAY of two runs", "OFF", "DDTREE R32", "0 tok"]);
    model.update(Msg::Tick { now_ms: START_MS + 60_700 });
    assert!(model.animated());
    has(&model, &["0.7 s", "2 tok · 1 rounds", "3 tok · 1 rounds"]);
    model.update(Msg::Tick { now_ms: START_MS + 61_000 });
    has(&model, &["done in 0.8 s", "5 tok · 2 rounds", "✓ 0.8 s"]);
    model.update(Msg::Tick { now_ms: START_MS + 63_000 });
    has(&model, &["right ×2.00 in tok/s", "= same text", "done in 1.6 s"]);
    assert!(!model.animated(), "nothing moves any more");
    key(&mut model, 'r');
    has(&model, &["0 tok · 0 rounds"]);
    key(&mut model, '-');
    key(&mut model, '-');
    model.update(Msg::Tick { now_ms: START_MS + 63_000 + 4 * 700 });
    has(&model, &["REPLAY at 1/4 speed", "0.7 s", "2 tok · 1 rounds", "3 tok · 1 rounds"]);
    key(&mut model, '+');
    has(&model, &["REPLAY at 1/2 speed", "0.7 s"]);
}

#[test]
fn unattended_races_follow_each_other() {
    let mut model = raced(120, 36);
    model.demo();
    assert_eq!(model.update(Msg::Tick { now_ms: START_MS + 62_000 }), []);
    let effects = model.update(Msg::Tick { now_ms: START_MS + 70_000 });
    assert_eq!(effects.len(), 1, "the next race begins: {effects:?}");
    let (tag, _) = sent(&effects);
    let failed = EffectResult::Generate { tag, result: Err("429: the queue is full".into()) };
    assert_eq!(model.update(Msg::EffectResult(failed)), []);
    has(&model, &["the queue is full"]);
    assert_eq!(model.update(Msg::Tick { now_ms: START_MS + 71_000 }), []);
    assert_eq!(model.update(Msg::Tick { now_ms: START_MS + 76_000 }).len(), 1, "it tries again");
    let mut ended = raced(120, 36);
    ended.demo();
    press(&mut ended, KeyCode::Esc);
    assert_eq!(ended.update(Msg::Tick { now_ms: START_MS + 99_000 }), []);
}

#[test]
fn gpus_have_charts_with_gaps_and_marks() {
    let mut model = idle("mono", 120, 36);
    key(&mut model, '6');
    for second in 1..30u64 {
        let now = START_MS + second * 1_000;
        model.update(Msg::Tick { now_ms: now });
        if second == 15 {
            let change = ModeChange { settings: session::settings(Mode::Dflash), effective_round: 1, at_ms: now };
            event(&mut model, Event::Mode(change));
        }
        if !(8..12).contains(&second) {
            let sample = session::sample(now, Mode::Off, 0.0, session::gpus(3));
            event(&mut model, Event::Sample(Box::new(sample)));
        }
    }
    has(&model, &["3 gpu · server", "H200", "93 %", "412/700 W", "1755 MHz", "61 °C", "power cap"]);
    has(&model, &["utilisation 93 %", "to 700 W", "temperature 61 °C", "dflash b8", "┊", "·"]);
    press(&mut model, KeyCode::Down);
    has(&model, &["utilisation — %", "no readings"]);
    let mut none = idle("mono", 80, 24);
    none.update(Msg::LocalSensors(session::host()));
    key(&mut none, '6');
    has(&none, &["no gpu · this machine", "libnvidia-ml.so.1 was not found", "by core", "cpu 93 %", "3.1/7.8 GiB"]);
}

#[test]
fn other_servers_give_text_only() {
    let mut model = session::model("mono", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Vllm })));
    key(&mut model, '2');
    press(&mut model, KeyCode::Enter);
    model.update(Msg::Paste("hi".into()));
    let (tag, mode) = sent(&press(&mut model, KeyCode::Enter));
    assert!(mode.is_empty(), "nothing that others might refuse");
    model.update(Msg::Answer(Answer { tag, id: Some("x".into()), text: "Hello there".into() }));
    has(&model, &["Hello there", "does not tell its rounds"]);
    assert_eq!(key(&mut model, 't'), []);
    key(&mut model, '8');
    assert_eq!(key(&mut model, 's'), []);
    has(&model, &["cannot decode one prompt in two modes"]);
}
