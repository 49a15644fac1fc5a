//! Keys, effects and what comes back.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use spectop::protocol::event::{Event, Level};
use spectop::protocol::mode::{Mode, ModeChange, ModeRequest, ModeSettings};
use spectop::protocol::state::Readiness;
use spectop::source::{Connection, ServerKind, Update};
use spectop::ui::action::{Context, Keymap};
use spectop::ui::app::{Effect, EffectResult, Model, Msg, Overlay};
use spectop::ui::screen::Screen;
use spectop::ui::wrap::Rejects;

use crate::bless;
use crate::dashboard::{draw, text};
use crate::session::{self, START_MS, settings};

fn press(model: &mut Model, code: KeyCode) -> Vec<Effect> {
    model.update(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn key(model: &mut Model, c: char) -> Vec<Effect> {
    press(model, KeyCode::Char(c))
}

fn ctrl(model: &mut Model, c: char) -> Vec<Effect> {
    model.update(Msg::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)))
}

fn idle() -> Model {
    let mut model = session::model("default-dark", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(Readiness::Ready, None))))));
    model
}

fn ack(settings: ModeSettings) -> Msg {
    Msg::EffectResult(EffectResult::Mode(Ok(ModeChange { settings, effective_round: 7, at_ms: START_MS })))
}

#[test]
fn a_mode_switch_is_pending_until_the_server_confirms_it() {
    let mut model = idle();
    assert_eq!(key(&mut model, 't'), [Effect::SetMode(ModeRequest::mode(Mode::Ddtree))]);
    assert!(text(&draw(&model)).contains("→ ddtree r32 (pending)"));
    model.update(ack(settings(Mode::Ddtree)));
    let screen = text(&draw(&model));
    assert!(screen.contains("▸DDTREE r32◂") && !screen.contains("pending"));
    assert_eq!(key(&mut model, 't'), [], "already in force");
}

#[test]
fn quick_presses_are_sent_one_after_the_other() {
    let mut model = idle();
    assert_eq!(key(&mut model, 't').len(), 1);
    assert_eq!(key(&mut model, ']'), []);
    assert_eq!(key(&mut model, ']'), []);
    let sent = model.update(ack(settings(Mode::Ddtree)));
    assert_eq!(sent, [Effect::SetMode(ModeRequest { tree_budget: Some(128), ..ModeRequest::default() })]);
    assert_eq!(model.update(ack(ModeSettings { tree_budget: 128, ..settings(Mode::Ddtree) })), []);
    assert_eq!(model.data.mode.map(|m| m.tree_budget), Some(128));
}

#[test]
fn a_refused_switch_is_said_and_logged() {
    let mut model = idle();
    key(&mut model, 'd');
    model.update(Msg::EffectResult(EffectResult::Mode(Err("block size 99 is out of range 2 to 16".into()))));
    let screen = text(&draw(&model));
    assert!(screen.contains("mode not switched: block size 99"), "{screen}");
    assert!(!screen.contains("pending"));
    assert!(model.data.log.window(9, 0).any(|e| e.level == Level::Error && e.message.contains("out of range")));
    model.update(Msg::Tick { now_ms: START_MS + 60_000 });
    assert!(model.toast.is_none());
}

#[test]
fn servers_without_a_live_switch_say_so() {
    let mut model = idle();
    model.data.state.as_mut().expect("a state").limits.modes = vec![Mode::Off];
    assert_eq!(key(&mut model, 't'), []);
    assert!(text(&draw(&model)).contains("ddtree is not on offer here (only off)"));
    model.data.state.as_mut().expect("a state").limits.modes.clear();
    assert_eq!(key(&mut model, ']'), []);
    assert!(text(&draw(&model)).contains("offers no live switch"));
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Vllm })));
    assert_eq!(key(&mut model, 'd'), []);
    assert!(text(&draw(&model)).contains("vLLM cannot switch"));
    session::lose(&mut model);
    assert_eq!(key(&mut model, 'o'), []);
    assert!(text(&draw(&model)).contains("not connected"));
}

#[test]
fn losing_the_server_ends_a_pending_switch() {
    let mut model = idle();
    key(&mut model, 't');
    session::lose(&mut model);
    assert_eq!(model.switch.pending(), None);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    assert_eq!(key(&mut model, 't').len(), 1);
}

#[test]
fn the_menu_walks_and_chooses() {
    let mut model = idle();
    key(&mut model, 'm');
    assert_eq!(model.overlay, Some(Overlay::ModeMenu(0)));
    press(&mut model, KeyCode::Up);
    assert_eq!(model.overlay, Some(Overlay::ModeMenu(4)));
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    assert_eq!(press(&mut model, KeyCode::Enter), [Effect::SetMode(ModeRequest::mode(Mode::Dflash))]);
    assert_eq!(model.overlay, None);
    key(&mut model, 'm');
    assert!(text(&draw(&model)).contains("best-first draft tree"));
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.overlay, None);
}

