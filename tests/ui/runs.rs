//! The bench, compare and log screens: keys, effects, and what can be read.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use spectop::protocol::event::Event;
use spectop::protocol::mode::Mode;
use spectop::protocol::run::{Run, RunProgress, RunStatus};
use spectop::protocol::state::Readiness;
use spectop::source::{Connection, ServerKind, Update};
use spectop::ui::app::{Effect, Model, Msg, Overlay};
use spectop::ui::run::library::{ExportFormat, RunListItem};
use spectop::ui::run::live::Phase;
use spectop::ui::screen::Screen;

use crate::dashboard::{draw, text};
use crate::sample;
use crate::session::{self, START_MS};

fn press(model: &mut Model, code: KeyCode) -> Vec<Effect> {
    model.update(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn key(model: &mut Model, c: char) -> Vec<Effect> {
    press(model, KeyCode::Char(c))
}

fn has(model: &Model, parts: &[&str]) {
    let screen = text(&draw(model));
    for part in parts {
        assert!(screen.contains(part), "{part:?} is not on\n{screen}");
    }
}

pub fn hosted(columns: u16, rows: u16) -> Model {
    let mut model = session::model("default-dark", columns, rows);
    model.offer_runs();
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(session::state(Readiness::Ready, None))))));
    model
}

pub fn begin(model: &mut Model, run: &Run) {
    let plan = Box::new(run.plan.clone());
    model.update(Msg::Run(RunProgress::Planned { plan, total: run.requests.len() * 2, estimate_s: Some(120.0) }));
    for (i, record) in run.requests.iter().enumerate() {
        model.update(Msg::Run(RunProgress::Sending {
            what: "builtin/json-2 rep 2 → ddtree r16 (order 3 of 5)".into(),
            done: i,
            total: run.requests.len() * 2,
            eta_s: Some(64.0),
        }));
        model.update(Msg::Run(RunProgress::Done(Box::new(record.clone()))));
    }
    model.update(Msg::Run(RunProgress::Interim {
        summary: run.summary.clone(),
        compare: run.compare.clone(),
        warnings: run.warnings.clone(),
    }));
}

/// A bench screen in the middle of a run.
pub fn running(columns: u16, rows: u16) -> Model {
    let mut model = hosted(columns, rows);
    key(&mut model, '4');
    let effects = key(&mut model, 's');
    assert!(matches!(effects[..], [Effect::StartRun(_)]), "{effects:?}");
    begin(&mut model, &sample::run());
    model.update(Msg::Tick { now_ms: START_MS + 55_000 });
    model
}

/// A compare screen with a few runs, one of them loaded.
pub fn comparing(columns: u16, rows: u16) -> Model {
    let mut model = hosted(columns, rows);
    assert_eq!(key(&mut model, '5'), [Effect::ListRuns]);
    let run = sample::run();
    let items = (0..4u64).map(|i| RunListItem {
        id: if i == 0 { run.meta.id.clone() } else { format!("r{i}") },
        title: if i == 0 { run.meta.title.clone() } else { format!("budgets of tree {i}") },
        started_ms: START_MS - i * 90_000_000,
        status: if i == 2 { RunStatus::Stopped } else { RunStatus::Complete },
        ..RunListItem::of(&run)
    });
    let effects = model.update(Msg::Runs(Ok(items.collect())));
    assert_eq!(effects, [Effect::LoadRun(run.meta.id.clone())]);
    assert_eq!(model.update(Msg::RunLoaded(Ok(Box::new(run)))), []);
    model
}

#[test]
fn digits_show_screens_and_tabs_say_where_one_is() {
    let mut model = hosted(120, 36);
    has(&model, &[" 1 dashboard ", " 4 bench ", " 5 compare ", " 7 log "]);
    for (c, screen) in [('4', Screen::Bench), ('5', Screen::Compare), ('7', Screen::Log), ('1', Screen::Dashboard)] {
        key(&mut model, c);
        assert_eq!(model.screen, screen);
    }
    model.update(Msg::Resize(80, 24));
    has(&model, &[" 1 dashboard ", "2345678", "127.0.0.1:8080"]);
    key(&mut model, '4');
    key(&mut model, '?');
    has(&model, &["Bench: plan and results", "make the plan and estimate"]);
}

