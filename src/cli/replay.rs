//! `spectop replay`: a recording in the terminal, with keys to pause, jump, and look around.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event as TerminalEvent, EventStream};
use futures_util::StreamExt;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::screen_loop::{self, Signal, Signals, broken};
use super::{Exit, Failure, ScreenArgs, recorder};
use crate::ui::app::MouseMode;
use crate::ui::format::clock;
use crate::ui::paint::Row;
use crate::ui::replay::{Player, Pressed};
use crate::ui::terminal::{self, Terminal};
use crate::ui::theme::Role;
use crate::ui::view;

/// Options of `replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    /// The recording.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Begin at this second.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub from: f64,
    /// Times faster than it was (0.25 to 16).
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub speed: f64,
    /// Begin again at its end.
    #[arg(long = "loop")]
    pub looping: bool,
}

/// Plays the recording until the user leaves.
pub fn run(args: &ReplayArgs, screen: &ScreenArgs) -> Result<(), Failure> {
    screen_loop::check(screen)?;
    let recording = recorder::read(&args.file)?;
    let mut player = Player::new(recording, args.looping).map_err(|e| Failure::new(Exit::Usage, e))?;
    player.set_speed(args.speed);
    if args.from > 0.0 {
        player.seek((args.from * 1e3).min(1e15) as u64);
    }
    let look = screen_loop::look(screen)?;
    player.set_look(look, screen.theme.is_some());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let fps = screen.fps.max(1);
    let result = runtime.block_on(play(&mut player, fps));
    runtime.shutdown_background();
    result
}

async fn play(player: &mut Player, fps: u16) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|e| broken(&e))?;
    let mut terminal = Terminal::enter(MouseMode::Off).map_err(|e| broken(&e))?;
    let mut keys = EventStream::new();
    let mut ticks = interval(Duration::from_secs(1) / u32::from(fps));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    let mut dirty = true;
    loop {
        if dirty {
            if !terminal::is_ours() {
                return Err(Failure::new(Exit::Failed, "a part of the program panicked; its message is above"));
            }
            terminal.draw(|area, buf| frame(player, area, buf)).map_err(|e| broken(&e))?;
            dirty = false;
        }
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::Leave(name) => return Err(Failure::new(Exit::Interrupted, format!("ended by {name}"))),
                Signal::Continued => {
                    come_back(&mut terminal)?;
                    dirty = true;
                }
            },
            event = keys.next() => match event {
                Some(Ok(TerminalEvent::Key(key))) => {
                    match player.key(&key) {
                        Pressed::Taken => {}
                        Pressed::Quit => return Ok(()),
                        Pressed::Redraw => terminal.clear(),
                        Pressed::Suspend => {
                            terminal.leave();
                            terminal::stop_process();
                            come_back(&mut terminal)?;
                            last = Instant::now();
                        }
                    }
                    dirty = true;
                }
                Some(Ok(event)) => {
                    if matches!(event, TerminalEvent::Resize(..)) {
                        terminal.clear();
                    }
                    dirty = true;
                }
                Some(Err(e)) => return Err(broken(&e)),
                None => return Err(Failure::new(Exit::Interrupted, "the terminal was closed")),
            },
            now = ticks.tick() => {
                let passed = now.saturating_duration_since(last).as_secs_f64() * 1e3;
                last = now;
                // A process that was stopped must not jump ahead.
                dirty |= player.pass(passed.min(1_000.0));
            }
        }
    }
}

fn come_back(terminal: &mut Terminal) -> Result<(), Failure> {
    terminal.leave();
    terminal.reenter().map_err(|e| broken(&e))
}

/// The recorded screen, and the player's own row below it.
fn frame(player: &mut Player, area: Rect, buf: &mut Buffer) {
    let screen = Rect { height: area.height.saturating_sub(1), ..area };
    player.with_view((screen.width, screen.height), |model| view::draw(model, screen, buf));
    if area.height > 0 {
        bar(player, Rect { y: area.bottom() - 1, height: 1, ..area }, buf);
    }
}

fn bar(player: &Player, area: Rect, buf: &mut Buffer) {
    let theme = player.theme();
    let (dim, strong) = (theme.style(Role::TextDim), theme.style(Role::TextStrong));
    buf.set_style(area, theme.base());
    let (at, length) = player.place();
    let (word, role) = match () {
        () if player.exploring() => ("HELD", Role::StateWarn),
        () if player.ended() => ("END", Role::StateOk),
        () if player.paused => ("PAUSED", Role::StateWarn),
        () => ("REPLAY", Role::StateOk),
    };
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" {word} "), theme.banner(role));
    let speed = player.speed();
    let speed = if speed < 1.0 { format!("{speed}") } else { format!("{speed:.0}") };
    row.put(format!(" {} / {} ", clock(at as f64 / 1e3), clock(length as f64 / 1e3)), strong);
    row.put(format!("×{speed}{} ", if player.looping { " loop" } else { "" }), dim);
    if player.unreadable > 0 {
        row.put(format!("{} lines unreadable ", player.unreadable), theme.style(Role::StateWarn));
    }
    let hints: &[(&str, &str)] = if player.exploring() {
        &[("space", "go on"), ("0", "as recorded"), ("q", "quit")]
    } else {
        &[
            ("space", "pause"),
            ("[ ]", "10 s"),
            ("- +", "speed"),
            ("g", "start"),
            ("L", "loop"),
            ("1-8", "screen"),
            ("0", "as recorded"),
            ("q", "quit"),
        ]
    };
    for (key, what) in hints {
        if row.left() > key.len() + what.len() + 24 {
            row.put(format!(" {key}"), strong).put(format!(" {what} "), dim);
        }
    }
    let columns = row.left().saturating_sub(2);
    row.skip(1);
    let fraction = if length > 0 { at as f64 / length as f64 } else { 1.0 };
    crate::ui::paint::bar(&mut row, columns, fraction, theme.style(Role::SeriesB), theme.style(Role::BorderIdle));
}