#[test]
fn a_prompt_is_written_sent_and_rerun() {
    let mut model = idle();
    assert_eq!(key(&mut model, 'r'), []);
    key(&mut model, 'p');
    for c in "quit?".chars() {
        assert_eq!(key(&mut model, c), [], "characters are text here");
    }
    ctrl(&mut model, 'j');
    model.update(Msg::Paste("two\r\nlines".into()));
    press(&mut model, KeyCode::F(2));
    press(&mut model, KeyCode::F(3));
    assert!(text(&draw(&model)).contains("at most 1024 tokens"));
    let effects = press(&mut model, KeyCode::Enter);
    let [Effect::Generate(prompt)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((prompt.text.as_str(), prompt.max_tokens, prompt.temperature), ("quit?\ntwo\nlines", 1024, 0.3));
    assert_eq!(model.overlay, None);
    assert_eq!(key(&mut model, 'r').len(), 1);
    assert_eq!(model.own_running, 2);
    assert_eq!(ctrl(&mut model, 'x'), [Effect::CancelGeneration]);
    for tag in 1..=2 {
        model.update(Msg::EffectResult(EffectResult::Generate { tag, result: Ok(()) }));
    }
    assert_eq!(ctrl(&mut model, 'x'), []);
    model.update(Msg::EffectResult(EffectResult::Generate { tag: 2, result: Err("429: the queue is full".into()) }));
    assert!(text(&draw(&model)).contains("the queue is full"));
}

#[test]
fn nothing_is_left_out_silently() {
    let mut model = idle();
    model.update(Msg::Paste("x".repeat(70_000)));
    assert_eq!(model.editor.text().len(), 64 * 1024, "a paste on the dashboard opens the editor");
    assert!(text(&draw(&model)).contains("a prompt may have 64 KiB"));
    press(&mut model, KeyCode::Char('x'));
    assert!(text(&draw(&model)).contains("the rest was left out"));
    let mut model = idle();
    key(&mut model, 'p');
    press(&mut model, KeyCode::Char(' '));
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    assert!(text(&draw(&model)).contains("nothing to send"));
}

#[test]
fn nothing_is_sent_while_the_server_is_gone() {
    let mut model = idle();
    key(&mut model, 'p');
    model.update(Msg::Paste("hello".into()));
    session::lose(&mut model);
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    assert_eq!(model.editor.text(), "hello", "the text is kept");
}

#[test]
fn quitting_suspending_redrawing_work_everywhere() {
    for open in ['\0', 'p', 'm', '?'] {
        let mut model = idle();
        if open != '\0' {
            key(&mut model, open);
        }
        assert_eq!(ctrl(&mut model, 'c'), [Effect::Quit]);
        assert_eq!(ctrl(&mut model, 'z'), [Effect::Suspend]);
        assert_eq!(ctrl(&mut model, 'l'), [Effect::Redraw]);
    }
    assert_eq!(key(&mut idle(), 'q'), [Effect::Quit]);
}

#[test]
fn a_pause_freezes_the_view_while_collecting_goes_on() {
    let mut model = session::model("default-dark", 80, 24);
    let now = session::play(&mut model, &session::host(), None);
    key(&mut model, ' ');
    model.take_dirty();
    let sample = session::sample(now, Mode::Off, 0.0, session::host());
    model.update(Msg::Source(Update::Event(Event::Sample(Box::new(sample)))));
    assert!(!model.take_dirty(), "nothing to draw");
    model.update(Msg::Tick { now_ms: now + 30_000 });
    let screen = text(&draw(&model));
    assert!(screen.contains("PAUSED") && screen.contains("decode 268.0"), "{screen}");
    key(&mut model, ' ');
    model.update(Msg::Source(Update::Event(Event::Sample(Box::new(session::sample(
        now,
        Mode::Off,
        0.0,
        session::host(),
    ))))));
    let screen = text(&draw(&model));
    assert!(!screen.contains("PAUSED") && screen.contains("decode 70.0"), "{screen}");
}

#[test]
fn scrolling_stays_within_the_text_and_follows_the_end_again() {
    let mut model = session::model("default-dark", 80, 24);
    session::play(&mut model, &session::host(), None);
    key(&mut model, 'g');
    let top = model.text_scroll;
    assert!(top > 0 && top < 500);
    assert!(text(&draw(&model)).contains("How does a hash map"));
    press(&mut model, KeyCode::PageUp);
    assert_eq!(model.text_scroll, top);
    press(&mut model, KeyCode::Down);
    assert_eq!(model.text_scroll, top - 1);
    key(&mut model, 'G');
    assert_eq!(model.text_scroll, 0);
    key(&mut model, 'w');
    press(&mut model, KeyCode::PageUp);
    assert_eq!(model.text_scroll, 0);
    key(&mut model, 'l');
    assert!(model.log_big);
}

#[test]
fn toggles() {
    let mut model = idle();
    key(&mut model, 'x');
    assert_eq!(model.rejects, Rejects::Inline);
    assert_eq!(
        key(&mut model, 'c'),
        [Effect::SetMode(ModeRequest { chain_seed: Some(false), ..ModeRequest::default() })]
    );
    assert!(text(&draw(&model)).contains("chain seed off"));
    key(&mut model, '?');
    press(&mut model, KeyCode::PageDown);
    assert!(matches!(model.overlay, Some(Overlay::Help(n)) if n > 0));
    key(&mut model, '?');
    assert_eq!(model.overlay, None);
}

#[test]
fn an_idle_server_asks_for_one_frame_a_second() {
    let mut model = idle();
    let mut frames = 0;
    for n in 1..=40u64 {
        model.update(Msg::Tick { now_ms: START_MS + n * 250 });
        model.update(Msg::LocalSensors(session::host()));
        let mut sample = session::sample(START_MS + n * 250, Mode::Off, 0.0, session::host());
        (sample.running, sample.tok_s) = (0, None);
        model.update(Msg::Source(Update::Event(Event::Sample(Box::new(sample)))));
        frames += u64::from(model.take_dirty());
    }
    assert!(frames <= 12, "{frames} frames in 10 s");
}

#[test]
fn the_documents_have_the_key_table() {
    let keymap = Keymap::default();
    let all = "# Keys\n\nGenerated from the table of actions; `spectop config keys` prints it with your own changes. The \
               names are those of the [configuration](configuration.md).\n\n";
    bless::whole("docs/keys.md", &(all.to_owned() + &keymap.markdown(&Context::ALL)));
    bless::part("README.md", "keys", &keymap.markdown(&[Context::Screens, Context::Dashboard]));
}

#[test]
fn rebound_keys_work_and_are_shown_everywhere() {
    let mut model = idle();
    let section =
        "[dashboard]\nprompt = \"F9\"\n[screens]\nhelp = \"f1\"\nshow-log = \"0\"\n[global]\nhelp = \"ctrl-g\"";
    model.keys = Keymap::parse(&section.parse().expect("TOML")).expect("valid");
    let screen = text(&draw(&model));
    assert!(screen.contains("press F9 to type a prompt") && screen.contains("F1 help"), "{screen}");
    assert_eq!(model.tab_key(Screen::Log), "0");
    key(&mut model, 'p');
    assert_eq!(model.overlay, None, "the old key does nothing");
    press(&mut model, KeyCode::F(9));
    assert_eq!(model.overlay, Some(Overlay::Prompt));
    press(&mut model, KeyCode::Esc);
    key(&mut model, '0');
    assert_eq!(model.screen, Screen::Log);
    key(&mut model, ':');
    model.update(Msg::Paste("dashboard".into()));
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.screen, Screen::Dashboard, "the palette knows every action by its description");
}