#[test]
fn a_plan_is_filled_in_and_started() {
    let mut model = hosted(80, 24);
    key(&mut model, '4');
    has(
        &model,
        &[
            "[x] story",
            "[ ] builtin",
            "[x] off baseline",
            "[x] dflash:8",
            "[x] ddtree:16",
            "s start",
            "repeats",
            "max tokens",
        ],
    );
    press(&mut model, KeyCode::Down);
    key(&mut model, ' ');
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Enter);
    for c in "q4.jsonl".chars() {
        assert_eq!(key(&mut model, c), [], "characters are text here");
    }
    press(&mut model, KeyCode::Enter);
    has(&model, &["[x] q4.jsonl"]);
    let effects = press(&mut model, KeyCode::F(5));
    let [Effect::StartRun(options)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(options.suites, ["story", "builtin", "q4.jsonl"]);
    assert_eq!(options.modes, ["off", "dflash:8", "ddtree:16"]);
    assert_eq!((options.repeats, options.temperature, options.concurrency.as_slice()), (3, 0.0, &[1][..]));
    has(&model, &["run · starting", "making the plan"]);
    assert_eq!(model.update(Msg::Run(RunProgress::Failed("suite q4.jsonl: no such file".into()))), []);
    has(&model, &["failed", "no such file"]);
    assert!(!model.bench.running());
}

#[test]
fn wrong_input_is_said_and_the_field_stays_open() {
    let mut model = hosted(80, 24);
    key(&mut model, '4');
    let at = model.bench.form.fields().iter().position(|f| *f == spectop::ui::run::form::Field::AddMode);
    model.bench.form.cursor = at.expect("a row");
    press(&mut model, KeyCode::Enter);
    model.update(Msg::Paste("ddtree:9999\nx".into()));
    press(&mut model, KeyCode::Enter);
    has(&model, &["out of range 1 to 256"]);
    assert!(model.bench.form.edit.is_some());
    press(&mut model, KeyCode::Esc);
    assert!(model.bench.form.edit.is_none());
}

#[test]
fn a_dry_run_is_shown() {
    let mut model = hosted(80, 24);
    key(&mut model, '4');
    assert!(matches!(key(&mut model, 'n')[..], [Effect::PlanRun(_)]));
    let plan = Box::new(sample::run().plan);
    model.update(Msg::Planned(Ok(RunProgress::Planned { plan, total: 231, estimate_s: Some(125.0) })));
    has(&model, &["231 requests", "02:05"]);
    key(&mut model, ' ');
    assert!(model.bench.dry.is_none(), "another plan");
    model.update(Msg::Planned(Err("no prompts in suite story".into())));
    has(&model, &["dry run: no prompts in"]);
}

#[test]
fn where_nothing_can_be_run_it_is_said() {
    let mut model = session::model("default-dark", 80, 24);
    key(&mut model, '4');
    has(&model, &["benchmarks are not available", "attachment"]);
    assert_eq!(key(&mut model, 's'), []);
    assert_eq!(key(&mut model, '5'), []);
    has(&model, &["benchmarks are not available"]);
    let mut model = hosted(80, 24);
    key(&mut model, '4');
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Vllm })));
    assert_eq!(key(&mut model, 's'), []);
    has(&model, &["vLLM cannot switch its mode"]);
    let mut model = hosted(80, 24);
    key(&mut model, '4');
    let mut bare = session::state(Readiness::Ready, None);
    bare.limits.modes = vec![Mode::Off];
    model.update(Msg::Source(Update::Event(Event::Hello(Box::new(bare)))));
    has(&model, &["no drafter is loaded"]);
    assert!(matches!(key(&mut model, 's')[..], [Effect::StartRun(_)]));
}

