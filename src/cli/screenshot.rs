//! Pictures for the README, from the program itself: a recorded session goes through the real update and view.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::png::Painter;
use super::{Exit, Failure, recorder};
use crate::bench::export::plot::plots;
use crate::protocol::run::{Run, RunProgress};
use crate::source::{Connection, ServerKind, Update};
use crate::ui::app::{Look, Model, Msg};
use crate::ui::color::{self, Depth};
use crate::ui::replay::Recording;
use crate::ui::run::Pane;
use crate::ui::screen::Screen;
use crate::ui::theme::Role;
use crate::ui::{svg, view};

/// A benchmark run, relative to the repository's root.
const RUN: &str = "tests/fixtures/run.json";
/// The recording, relative to the repository's root.
const RECORDING: &str = "tests/fixtures/session.jsonl.zst";

/// Where the run's charts lie among the pictures.
const PLOTS: &str = "plots";

/// Options of `screenshot`.
#[derive(Debug, Clone, Args)]
pub struct ScreenshotArgs {
    /// Folder to write to.
    #[arg(value_name = "DIR", default_value = "screenshots")]
    pub dir: PathBuf,
    /// Write nothing; exit code 5 when a picture is not what the program draws now.
    #[arg(long)]
    pub check: bool,
    /// A PNG beside every SVG, drawn with the fonts of this machine.
    #[arg(long, conflicts_with = "check")]
    pub png: bool,
    /// One picture of this recording instead: DIR is then the SVG file.
    #[arg(long, value_name = "FILE")]
    pub of: Option<PathBuf>,
    /// Second of the recording (default: its end).
    #[arg(long, value_name = "SECONDS", requires = "of")]
    pub at: Option<f64>,
    /// Keys to press then, e.g. `3hh`.
    #[arg(long, value_name = "KEYS", default_value = "", requires = "of")]
    pub keys: String,
    /// Columns and rows.
    #[arg(long, value_name = "CxR", default_value = "120x36", value_parser = size, requires = "of")]
    pub size: (u16, u16),
}

fn size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('x').and_then(|(c, r)| Some((c.parse().ok()?, r.parse().ok()?)));
    parsed
        .filter(|(c, r)| (1..=500).contains(c) && (1..=300).contains(r))
        .ok_or_else(|| "it must be like 120x36".into())
}

/// One picture of the recording.
struct Shot {
    name: &'static str,
    theme: &'static str,
    size: (u16, u16),
    /// Second of the recording.
    at: f64,
    /// Keys pressed on that moment. `¤` is the arrow down, `⇞` page up.
    keys: &'static str,
}

/// Moments of the recording, in seconds: what `scripts/record-session.py` is doing then.
mod moment {
    /// DDTree writes, after plain decoding and DFlash.
    pub const WRITING: f64 = 13.5;
    /// The answer is done.
    pub const DONE: f64 = 18.5;
    /// The playground holds three attempts at one prompt.
    pub const PLAYED: f64 = 32.5;
    /// The race is being replayed.
    pub const RACING: f64 = 36.7;
}

