//! What can be read on the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use spectop::protocol::event::{Event, RequestPhase};
use spectop::protocol::mode::Mode;
use spectop::protocol::sensor::Sensors;
use spectop::protocol::state::Readiness;
use spectop::protocol::trace::Token;
use spectop::source::{Connection, ServerKind, Update};
use spectop::ui::app::{EffectResult, Focus, Look, Model, Msg};
use spectop::ui::color::Depth;
use spectop::ui::theme::Role;
use spectop::ui::{svg, view};

use crate::session::{self, START_MS};

pub fn draw(model: &Model) -> Buffer {
    let area = Rect::new(0, 0, model.size.0, model.size.1);
    let mut buf = Buffer::empty(area);
    view::draw(model, area, &mut buf);
    buf
}

pub fn text(buf: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buf.area.height {
        let mut skip = 0;
        for x in 0..buf.area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buf[(x, y)].symbol();
            skip = spectop::ui::text::width(symbol).saturating_sub(1);
            out.push_str(symbol);
        }
        out.push('\n');
    }
    out
}

fn has(model: &Model, parts: &[&str]) {
    let screen = text(&draw(model));
    for part in parts {
        assert!(screen.contains(part), "{part:?} is not on\n{screen}");
    }
}

fn has_not(model: &Model, parts: &[&str]) {
    let screen = text(&draw(model));
    for part in parts {
        assert!(!screen.contains(part), "{part:?} is on\n{screen}");
    }
}

/// Writes pictures to the folder that SPECTOP_UI_DUMP names, to look at by hand.
#[test]
fn dump() {
    let Ok(dir) = std::env::var("SPECTOP_UI_DUMP") else { return };
    let all = [
        ("dark-80x24", "default-dark", 80, 24),
        ("dark-120x36", "default-dark", 120, 36),
        ("dark-200x60", "default-dark", 200, 60),
        ("dark-100x30", "default-dark", 100, 30),
        ("light-120x36", "default-light", 120, 36),
        ("colorblind-120x36", "colorblind", 120, 36),
        ("contrast-120x36", "high-contrast", 120, 36),
        ("mono-80x24", "mono", 80, 24),
        ("compact-60x18", "default-dark", 60, 18),
    ];
    let save = |name: &str, model: &Model| {
        let buf = draw(model);
        let rgb = |role| spectop::ui::color::rgb(model.look.theme.color(role));
        let (ink, paper) = (rgb(Role::TextNormal).unwrap_or([220; 3]), rgb(Role::SurfaceBase).unwrap_or([0; 3]));
        std::fs::write(format!("{dir}/{name}.svg"), svg::render(&buf, ink, paper, name)).expect("written");
        std::fs::write(format!("{dir}/{name}.txt"), text(&buf)).expect("written");
    };
    for (name, theme, columns, rows) in all {
        let mut model = session::model(theme, columns, rows);
        session::play(&mut model, &session::host(), Some("toy pair: made to show the machinery, not to answer well"));
        save(name, &model);
        if name == "dark-120x36" {
            for key in ["help", "mode", "prompt"] {
                let mut model = model.clone();
                model.overlay = Some(match key {
                    "help" => spectop::ui::app::Overlay::Help(0),
                    "mode" => spectop::ui::app::Overlay::ModeMenu(2),
                    _ => spectop::ui::app::Overlay::Prompt,
                });
                save(&format!("dark-{key}"), &model);
            }
            session::lose(&mut model);
            save("dark-lost", &model);
        }
    }
    let mut model = session::model("default-dark", 120, 36);
    session::play(&mut model, &session::gpus(4), None);
    save("dark-gpu", &model);
    for (columns, rows) in [(80, 24), (100, 30), (120, 36), (160, 50), (60, 18)] {
        let size = format!("{columns}x{rows}");
        let mut plan = crate::runs::hosted(columns, rows);
        plan.update(Msg::Key(crossterm::event::KeyCode::Char('4').into()));
        save(&format!("bench-plan-{size}"), &plan);
        save(&format!("bench-run-{size}"), &crate::runs::running(columns, rows));
        let mut compare = crate::runs::comparing(columns, rows);
        for plot in 0..3 {
            save(&format!("compare-{plot}-{size}"), &compare);
            compare.compare.plot = compare.compare.plot.walk(true);
        }
        for (key, name) in [('d', "difference"), ('e', "export"), (':', "palette"), ('T', "themes"), ('?', "help2")] {
            let mut model = compare.clone();
            model.update(Msg::Key(crossterm::event::KeyCode::Char(key).into()));
            save(&format!("{name}-{size}"), &model);
        }
        let mut log = session::model("default-dark", columns, rows);
        session::play(&mut log, &session::host(), None);
        log.update(Msg::Key(crossterm::event::KeyCode::Char('7').into()));
        save(&format!("log-{size}"), &log);
    }
    for (name, _) in spectop::ui::theme::BUILT_IN {
        let mut model = crate::runs::running(120, 36);
        model.look = session::look(name);
        save(&format!("theme-{name}"), &model);
    }
    let run: spectop::protocol::run::Run = serde_json::from_str(include_str!("../fixtures/run.json")).expect("a run");
    for screen in spectop::ui::screen::Screen::ALL {
        let model = spectop::cli::screenshot::of_run(&run, screen, (120, 36)).expect("a picture");
        save(&format!("ended-{}", screen.name()), &model);
    }
    let mut model = session::model("default-dark", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::LocalSensors(session::host()));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(
        Readiness::Loading { what: "reading SmolLM2-135M-Instruct.Q4_1.gguf".into(), fraction: Some(0.42) },
        None,
    ))))));
    save("dark-loading", &model);
    let mut model = session::model("default-dark", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(Readiness::Ready, None))))));
    save("dark-idle", &model);
}

