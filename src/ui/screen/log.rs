//! The log screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Level;
use crate::ui::app::Model;
use crate::ui::paint::{border, inside, titles};
use crate::ui::widget::{header, log_view};

/// Rows of lines at a height of the terminal: header, footer and borders taken away.
fn rows(model: &Model) -> usize {
    (model.size.1 as usize).saturating_sub(4 + header::alerts(model).len())
}

/// How far the log can be scrolled up.
pub fn overflow(model: &Model) -> usize {
    let columns = (model.size.0 as usize).saturating_sub(2);
    log_view::overflow(&model.log_lines(), columns, rows(model), true)
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
    titles(buf, body, theme, scrolled > 0, &format!("log · {what}{}", model.log_filter.label()), &note);
    lines(model, inside(body), buf);
}

/// Draws the lines alone.
pub fn lines(model: &Model, area: Rect, buf: &mut Buffer) {
    let lines = model.log_lines();
    let most = log_view::overflow(&lines, area.width as usize, area.height as usize, true);
    log_view::draw(buf, area, &model.look.theme, &lines, model.log_scroll.min(most), true);
}
