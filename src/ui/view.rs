//! The frame: which screen fits, what lies over it, and the footer. A pure function of the model and an area.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Clear, Widget};

use super::app::{Model, Overlay};
use super::ascii;
use super::paint::{self, Row};
use super::screen::{Screen, bench, compact, compare, dashboard, gpu, log, playground, race, tree};
use super::theme::Role;
use super::widget::{difference, export_menu, footer, help, mode_menu, palette, prompt_box, theme_list};

/// Draws the whole frame into `area`, whatever its size.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return;
    }
    let theme = &model.look.theme;
    buf.set_style(area, theme.base());
    let fits = |(columns, rows): (u16, u16)| area.width >= columns && area.height >= rows;
    if fits(compact::LEAST) {
        let screen = Rect { height: area.height - 1, ..area };
        if fits(dashboard::NORMAL) {
            match model.screen {
                Screen::Dashboard => dashboard::draw(model, screen, buf),
                Screen::Bench => bench::draw(model, screen, buf),
                Screen::Compare => compare::draw(model, screen, buf),
                Screen::Log => log::draw(model, screen, buf),
                Screen::Playground => playground::draw(model, screen, buf),
                Screen::Tree => tree::draw(model, screen, buf),
                Screen::Gpu => gpu::draw(model, screen, buf),
                Screen::Race => race::draw(model, screen, buf),
            }
        } else {
            compact::draw(model, screen, buf);
        }
        overlay(model, screen, buf);
        footer::draw(model, Rect { y: area.bottom() - 1, height: 1, ..area }, buf);
    } else {
        let (columns, rows) = compact::LEAST;
        let text = format!("needs {columns}×{rows}, has {}×{}", area.width, area.height);
        Row::new(buf, area, 0).put(text, theme.style(Role::StateWarn));
    }
    if model.look.ascii {
        ascii::flatten(buf, area);
    }
}

/// What is seen under all overlays, as text without its footer.
pub fn text(model: &Model) -> String {
    let mut bare = model.clone();
    (bare.overlay, bare.toast) = (None, None);
    let area = Rect::new(0, 0, model.size.0, model.size.1);
    let mut buf = Buffer::empty(area);
    draw(&bare, area, &mut buf);
    let mut out = String::new();
    for y in 0..area.height.saturating_sub(1) {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buf[(x, y)].symbol();
            skip = super::text::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn overlay(model: &Model, area: Rect, buf: &mut Buffer) {
    match &model.overlay {
        None => {}
        Some(Overlay::ModeMenu(selected)) => {
            let inside = popup(model, area, mode_menu::SIZE, "mode", "takes effect at the next round", buf);
            mode_menu::draw(model, *selected, inside, buf);
        }
        Some(Overlay::Prompt) => {
            let size = (area.width.saturating_sub(8).clamp(30, 110), (area.height / 2).clamp(6, 16));
            let inside = popup(model, area, size, "prompt", "Enter sends · Alt-Enter new line · Esc closes", buf);
            prompt_box::draw(model, inside, buf);
        }
        Some(Overlay::Help(skip)) => {
            let inside = popup(
                model,
                area,
                help_size(area),
                &format!("keys{}", model.help_filter.label()),
                "/ filter · Esc closes",
                buf,
            );
            help::draw(model, *skip, inside, buf);
        }
        Some(Overlay::Palette(selected)) => {
            let size = (area.width.saturating_sub(8).min(72), area.height.saturating_sub(2).min(18));
            let inside = popup(model, area, size, "command", "type to filter · Enter does it", buf);
            palette::draw(model, *selected, inside, buf);
        }
        Some(Overlay::Themes(selected, _)) => {
            let inside = popup(model, area, theme_list::size(model), "theme", "Enter keeps · Esc cancels", buf);
            theme_list::draw(model, *selected, inside, buf);
        }
        Some(Overlay::Export(selected)) => {
            let inside = popup(model, area, export_menu::SIZE, "export this run as", "Enter writes", buf);
            export_menu::draw(model, *selected, inside, buf);
        }
        Some(Overlay::Difference(at)) => {
            let size = (area.width.saturating_sub(4).min(130), area.height.saturating_sub(2).min(20));
            let inside = popup(model, area, size, "difference", "← → others · Esc closes", buf);
            difference::draw(model, *at, inside, buf);
        }
    }
}

fn help_size(area: Rect) -> (u16, u16) {
    (area.width.saturating_sub(4).min(90), area.height.saturating_sub(1))
}

/// How far the help can be scrolled.
pub fn help_overflow(model: &Model) -> usize {
    let area = Rect::new(0, 0, model.size.0, model.size.1.saturating_sub(1));
    let (columns, rows) = help_size(area);
    help::lines(model, columns.saturating_sub(2) as usize).len().saturating_sub(rows.saturating_sub(2) as usize)
}

/// A cleared box in the middle; returns its inside.
fn popup(model: &Model, area: Rect, size: (u16, u16), title: &str, note: &str, buf: &mut Buffer) -> Rect {
    let (width, height) = (size.0.min(area.width), size.1.min(area.height));
    let area = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    // A wide character that the box cuts in half would push the border aside.
    for y in area.top()..area.bottom() {
        if let Some(cell) = area.x.checked_sub(1).and_then(|x| buf.cell_mut((x, y)))
            && super::text::width(cell.symbol()) > 1
        {
            cell.set_symbol(" ");
        }
    }
    Clear.render(area, buf);
    buf.set_style(area, model.look.theme.popup());
    paint::border(buf, area, &model.look.theme, true);
    paint::titles(buf, area, &model.look.theme, true, title, note);
    paint::inside(area)
}
