//! The command palette: everything that works on this screen, from the table of actions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::ui::action::{Action, Bound};
use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::theme::Role;

/// What the typed words leave, in table order.
pub fn entries(model: &Model) -> Vec<&Bound> {
    let typed = model.palette.text().to_lowercase();
    let words: Vec<&str> = typed.split_whitespace().collect();
    model
        .palette_bindings()
        .filter(|b| b.action != Action::Palette)
        .filter(|b| {
            let text = format!("{} {} {} {}", b.description, b.footer, b.action.name(), b.label()).to_lowercase();
            words.iter().all(|w| text.contains(w))
        })
        .collect()
}

/// Draws the inside of the box.
pub fn draw(model: &Model, selected: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal) = (theme.style(Role::TextDim), theme.style(Role::TextNormal));
    let (lines, _, column) = model.palette.layout(area.width.saturating_sub(5) as usize);
    let mut row = Row::new(buf, area, 0);
    row.put(" : ", theme.style(Role::TextStrong)).put(lines.first().map_or("", String::as_str), normal);
    let at = (area.x.saturating_add(3).saturating_add(column as u16), area.y);
    if area.contains(at.into())
        && let Some(cell) = buf.cell_mut(at)
    {
        cell.modifier.insert(Modifier::REVERSED);
    }
    let entries = entries(model);
    if entries.is_empty() {
        Row::new(buf, area, 2).put(" nothing here does that", dim);
        return;
    }
    let height = (area.height as usize).saturating_sub(2).max(1);
    let selected = selected.min(entries.len() - 1);
    let top = (selected + 1).saturating_sub(height);
    for (i, binding) in entries.iter().enumerate().skip(top).take(height) {
        let mut row = Row::new(buf, area, (i - top) as u16 + 2);
        let keys = binding.label();
        let keys = if keys.chars().count() > 14 { keys.split(' ').next().unwrap_or_default().to_owned() } else { keys };
        if i == selected {
            let width = row.left();
            row.put(format!("{:<width$}", format!(" {keys:<15} {}", binding.description)), theme.selection());
        } else {
            row.put(format!(" {keys:<15} "), theme.style(Role::TextStrong)).put(binding.description, normal);
        }
    }
}
