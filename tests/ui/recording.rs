//! Recordings: what was shown is shown again, byte for byte, from whatever is left of the file.

use std::io::Write;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use spectop::cli::recorder::{Recorder, unpack};
use spectop::protocol::event::{Event, Lagged, RequestPhase};
use spectop::protocol::mode::{Mode, ModeChange};
use spectop::protocol::run::RunProgress;
use spectop::protocol::state::Readiness;
use spectop::ui::app::{Model, Msg};
use spectop::ui::record::{self, Header};
use spectop::ui::replay::{Player, Pressed, Recording};
use spectop::ui::screen::Screen;
use spectop::ui::view;

use crate::dashboard::draw;
use crate::session::{self, START_MS};
use crate::{sample, walk};

/// A model that writes down what it is told.
struct Recorded {
    model: Model,
    lines: String,
    begun: u64,
}

impl Recorded {
    fn new(columns: u16, rows: u16) -> Self {
        let model = session::model("default-dark", columns, rows);
        let header = Header::of(&model);
        Self { model, lines: header.line() + "\n", begun: header.at_ms }
    }

    fn tell(&mut self, at_ms: u64, msg: Msg) {
        self.lines += &record::line(at_ms - self.begun, &msg).expect("every message can be written");
        self.lines.push('\n');
        self.model.update(msg);
    }

