//! The mouse: tabs, focus, wheel, tokens.

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use spectop::ui::app::{Effect, Focus, Model, MouseMode, Msg, Overlay};
use spectop::ui::screen::Screen;
use spectop::ui::screen::dashboard::{areas, whole};

use crate::dashboard::{draw, text};
use crate::session;

fn mouse(model: &mut Model, kind: MouseEventKind, column: u16, row: u16) -> Vec<Effect> {
    model.update(Msg::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

fn click(model: &mut Model, column: u16, row: u16) {
    mouse(model, MouseEventKind::Down(MouseButton::Left), column, row);
}

fn playing() -> Model {
    let mut model = session::model("default-dark", 120, 36);
    session::play(&mut model, &session::host(), None);
    model
}

/// Where a text stands.
fn find(model: &Model, what: &str) -> (u16, u16) {
    let screen = text(&draw(model));
    let (row, line) = screen.lines().enumerate().find(|(_, l)| l.contains(what)).expect("it is there");
    let before = line.split(what).next().unwrap_or_default();
    (spectop::ui::text::width(before) as u16, row as u16)
}

#[test]
fn every_tab_can_be_clicked_at_any_width() {
    for columns in [80, 100, 120, 200] {
        for screen in Screen::ALL {
            let mut model = playing();
            model.update(Msg::Resize(columns, 36));
            let other = Screen::ALL.into_iter().find(|s| *s != screen).expect("more than one");
            model.screen = other;
            // Behind the state and in front of the address there are no digits but those of the tabs.
            let header = text(&draw(&model)).lines().next().unwrap_or_default().to_owned();
            let tabs = header.split("127").next().unwrap_or_default();
            let before = tabs.split(&model.tab_key(screen)).next().unwrap_or_default();
            assert!(before.len() < tabs.len(), "{tabs}");
            click(&mut model, spectop::ui::text::width(before) as u16, 0);
            assert_eq!(model.screen, screen, "{columns} columns");
        }
    }
    let mut model = playing();
    click(&mut model, 1, 0);
    click(&mut model, 119, 0);
    assert_eq!(model.screen, Screen::Dashboard, "the rest of the row does nothing");
}

#[test]
fn the_wheel_scrolls_the_panel_under_it() {
    let mut model = playing();
    let panels = areas(&model, whole(&model));
    mouse(&mut model, MouseEventKind::ScrollUp, panels.text.x + 3, panels.text.y + 3);
    assert_eq!((model.focus, model.text_scroll), (Focus::Text, 3));
    mouse(&mut model, MouseEventKind::ScrollDown, panels.text.x + 3, panels.text.y + 3);
    assert_eq!(model.text_scroll, 0);
    click(&mut model, panels.log.x + 3, panels.log.y + 1);
    assert_eq!(model.focus, Focus::Log);
    model.overlay = Some(Overlay::Palette(0));
    mouse(&mut model, MouseEventKind::ScrollDown, 0, 0);
    assert_eq!(model.overlay, Some(Overlay::Palette(1)), "a list goes by entries");
    model.overlay = Some(Overlay::Prompt);
    model.editor.insert("text");
    mouse(&mut model, MouseEventKind::ScrollUp, 0, 0);
    assert_eq!(model.editor.text(), "text", "the wheel does not walk the history of prompts");
}

#[test]
fn a_token_is_explained_when_it_is_clicked_or_hovered() {
    let mut model = playing();
    let (column, row) = find(&model, "every entry moves");
    click(&mut model, column, row);
    let screen = text(&draw(&model));
    assert!(
        screen.contains("round ") && (screen.contains("accepted drafts") || screen.contains("target's own")),
        "{screen}"
    );
    model.update(Msg::Key(KeyCode::Esc.into()));
    assert_eq!(model.pointed, None);
    mouse(&mut model, MouseEventKind::Moved, column, row);
    assert_eq!(model.pointed, None, "motion counts only when it was asked for");
    model.mouse = MouseMode::Hover;
    mouse(&mut model, MouseEventKind::Moved, column, row);
    assert!(model.pointed.is_some());
    mouse(&mut model, MouseEventKind::Moved, 0, 35);
    assert_eq!(model.pointed, None);
}

#[test]
fn the_mouse_is_switched_from_the_palette() {
    let mut model = playing();
    for (mode, word) in
        [(MouseMode::Hover, "under the pointer"), (MouseMode::Off, "mouse off"), (MouseMode::Clicks, "wheel")]
    {
        model.update(Msg::Key(KeyCode::Char(':').into()));
        model.update(Msg::Paste("mouse".into()));
        assert_eq!(model.update(Msg::Key(KeyCode::Enter.into())), [Effect::Mouse(mode)]);
        assert!(text(&draw(&model)).contains(word));
    }
}
