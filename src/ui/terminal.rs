//! Terminal control: entered once, left once, on whatever way the program ends.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::MouseMode;

/// Bytes collected before they are written: a frame goes out in one piece.
const BUFFER: usize = 64 * 1024;

/// True while the terminal is ours. Whoever turns it off has the duty to restore, so that it happens once.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Reports of buttons, of motion, and coordinates beyond column 223. Crossterm's own command would turn motion on too.
const BUTTONS: &str = "\x1b[?1000h\x1b[?1006h";
const MOTION: &str = "\x1b[?1003h";
const NO_MOUSE: &str = "\x1b[?1003l\x1b[?1000l\x1b[?1006l";

/// The terminal in our hands. Dropping it gives it back.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    mouse: MouseMode,
    /// What is on screen is not what was drawn last.
    stale: bool,
}

impl Terminal {
    /// Takes the terminal over: raw mode, alternate screen, bracketed paste, as much of the mouse as is asked for; and
    /// makes sure that a panic gives it back.
    pub fn enter(mouse: MouseMode) -> io::Result<Self> {
        restore_on_panic();
        take(mouse)?;
        let backend = CrosstermBackend::new(BufWriter::with_capacity(BUFFER, io::stdout()));
        match ratatui::Terminal::new(backend) {
            Ok(inner) => Ok(Self { inner, mouse, stale: false }),
            Err(e) => {
                restore();
                Err(e)
            }
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        self.inner.size().map(|s| (s.width, s.height))
    }

    /// Draws a frame in one piece: terminals that know synchronized updates never show half of it.
    pub fn draw(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        queue!(self.inner.backend_mut(), BeginSynchronizedUpdate)?;
        if std::mem::take(&mut self.stale) {
            // The library's own `clear` asks the terminal where the cursor is. The answer comes in with the keys, where
            // it is not waited for, and over a slow line it may not come at all.
            let size = self.inner.size()?;
            self.inner.resize(Rect::new(0, 0, size.width, size.height))?;
        }
        let drawn = self.inner.draw(|frame| view(frame.area(), frame.buffer_mut())).map(|_| ());
        execute!(self.inner.backend_mut(), EndSynchronizedUpdate)?;
        drawn
    }

    /// Forgets what is on screen: the next frame is drawn from nothing.
    pub fn clear(&mut self) {
        self.stale = true;
    }

    /// Gives the terminal back for a while.
    pub fn leave(&mut self) {
        // What is still collected belongs to our screen and must not come out after leaving it.
        let _ = self.inner.backend_mut().flush();
        restore();
    }

    /// Takes the terminal again after [`Terminal::leave`], or after someone else had it.
    pub fn reenter(&mut self) -> io::Result<()> {
        self.clear();
        take(self.mouse)
    }

    /// Has the terminal report this much of the mouse.
    pub fn report_mouse(&mut self, mouse: MouseMode) -> io::Result<()> {
        self.mouse = mouse;
        execute!(self.inner.backend_mut(), Print(NO_MOUSE), Print(reports(mouse)))
    }

    /// Puts a text into the clipboard of the terminal, which may be on another machine (OSC 52).
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        execute!(self.inner.backend_mut(), Print(format!("\x1b]52;c;{text}\x07")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

fn reports(mouse: MouseMode) -> String {
    match mouse {
        MouseMode::Off => String::new(),
        MouseMode::Clicks => BUTTONS.into(),
        MouseMode::Hover => format!("{BUTTONS}{MOTION}"),
    }
}

fn take(mouse: MouseMode) -> io::Result<()> {
    enable_raw_mode()?;
    ENTERED.store(true, Ordering::SeqCst);
    let mouse = Print(reports(mouse));
    let entered = execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, mouse, cursor::Hide);
    if entered.is_err() {
        restore();
    }
    entered
}

/// True while the terminal is in our hands; a panic anywhere gives it back.
pub fn is_ours() -> bool {
    ENTERED.load(Ordering::SeqCst)
}

/// Gives the terminal back if it is ours. Safe to call at any time, from any thread, any number of times.
pub fn restore() {
    if !ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    // Every step is tried even if one fails: a terminal that is gone refuses them all, and that is fine.
    let mut out = io::stdout();
    let _ = execute!(out, EndSynchronizedUpdate, Print(NO_MOUSE), DisableBracketedPaste);
    let _ = execute!(out, LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
    let _ = out.flush();
}

fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // First the terminal, then the message: on the alternate screen nobody would see it.
            restore();
            before(info);
        }));
    });
}

/// Stops the process as Ctrl-Z does; returns when it is continued.
#[cfg(unix)]
#[allow(unsafe_code)]
pub fn stop_process() {
    // SAFETY: `raise` takes no pointers. SIGTSTP has its default action here (nothing in this program handles it),
    // which stops the process and lets it go on behind this call.
    unsafe {
        libc::raise(libc::SIGTSTP);
    }
}

/// Not known on this system.
#[cfg(not(unix))]
pub fn stop_process() {}
