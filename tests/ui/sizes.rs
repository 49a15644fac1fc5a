//! Every size, every state: no panic, and nothing outside of the area.

use std::sync::LazyLock;

use crossterm::event::KeyCode;
use proptest::prelude::*;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use spectop::protocol::event::{Event, Level, LogLine, RequestPhase};
use spectop::protocol::mode::{Mode, ModeSettings};
use spectop::protocol::run::{RequestStatus, Run, RunProgress};
use spectop::protocol::sensor::Sensors;
use spectop::protocol::state::{Readiness, StageTimes};
use spectop::protocol::trace::Token;
use spectop::source::{Connection, ServerKind, Update};
use spectop::ui::app::{Model, Msg, Overlay};
use spectop::ui::run::Pane;
use spectop::ui::run::form::Check;
use spectop::ui::run::library::Plot;
use spectop::ui::screen::Screen;
use spectop::ui::view;

use crate::session::{self, START_MS};
use crate::{runs, sample, walk};

/// Draws into the middle of a bigger buffer and looks at its rim.
fn check(model: &mut Model, columns: u16, rows: u16) {
    model.update(Msg::Resize(columns, rows));
    let outer = Rect::new(0, 0, columns + 4, rows + 4);
    let mut rim = Cell::new("#");
    rim.set_symbol("#");
    let mut buf = Buffer::filled(outer, rim.clone());
    let inner = Rect::new(2, 2, columns, rows);
    view::draw(model, inner, &mut buf);
    for y in 0..outer.height {
        let within = (inner.top()..inner.bottom()).contains(&y);
        let sides = [0, 1, columns + 2, columns + 3];
        for x in (0..outer.width).filter(|x| !within || sides.contains(x)) {
            assert_eq!(buf[(x, y)], rim, "{columns}x{rows} wrote to {x},{y}");
        }
    }
}

fn extreme() -> Model {
    let mut model = session::model("default-dark", 80, 24);
    let event = |e| Msg::Source(Update::Event(e));
    let long = "very long 漢字 \u{301}\x1b".repeat(200);
    model.url.clone_from(&long);
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Sglang })));
    let mut state = session::state(Readiness::Ready, Some(&long));
    state.uptime_s = f64::MAX;
    state.target.as_mut().expect("a target").name.clone_from(&long);
    state.mode =
        ModeSettings { mode: Mode::Shadow, block_size: usize::MAX, tree_budget: usize::MAX, chain_seed: false };
    state.limits.modes.clear();
    state.limits.tree_budget = [usize::MAX, 0];
    model.update(event(Event::Hello(Box::new(state))));
    let mut sample = session::sample(START_MS, Mode::Shadow, 0.0, session::gpus(64));
    sample.tok_s = Some(f64::MAX);
    sample.decode_tok_s = Some(f64::NAN);
    sample.tau = Some(f64::INFINITY);
    sample.per_pos = (0..1000).map(|i| if i % 3 == 0 { f64::NAN } else { 1e9 }).collect();
    sample.stages = Some(StageTimes { draft: -1.0, build: 1e300, verify: 1.0, commit: 0.0 });
    sample.kv_used = usize::MAX;
    sample.kv_capacity = 1;
    sample.running = usize::MAX;
    sample.latency.itl.p50 = Some(f64::MAX);
    sample.sensors.host.per_core = vec![f64::NAN; 512];
    sample.sensors.gpus[0].mem_used = Some(u64::MAX);
    sample.sensors.gpus[0].util_percent = Some(1e12);
    sample.sensors.gpus[0].throttle = vec![long.clone(); 9];
    model.update(event(Event::Sample(Box::new(sample))));
    model.update(event(Event::Log(LogLine {
        at_ms: u64::MAX,
        level: Level::Error,
        source: long.clone(),
        message: long.clone(),
    })));
    let tokens = vec![Token::new(0, long.as_bytes()); 12];
    model.update(event(Event::Round(session::round("r", u64::MAX - 1, Mode::Ddtree, &tokens, u64::MAX))));
    let mut failed = session::request("q", RequestPhase::Failed, START_MS);
    failed.error = Some(long.clone());
    model.update(event(Event::Request(failed)));
    model.editor.insert(&long);
    model.text_scroll = usize::MAX / 2;
    model.log_scroll = usize::MAX / 2;
    model
}