#[test]
fn a_run_shows_progress_results_and_requests() {
    for (columns, rows) in [(80, 24), (160, 50)] {
        let model = running(columns, rows);
        has(
            &model,
            &[
                "run · running",
                "00:55 spent",
                "20/40 requests",
                "0 failed",
                "now: builtin/json-2 rep 2",
                "⚠ the baseline drifted",
                "dflash b8",
                "×1.15",
                "1.08–1.23",
                "ddtree r32",
                "slower",
                "faster",
                "✗ 44/45",
                "✓ 45/45",
                "├",
                "●",
                "┊",
                "equal",
                "space pause",
                "x stop and keep",
            ],
        );
    }
    has(&running(160, 50), &["builtin/explanation", "✗ diff", "story", "all suites", "τ", "×1"]);
}

#[test]
fn pausing_stopping_and_quitting_a_run() {
    let mut model = running(80, 24);
    assert_eq!(key(&mut model, ' '), [Effect::PauseRun(true)]);
    model.update(Msg::Run(RunProgress::Paused(true)));
    has(&model, &["PAUSED", "space goes on"]);
    assert_eq!(key(&mut model, ' '), [Effect::PauseRun(false)]);
    model.update(Msg::Run(RunProgress::Paused(false)));
    assert_eq!(key(&mut model, 'x'), [], "asks");
    has(&model, &["stop the run and keep"]);
    press(&mut model, KeyCode::Esc);
    assert_eq!(key(&mut model, 'x'), [], "asks again");
    assert_eq!(key(&mut model, 'x'), [Effect::StopRun]);
    assert_eq!(key(&mut model, 'q'), [], "asks");
    has(&model, &["a run is going on"]);
    assert_eq!(key(&mut model, 'q'), [Effect::StopRun, Effect::Quit]);
    let mut model = running(80, 24);
    key(&mut model, 'q');
    model.update(Msg::Tick { now_ms: START_MS + 90_000 });
    assert_eq!(key(&mut model, 'q'), [], "too late: asks anew");
    let mut run = sample::run();
    run.meta.status = RunStatus::Stopped;
    model.update(Msg::Run(RunProgress::Ended {
        run: Box::new(run),
        file: Some("runs/20261201-112000-ab12.json".into()),
    }));
    assert_eq!(model.bench.live.as_ref().map(|l| l.phase.clone()), Some(Phase::Stopped));
    model.update(Msg::Tick { now_ms: START_MS + 120_000 });
    has(&model, &["stopped, results kept", "kept as runs/20261201-112000-ab12.json", "✗ 44/45"]);
    assert_eq!(key(&mut model, 'q'), [Effect::Quit]);
    assert_eq!(key(&mut model, '5'), [Effect::ListRuns]);
    has(&model, &[sample::TITLE]);
}

#[test]
fn the_compare_screen_has_the_essentials() {
    for (columns, rows) in [(80, 24), (160, 50)] {
        let model = comparing(columns, rows);
        has(
            &model,
            &[
                sample::TITLE,
                "stoppe",
                "off",
                "dflash b8",
                "ddtree r8",
                "tok/s",
                "228.0",
                "×1.15",
                "1.08–1.23",
                "end to end",
                "ttft p50",
                "36.4",
                "itl p95",
                "step p95",
                "J/tok",
                "—",
                "✓ 45/45",
                "⚠ the baseline drifted",
                "speed-up by suite",
                "story",
                "e export",
            ],
        );
    }
    has(&comparing(160, 50), &["by tree budget", "accepted drafts a round", "r16", "ddtree r32", "✗ 44/45", "seed 7"]);
    let mut model = comparing(80, 24);
    key(&mut model, 'w');
    has(&model, &["by tree budget", "τ tok/round", "r32"]);
    key(&mut model, 'w');
    has(&model, &["accepted drafts a round", "%"]);
    key(&mut model, 'W');
    has(&model, &["by tree budget"]);
    key(&mut model, 'l');
    key(&mut model, 'l');
    has(&model, &["ddtree r32", "◂"]);
    key(&mut model, 's');
    has(&model, &["story"]);
}

