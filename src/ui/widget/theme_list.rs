//! The list of themes. The selected one is in force already: the screen behind is the preview.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::theme::Role;

/// Columns and rows that the list takes, borders included.
pub fn size(model: &Model) -> (u16, u16) {
    (40, (model.look.themes.len() as u16).saturating_add(2))
}

/// Draws the inside of the list; the selected entry is always in sight.
pub fn draw(model: &Model, selected: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let height = (area.height as usize).max(1);
    let themes = &model.look.themes;
    let selected = selected.min(themes.len() - 1);
    let top = (selected + 1).saturating_sub(height);
    for (i, name) in themes.names().enumerate().skip(top).take(height) {
        let mut row = Row::new(buf, area, (i - top) as u16);
        if i == selected {
            for role in [Role::ModeDflash, Role::ModeDdtree, Role::ModeShadow, Role::StateWarn, Role::StateCrit] {
                row.right("█", theme.style(role));
            }
            let width = row.left();
            row.put(format!("{:<width$}", format!(" ▸ {name}")), theme.selection());
        } else {
            row.put(format!("   {name}"), theme.style(Role::TextNormal));
        }
    }
}