fn states() -> Vec<(&'static str, Model)> {
    let mut normal = session::model("default-dark", 80, 24);
    session::play(&mut normal, &session::host(), Some("toy pair"));
    let mut lost = normal.clone();
    session::lose(&mut lost);
    let mut gpus = session::model("mono", 80, 24);
    session::play(&mut gpus, &session::gpus(3), None);
    let mut bare = session::model("ansi16", 80, 24);
    bare.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    bare.update(Msg::Source(Update::Event(Event::Sample(Box::default()))));
    bare.update(Msg::LocalSensors(Sensors::default()));
    let mut loading = session::model("mono", 80, 24);
    loading.update(Msg::Source(Update::Event(Event::Progress(Readiness::Loading {
        what: "x".into(),
        fraction: Some(f64::NAN),
    }))));
    let mut ascii = normal.clone();
    ascii.look.ascii = true;
    vec![
        ("empty", session::model("default-dark", 80, 24)),
        ("bare", bare),
        ("loading", loading),
        ("normal", normal),
        ("lost", lost),
        ("gpus", gpus),
        ("ascii", ascii),
        ("extreme", extreme()),
    ]
}

#[test]
fn every_size_of_every_state() {
    for (_, mut model) in states() {
        for columns in (0..=200).step_by(7).chain([29, 30, 31, 79, 80, 81, 119, 120, 121]) {
            for rows in (0..=60).step_by(5).chain([6, 23, 24, 25, 35, 36, 37]) {
                check(&mut model, columns, rows);
            }
        }
    }
}

/// Numbers and names as bad as a file can hold.
fn extreme_run() -> Run {
    let long = "very long 漢字 \u{301}\x1b".repeat(50);
    let mut run = sample::run();
    run.meta.title.clone_from(&long);
    run.meta.started_ms = u64::MAX;
    run.env.target = None;
    run.env.model = Some(long.clone());
    run.plan.modes[1].label.clone_from(&long);
    run.plan.modes[2].request.tree_budget = Some(usize::MAX);
    run.plan.modes[3].request.tree_budget = Some(0);
    run.plan.max_tokens = usize::MAX;
    run.warnings = vec![long.clone(); 40];
    for (i, s) in run.summary.iter_mut().enumerate() {
        s.mode = if i % 5 == 1 { long.clone() } else { s.mode.clone() };
        s.suite = if i % 7 == 3 { long.clone() } else { s.suite.clone() };
        s.concurrency = [1, usize::MAX][i % 2];
        s.decode_tok_s.mean = [Some(f64::NAN), Some(f64::MAX), None][i % 3];
        s.tau_pooled = [Some(f64::INFINITY), Some(-1.0), None][i % 3];
        s.accepted_hist = if i % 3 == 0 { vec![u64::MAX; 3] } else { vec![i as u64 % 2; 300] };
        s.itl_ms.p95 = Some(f64::MAX);
    }
    for (i, c) in run.compare.iter_mut().enumerate() {
        c.mode = if i % 4 == 0 { long.clone() } else { c.mode.clone() };
        c.ratio = [Some(f64::NAN), Some(0.0), Some(f64::MAX), Some(-3.0), None][i % 5];
        c.interval = [Some([f64::NAN, 1.0]), Some([0.0, f64::MAX]), Some([9.0, 1.0]), None][i % 4];
        c.lossless.compared = usize::MAX;
        for d in &mut c.lossless.divergences {
            d.baseline.clone_from(&long);
            d.margin = Some(f64::NAN);
            (d.turn, d.index) = (usize::MAX - 1, usize::MAX);
        }
    }
    for (i, r) in run.requests.iter_mut().enumerate() {
        r.seq = usize::MAX;
        r.tokens = usize::MAX;
        r.repeat = usize::MAX - 1;
        r.prompt_id.clone_from(&long);
        r.status = [RequestStatus::Failed, RequestStatus::TimedOut, RequestStatus::CutShort][i % 3];
        r.error = Some(long.clone());
        r.decode_tok_s = Some(f64::NAN);
    }
    run
}