fn shots() -> Vec<Shot> {
    use moment::{DONE, PLAYED, RACING, WRITING};
    let shot = |name, theme, size, at, keys| Shot { name, theme, size, at, keys };
    vec![
        shot("dashboard", "default-dark", (120, 36), WRITING, "1"),
        shot("dashboard-80x24", "default-dark", (80, 24), WRITING, "1"),
        shot("dashboard-light", "default-light", (120, 36), WRITING, "1"),
        shot("dashboard-colorblind", "colorblind", (120, 36), WRITING, "1"),
        shot("dashboard-mono", "mono", (80, 24), WRITING, "1"),
        shot("mode-menu", "default-dark", (100, 30), WRITING, "1m"),
        shot("help", "default-dark", (100, 36), WRITING, "1?"),
        shot("finished", "default-dark", (120, 36), DONE, "1"),
        shot("playground", "default-dark", (120, 36), PLAYED, "2⇞⇞⇞hhhhhhh"),
        shot("playground-80x24", "default-dark", (80, 24), PLAYED, "2⇞⇞⇞hhhhhhh"),
        shot("tree", "default-dark", (120, 36), PLAYED, "2v⇞⇞⇞hhhhhhh¤¤"),
        shot("tree-80x24", "mono", (80, 24), PLAYED, "2v⇞⇞⇞hhhhhhh"),
        shot("race", "default-dark", (120, 36), RACING, "8"),
        shot("race-80x24", "default-dark", (80, 24), RACING, "8"),
        shot("gpu-none", "default-dark", (100, 30), RACING, "6"),
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

/// A moment of a recording at another size and with other colours, after some keys of one's own.
pub fn moment_of(
    recording: &Recording,
    at_s: f64,
    theme: Option<&str>,
    size: (u16, u16),
    keys: &str,
) -> Result<Model, String> {
    let mut model = recording.model_at((at_s.max(0.0) * 1e3).min(1e15) as u64)?;
    if let Some(theme) = theme {
        model.look = Look::new(Some(theme), Depth::True, false)?;
    }
    model.update(Msg::Resize(size.0, size.1));
    (model.toast, model.overlay) = (None, None);
    model.playground.editing = false;
    for key in keys.chars() {
        let code = match key {
            '¤' => KeyCode::Down,
            '⇞' => KeyCode::PageUp,
            c => KeyCode::Char(c),
        };
        model.update(Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
    Ok(model)
}

fn wrong(path: &Path, e: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {e} (run it in the repository's root)", path.display()))
}

/// Renders the pictures of this repository, or one of any recording.
pub fn run(args: &ScreenshotArgs, theme: Option<&str>) -> Result<(), Failure> {
    let painter = args.png.then(Painter::new).transpose()?;
    let keep = |path: &Path, picture: &str| -> Result<(), Failure> {
        fs::write(path, picture).map_err(|e| wrong(path, &e))?;
        painter.as_ref().map_or(Ok(()), |painter| painter.beside(path, picture))
    };
    if let Some(file) = &args.of {
        let recording = recorder::read(file)?;
        let model = moment_of(&recording, args.at.unwrap_or(1e12), theme, args.size, &args.keys)
            .map_err(|e| Failure::new(Exit::Usage, e))?;
        return keep(&args.dir, &render(&model, "spectop"));
    }
    let mut stale = Vec::new();
    if !args.check {
        let folder = args.dir.join(PLOTS);
        fs::create_dir_all(&folder).map_err(|e| wrong(&folder, &e))?;
    }
    for (name, picture) in pictures()? {
        let path = args.dir.join(format!("{name}.svg"));
        if args.check {
            if fs::read_to_string(&path).is_ok_and(|there| there == picture) {
                continue;
            }
            stale.push(path.display().to_string());
        } else {
            keep(&path, &picture)?;
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    let text = format!("not what the program draws now: {}; run `spectop screenshot`", stale.join(", "));
    Err(Failure::new(Exit::Gate, text))
}

/// All pictures of this repository, with their names.
fn pictures() -> Result<Vec<(String, String)>, Failure> {
    let mut all = Vec::new();
    let recording = recorder::read(Path::new(RECORDING))?;
    for shot in shots() {
        let model = moment_of(&recording, shot.at, Some(shot.theme), shot.size, shot.keys)
            .map_err(|e| Failure::new(Exit::Failed, e))?;
        all.push((shot.name.to_owned(), render(&model, &format!("spectop: {}", shot.name))));
    }
    all.extend(of_the_run()?);
    Ok(all)
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

/// The run in this repository, if there is one.
fn kept_run() -> Result<Option<Run>, Failure> {
    let path = Path::new(RUN);
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| wrong(path, &e)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(wrong(path, &e)),
    }
}

/// Its pictures: the screens, and the charts of its report.
fn of_the_run() -> Result<Vec<(String, String)>, Failure> {
    let Some(run) = kept_run()? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (name, screen) in [("bench", Screen::Bench), ("compare", Screen::Compare)] {
        let model = of_run(&run, screen, (120, 36)).map_err(|e| Failure::new(Exit::Failed, e))?;
        all.push((name.to_owned(), render(&model, &format!("spectop: {name}"))));
    }
    all.extend(plots(&run).iter().map(|plot| (format!("{PLOTS}/{}", plot.id), plot.standalone())));
    Ok(all)
}
