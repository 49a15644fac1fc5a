//! A run under way: how far it is, what is sent, which guards tripped, and its last requests.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::results::role;
use crate::protocol::run::{Purpose, RequestStatus};
use crate::ui::app::Model;
use crate::ui::format::{self, clock, percent, short};
use crate::ui::paint::{Row, bar};
use crate::ui::run::live::{Brief, Live, Phase};
use crate::ui::text;
use crate::ui::theme::{Role, Theme};

/// Rows of the progress panel's inside at least.
pub const PROGRESS: u16 = 3;

/// Title of the progress panel: state, and time spent and left.
pub fn titles(live: &Live, now_ms: u64) -> (String, String) {
    let state = match &live.phase {
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Paused => "PAUSED",
        Phase::Complete => "complete",
        Phase::Stopped => "stopped, results kept",
        Phase::Failed(_) => "failed",
    };
    let spent = clock(live.elapsed_s(now_ms));
    let left = live.left_s(now_ms).map_or_else(String::new, |s| format!(" · about {} left", clock(s)));
    (format!("run · {state}"), format!("{spent} spent{left}"))
}

/// Draws the inside of the progress panel.
pub fn progress(model: &Model, live: &Live, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let normal = theme.style(Role::TextNormal);
    let mut row = Row::new(buf, area, 0);
    let failed = theme.style(if live.failed > 0 { Role::StateCrit } else { Role::TextDim });
    row.right(format!("{} failed ", format::count(live.failed as u64)), failed);
    row.right(format!(" {}/{} requests · ", live.done, live.total), normal);
    row.right(format!(" {:>5}", percent(Some(live.share() * 100.0))), theme.style(Role::TextStrong));
    row.skip(1);
    let columns = row.left();
    let ink = match live.phase {
        Phase::Failed(_) => Role::StateCrit,
        Phase::Paused | Phase::Stopped => Role::StateWarn,
        _ => Role::StateOk,
    };
    bar(&mut row, columns, live.share(), theme.style(ink), theme.style(Role::BorderIdle));
    let width = (area.width as usize).saturating_sub(2);
    let mut lines: Vec<(String, Role)> = Vec::new();
    match &live.phase {
        Phase::Starting => lines.push(("making the plan".into(), Role::TextNormal)),
        Phase::Running | Phase::Paused if live.what.is_empty() => {
            lines.push(("waiting for the first request".into(), Role::TextDim));
        }
        Phase::Running => lines.push((format!("now: {}", live.what), Role::TextNormal)),
        Phase::Paused => lines.push((format!("paused · space goes on · next: {}", live.what), Role::StateWarn)),
        Phase::Complete | Phase::Stopped => lines.push(match &live.file {
            Some(file) => {
                (format!("kept as {} · 5 compares", text::tail(file, width.saturating_sub(22))), Role::StateOk)
            }
            None => ("not written to a file".into(), Role::StateWarn),
        }),
        Phase::Failed(why) => {
            lines.extend(text::wrap(why, width).into_iter().map(|l| (l, Role::StateCrit)));
        }
    }
    let room = (area.height as usize).saturating_sub(1 + lines.len());
    guards(live, room, &mut lines);
    for (i, (line, role)) in lines.into_iter().enumerate() {
        Row::new(buf, area, i as u16 + 1).skip(1).put(line, theme.style(role));
    }
}

/// Warnings into so many rows; what does not fit is counted.
fn guards(live: &Live, room: usize, lines: &mut Vec<(String, Role)>) {
    if live.warnings.is_empty() {
        if !live.summary.is_empty() && !matches!(live.phase, Phase::Failed(_)) {
            lines.push(("✓ no guard has tripped".into(), Role::TextDim));
        }
        return;
    }
    for (i, warning) in live.warnings.iter().take(room).enumerate() {
        let more = live.warnings.len() - i - 1;
        let rest = if i + 1 == room && more > 0 { format!(" (and {more} more)") } else { String::new() };
        lines.push((format!("⚠{rest} {warning}"), Role::StateWarn));
    }
}

/// Draws the table of requests that ends `skip` requests before the newest, newest at the top.
pub fn requests(live: &Live, skip: usize, area: Rect, theme: &Theme, buf: &mut Buffer) {
    let dim = theme.style(Role::TextDim);
    if live.recent.is_empty() {
        Row::new(buf, area, 0).put(" none yet", dim);
        return;
    }
    let (wide, rep) = (area.width >= 74, area.width >= 90);
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" {:>5} ", "#"), dim);
    let name = (area.width as usize)
        .saturating_sub(if wide { 60 } else { 42 })
        .saturating_sub(if rep { 4 } else { 0 })
        .clamp(10, 40);
    row.put(format!("{:<name$} {:<12} ", "prompt", "mode"), dim);
    if wide {
        if rep {
            row.put("rep ", dim);
        }
        row.put(format!("{:>5} {:>9} ", "tok", "ttft"), dim);
    }
    row.put(format!("{:>7} {:>5}  equal", "tok/s", "τ"), dim);
    for (i, brief) in live.recent.iter().rev().skip(skip).take((area.height as usize).saturating_sub(1)).enumerate() {
        let row = Row::new(buf, area, i as u16 + 1);
        request(row, live, brief, (name, wide, rep), theme);
    }
}

fn request(mut row: Row<'_>, live: &Live, b: &Brief, (name, wide, rep): (usize, bool, bool), theme: &Theme) {
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let measured = b.purpose == Purpose::Measure;
    let value = if measured { normal } else { dim };
    row.put(format!(" {:>5} ", b.seq), dim);
    let turn = if b.turn > 0 { format!("#{}", b.turn + 1) } else { String::new() };
    let prompt = text::tail(&format!("{}/{}{turn}", b.suite, b.prompt), name);
    let room = name.saturating_sub(text::width(&prompt));
    row.put(prompt, value).put(" ".repeat(room + 1), dim);
    let mode: String = b.mode.chars().take(12).collect();
    row.put(format!("{mode:<12} "), theme.style(role(&b.mode)));
    match b.status {
        RequestStatus::Failed | RequestStatus::TimedOut => {
            let what = if b.status == RequestStatus::Failed { "failed" } else { "timed out" };
            let why = b.error.as_deref().map_or_else(|| what.into(), |e| format!("{what}: {e}"));
            row.put(why, theme.style(Role::StateCrit));
            return;
        }
        RequestStatus::Finished | RequestStatus::CutShort => {}
    }
    if wide {
        if rep {
            row.put(format!("{:>3} ", b.repeat + 1), value);
        }
        row.put(format!("{:>5} {:>9} ", b.tokens, format::ms(b.ttft_ms)), value);
    }
    row.put(format!("{:>7} {:>5}  ", short(b.decode_tok_s), short(b.tau)), value);
    let (word, role) = match (b.purpose, live.equal(b)) {
        (Purpose::Warmup, _) => ("warm-up", Role::TextDim),
        (Purpose::Bracket, _) => ("bracket", Role::TextDim),
        (_, None) => (format::ABSENT, Role::TextDim),
        (_, Some(true)) => ("✓", Role::StateOk),
        (_, Some(false)) => ("✗ diff", Role::StateCrit),
    };
    row.put(word, theme.style(role));
    if b.status == RequestStatus::CutShort {
        row.put_whole("  cut short", dim);
    }
}
