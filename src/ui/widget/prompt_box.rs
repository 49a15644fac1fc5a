//! The prompt editor's box.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::theme::Role;

/// Draws the inside of the box.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let text_area =
        Rect { x: area.x + 1, width: area.width.saturating_sub(2), height: area.height.saturating_sub(1), ..area };
    // The cursor stands behind the last character, so a line may have one column less than the box.
    let (lines, cursor_row, cursor_column) = model.editor.layout(text_area.width.saturating_sub(1) as usize);
    let height = text_area.height.max(1) as usize;
    let top = (cursor_row + 1).saturating_sub(height);
    if model.editor.text().is_empty() {
        let mut row = Row::new(buf, text_area, 0);
        row.skip(1).put("ask the model something", dim);
    }
    for (i, line) in lines.iter().skip(top).take(height).enumerate() {
        Row::new(buf, text_area, i as u16).put(line, theme.style(Role::TextNormal));
    }
    let at = (text_area.x + cursor_column as u16, text_area.y + (cursor_row - top) as u16);
    if text_area.contains(at.into())
        && let Some(cell) = buf.cell_mut(at)
    {
        cell.modifier.insert(Modifier::REVERSED);
    }
    let mut row = Row::new(buf, area, area.height.saturating_sub(1));
    row.put(format!(" at most {} tokens (F2) · temperature {:.1} (F3)", model.max_tokens, model.temperature), dim);
    row.right(format!(" {} ", model.data.mode.map_or_else(|| "—".into(), |m| m.label())), dim);
}
