//! The formats to export a run in.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::run::library::ExportFormat;
use crate::ui::theme::Role;

/// Columns and rows that the menu takes, borders included.
pub const SIZE: (u16, u16) = (58, 6);

/// Draws the inside of the menu.
pub fn draw(model: &Model, selected: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    for (i, format) in ExportFormat::ALL.into_iter().enumerate() {
        let mut row = Row::new(buf, area, i as u16);
        let (ending, explain) = (format.ending(), format.explain());
        if i == selected.min(ExportFormat::ALL.len() - 1) {
            let width = row.left();
            row.put(format!("{:<width$}", format!(" ▸ {ending:<6} {explain}")), theme.selection());
        } else {
            row.put(format!("   {ending:<6} "), theme.style(Role::TextStrong));
            row.put(explain, theme.style(Role::TextDim));
        }
    }
}
