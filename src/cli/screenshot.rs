//! Pictures for the README, from the program itself: a recorded session goes through the real update and view.

use std::fs;
use std::path::Path;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde::Deserialize;
use serde_json::Value;

use super::{Exit, Failure};
use crate::protocol::event::Event;
use crate::protocol::run::{Run, RunProgress};
use crate::source::{Connection, ServerKind, Update};
use crate::ui::app::{Look, Model, Msg, Overlay};
use crate::ui::color::{self, Depth};
use crate::ui::run::Pane;
use crate::ui::screen::Screen;
use crate::ui::theme::Role;
use crate::ui::{svg, view};

/// A benchmark run, relative to the repository's root.
const RUN: &str = "tests/fixtures/run.json";
/// The recording, relative to the repository's root.
const RECORDING: &str = "tests/fixtures/session.jsonl";
/// Time between the ticks that are replayed with it.
const TICK_MS: u64 = 250;

/// One line of a recording: an event of `/spec/events` and when it came.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Line {
    event: String,
    data: Value,
    at_ms: u64,
}

/// One event of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When it came, milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What came.
    pub event: Event,
}

/// Reads a recording: one JSON object a line. Events of a newer version are left out; what cannot be read is an error
/// that names its line.
pub fn parse(text: &str) -> Result<Vec<Recorded>, String> {
    let mut events = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let wrong = |e: serde_json::Error| format!("line {}: {e}", number + 1);
        let line: Line = serde_json::from_str(line).map_err(wrong)?;
        // Data may stand there as an object or, as it came over the wire, as a string.
        let data = match &line.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let Some(event) = Event::parse(&line.event, &data).map_err(wrong)? {
            events.push(Recorded { at_ms: line.at_ms, event });
        }
    }
    Ok(events)
}

/// Feeds a recording into a model, with the ticks that would have come between its events.
pub fn replay(model: &mut Model, events: &[Recorded]) {
    let Some(first) = events.first() else { return };
    let mut now = first.at_ms;
    model.update(Msg::Tick { now_ms: now });
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    for recorded in events {
        // A clock that was set in between must not be replayed tick by tick.
        let end = recorded.at_ms.min(now.saturating_add(600_000));
        while now + TICK_MS <= end {
            now += TICK_MS;
            model.update(Msg::Tick { now_ms: now });
        }
        model.update(Msg::Source(Update::Event(recorded.event.clone())));
    }
    now = now.max(events.last().map_or(now, |e| e.at_ms));
    model.update(Msg::Tick { now_ms: now });
}

/// One picture.
struct Shot {
    name: &'static str,
    theme: &'static str,
    size: (u16, u16),
    overlay: Option<Overlay>,
    /// Share of the recording that is replayed.
    until: f64,
}

fn shots() -> Vec<Shot> {
    let shot = |name, theme, size, overlay, until| Shot { name, theme, size, overlay, until };
    vec![
        shot("dashboard", "default-dark", (120, 36), None, 0.9),
        shot("dashboard-80x24", "default-dark", (80, 24), None, 0.9),
        shot("dashboard-light", "default-light", (120, 36), None, 0.9),
        shot("dashboard-colorblind", "colorblind", (120, 36), None, 0.9),
        shot("dashboard-mono", "mono", (80, 24), None, 0.9),
        shot("mode-menu", "default-dark", (100, 30), Some(Overlay::ModeMenu(2)), 0.6),
        shot("help", "default-dark", (100, 36), Some(Overlay::Help(0)), 0.6),
        shot("finished", "default-dark", (120, 36), None, 1.0),
    ]
}

/// Renders a model as an SVG picture.
pub fn render(model: &Model, title: &str) -> String {
    let area = Rect::new(0, 0, model.size.0, model.size.1);
    let mut buf = Buffer::empty(area);
    view::draw(model, area, &mut buf);
    let rgb = |role, default| color::rgb(model.look.theme.color(role)).unwrap_or(default);
    svg::render(&buf, rgb(Role::TextNormal, [0xd0; 3]), rgb(Role::SurfaceBase, [0x10; 3]), title)
}

