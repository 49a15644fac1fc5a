//! A shell in a terminal, and what is on its screen.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use spectop::cli::pty::Pty;
use tempfile::TempDir;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// An address where nobody listens.
pub const NOBODY: &str = "http://127.0.0.1:9";

/// A screen has at least one cell.
fn some(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap_or(NonZero::<u16>::MIN)
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

/// A shell, with job control, in whose terminal the program runs like for any user.
pub struct Session {
    pty: Pty,
    seen: Arc<Mutex<Seen>>,
    dir: TempDir,
    marks: usize,
}

impl Session {
    /// Starts a shell, with these variables beside the usual ones.
    pub fn new(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        // Shells with readline have a bracketed paste of their own, which is not what is looked at.
        let inputrc = dir.path().join("inputrc");
        fs::write(&inputrc, "set enable-bracketed-paste off\n").expect("written");
        let mut shell = Command::new("sh");
        shell.arg("-i").current_dir(dir.path()).env("INPUTRC", &inputrc).env("PS1", "ready> ");
        shell.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env("SPECTOP_CONFIG", "/dev/null");
        // A backtrace would push the message off the screen.
        shell.env("RUST_BACKTRACE", "0");
        shell.env("SPECTOP_STATE", dir.path()).env("SPECTOP", env!("CARGO_BIN_EXE_spectop")).env("HOME", dir.path());
        for name in ["ENV", "COLORTERM", "NO_COLOR", "SPECTOP_TARGET", "TMUX"] {
            shell.env_remove(name);
        }
        shell.envs(variables.iter().copied());
        let pty = Pty::spawn(shell, 100, 30).expect("a shell");
        let parser = vt100::Parser::new(some(30), some(100), 0);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        let (mut master, place) = (pty.master.try_clone().expect("a terminal"), Arc::clone(&seen));
        thread::spawn(move || {
            let mut buf = [0; 16 * 1024];
            while let Ok(n @ 1..) = master.read(&mut buf) {
                let mut seen = place.lock().expect("a screen");
                seen.parser.process(&buf[..n]);
                seen.bytes.extend_from_slice(&buf[..n]);
            }
        });
        let mut session = Self { pty, seen, dir, marks: 0 };
        session.until("the shell's prompt", |s| s.contents().contains("ready> "));
        session.command("stty -a > before");
        session
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("a screen")
    }

    /// Looks at the screen.
    pub fn screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen().parser.screen())
    }

    /// Every byte that came out so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen().bytes.clone()
    }

    /// Waits for something to be seen.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&vt100::Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !self.screen(&mut holds) {
            assert!(Instant::now() < end, "{what} was not seen; there is\n{}", self.screen(vt100::Screen::contents));
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for a text.
    pub fn until_text(&self, text: &str) {
        self.until(text, |s| s.contents().contains(text));
    }

    /// Presses keys.
    pub fn keys(&mut self, keys: &str) {
        self.pty.master.write_all(keys.as_bytes()).expect("written");
    }

    /// Presses Esc and waits until a text is gone: a key that followed at once would count as pressed with Alt.
    pub fn escape(&mut self, gone: &str) {
        self.keys("\u{1b}");
        self.until("the end of what Esc closes", |s| !s.contents().contains(gone));
    }

    /// Gives a command to the shell and waits for its end.
    pub fn command(&mut self, command: &str) {
        self.marks += 1;
        // The line that is echoed must not look like its own answer.
        self.keys(&format!("{command}; echo mark\"\"-{}-end\n", self.marks));
        let mark = format!("mark-{}-end", self.marks);
        self.until_text(&mark);
    }

    /// Starts the program; its exit code goes to the file `code`, its process id to `pid`.
    pub fn start(&mut self, arguments: &str) {
        self.keys(&format!("sh -c 'echo $$ > pid; exec \"$SPECTOP\" {arguments}'; echo $? > code\n"));
        self.until("the dashboard", |s| s.alternate_screen() && s.contents().contains("quit"));
    }

    /// Text of a file that a command wrote.
    pub fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Sends a signal to the program.
    pub fn signal(&self, name: &str) {
        let pid = self.file("pid");
        let sent = Command::new("kill").args(["-s", name, pid.trim()]).status();
        assert!(sent.is_ok_and(|s| s.success()), "{name} to {pid}");
    }

    /// Another size, seen by both sides.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.seen().parser.screen_mut().set_size(some(rows), some(columns));
        self.pty.resize(columns, rows).expect("resized");
    }

    /// The terminal is the shell's again, as it was: modes, screen, cursor, mouse, paste.
    pub fn is_sane(&mut self) {
        self.until("the main screen", |s| !s.alternate_screen());
        self.command("stty -a > after");
        let size = |text: &str| {
            // The first line has the size, which tests change.
            text.split_once(';')
                .map_or(String::new(), |(_, rest)| rest.split_once("line =").unwrap_or(("", rest)).1.into())
        };
        let (before, after): (String, String) = (size(&self.file("before")), size(&self.file("after")));
        assert!(!before.is_empty());
        assert_eq!(before, after, "modes of the terminal");
        self.screen(|s| {
            assert!(!s.hide_cursor(), "the cursor is hidden");
            assert!(!s.bracketed_paste(), "bracketed paste is on");
            assert_eq!(s.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        });
    }

    /// The exit code of the program.
    pub fn code(&mut self) -> String {
        self.is_sane();
        self.file("code").trim().to_owned()
    }
}
