//! The real binary in a real terminal: whatever happens to it, the terminal is left as it was.
#![cfg(unix)]

mod session;

use spectop::ui::action::{Context, Keymap};
use spectop::ui::screen::Screen;

use session::{NOBODY, Session};

#[test]
fn every_screen_is_shown_and_the_program_leaves() {
    let mut session = Session::new(&[]);
    session.start("--tiny");
    session.until_text("live");
    let keymap = Keymap::default();
    for screen in Screen::ALL.into_iter().rev() {
        let key = keymap.label(Context::Dashboard, screen.action());
        session.keys(&key);
        session.until_text(&format!(" {key} {} ", screen.name()));
    }
    session.keys("?");
    session.until_text("accepted drafts");
    session.keys("q");
    session.keys("q");
    assert_eq!(session.code(), "0");
}

#[test]
fn it_opens_and_leaves_without_a_server() {
    let mut session = Session::new(&[]);
    session.start(&format!("attach {NOBODY}"));
    session.until_text("server gone");
    session.keys("\u{3}");
    assert_eq!(session.code(), "0");
}

#[test]
fn a_storm_of_sizes_ends_in_a_whole_frame() {
    let mut session = Session::new(&[]);
    session.start(&format!("attach {NOBODY}"));
    let sizes =
        [(80, 24), (0, 0), (1, 1), (300, 100), (20, 5), (30, 6), (0, 24), (80, 0), (200, 60), (2, 90), (79, 23)];
    for round in 0..6 {
        for (columns, rows) in sizes {
            session.resize(columns, rows);
            if round % 2 == 0 {
                session.keys("7");
            }
        }
    }
    session.keys("1");
    session.resize(100, 30);
    session.until("a footer in the last row", |s| {
        let last = s.contents().lines().last().unwrap_or_default().to_owned();
        s.contents().lines().count() == 30 && last.contains("quit")
    });
    session.keys("q");
    assert_eq!(session.code(), "0");
}

#[test]
fn ctrl_z_gives_the_shell_its_terminal_and_fg_comes_back() {
    let mut session = Session::new(&[]);
    session.keys(&format!("\"$SPECTOP\" attach {NOBODY}; echo $? > code\n"));
    session.until("the dashboard", |s| s.alternate_screen() && s.contents().contains("quit"));
    for _ in 0..2 {
        session.keys("\u{1a}");
        session.until("the prompt", |s| !s.alternate_screen() && s.contents().trim_end().ends_with("ready>"));
        session.is_sane();
        session.keys("fg\n");
        session.until("the dashboard", |s| s.alternate_screen() && s.contents().contains("quit"));
    }
    session.keys("q");
    session.is_sane();
}

#[test]
fn signals_end_it_tidily() {
    for (signal, exit) in [("TERM", "130"), ("HUP", "130"), ("INT", "130")] {
        let mut session = Session::new(&[]);
        session.start(&format!("attach {NOBODY}"));
        session.signal(signal);
        assert_eq!(session.code(), exit, "{signal}");
        session.until_text(&format!("ended by SIG{signal}"));
    }
}

#[test]
fn a_panic_is_readable_on_the_main_screen() {
    let mut session = Session::new(&[]);
    session.start(&format!("--panic-on P attach {NOBODY}"));
    session.keys("P");
    assert_eq!(session.code(), "101");
    session.until_text("the panic that --panic-on asked for");
}

#[test]
fn a_locale_without_utf8_gets_ascii() {
    let mut session = Session::new(&[("LC_ALL", "C")]);
    session.start(&format!("attach {NOBODY}"));
    session.keys("7:");
    session.until_text("type to filter");
    session.escape("Esc close");
    session.keys("q");
    session.is_sane();
    assert!(session.bytes().is_ascii());
}