fn screens() -> Vec<Model> {
    let mut all = vec![runs::running(80, 24), runs::comparing(80, 24), runs::hosted(80, 24)];
    for c in ['2', '3', '4', '5', '6', '7', '8'] {
        let mut model = session::model("mono", 80, 24);
        model.update(Msg::Key(KeyCode::Char(c).into()));
        all.push(model);
    }
    let mut ascii = runs::comparing(80, 24);
    ascii.look.ascii = true;
    all.push(ascii);
    all.push(extreme());
    all.push(walk::walked("default-dark", 80, 24));
    let mut held = walk::walked("mono", 80, 24);
    held.walk.node = Some(usize::MAX);
    held.gpu = usize::MAX;
    all.push(held);
    let mut writing = session::model("mono", 80, 24);
    writing.playground.editing = true;
    writing.editor.insert(&"漢字 e\u{301}\n".repeat(300));
    all.push(writing);
    let mut raced = walk::raced(80, 24);
    raced.update(Msg::Tick { now_ms: START_MS + 60_700 });
    all.push(raced);
    let run = extreme_run();
    let mut bench = runs::hosted(80, 24);
    bench.update(Msg::Key(KeyCode::Char('4').into()));
    let list = &mut bench.bench.form;
    list.suites.push(Check { word: "path/漢字/".repeat(80), on: true, own: true });
    list.cursor = 2;
    let mut typing = bench.clone();
    typing.bench.form.cursor = 3;
    typing.update(Msg::Key(KeyCode::Enter.into()));
    typing.update(Msg::Paste("漢字/e\u{301}".repeat(300)));
    all.push(typing);
    runs::begin(&mut bench, &run);
    bench.bench.pane = Pane::Results;
    bench.bench.scroll = usize::MAX;
    bench.update(Msg::Run(RunProgress::Sending { what: "漢".repeat(900), done: 9, total: 1, eta_s: Some(f64::NAN) }));
    all.push(bench.clone());
    bench.update(Msg::Run(RunProgress::Failed("x".repeat(3_000))));
    bench.bench.pane = Pane::Results;
    all.push(bench);
    let mut compare = runs::comparing(80, 24);
    compare.compare.add(Box::new(run));
    (compare.compare.column, compare.compare.scope, compare.compare.selected) = (usize::MAX / 2, 1, usize::MAX);
    all.push(compare);
    all
}

#[test]
fn every_size_of_every_screen() {
    for mut model in screens() {
        for screen in Screen::ALL {
            if screen == Screen::Dashboard {
                continue;
            }
            model.screen = screen;
            for columns in (0..=200).step_by(11).chain([29, 30, 31, 79, 80, 81, 119, 120, 121]) {
                for rows in (0..=60).step_by(7).chain([6, 23, 24, 25, 34, 36, 50]) {
                    check(&mut model, columns, rows);
                }
            }
        }
        for plot in Plot::ALL {
            model.compare.plot = plot;
            for (columns, rows) in [(80, 24), (90, 33), (120, 28), (100, 60)] {
                check(&mut model, columns, rows);
            }
        }
    }
}

#[test]
fn every_size_with_overlays_of_every_screen() {
    for mut model in screens() {
        for overlay in
            [Overlay::Palette(99), Overlay::Themes(99, "mono".into()), Overlay::Export(99), Overlay::Difference(99)]
        {
            model.overlay = Some(overlay);
            for columns in (0..=140).step_by(13).chain([30, 80]) {
                for rows in (0..=40).step_by(7).chain([6, 24]) {
                    check(&mut model, columns, rows);
                }
            }
        }
    }
}

#[test]
fn every_size_with_overlays_and_big_log() {
    for (_, mut model) in states() {
        for overlay in [Overlay::ModeMenu(99), Overlay::Prompt, Overlay::Help(usize::MAX)] {
            model.overlay = Some(overlay);
            for columns in (0..=130).step_by(13).chain([30, 80]) {
                for rows in (0..=40).step_by(7).chain([6, 24]) {
                    check(&mut model, columns, rows);
                }
            }
        }
        model.overlay = None;
        model.log_big = true;
        for (columns, rows) in [(80, 24), (90, 30), (120, 36), (200, 60), (30, 6)] {
            check(&mut model, columns, rows);
        }
    }
}

