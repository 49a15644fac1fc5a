//! The log screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Level;
use crate::ui::app::Model;
use crate::ui::paint::{Row, border, inside, titles};
use crate::ui::theme::Role;
use crate::ui::widget::{header, log_view};

/// Rows of lines at a height of the terminal: header, footer and borders taken away.
fn rows(model: &Model) -> usize {
    (model.size.1 as usize).saturating_sub(4 + header::alerts(model).len())
}

/// How far the log can be scrolled up.
pub fn overflow(model: &Model) -> usize {
    model.shown().log.count(model.log_level).saturating_sub(rows(model))
}

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let body = header::with_alerts(model, area, buf);
    let scrolled = model.log_scroll.min(overflow(model));
    let what = match model.log_level {
        Level::Info => "all lines",
        Level::Warn => "warnings and errors",
        Level::Error => "errors",
    };
    let note =
        if scrolled > 0 { format!("{scrolled} newer below · G newest") } else { "newest at the end · UTC".into() };
    border(buf, body, theme, scrolled > 0);
    titles(buf, body, theme, scrolled > 0, &format!("log · {what}"), &note);
    lines(model, inside(body), buf);
}

/// Draws the lines alone.
pub fn lines(model: &Model, area: Rect, buf: &mut Buffer) {
    let log = &model.shown().log;
    let most = log.count(model.log_level).saturating_sub(area.height as usize);
    let lines = log.window_of(model.log_level, area.height as usize, model.log_scroll.min(most));
    if lines.is_empty() {
        Row::new(buf, area, 0).put(" no such lines yet", model.look.theme.style(Role::TextDim));
        return;
    }
    log_view::lines(buf, area, &model.look.theme, lines.into_iter());
}
