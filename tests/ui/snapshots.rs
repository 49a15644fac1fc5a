//! Every screen at three sizes in three themes, with its styles: what changes on a screen shows up in a review.

use std::collections::HashMap;
use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use spectop::ui::app::Model;
use spectop::ui::screen::Screen;

use crate::bless;
use crate::dashboard::{draw, text};
use crate::session;
use crate::sizes::normal;

const SIZES: [(u16, u16); 3] = [(60, 18), (80, 24), (120, 36)];
const THEMES: [&str; 3] = ["default-dark", "colorblind", "mono"];

fn color(color: Color) -> String {
    match color {
        Color::Reset => "-".into(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        other => format!("{other:?}"),
    }
}

fn modifiers(modifier: Modifier) -> String {
    let names: Vec<_> = modifier.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    if names.is_empty() { String::new() } else { format!(" {}", names.join("+")) }
}

/// The text, then a letter for the style of every cell, then what the letters stand for.
pub fn dump(buf: &Buffer) -> String {
    const LETTERS: &[u8] = b".abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut out = text(buf);
    let mut letters: HashMap<(Color, Color, Modifier), usize> = HashMap::new();
    let mut legend = String::new();
    out.push('\n');
    for y in 0..buf.area.height {
        for x in 0..buf.area.width {
            let cell = &buf[(x, y)];
            let next = letters.len();
            let at = *letters.entry((cell.fg, cell.bg, cell.modifier)).or_insert_with(|| {
                let letter = LETTERS.get(next).map_or('?', |l| *l as char);
                let (fg, bg) = (color(cell.fg), color(cell.bg));
                let _ = writeln!(legend, "{letter} {fg} on {bg}{}", modifiers(cell.modifier));
                next
            });
            out.push(LETTERS.get(at).map_or('?', |l| *l as char));
        }
        out.push('\n');
    }
    format!("{out}\n{legend}")
}

#[test]
fn every_screen_looks_as_it_did() {
    let mut stale = Vec::new();
    for screen in Screen::ALL {
        for theme in THEMES {
            for (columns, rows) in SIZES {
                let mut model: Model = normal(screen, columns, rows);
                model.look = session::look(theme);
                let name = format!("tests/snapshots/{}-{theme}-{columns}x{rows}.txt", screen.name());
                let wanted = dump(&draw(&model));
                if let Err(panic) = std::panic::catch_unwind(|| bless::whole(&name, &wanted)) {
                    stale.push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
                }
            }
        }
    }
    assert!(stale.is_empty(), "{} of the screens look different:\n{}", stale.len(), stale.join("\n"));
}

#[test]
fn a_dump_sees_colours_and_attributes() {
    let model = session::model("default-dark", 80, 24);
    let mut other = model.clone();
    other.look = session::look("nord");
    assert_ne!(dump(&draw(&model)), dump(&draw(&other)));
    assert_eq!(text(&draw(&model)), text(&draw(&other)));
}
