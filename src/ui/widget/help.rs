//! The help overlay: the table of actions, and what the colours mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::ui::action::{self, Context};
use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::stream::Kind;
use crate::ui::text;
use crate::ui::theme::Role;
use crate::ui::widget::token_stream;

type Line = Vec<(String, Style)>;

/// Columns of the keys.
const KEYS: usize = 16;

/// All lines of the help, laid out for `columns`.
pub fn lines(model: &Model, columns: usize) -> Vec<Line> {
    let theme = &model.look.theme;
    let (dim, strong, normal) =
        (theme.style(Role::TextDim), theme.style(Role::TextStrong), theme.style(Role::TextNormal));
    let token = |kind| token_stream::style(theme, kind);
    let mut lines: Vec<Line> = vec![
        vec![
            (" accepted".into(), token(Kind::Accepted)),
            (" drafts  ".into(), dim),
            ("‹rejected›".into(), token(Kind::Rejected)),
            (" drafts  ".into(), dim),
            ("bonus".into(), token(Kind::Bonus)),
            (": the target's own token".into(), dim),
        ],
        vec![
            (" plain".into(), token(Kind::Plain)),
            (" written without drafts  ".into(), dim),
            ("│".into(), token(Kind::Boundary)),
            (" end of a verify round (after x)".into(), dim),
        ],
    ];
    for context in Context::ALL {
        lines.push(Vec::new());
        lines.push(vec![(format!(" {}", context.title()), strong)]);
        for binding in action::of(context) {
            let keys = format!("   {:<KEYS$} ", action::keys_label(binding));
            let indent = text::width(&keys);
            for (i, part) in
                text::wrap(binding.description, columns.saturating_sub(indent).max(1)).into_iter().enumerate()
            {
                let left = if i == 0 { keys.clone() } else { " ".repeat(indent) };
                lines.push(vec![(left, normal), (part, dim)]);
            }
        }
    }
    lines
}

/// Draws the lines from `skip` on.
pub fn draw(model: &Model, skip: usize, area: Rect, buf: &mut Buffer) {
    for (i, line) in lines(model, area.width as usize).into_iter().skip(skip).take(area.height as usize).enumerate() {
        let mut row = Row::new(buf, area, i as u16);
        for (text, style) in line {
            row.put(text, style);
        }
    }
}