#[test]
fn no_color_means_none_and_sixteen_mean_the_terminals_own() {
    let mut session = Session::new(&[("NO_COLOR", "1")]);
    session.start(&format!("attach {NOBODY}"));
    session.screen(|s| {
        for row in 0..30 {
            for column in 0..100 {
                let cell = s.cell(row, column).expect("a cell");
                assert_eq!((cell.fgcolor(), cell.bgcolor()), (vt100::Color::Default, vt100::Color::Default));
            }
        }
    });
    session.keys("q");
    session.is_sane();
    let mut session = Session::new(&[("TERM", "linux")]);
    session.start(&format!("attach {NOBODY}"));
    session.screen(|s| {
        let cells = (0..3000u16).map(|i| s.cell(i / 100, i % 100).expect("a cell").fgcolor());
        let colors: Vec<_> = cells.filter(|c| *c != vt100::Color::Default).collect();
        assert!(!colors.is_empty() && colors.iter().all(|c| matches!(c, vt100::Color::Idx(0..=15))));
    });
    session.keys("q");
    session.is_sane();
}

#[test]
fn the_mouse_clicks_tabs_and_motion_is_not_reported() {
    let mut session = Session::new(&[]);
    session.start(&format!("attach {NOBODY}"));
    session.until_text("gone");
    let mode = session.screen(vt100::Screen::mouse_protocol_mode);
    assert_eq!(mode, vt100::MouseProtocolMode::PressRelease);
    let column = session.screen(|s| s.contents().lines().next().and_then(|l| l.find(" 7 ")).expect("a tab")) - 1;
    // The dot in front is one column and three bytes.
    session.keys(&format!("\u{1b}[<0;{column};1M\u{1b}[<0;{column};1m"));
    session.until_text("7 log");
    session.keys("q");
    assert_eq!(session.code(), "0");
    let mut session = Session::new(&[]);
    session.start(&format!("--mouse hover attach {NOBODY}"));
    assert_eq!(session.screen(vt100::Screen::mouse_protocol_mode), vt100::MouseProtocolMode::AnyMotion);
    session.keys("q");
    assert_eq!(session.code(), "0");
}

#[test]
fn a_paste_is_text_and_a_copy_goes_to_the_terminal() {
    let mut session = Session::new(&[]);
    session.start(&format!("attach {NOBODY}"));
    session.keys("\u{1b}[200~quit?\nnot sent\u{1b}[201~");
    session.until_text("not sent");
    session.escape("Esc close");
    session.keys("Y");
    session.until_text("went to the terminal's clipboard");
    let bytes = session.bytes();
    assert!(bytes.windows(7).any(|w| w == b"\x1b]52;c;"));
    session.keys("q");
    assert_eq!(session.code(), "0");
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_is_refused_in_words() {
    let mut session = Session::new(&[("TERM", "dumb")]);
    session.command(&format!("\"$SPECTOP\" attach {NOBODY}; echo code $?"));
    session.until_text("code 2");
    session.until_text("TERM is \"dumb\"");
    session.is_sane();
}

/// Only what must hold on any machine: the limits themselves are for `spectop bench-ui --gate` on a quiet one.
#[cfg(target_os = "linux")]
#[test]
fn what_the_dashboard_costs_is_measured() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_spectop"));
    command.args(["bench-ui", "--json", "--seconds", "2"]).env("SPECTOP_CONFIG", "/dev/null");
    let output = command.output().expect("starts");
    let told = String::from_utf8_lossy(&output.stderr);
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {told}"));
    for key in ["idle_cpu_percent", "stream_cpu_percent"] {
        assert!(figures[key].as_f64().is_some_and(|v| v >= 0.0), "{figures:#}");
    }
    for key in ["rss_mb", "first_frame_ms", "key_to_frame_p99_ms", "idle_bytes_per_s", "stream_bytes_per_s"] {
        assert!(figures[key].as_f64().is_some_and(|v| v > 0.0), "{figures:#}");
    }
    assert_eq!(figures["lagged_shown"], true, "lost events are told on the screen");
}