    fn key(&mut self, at_ms: u64, code: KeyCode) {
        self.tell(at_ms, Msg::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
}

/// Everything that a model can be told, with times.
fn messages() -> Vec<(u64, Msg)> {
    // The messages of a session, taken from a model that is played to.
    let mut out = Vec::new();
    let rounds: Vec<_> = (0..40).map(|i| walk::tree("r1", i, " bird", START_MS + 100 + i * 40)).collect();
    out.push((0, Msg::Tick { now_ms: START_MS + 10 }));
    let connected = spectop::source::Connection::Connected { kind: spectop::source::ServerKind::Native };
    let source = |u| Msg::Source(u);
    let event = |e| source(spectop::source::Update::Event(e));
    out.push((5, source(spectop::source::Update::Connection(spectop::source::Connection::Connecting))));
    out.push((10, source(spectop::source::Update::Connection(connected))));
    out.push((11, event(Event::Hello(Box::new(session::state(Readiness::Ready, Some("toy pair")))))));
    out.push((12, Msg::LocalSensors(session::gpus(2))));
    out.push((90, event(Event::Request(session::request("r1", RequestPhase::Started, START_MS + 90)))));
    for (i, round) in rounds.into_iter().enumerate() {
        let at = 100 + i as u64 * 40;
        out.push((at, event(Event::Round(round))));
        if i % 5 == 0 {
            let sample = session::sample(START_MS + at, Mode::Ddtree, 0.3, session::host());
            out.push((at, event(Event::Sample(Box::new(sample)))));
            out.push((at, Msg::Tick { now_ms: START_MS + at }));
        }
    }
    let change = ModeChange { settings: session::settings(Mode::Dflash), effective_round: 9, at_ms: START_MS };
    out.push((1_800, event(Event::Mode(change))));
    out.push((1_810, event(Event::Lagged(Lagged { dropped: 3 }))));
    out.push((1_820, Msg::Paste("two\nlines 漢字".into())));
    out.push((1_830, Msg::Runs(Err("no folder".into()))));
    out.push((1_840, Msg::Planned(Err("no suites".into()))));
    let run = sample::run();
    out.push((1_850, Msg::RunLoaded(Ok(Box::new(run.clone())))));
    out.push((1_860, Msg::Run(RunProgress::Ended { run: Box::new(run), file: Some("x.json".into()) })));
    out.push((1_870, Msg::Exported(Ok("x.md".into()))));
    out.push((1_880, Msg::Recording(true)));
    out.push((1_890, Msg::Resize(100, 30)));
    out
}

fn session_of(columns: u16, rows: u16) -> Recorded {
    let mut recorded = Recorded::new(columns, rows);
    for (at, msg) in messages() {
        recorded.tell(START_MS + at, msg);
    }
    // What was pasted on the dashboard opened the prompt.
    recorded.key(START_MS + 1_950, KeyCode::Esc);
    for (i, key) in ['3', 'h', 'h', 'x'].into_iter().enumerate() {
        recorded.key(START_MS + 2_000 + i as u64 * 100, KeyCode::Char(key));
    }
    recorded.key(START_MS + 2_500, KeyCode::Down);
    recorded.tell(START_MS + 3_000, Msg::Tick { now_ms: START_MS + 3_000 });
    recorded
}

fn picture(player: &mut Player, size: (u16, u16)) -> Buffer {
    player.with_view(size, |model| {
        let area = Rect::new(0, 0, size.0, size.1);
        let mut buf = Buffer::empty(area);
        view::draw(model, area, &mut buf);
        buf
    })
}

#[test]
fn a_recording_ends_in_the_same_screen_byte_for_byte() {
    let recorded = session_of(120, 36);
    let recording = Recording::parse(recorded.lines.into_bytes()).expect("readable");
    assert_eq!(recording.cut, 0);
    let replayed = recording.model_at(u64::MAX).expect("a model");
    assert_eq!(draw(&replayed), draw(&recorded.model));
    assert_eq!((replayed.screen, replayed.size), (Screen::Tree, (100, 30)));
    let mut player = Player::new(recording, false).expect("playable");
    player.set_speed(16.0);
    for _ in 0..400 {
        player.pass(10.0);
    }
    assert!(player.ended() && player.unreadable == 0);
    assert_eq!(picture(&mut player, (100, 30)), draw(&recorded.model));
}

#[test]
fn ten_minutes_end_in_the_same_screen_too() {
    use spectop::protocol::event::Event;
    use spectop::protocol::mode::Mode;
    use spectop::source::Update;
    let mut recorded = Recorded::new(120, 36);
    for (at, msg) in messages() {
        recorded.tell(START_MS + at, msg);
    }
    recorded.key(START_MS + 1_950, KeyCode::Esc);
    for second in 2..600u64 {
        let now = START_MS + second * 1_000;
        for n in 0..4 {
            let round = walk::tree(&format!("r{}", second / 30), second * 4 + n, " bird", now + n * 250);
            recorded.tell(now + n * 250, Msg::Source(Update::Event(Event::Round(round))));
            let sample = session::sample(now + n * 250, Mode::Ddtree, n as f64 / 4.0, session::gpus(1));
            recorded.tell(now + n * 250, Msg::Source(Update::Event(Event::Sample(Box::new(sample)))));
            recorded.tell(now + n * 250, Msg::Tick { now_ms: now + n * 250 });
        }
        if second % 50 == 0 {
            recorded.key(now + 900, KeyCode::Tab);
        }
    }
    let recording = Recording::parse(recorded.lines.into_bytes()).expect("readable");
    assert!(recording.length_ms() > 599_000);
    let mut player = Player::new(recording, false).expect("playable");
    player.seek(u64::MAX);
    assert_eq!(picture(&mut player, recorded.model.size), draw(&recorded.model));
    player.seek(300_000);
    player.seek(u64::MAX);
    assert_eq!(picture(&mut player, recorded.model.size), draw(&recorded.model), "there and back");
}

#[test]
fn jumps_back_and_forth_lead_to_the_same_screens() {
    let recorded = session_of(120, 36);
    let recording = Recording::parse(recorded.lines.into_bytes()).expect("readable");
    let mut player = Player::new(recording.clone(), false).expect("playable");
    for to in [2_900, 400, 1_700, 0, 3_000, 2_050] {
        player.seek(to);
        let straight = recording.model_at(to).expect("a model");
        assert_eq!(picture(&mut player, straight.size), draw(&straight), "at {to}");
    }
}

#[test]
fn a_file_cut_anywhere_plays_up_to_its_last_whole_line() {
    let recorded = session_of(80, 24);
    let lines: Vec<&str> = recorded.lines.lines().collect();
    // As the recorder writes it: flushed now and then, so that each piece is there once it is flushed.
    let mut out = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("an encoder");
    let mut flushed = Vec::new();
    for (i, line) in lines.iter().take(60).enumerate() {
        writeln!(out, "{line}").expect("memory");
        if i % 3 == 0 {
            out.flush().expect("memory");
            flushed.push((out.get_ref().len(), i + 1));
        }
    }
    let file = out.finish().expect("memory");
    let whole: String = lines[..60].iter().flat_map(|l| [l, "\n"]).collect();
    for cut in 0..=file.len() {
        let text = unpack(&file[..cut]).expect("never an error");
        assert!(whole.as_bytes().starts_with(&text), "cut at {cut}");
        let least = flushed.iter().rev().find(|(bytes, _)| *bytes <= cut).map_or(0, |f| f.1);
        let got = text.split(|b| *b == b'\n').count() - 1;
        assert!(got >= least, "cut at {cut}: {got} lines, but {least} were flushed");
        match Recording::parse(text) {
            Ok(recording) => assert_eq!(recording.len() + 1, got),
            Err(why) => assert!(got == 0 && why.contains("empty"), "cut at {cut}: {why}"),
        }
    }
}

#[test]
fn the_recorder_keeps_what_it_was_told_and_overwrites_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.jsonl.zst");
    let mut recorder = Recorder::create(&path).expect("created");
    let model = session::model("mono", 80, 24);
    recorder.begin(&model).expect("written");
    for (at, msg) in messages() {
        recorder.write(START_MS + at, &msg).expect("written");
    }
    // Not finished, as after a crash: what is older than a second is there.
    let text = unpack(&std::fs::read(&path).expect("there")).expect("readable");
    let part = Recording::parse(text).expect("readable");
    assert!(part.length_ms() >= 800, "{}", part.length_ms());
    recorder.finish().expect("finished");
    let all = spectop::cli::recorder::read(&path).expect("readable");
    assert_eq!(all.len(), messages().len());
    assert!(Recorder::create(&path).is_err_and(|e| e.message.contains("choose another name")));
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    let error = |text: &str| Recording::parse(text.as_bytes().to_vec()).expect_err("wrong");
    assert!(error("").contains("empty"));
    assert!(error("hello\n").contains("no recording"));
    assert!(error("{\"event\":\"hello\"}\n").contains("no recording"));
    assert!(error("{\"spectop_recording\":99}\n").contains("update spectop"));
    let mut recorded = session_of(80, 24);
    recorded.lines +=
        "{\"at\":3100,\"is\":\"from-the-future\",\"data\":[1]}\n{\"at\":3200,\"is\":\"size\",\"data\":\"no\"}\n";
    recorded.lines += "{\"at\":3300,\"is\":\"tick\"";
    let recording = Recording::parse(recorded.lines.into_bytes()).expect("readable");
    assert_eq!(recording.cut, 22);
    let mut player = Player::new(recording, false).expect("playable");
    player.seek(u64::MAX);
    assert_eq!(player.unreadable, 1, "newer words are no damage");
}

#[test]
fn the_players_keys() {
    let recording = Recording::parse(session_of(120, 36).lines.into_bytes()).expect("readable");
    let mut player = Player::new(recording, false).expect("playable");
    let press = |player: &mut Player, c: char| player.key(&KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
    player.pass(1_000.0);
    press(&mut player, ' ');
    assert!(player.paused && !player.pass(500.0));
    press(&mut player, ' ');
    press(&mut player, '+');
    assert_eq!(player.speed(), 2.0);
    press(&mut player, '-');
    press(&mut player, '-');
    assert_eq!(player.speed(), 0.5);
    press(&mut player, ']');
    assert_eq!(player.place(), (3_000, 3_000));
    press(&mut player, '[');
    assert_eq!(player.place().0, 0);
    press(&mut player, 'L');
    player.seek(3_000);
    assert!(player.pass(100.0) && player.place().0 < 3_000, "it begins again");
    press(&mut player, 'g');
    assert_eq!(player.place().0, 0);
    // A screen of one's own lets it go on; any other key holds this moment.
    press(&mut player, '7');
    assert!(!player.exploring() && player.chosen() == Some(Screen::Log));
    player.seek(1_500);
    press(&mut player, '3');
    press(&mut player, 'h');
    assert!(player.exploring() && !player.pass(500.0));
    let held = player.with_view((120, 36), |model| model.walk.at);
    assert!(held.is_some());
    press(&mut player, ' ');
    assert!(!player.exploring() && player.pass(500.0));
    press(&mut player, '0');
    assert_eq!(player.chosen(), None);
    assert_eq!(press(&mut player, 'q'), Pressed::Quit);
}
