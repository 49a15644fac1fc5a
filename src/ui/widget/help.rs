//! The help overlay: the table of actions, and what the colours mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::ui::action::{Bound, Context};
use crate::ui::app::Model;
use crate::ui::filter;
use crate::ui::paint::Row;
use crate::ui::stream::Kind;
use crate::ui::text;
use crate::ui::theme::Role;
use crate::ui::widget::token_stream;

type Line = Vec<(String, Style)>;

/// Columns of the keys.
const KEYS: usize = 16;

/// What the colours and shapes of tokens mean.
fn legend(model: &Model) -> Vec<Line> {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let token = |kind| token_stream::style(theme, kind);
    vec![
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
    ]
}

/// All lines of the help, laid out for `columns`; of those with keys only what the filter leaves.
pub fn lines(model: &Model, columns: usize) -> Vec<Line> {
    let theme = &model.look.theme;
    let (dim, strong, normal) =
        (theme.style(Role::TextDim), theme.style(Role::TextStrong), theme.style(Role::TextNormal));
    let words = model.help_filter.words();
    let mut lines = if words.is_empty() { legend(model) } else { Vec::new() };
    // The screen that is shown comes first.
    let here = model.screen_context();
    for context in std::iter::once(here).chain(Context::ALL.into_iter().filter(|c| *c != here)) {
        let holds = |b: &&Bound| filter::holds(&format!("{} {} {}", b.description, b.action.name(), b.label()), &words);
        let mut bindings = model.keys.of(context).filter(holds).peekable();
        if bindings.peek().is_none() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        lines.push(vec![(format!(" {}", context.title()), strong)]);
        for binding in bindings {
            let keys = if binding.keys.is_empty() { "—".into() } else { binding.label() };
            let keys = format!("   {keys:<KEYS$} ");
            let indent = text::width(&keys);
            let room = columns.saturating_sub(indent).max(1);
            for (i, part) in text::wrap(binding.description, room).into_iter().enumerate() {
                let left = if i == 0 { keys.clone() } else { " ".repeat(indent) };
                lines.push(vec![(left, normal), (part, dim)]);
            }
        }
    }
    if lines.is_empty() {
        lines.push(vec![(" no key does that".into(), dim)]);
    }
    lines
}

/// Draws the lines from `skip` on.
pub fn draw(model: &Model, skip: usize, area: Rect, buf: &mut Buffer) {
    let lines = lines(model, area.width as usize);
    let skip = skip.min(lines.len().saturating_sub(area.height as usize));
    for (i, line) in lines.into_iter().skip(skip).take(area.height as usize).enumerate() {
        let mut row = Row::new(buf, area, i as u16);
        for (text, style) in line {
            row.put(text, style);
        }
    }
}
