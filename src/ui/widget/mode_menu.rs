//! The mode menu.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::protocol::mode::{Mode, ModeRequest};
use crate::ui::action::{Action, Context};
use crate::ui::app::Model;
use crate::ui::paint::Row;
use crate::ui::theme::Role;

/// Columns and rows that the menu takes, borders included.
pub const SIZE: (u16, u16) = (64, 9);

fn explain(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "one token per target forward",
        Mode::Dflash => "one linear draft block per round",
        Mode::Ddtree => "a best-first draft tree per round",
        Mode::Shadow => "chain verified, tree only logged",
        Mode::Auto => "whatever pays here, round by round",
    }
}

/// Draws the inside of the menu.
pub fn draw(model: &Model, selected: usize, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    let offered = model.data.state.as_ref().map_or(&[][..], |s| &s.limits.modes);
    let in_force = model.switch.pending().or(model.data.mode);
    let actions = [Action::ModeOff, Action::ModeDflash, Action::ModeDdtree, Action::ModeShadow, Action::ModeAuto];
    for (i, (mode, act)) in Mode::ALL.into_iter().zip(actions).enumerate() {
        let key = model.keys.label(Context::ModeMenu, act);
        let now = in_force.is_some_and(|m| m.mode == mode);
        let label = in_force.map_or_else(|| mode.name().into(), |m| m.with(ModeRequest::mode(mode)).label());
        let can = offered.contains(&mode);
        let mut row = Row::new(buf, area, i as u16);
        let (mark, note) = (if now { "●" } else { " " }, if can { explain(mode) } else { "not on offer here" });
        if i == selected {
            let width = row.left();
            let line = format!(" {mark} {key}  {label:<14} {note}");
            row.put(format!("{line:<width$}"), theme.selection());
        } else {
            let style = if can { theme.style(Role::of_mode(mode)) } else { dim };
            row.put(format!(" {mark} {key}  "), theme.style(Role::TextStrong));
            row.put(format!("{label:<14} "), style).put(note, dim);
        }
    }
    if let Some(mode) = in_force {
        let mut row = Row::new(buf, area, 6);
        row.put(
            format!(
                " block size {} · tree budget {} · chain seed {}",
                mode.block_size,
                mode.tree_budget,
                if mode.chain_seed { "on" } else { "off" }
            ),
            dim,
        );
    }
}
