//! The tree of a round: candidates, the accepted path, what was pruned and why; round by round, live or frozen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::dashboard::stack;
use crate::protocol::mode::Mode;
use crate::protocol::trace::{Round, Token};
use crate::ui::app::Model;
use crate::ui::format::share;
use crate::ui::paint::{Row, border, inside, titles};
use crate::ui::playground::walk::chain_would_have;
use crate::ui::rounds::{Traced, ending};
use crate::ui::theme::Role;
use crate::ui::tree::{Fate, Id, Layout, by_depth, layout};
use crate::ui::widget::token_label::quoted;
use crate::ui::widget::{header, hint, step_panel, tree_view};

const EIGHTHS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The newest token before a round: the root of its tree.
fn seed(traced: &Traced, index: usize) -> Option<&Token> {
    match index.checked_sub(1) {
        Some(before) => traced.rounds[before].committed.last(),
        None if traced.rounds[0].step == 0 => traced.first.as_ref().map(|f| &f.0),
        None => None,
    }
}

/// Draws the screen without its footer.
pub fn draw(model: &Model, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let body = header::with_alerts(model, area, buf);
    let shown = model.tree_rounds().and_then(|t| model.walk.index(t).map(|i| (t, i)));
    let Some((traced, index)) = shown else {
        border(buf, body, theme, false);
        titles(buf, body, theme, false, "tree", "");
        empty(model, inside(body), buf);
        return;
    };
    let round = traced.rounds[index].as_ref();
    let below = 4;
    let boxes = stack(body, &[body.height.saturating_sub(below + 3), below]);
    let live = model.walk.at.is_none();
    for rect in [boxes[1], boxes[0]] {
        border(buf, rect, theme, rect == boxes[0] && !live);
    }
    let tree = layout(round, model.zoom);
    let seed = seed(traced, index);
    let over = tree_view::draw(buf, inside(boxes[0]), theme, (round, seed), &tree, model.walk.node);
    titles(
        buf,
        boxes[0],
        theme,
        !live,
        &step_panel::title(round, index, traced.rounds.len()),
        &note(model, traced, &tree, over),
    );
    titles(buf, boxes[1], theme, false, &detail_title(model, round, seed, &tree), "");
    detail(model, round, &tree, inside(boxes[1]), buf);
}

fn note(model: &Model, traced: &Traced, tree: &Layout, over: (usize, usize)) -> String {
    let mut parts = Vec::new();
    if over.0 > 0 {
        parts.push(format!("+{}↓", over.0));
    }
    if over.1 > 0 {
        parts.push(format!("+{}→", over.1));
    }
    if tree.hidden > 0 && model.zoom.least > 0.0 {
        parts.push(format!("{} branches < {} hidden", tree.hidden, share(model.zoom.least)));
    }
    parts.push(match (model.frozen.is_some(), model.walk.at) {
        (true, _) => "frozen".into(),
        (_, None) if traced.active() => "live".into(),
        (_, None) => "newest".into(),
        (_, Some(_)) if model.size.0 < 100 => "held".into(),
        (_, Some(_)) => "held · G newest".into(),
    });
    parts.join(" · ")
}

fn detail_title(model: &Model, round: &Round, seed: Option<&Token>, tree: &Layout) -> String {
    match model.walk.node.and_then(|i| tree.places.get(i)) {
        Some(place) => {
            let token = tree_view::token(round, seed, place.id).map_or_else(|| "—".into(), |t| quoted(t, 24));
            format!("node {token}")
        }
        None => "what came of it".into(),
    }
}

