//! The bench screen: the plan, and the run with its results.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::dashboard::{split, stack};
use crate::ui::app::Model;
use crate::ui::paint::{Row, border, inside, titles};
use crate::ui::run::Pane;
use crate::ui::run::live::Live;
use crate::ui::theme::Role;
use crate::ui::widget::{header, plan_form, results, run_live};

/// From here on plan and results stand side by side.
const ROOMY: (u16, u16) = (120, 34);

/// A box to draw: where, whether it has the focus, its title and note.
type Panel = (Rect, bool, String, String);

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let body = header::with_alerts(model, area, buf);
    let roomy = body.width >= ROOMY.0 && body.height + 2 >= ROOMY.1;
    let focus_plan = !model.bench.running() && model.bench.pane == Pane::Plan;
    if roomy {
        let (left, right) = split(body, 34);
        let rows = stack(
            left,
            &[
                20.min(left.height.saturating_sub(7)),
                left.height.saturating_sub(3 + 20.min(left.height.saturating_sub(7))),
            ],
        );
        plan(model, rows[0], rows[1], focus_plan, buf);
        match &model.bench.live {
            Some(live) => run(model, live, right, !focus_plan, buf),
            None => nothing(model, right, buf),
        }
        return;
    }
    match &model.bench.live {
        Some(live) if !focus_plan => run(model, live, body, true, buf),
        None if !focus_plan => nothing(model, body, buf),
        _ => {
            let (left, right) = split(body, 58);
            plan(model, left, right, true, buf);
        }
    }
}

fn panels(model: &Model, panels: &[Panel], buf: &mut Buffer) {
    let theme = &model.look.theme;
    // The focused border goes last: it wins the edges that it shares.
    for focus in [false, true] {
        for (area, ..) in panels.iter().filter(|p| p.1 == focus) {
            border(buf, *area, theme, focus);
        }
    }
    for (area, focus, title, note) in panels {
        titles(buf, *area, theme, *focus, title, note);
    }
}

fn plan(model: &Model, form: Rect, about: Rect, focus: bool, buf: &mut Buffer) {
    let note = if model.bench.running() { "of the next run" } else { "" };
    let about_panel = (about, false, "about".to_owned(), String::new());
    panels(model, &[about_panel, (form, focus, "plan".into(), note.into())], buf);
    plan_form::draw(model, inside(form), buf, focus);
    plan_form::about(model, inside(about), buf);
}

fn nothing(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    panels(model, &[(area, false, "results".into(), String::new())], buf);
    let inside = inside(area);
    let lines = [
        "No run yet: s starts the plan, n only makes it.",
        "",
        "Every prompt is answered in every mode, in random order, after a warm-up. What counts is the",
        "ratio of decoding speeds prompt by prompt; \"faster\" and \"slower\" are said by its 95 % interval,",
        "never by the mean alone. At temperature 0 each answer is compared with the baseline's.",
    ];
    let text: Vec<String> = lines
        .iter()
        .flat_map(|l| {
            if l.is_empty() {
                vec![String::new()]
            } else {
                crate::ui::text::wrap(l, inside.width.saturating_sub(2) as usize)
            }
        })
        .collect();
    for (i, line) in text.into_iter().take(inside.height as usize).enumerate() {
        Row::new(buf, inside, i as u16).skip(1).put(line, theme.style(Role::TextDim));
    }
}

fn run(model: &Model, live: &Live, area: Rect, focus: bool, buf: &mut Buffer) {
    let theme = &model.look.theme;
    // Three boxes on top of each other share four horizontal borders.
    let content = area.height.saturating_sub(4);
    let more = (live.warnings.len() as u16).saturating_sub(1).min(content.saturating_sub(20) / 4);
    let progress = (run_live::PROGRESS + more).min(content);
    let most = content.saturating_sub(progress + 4);
    let table = (results::rows(&live.summary, &live.compare, most as usize) as u16).max(4).min(most);
    let rest = content.saturating_sub(progress + table);
    let rows = stack(area, &[progress, table, rest]);
    let (title, note) = run_live::titles(live, model.now_ms);
    let greedy = live.plan.as_ref().is_some_and(|p| p.temperature > 0.0);
    let plan = live.plan.as_ref().map_or_else(String::new, |p| {
        let unchecked = if greedy { " · outputs not checked above temperature 0" } else { "" };
        format!("{} repeats · at most {} tokens{unchecked}", p.repeats, p.max_tokens)
    });
    let scroll = if model.bench.scroll > 0 {
        format!("{} newer above · G newest", model.bench.scroll)
    } else {
        "newest first".into()
    };
    panels(
        model,
        &[
            (rows[0], false, title, note),
            (rows[1], false, "results".into(), plan),
            (rows[2], focus && model.bench.scroll > 0, "requests".into(), scroll),
        ],
        buf,
    );
    run_live::progress(model, live, inside(rows[0]), buf);
    results::draw(buf, inside(rows[1]), theme, &live.summary, &live.compare);
    run_live::requests(live, model.bench.scroll, inside(rows[2]), theme, buf);
}

/// The screen for small terminals: what matters, without boxes.
pub fn compact(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    match &model.bench.live {
        Some(live) if model.bench.running() || model.bench.pane == Pane::Results => {
            let (title, note) = run_live::titles(live, model.now_ms);
            Row::new(buf, area, 0)
                .put(format!(" {title}  "), theme.style(Role::TextStrong))
                .put(note, theme.style(Role::TextDim));
            let progress = Rect { y: area.y + 1, height: 3.min(area.height.saturating_sub(1)), ..area };
            run_live::progress(model, live, progress, buf);
            let table = Rect { y: area.y + 4, height: area.height.saturating_sub(4), ..area }.intersection(area);
            results::draw(buf, table, theme, &live.summary, &live.compare);
        }
        _ => {
            let mut form = area;
            if let Some(why) = model.no_run() {
                Row::new(buf, area, 0).skip(1).put(why, theme.style(Role::StateWarn));
                form = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
            }
            plan_form::draw(model, form, buf, true);
        }
    }
}