/// Renders all pictures into a folder, from the recording in this repository.
pub fn run(dir: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, e: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("{}: {e} (run it in the repository's root)", path.display()))
    };
    let recording = Path::new(RECORDING);
    let text = fs::read_to_string(recording).map_err(|e| failed(recording, &e))?;
    let events = parse(&text).map_err(|e| failed(recording, &e))?;
    fs::create_dir_all(dir).map_err(|e| failed(dir, &e))?;
    for shot in shots() {
        let look = Look::new(Some(shot.theme), Depth::True, false).map_err(|e| Failure::new(Exit::Failed, e))?;
        let start = events.first().map_or(0, |e| e.at_ms);
        let mut model = Model::new("http://127.0.0.1:8080", look, start);
        model.update(Msg::Resize(shot.size.0, shot.size.1));
        let end = start + (events.last().map_or(0, |e| e.at_ms - start.min(e.at_ms)) as f64 * shot.until) as u64;
        let part: Vec<_> = events.iter().filter(|e| e.at_ms <= end).cloned().collect();
        replay(&mut model, &part);
        model.overlay = shot.overlay;
        let path = dir.join(format!("{}.svg", shot.name));
        fs::write(&path, render(&model, &format!("spectop: {}", shot.name))).map_err(|e| failed(&path, &e))?;
    }
    run_shots(dir)
}

/// The bench and compare screens of a run that was kept.
pub fn of_run(run: &Run, screen: Screen, size: (u16, u16)) -> Result<Model, String> {
    let look = Look::new(Some("default-dark"), Depth::True, false)?;
    let mut model = Model::new("http://127.0.0.1:8080", look, run.meta.started_ms);
    model.offer_runs();
    model.update(Msg::Resize(size.0, size.1));
    model.update(Msg::Source(Update::Connection(Connection::Connected { kind: ServerKind::Native })));
    let run = Box::new(run.clone());
    let plan = Box::new(run.plan.clone());
    let total = run.requests.len();
    model.update(Msg::Run(RunProgress::Planned { plan, total, estimate_s: None }));
    for record in &run.requests {
        model.update(Msg::Run(RunProgress::Done(Box::new(record.clone()))));
    }
    model.update(Msg::Tick { now_ms: run.meta.finished_ms.unwrap_or(run.meta.started_ms) });
    let file = Some(format!("{}.json", run.meta.id));
    model.update(Msg::Run(RunProgress::Ended { run, file }));
    model.toast = None;
    model.bench.pane = Pane::Results;
    model.screen = screen;
    Ok(model)
}

/// Pictures of the run in this repository, if there is a real one.
fn run_shots(dir: &Path) -> Result<(), Failure> {
    let path = Path::new(RUN);
    let wrong = |e: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("{}: {e}", path.display()));
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(wrong(&e)),
    };
    let run: Run = serde_json::from_str(&text).map_err(|e| wrong(&e))?;
    for (name, screen) in [("bench", Screen::Bench), ("compare", Screen::Compare)] {
        let model = of_run(&run, screen, (120, 36)).map_err(|e| wrong(&e))?;
        let file = dir.join(format!("{name}.svg"));
        fs::write(&file, render(&model, &format!("spectop: {name}"))).map_err(|e| wrong(&e))?;
    }
    super::bench::plots(&run, &dir.join("plots"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::{Lagged, Sample};

    #[test]
    fn recordings_are_read_line_by_line() {
        let sample = serde_json::to_string(&Sample::default()).expect("serialisable");
        let text = format!(
            "{{\"event\":\"lagged\",\"data\":{{\"dropped\":3}},\"at_ms\":5}}\n\n\
             {{\"event\":\"from-the-future\",\"data\":{{}},\"at_ms\":6}}\n\
             {{\"event\":\"sample\",\"data\":{},\"at_ms\":2000}}\n",
            Value::String(sample)
        );
        let events = parse(&text).expect("readable");
        assert_eq!(events[0], Recorded { at_ms: 5, event: Event::Lagged(Lagged { dropped: 3 }) });
        assert_eq!(events.len(), 2);
        let look = Look::new(None, Depth::True, false).expect("a look");
        let mut model = Model::new("x", look, 0);
        model.update(Msg::Resize(80, 24));
        replay(&mut model, &events);
        assert_eq!((model.now_ms, model.data.lagged), (2000, 3));
        assert!(render(&model, "t").contains("spectop") || render(&model, "t").contains("live"));
        assert!(parse("{\"event\":1}").expect_err("wrong").contains("line 1"));
    }
}
