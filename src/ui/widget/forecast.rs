//! Why `auto` chooses what it chooses: the speed that it expects of each mode.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::event::Forecast;
use crate::protocol::mode::Mode;
use crate::ui::format::short;
use crate::ui::paint::Row;
use crate::ui::theme::{Role, Theme};

/// Draws one row: the modes with the tok/s that is expected of them, the chosen one marked.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, forecast: &Forecast) {
    if area.is_empty() {
        return;
    }
    let dim = theme.style(Role::TextDim);
    let modes =
        [(Mode::Off, forecast.off_tok_s), (Mode::Dflash, forecast.dflash_tok_s), (Mode::Ddtree, forecast.ddtree_tok_s)];
    let mut row = Row::new(buf, area, 0);
    row.put(" auto expects", dim);
    for (mode, tok_s) in modes {
        let chosen = mode == forecast.chosen;
        let style = if chosen { theme.style(Role::of_mode(mode)) } else { dim };
        let mark = if chosen { "▸" } else { " " };
        row.put(format!(" {mark}{mode} {}", short(Some(tok_s))), style);
    }
    row.put_whole(" tok/s", dim);
    if forecast.pause > 0 {
        row.put_whole(format!(" · drafts again in {} rounds", forecast.pause), dim);
    } else if forecast.chosen != Mode::Off {
        row.put_whole(format!(" · {} drafts", forecast.nodes), dim);
    }
}
