//! The help overlay: the table of actions, and what the colours mean.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::ui::action::{self, Context};
use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::stream::Kind;
use crate::ui::theme::Role;
use crate::ui::widget::token_stream;

type Line = Vec<(String, Style)>;

/// All lines of the help.
pub fn lines(model: &Model) -> Vec<Line> {
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
            (": the target's own token, ends a verify round".into(), dim),
        ],
        vec![
            (" │".into(), token(Kind::Boundary)),
            (" end of a verify round (with x)   ".into(), dim),
            ("plain".into(), token(Kind::Plain)),
            (" written without drafts".into(), dim),
        ],
    ];
    // The screen that is shown comes first.
    let here = model.screen_context();
    for context in std::iter::once(here).chain(Context::ALL.into_iter().filter(|c| *c != here)) {
        lines.push(Vec::new());
        lines.push(vec![(format!(" {}", context.title()), strong)]);
        for binding in action::of(context) {
            lines.push(vec![
                (format!("   {:<16}", action::keys_label(binding)), normal),
                (format!(" {}", binding.description), dim),
            ]);
        }
    }
    lines
}

/// Draws the lines from `skip` on.
pub fn draw(model: &Model, skip: usize, area: Rect, buf: &mut Buffer) {
    for (i, line) in lines(model).into_iter().skip(skip).take(area.height as usize).enumerate() {
        let mut row = Row::new(buf, area, i as u16);
        for (text, style) in line {
            row.put(text, style);
        }
    }
}