/// A model with data for every screen, showing this one. A new screen has its data from the same events.
pub fn normal(screen: Screen, columns: u16, rows: u16) -> Model {
    match screen {
        Screen::Playground | Screen::Tree => {
            let mut model = walk::walked("default-dark", columns, rows);
            (model.screen, model.walk.at) = (screen, Some(1));
            return model;
        }
        Screen::Race => {
            let mut model = walk::raced(columns, rows);
            model.update(Msg::Tick { now_ms: START_MS + 60_700 });
            return model;
        }
        _ => {}
    }
    let mut model = runs::comparing(columns, rows);
    session::play(&mut model, &session::gpus(2), None);
    runs::begin(&mut model, &sample::run());
    model.screen = screen;
    model
}

/// The same with data as bad as they can come.
fn worst(screen: Screen) -> Model {
    let mut model = extreme();
    model.offer_runs();
    let run = extreme_run();
    runs::begin(&mut model, &run);
    model.bench.pane = Pane::Results;
    model.bench.scroll = usize::MAX;
    model.compare.add(Box::new(run));
    (model.compare.column, model.compare.scope, model.compare.selected) = (usize::MAX / 2, 1, usize::MAX);
    model.log_filter.text.insert("漢");
    model.data.lagged = u64::MAX;
    model.screen = screen;
    model
}

/// Every screen with no data, usual data, and the worst.
fn every_screen() -> Vec<(String, Model)> {
    let mut all = Vec::new();
    for screen in Screen::ALL {
        let mut empty = session::model("default-dark", 80, 24);
        empty.screen = screen;
        let name = |data| format!("{} with {data} data", screen.name());
        all.extend([(name("no"), empty), (name("usual"), normal(screen, 80, 24)), (name("the worst"), worst(screen))]);
    }
    all
}

/// One of every overlay, each with its selection far behind its end.
fn overlays() -> Vec<Overlay> {
    let all = vec![
        Overlay::ModeMenu(99),
        Overlay::Prompt,
        Overlay::Help(usize::MAX),
        Overlay::Palette(99),
        Overlay::Themes(99, "mono".into()),
        Overlay::Export(99),
        Overlay::Difference(99),
    ];
    // A new overlay does not compile here before it is in the list above.
    for overlay in &all {
        match overlay {
            Overlay::ModeMenu(_)
            | Overlay::Prompt
            | Overlay::Help(_)
            | Overlay::Palette(_)
            | Overlay::Themes(..)
            | Overlay::Export(_)
            | Overlay::Difference(_) => {}
        }
    }
    all
}

static EVERY_SCREEN: LazyLock<Vec<(String, Model)>> = LazyLock::new(every_screen);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_200))]

    #[test]
    fn any_screen_at_any_size(
        columns in 0u16..=300,
        rows in 0u16..=100,
        which in any::<prop::sample::Index>(),
        overlay in proptest::option::of(any::<prop::sample::Index>()),
        ascii in any::<bool>(),
        scroll in prop_oneof![Just(0usize), 0..2_000usize, Just(usize::MAX)],
    ) {
        let (_, mut model) = EVERY_SCREEN[which.index(EVERY_SCREEN.len())].clone();
        model.overlay = overlay.map(|i| i.get(&overlays()).clone());
        model.look.ascii = ascii;
        (model.text_scroll, model.log_scroll) = (scroll, scroll);
        check(&mut model, columns, rows);
    }
}

#[test]
fn every_screen_along_the_edges_of_its_layouts() {
    for (_, model) in EVERY_SCREEN.iter() {
        let mut model = model.clone();
        for columns in (0..=300).step_by(3) {
            for rows in [0, 1, 2, 6, 7, 23, 24, 36, 100] {
                check(&mut model, columns, rows);
            }
        }
        for rows in 0..=100 {
            for columns in [0, 1, 29, 30, 79, 80, 120, 300] {
                check(&mut model, columns, rows);
            }
        }
    }
}

/// All 30,401 sizes of every screen; run with `cargo test --test ui -- --ignored every_size_there_is`.
#[test]
#[ignore = "takes minutes; the property above draws from the same sizes"]
fn every_size_there_is() {
    for (_, model) in EVERY_SCREEN.iter() {
        let mut model = model.clone();
        for columns in 0..=300 {
            for rows in 0..=100 {
                check(&mut model, columns, rows);
            }
        }
    }
}