#[test]
fn filters_leave_the_lines_that_hold_the_words() {
    let mut model = idle();
    for (source, message) in [("engine", "loaded the target"), ("link", "server gone"), ("engine", "mode is ddtree")] {
        model.data.note(START_MS, Level::Info, source, message);
    }
    for open in ["", "7"] {
        for c in open.chars().chain("/ENGINE tree".chars()) {
            key(&mut model, c);
        }
        let screen = text(&draw(&model));
        assert!(screen.contains("mode is ddtree") && !screen.contains("server gone"), "{screen}");
        assert!(screen.contains("/ENGINE tree"), "the title says what is filtered");
        assert_eq!(key(&mut model, 'q'), [], "characters are text while the filter is typed");
        press(&mut model, KeyCode::Backspace);
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.log_lines().len(), 1);
        press(&mut model, KeyCode::Esc);
        assert!(text(&draw(&model)).contains("server gone"), "Esc takes the filter away");
    }
    key(&mut model, '?');
    for c in "/quit".chars() {
        key(&mut model, c);
    }
    let screen = text(&draw(&model));
    assert!(screen.contains("quit (asks while a run is live)") && !screen.contains("halve the tree"), "{screen}");
    press(&mut model, KeyCode::Esc);
    assert!(text(&draw(&model)).contains("accepted"), "all keys again");
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.overlay, None);
}