/// The selected node, nodes by depth, and what the chain alone would have got.
fn detail(model: &Model, round: &Round, tree: &Layout, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let (dim, normal, strong) =
        (theme.style(Role::TextDim), theme.style(Role::TextNormal), theme.style(Role::TextStrong));
    let mut row = Row::new(buf, area, 0);
    if let Some(place) = model.walk.node.and_then(|i| tree.places.get(i)) {
        row.put(format!(" {} ", place.fate.shape()), theme.style(tree_view::role(place.fate)));
        row.put(place.fate.explain(), normal);
        if let Some(p) = place.p {
            row.put("  p ", dim).put(share(p), strong);
            row.put("  along its path ", dim).put(small(place.path_p), strong);
        }
        row.put(format!("  depth {}", place.depth), dim);
        if let Id::Node(number) = place.id {
            row.put(format!("  node {number} of {}", round.proposed.len()), dim);
        }
    } else {
        row.put(" ■ ", strong).put(ending(round), normal);
        row.right(" ↑↓ a node ", dim);
    }
    let mut row = Row::new(buf, area, 1);
    let depths = by_depth(round);
    if depths.is_empty() {
        row.put(" nothing was drafted in this round", dim);
        if round.mode == Mode::Off {
            row.put_whole(" (plain decoding; t switches the server to trees)", dim);
        }
    } else {
        let most = depths.iter().map(|d| d.0).max().unwrap_or(1).max(1);
        row.put(" nodes by depth ", dim);
        for (nodes, accepted) in &depths {
            let level = (nodes * 8).div_ceil(most).clamp(1, 8) - 1;
            let style = theme.style(if *accepted { Role::TokenAccepted } else { Role::BorderIdle });
            row.put(EIGHTHS[level], style);
        }
        let numbers: Vec<String> =
            depths.iter().map(|(n, accepted)| if *accepted { format!("{n}●") } else { n.to_string() }).collect();
        row.put("  ", dim).put_whole(numbers.join(" "), normal).put_whole("  (● accepted there)", dim);
    }
    let mut row = Row::new(buf, area, 2);
    chain(model, round, &mut row);
    let mut row = Row::new(buf, area, 3);
    for fate in [Fate::Accepted, Fate::Bonus, Fate::Refused, Fate::Unreached, Fate::LeftOut] {
        let word = match fate {
            Fate::Accepted => "accepted",
            Fate::Bonus => "target's own",
            Fate::Refused => "refused",
            Fate::Unreached => "never reached",
            _ => "beyond the budget",
        };
        row.put_whole(format!(" {} ", fate.shape()), theme.style(tree_view::role(fate))).put_whole(word, dim);
    }
    row.put_whole("   number: draft probability", dim);
}

/// A product of probabilities, which is often too small for two digits.
fn small(p: f64) -> String {
    if p >= 0.01 || p == 0.0 { share(p) } else { format!("{p:.0e}") }
}

fn chain(model: &Model, round: &Round, row: &mut Row<'_>) {
    let theme = &model.look.theme;
    let (dim, strong) = (theme.style(Role::TextDim), theme.style(Role::TextStrong));
    let own = round.committed.len().saturating_sub(round.accepted_drafts);
    let got = round.committed.len();
    match round.mode {
        Mode::Off | Mode::Auto if round.proposed.is_empty() => {
            row.put(" one token in ", dim).put(crate::ui::format::ms(Some(round.stages.total())), strong);
        }
        Mode::Dflash => {
            row.put(" this round got ", dim).put(format!("{got} tokens"), strong).put("; it is a chain: no tree", dim);
        }
        Mode::Shadow => {
            row.put(" the chain got ", dim).put(format!("{got} tokens"), strong);
            let more = match round.shadow_hit {
                Some(true) => "; the tree, only watched here, would have got one more at least",
                Some(false) => "; the tree, only watched here, would have got no more",
                None => "",
            };
            row.put(more, dim);
        }
        _ => {
            let (chain, sure) = chain_would_have(round);
            row.put(" this tree got ", dim).put(format!("{} + {own} tokens", round.accepted_drafts), strong);
            row.put(if sure { " · the chain alone would have got " } else { " · the chain alone, at least " }, dim);
            row.put(format!("{chain} + {own}"), strong);
            let gain = round.accepted_drafts.saturating_sub(chain);
            if gain > 0 {
                row.put(format!("  ▲ {gain} more"), theme.style(Role::StateOk));
            }
        }
    }
}

fn empty(model: &Model, area: Rect, buf: &mut Buffer) {
    let lines = [
        ("No round to show yet.", Role::TextStrong),
        ("", Role::TextDim),
        ("2        write a prompt in the playground", Role::TextNormal),
        ("t        switch the server to DDTree: trees instead of chains", Role::TextNormal),
        ("h l      then walk through its rounds, ↑↓ through the nodes of a tree", Role::TextNormal),
    ];
    hint::draw(buf, area, &model.look.theme, 70, &lines);
}

/// What of it fits into little: the tree, and what the chain would have got.
pub fn compact(model: &Model, area: Rect, buf: &mut Buffer) {
    let shown = model.tree_rounds().and_then(|t| model.walk.index(t).map(|i| (t, i)));
    let Some((traced, index)) = shown else {
        Row::new(buf, area, 0).put(" no round yet", model.look.theme.style(Role::TextDim));
        return;
    };
    let round = traced.rounds[index].as_ref();
    let title = step_panel::title(round, index, traced.rounds.len());
    Row::new(buf, area, 0).put(format!(" {title}"), model.look.theme.style(Role::TextStrong));
    let mut row = Row::new(buf, area, 1);
    chain(model, round, &mut row);
    let rest = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area }.intersection(area);
    let tree = layout(round, model.zoom);
    tree_view::draw(buf, rest, &model.look.theme, (round, seed(traced, index)), &tree, model.walk.node);
}