#[test]
fn essentials_are_on_80x24() {
    let mut model = session::model("default-dark", 80, 24);
    session::play(&mut model, &session::host(), Some("toy pair: answers make no sense"));
    has(
        &model,
        &[
            "live",
            "127.0.0.1:8080",
            "▸DDTREE r32◂",
            "up 0",
            "toy pair",
            "decode 268.0",
            "τ",
            "5.10 tok/round",
            "rounds/s",
            "depth",
            "1.0",
            "v 14.2",
            "ms/round",
            "ttft",
            "itl",
            "step",
            "n<20",
            "p50",
            "p95",
            "p99",
            "1 run 0 wait KV 5 %",
            "cpu",
            "93 %",
            "3.1/7.8 GiB",
            "rss 210 MiB",
            "no gpu",
            "log",
            "loaded in 0.8 s",
            "p prompt",
            "quit",
            "SmolLM2",
            "ddtree r32 ×2.3",
            "est.",
            "┊",
        ],
    );
}

#[test]
fn gpus_are_shown_with_dashes_for_what_is_unknown() {
    let mut model = session::model("default-dark", 120, 36);
    session::play(&mut model, &session::gpus(2), None);
    has(&model, &["gpu · server", "93 %", "— %", "61.2/139.8 GiB", "412", "61 °C", "1755 MHz", "power cap"]);
    let mut model = session::model("default-dark", 80, 24);
    session::play(&mut model, &session::gpus(8), None);
    has(&model, &["more GPUs"]);
}

#[test]
fn a_lost_server_is_said_in_the_same_frame_and_nothing_stale_stays() {
    let mut model = session::model("default-dark", 80, 24);
    let now = session::play(&mut model, &session::host(), None);
    session::lose(&mut model);
    has(
        &model,
        &["server gone: connection refused", "retrying in 4 s", "this machine", "gone", "decode —", "cpu", "93 %"],
    );
    has_not(&model, &["268.0", "18.3", "▸DDTREE", "up 0"]);
    model.update(Msg::Tick { now_ms: now + 2_000 });
    has(&model, &["retrying in 2 s"]);
    model.update(Msg::Source(Update::Connection(Connection::Lost {
        reason: "x".repeat(500),
        retry_in: std::time::Duration::from_secs(4),
    })));
    has(&model, &["retrying in 4 s"]);
}

#[test]
fn a_silent_server_is_not_shown_as_live() {
    let mut model = session::model("default-dark", 80, 24);
    let now = session::play(&mut model, &session::host(), None);
    model.update(Msg::Tick { now_ms: now + 9_000 });
    has(&model, &["silent", "nothing for 9 s", "decode —"]);
}

#[test]
fn loading_and_failing_are_explained() {
    let mut model = session::model("default-dark", 80, 24);
    has(&model, &["connecting to http://127.0.0.1:8080"]);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Progress(Readiness::Loading {
        what: "reading model.gguf".into(),
        fraction: Some(0.5),
    }))));
    has(&model, &["loading", "50 %", "reading model.gguf", "mode —"]);
    let mut unknown = session::state(Readiness::Loading { what: "reading model.gguf".into(), fraction: None }, None);
    (unknown.target, unknown.draft) = (None, None);
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(unknown)))));
    // Nobody knows yet which mode and drafter there will be.
    has_not(&model, &["no drafter", "OFF"]);
    model.update(Msg::Source(Update::Event(Event::Progress(Readiness::Failed {
        reason: "model.gguf ends after 12 MB of 90 MB: fetch it again with `spectop setup --force`".into(),
    }))));
    has(&model, &["failed", "could not be loaded", "--force"]);
}

