//! A tree in cells: one column a depth, one row a leaf, lines between a parent and its children.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::token_label::quoted;
use crate::protocol::trace::{Round, Token};
use crate::ui::format::share;
use crate::ui::paint::Row;
use crate::ui::text;
use crate::ui::theme::{Role, Theme};
use crate::ui::tree::{Fate, Id, Layout, Place};

/// Columns of the lines between two depths.
const LINES: usize = 4;
/// Most columns of a token, tried in turn until the tree fits.
const CAPS: [usize; 4] = [16, 12, 9, 7];

/// The role of a fate: colour beside its shape.
pub fn role(fate: Fate) -> Role {
    match fate {
        Fate::Accepted => Role::TokenAccepted,
        Fate::Bonus => Role::TokenBonus,
        Fate::Refused => Role::StateCrit,
        Fate::Unreached => Role::TextNormal,
        Fate::LeftOut => Role::TextDim,
        Fate::Seed => Role::TextStrong,
    }
}

/// The token of a place.
pub fn token<'a>(round: &'a Round, seed: Option<&'a Token>, id: Id) -> Option<&'a Token> {
    match id {
        Id::Seed => seed,
        Id::Node(number) => number.checked_sub(1).and_then(|i| round.proposed.get(i)).map(|p| &p.token),
        Id::LeftOut(i) => round.left_out.get(i).map(|p| &p.token),
        Id::Bonus => Some(&round.bonus),
    }
}

fn label(round: &Round, seed: Option<&Token>, place: &Place, cap: usize) -> String {
    let word = token(round, seed, place.id).map_or_else(|| "—".into(), |t| quoted(t, cap));
    let p = place.p.map_or_else(String::new, |p| format!(" {}", share(p)));
    format!("{} {word}{p}", place.fate.shape())
}

/// Where each depth begins, and how wide it is.
struct Columns {
    starts: Vec<usize>,
    cap: usize,
}

fn columns(round: &Round, seed: Option<&Token>, layout: &Layout, room: usize) -> Columns {
    let deepest = layout.places.iter().map(|p| p.depth).max().unwrap_or(0);
    let mut best = Columns { starts: Vec::new(), cap: CAPS[0] };
    for cap in CAPS {
        let mut widths = vec![0; deepest + 1];
        for place in &layout.places {
            widths[place.depth] = widths[place.depth].max(text::width(&label(round, seed, place, cap)));
        }
        let mut starts = Vec::with_capacity(widths.len());
        let mut x = 0;
        for width in &widths {
            starts.push(x);
            x += width + LINES;
        }
        best = Columns { starts, cap };
        if x <= room + LINES {
            break;
        }
    }
    best
}

fn put(buf: &mut Buffer, area: Rect, x: isize, y: isize, symbol: &str, style: Style) {
    if x < 0 || y < 0 || x >= area.width as isize || y >= area.height as isize {
        return;
    }
    if let Some(cell) = buf.cell_mut((area.x + x as u16, area.y + y as u16)) {
        cell.set_symbol(symbol).set_style(style);
    }
}

/// Draws the tree; `selected` is an index into its places, which is kept in sight. Returns how many rows and columns of
/// it lie outside.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    theme: &Theme,
    (round, seed): (&Round, Option<&Token>),
    layout: &Layout,
    selected: Option<usize>,
) -> (usize, usize) {
    let area = area.intersection(buf.area);
    if area.is_empty() || layout.places.is_empty() {
        return (0, 0);
    }
    let Columns { starts, cap } = columns(round, seed, layout, area.width as usize);
    let focus = selected.and_then(|i| layout.places.get(i));
    let height = area.height as usize;
    let top =
        focus.map_or(0, |p| (p.row + 1 + height / 4).saturating_sub(height)).min(layout.rows.saturating_sub(height));
    // Without a selection the end of the accepted path is what must be seen.
    let deepest =
        layout.places.iter().filter(|p| matches!(p.fate, Fate::Accepted | Fate::Bonus)).max_by_key(|p| p.depth);
    let seen = focus.or(deepest);
    let end_of = |p: &Place| starts[p.depth] + text::width(&label(round, seed, p, cap));
    let left = seen.map_or(0, |p| end_of(p).saturating_sub(area.width as usize));
    let line = theme.style(Role::BorderIdle);
    for (i, place) in layout.places.iter().enumerate() {
        let x = starts[place.depth] as isize - left as isize;
        let y = place.row as isize - top as isize;
        if place.depth > 0 {
            let join = x - LINES as isize + 1;
            let taken = matches!(place.fate, Fate::Accepted | Fate::Bonus);
            let style = if taken { theme.style(Role::TokenAccepted) } else { line };
            if place.row == place.parent_row {
                // The dash from the parent's label to the column of its children may be long.
                let from = parent_end(layout, i, round, seed, cap, &starts) as isize - left as isize;
                for x in from + 1..join {
                    put(buf, area, x, y, "─", style);
                }
                put(buf, area, join, y, if place.more { "┬" } else { "─" }, style);
            } else {
                for between in place.parent_row + 1..place.row {
                    let y = between as isize - top as isize;
                    if cell_is_free(buf, area, join, y) {
                        put(buf, area, join, y, "│", line);
                    }
                }
                put(buf, area, join, y, if place.more { "├" } else { "└" }, style);
            }
            put(buf, area, join + 1, y, "─", style);
        }
        if y < 0 || y >= height as isize || x >= area.width as isize {
            continue;
        }
        let words = label(round, seed, place, cap);
        let mut style = theme.style(role(place.fate));
        if place.fate == Fate::Accepted {
            style = style.add_modifier(Modifier::BOLD);
        }
        if selected == Some(i) {
            style = theme.selection().add_modifier(style.add_modifier.difference(Modifier::DIM));
        }
        if x >= 0 {
            let cell = Rect { x: area.x + x as u16, width: area.width - x as u16, y: area.y + y as u16, height: 1 };
            Row::new(buf, cell, 0).put(words, style);
        } else {
            let shown = text::tail(&words, (text::width(&words) as isize + x).max(0) as usize);
            Row::new(buf, Rect { y: area.y + y as u16, height: 1, ..area }, 0).put(shown, style);
        }
    }
    let width = layout.places.iter().map(end_of).max().unwrap_or(0);
    (layout.rows.saturating_sub(height), width.saturating_sub(area.width as usize))
}

fn cell_is_free(buf: &Buffer, area: Rect, x: isize, y: isize) -> bool {
    x >= 0
        && y >= 0
        && x < area.width as isize
        && y < area.height as isize
        && buf.cell((area.x + x as u16, area.y + y as u16)).is_some_and(|c| c.symbol() == " ")
}

/// Column behind the label of a place's parent, which stands in the same row.
fn parent_end(layout: &Layout, i: usize, round: &Round, seed: Option<&Token>, cap: usize, starts: &[usize]) -> usize {
    let place = &layout.places[i];
    let parent = layout.places[..i].iter().rev().find(|p| p.depth + 1 == place.depth && p.row == place.row);
    parent.map_or(starts[place.depth].saturating_sub(LINES), |p| {
        starts[p.depth] + text::width(&label(round, seed, p, cap))
    })
}
