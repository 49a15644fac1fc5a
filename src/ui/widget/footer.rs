//! The last row: the keys that work here, or the latest message.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::action::{Action, Context};
use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::Role;

/// Draws the row.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let mut row = Row::new(buf, area, 0);
    if let Some(toast) = &model.toast {
        let message = format!(" {} ", toast.text);
        if text::width(&message) > row.left() && model.context() == Context::Dashboard && !model.log_big {
            let key = model.keys.label(Context::Dashboard, Action::LogSize);
            row.right(" in the log ", theme.style(Role::TextDim))
                .right(format!(" {key}"), theme.style(Role::TextStrong));
        }
        row.put(message, theme.banner(toast.role));
        return;
    }
    if let Some(pointed) = model.pointed.as_ref().filter(|_| model.overlay.is_none()) {
        row.put(format!(" {}", pointed.explain()), theme.style(Role::TextNormal));
        return;
    }
    let (key_style, word_style) = (theme.style(Role::TextStrong), theme.style(Role::TextDim));
    let context = model.context();
    let entries: Vec<_> = model
        .keys
        .working(context)
        .filter(|b| !b.footer.is_empty())
        .filter_map(|b| b.keys.first().map(|k| (b.action, k.label(), b.footer)))
        .collect();
    // Help and quit stay whatever the width.
    let (last, first): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(a, ..)| matches!(a, Action::Help | Action::Quit) && context.is_screen());
    for (_, key, word) in last.iter().rev() {
        if text::width(key) + text::width(word) + 3 <= row.left() {
            row.right(format!(" {word} "), word_style).right(key, key_style);
        }
    }
    row.skip(1);
    for (_, key, word) in first {
        if text::width(&key) + text::width(word) + 3 > row.left() {
            break;
        }
        row.put(key, key_style).put(format!(" {word}  "), word_style);
    }
}