#[test]
fn an_idle_server_shows_the_hint() {
    let mut model = session::model("default-dark", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(Readiness::Ready, None))))));
    has(&model, &["press p to type a prompt, or d / t to switch mode", "▸OFF◂", "decode —"]);
}

#[test]
fn tokens_differ_by_colour_and_shape_on_screen() {
    for theme in ["default-dark", "default-light", "colorblind", "high-contrast", "ansi16", "mono"] {
        let mut model = session::model(theme, 80, 24);
        let event = |e| Msg::Source(Update::Event(e));
        model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
        let taken: Vec<Token> = ["ACC", "EPT", "BONUS"].iter().map(|t| Token::new(1, t.as_bytes())).collect();
        model.update(event(Event::Round(session::round("r", 0, Mode::Dflash, &taken, START_MS))));
        let buf = draw(&model);
        let find = |needle: &str| {
            let first = needle.chars().next().expect("not empty").to_string();
            (0..24u16)
                .flat_map(|y| (0..80u16).map(move |x| (x, y)))
                .find(|(x, y)| {
                    buf[(*x, *y)].symbol() == first
                        && needle.chars().enumerate().all(|(i, c)| {
                            buf.cell((x + i as u16, *y)).is_some_and(|cell| cell.symbol() == c.to_string())
                        })
                })
                .map_or_else(|| panic!("{needle} is not on\n{}", text(&buf)), |at| buf[at].clone())
        };
        let (accepted, rejected, bonus) = (find("ACCEPT"), find("‹ the›"), find("BONUS"));
        assert!(bonus.modifier.contains(Modifier::BOLD), "{theme}");
        assert!(rejected.modifier.contains(Modifier::CROSSED_OUT | Modifier::DIM), "{theme}");
        assert!(!accepted.modifier.intersects(Modifier::BOLD | Modifier::CROSSED_OUT), "{theme}");
        if theme != "mono" {
            assert!(accepted.fg != bonus.fg && bonus.fg != rejected.fg && accepted.fg != rejected.fg, "{theme}");
        }
    }
}

#[test]
fn nothing_from_outside_reaches_the_terminal_as_a_control_sequence() {
    let evil = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\u{202e}\r\x08\x00";
    let mut model = session::model("default-dark", 120, 36);
    model.url = format!("http://{evil}");
    let event = |e| Msg::Source(Update::Event(e));
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    let mut state = session::state(Readiness::Ready, Some(evil));
    state.target.as_mut().expect("a target").name = evil.into();
    model.update(event(Event::Hello(Box::new(state))));
    let mut started = session::request(evil, RequestPhase::Started, START_MS);
    started.prompt_tail = Some(evil.into());
    model.update(event(Event::Request(started)));
    let taken: Vec<Token> = [evil.as_bytes(), evil.as_bytes(), b"\x1b"].iter().map(|t| Token::new(1, t)).collect();
    model.update(event(Event::Round(session::round(evil, 0, Mode::Dflash, &taken, START_MS))));
    let mut failed = session::request(evil, RequestPhase::Failed, START_MS);
    failed.error = Some(evil.into());
    model.update(event(Event::Request(failed)));
    let mut sensors: Sensors = session::gpus(2);
    sensors.gpus[0].name = evil.into();
    sensors.host.cpu_name = evil.into();
    model.update(event(Event::Sample(Box::new(session::sample(START_MS, Mode::Off, 0.0, sensors)))));
    model.update(Msg::Paste(evil.into()));
    for overlay in [None, Some(spectop::ui::app::Overlay::Prompt)] {
        model.update(Msg::Paste(evil.into()));
        model.overlay = overlay;
        for cell in draw(&model).content() {
            assert!(!cell.symbol().chars().any(|c| c.is_control() || c == '\u{202e}'), "{:?}", cell.symbol());
        }
    }
    has(&model, &["␛[2J"]);
}

#[test]
fn ascii_mode_has_nothing_but_ascii() {
    let mut model = session::model("default-dark", 80, 24);
    session::play(&mut model, &session::host(), Some("toy pair · é"));
    model.look = Look::new(None, Depth::None, true).expect("a look");
    let buf = draw(&model);
    assert!(buf.content().iter().all(|c| c.symbol().is_ascii()), "{}", text(&buf));
    assert_eq!(model.look.theme.name(), "mono");
    has(&model, &["tau 5.10 tok/round", ">DDTREE r32<", "+-", "###"]);
}