#[test]
fn runs_are_filtered_chosen_and_read_one_at_a_time() {
    let mut model = comparing(80, 24);
    assert_eq!(press(&mut model, KeyCode::Down), [Effect::LoadRun("r1".into())]);
    assert_eq!(press(&mut model, KeyCode::Down), [], "one at a time");
    let mut run = sample::run();
    run.meta.id = "r1".into();
    assert_eq!(model.update(Msg::RunLoaded(Ok(Box::new(run)))), [Effect::LoadRun("r2".into())]);
    assert_eq!(model.update(Msg::RunLoaded(Err("r2.json ends in the middle".into()))), [], "not tried again by itself");
    key(&mut model, '/');
    for c in "tree 3".chars() {
        key(&mut model, c);
    }
    assert_eq!(model.compare.visible().len(), 1);
    // Its run has been asked for while the filter was typed.
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    has(&model, &["1 of 4"]);
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.compare.visible().len(), 4);
    model.update(Msg::Runs(Err("the folder cannot be read".into())));
    assert!(model.compare.error.is_some());
}

#[test]
fn differences_and_exports() {
    let mut model = comparing(100, 30);
    key(&mut model, 'd');
    has(&model, &["story/code", "token 95", "near tie", "total += item.price", "total = total", "token 4117"]);
    press(&mut model, KeyCode::Right);
    press(&mut model, KeyCode::Esc);
    key(&mut model, 'e');
    has(&model, &["export this run as", "run.v1"]);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    let id = sample::run().meta.id;
    assert_eq!(press(&mut model, KeyCode::Enter), [Effect::Export { id, format: ExportFormat::Html }]);
    model.update(Msg::Exported(Ok("run.html".into())));
    has(&model, &["written to run.html"]);
    model.update(Msg::Exported(Err("the disk is full".into())));
    has(&model, &["not exported: the disk is full"]);
    let mut model = hosted(80, 24);
    key(&mut model, '5');
    assert_eq!((key(&mut model, 'd'), key(&mut model, 'e')), (vec![], vec![]));
    assert_eq!(model.overlay, None);
}

#[test]
fn the_log_screen_scrolls_and_filters() {
    let mut model = session::model("default-dark", 80, 24);
    session::play(&mut model, &session::host(), None);
    session::lose(&mut model);
    key(&mut model, '7');
    has(&model, &["log · all lines", "loaded in 0.8 s", "server gone", "UTC"]);
    key(&mut model, 'L');
    key(&mut model, 'L');
    has(&model, &["log · errors"]);
    assert!(!text(&draw(&model)).contains("loaded in 0.8 s"));
    key(&mut model, 'g');
    assert_eq!(model.log_scroll, 0, "fewer lines than rows");
}

#[test]
fn the_palette_finds_and_does() {
    let mut model = hosted(80, 24);
    key(&mut model, ':');
    for c in "bench".chars() {
        key(&mut model, c);
    }
    has(&model, &["measure modes against each other"]);
    press(&mut model, KeyCode::Enter);
    assert_eq!((model.screen, model.overlay.clone()), (Screen::Bench, None));
    key(&mut model, ':');
    model.update(Msg::Paste("no such thing".into()));
    has(&model, &["nothing here does that"]);
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    assert_eq!(model.overlay, None);
}

#[test]
fn themes_are_tried_before_they_are_kept() {
    let mut model = hosted(80, 24);
    key(&mut model, 'T');
    press(&mut model, KeyCode::Down);
    assert_eq!(model.look.theme.name(), "default-light");
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.look.theme.name(), "default-dark");
    key(&mut model, 'T');
    press(&mut model, KeyCode::Up);
    press(&mut model, KeyCode::Enter);
    assert_ne!(model.look.theme.name(), "default-dark");
    assert!(!matches!(model.overlay, Some(Overlay::Themes(..))));
}

/// The run that the pictures are made from can be read.
#[test]
fn the_fixture_is_a_run() {
    let text = include_str!("../fixtures/run.json");
    let run: Run = serde_json::from_str(text).expect("a run");
    assert_eq!(run.schema, spectop::protocol::run::RUN_SCHEMA);
    assert!(!run.summary.is_empty() && !run.compare.is_empty());
}

/// Writes the sample to the file that SPECTOP_SAMPLE_RUN names.
#[test]
fn write_sample() {
    let Ok(file) = std::env::var("SPECTOP_SAMPLE_RUN") else { return };
    let json = serde_json::to_string_pretty(&sample::run()).expect("serialisable");
    std::fs::write(file, json + "\n").expect("written");
}