#[test]
fn borders_stay_straight_beside_wide_characters() {
    let mut model = session::model("default-dark", 80, 24);
    session::play(&mut model, &session::host(), None);
    let buf = draw(&model);
    for y in 2..22 {
        let edge = buf[(79, y)].symbol();
        assert!("│┐┘┤".contains(edge), "row {y}: {edge:?}\n{}", text(&buf));
    }
}

#[test]
fn a_long_message_can_be_read_in_the_big_log() {
    let mut model = session::model("default-dark", 80, 24);
    let message = "the prompt has 11 tokens but the context holds 3, and at least one must be left for the answer; shorten the \
                   prompt or start with a larger --context";
    for _ in 0..30 {
        model.update(Msg::EffectResult(EffectResult::Generate { tag: 1, result: Err(message.into()) }));
    }
    has(&model, &["l in the log"]);
    model.toast = None;
    has_not(&model, &["larger --context"]);
    model.log_big = true;
    has(&model, &["the prompt has 11 tokens", "larger --context"]);
    model.focus = Focus::Log;
    model.log_scroll = spectop::ui::screen::dashboard::focused_overflow(&model);
    assert!((22..30).contains(&model.log_scroll), "{}", model.log_scroll);
    has(&model, &["the prompt has 11 tokens", "larger --context"]);
}

#[test]
fn a_failed_request_says_why_in_full() {
    let mut model = session::model("default-dark", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(Readiness::Ready, None))))));
    let mut event = session::request("a", RequestPhase::Failed, START_MS);
    event.error = Some(format!("the engine failed: {} and that is all", "a long story ".repeat(8)));
    model.update(Msg::Source(Update::Event(Event::Request(event))));
    has(&model, &["failed: the engine failed", "and that is all"]);
}

#[test]
fn plain_decoding_is_not_called_idle() {
    let mut model = session::model("default-dark", 80, 24);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(Readiness::Ready, None))))));
    let mut sample = session::sample(START_MS, Mode::Off, 0.0, session::host());
    sample.per_pos.clear();
    sample.tok_s = None;
    model.update(Msg::Source(Update::Event(Event::Sample(Box::new(sample)))));
    has(&model, &["no drafts in this mode"]);
    has_not(&model, &["nothing is being generated"]);
}

#[test]
fn the_help_is_whole_on_80x24() {
    let mut model = session::model("default-dark", 80, 24);
    let mut words = String::new();
    for skip in 0..=view::help_overflow(&model) {
        model.overlay = Some(spectop::ui::app::Overlay::Help(skip));
        let screen = text(&draw(&model));
        let inside: Vec<&str> = screen.lines().filter_map(|l| l.split('│').nth(2)).collect();
        assert!(inside.iter().all(|l| !l.contains('…')), "{screen}");
        words.push_str(&inside.join(" "));
    }
    for binding in spectop::ui::action::TABLE {
        let last = binding.description.split(' ').next_back().unwrap_or_default();
        assert!(words.contains(last), "{}", binding.description);
    }
}

#[test]
fn the_help_lists_every_action() {
    let mut model = session::model("default-dark", 100, 30);
    let mut seen = String::new();
    for skip in 0..400 {
        model.overlay = Some(spectop::ui::app::Overlay::Help(skip));
        if skip % 10 == 0 {
            seen.push_str(&text(&draw(&model)));
        }
    }
    for binding in spectop::ui::action::TABLE {
        assert!(seen.contains(binding.description), "{}", binding.description);
    }
}

#[test]
fn auto_says_what_it_expects_of_each_mode() {
    use spectop::protocol::event::Forecast;
    let mut model = session::model("default-dark", 200, 60);
    session::play(&mut model, &session::host(), None);
    let mut sample = model.sample().expect("a sample").clone();
    let forecast = Forecast {
        off_tok_s: 231.0,
        dflash_tok_s: 248.5,
        ddtree_tok_s: 180.0,
        chosen: Mode::Dflash,
        nodes: 3,
        pause: 0,
        draft_ms: 1.3,
        verify_ms: 5.0,
    };
    sample.auto = Some(forecast.clone());
    model.update(Msg::Source(Update::Event(Event::Sample(Box::new(sample.clone())))));
    has(&model, &["auto expects  off 231", "▸dflash 248", " ddtree 180", "tok/s · 3 drafts"]);
    sample.auto = Some(Forecast { chosen: Mode::Off, pause: 12, ..forecast });
    model.update(Msg::Source(Update::Event(Event::Sample(Box::new(sample)))));
    has(&model, &["▸off 231", " dflash 248"]);
}
