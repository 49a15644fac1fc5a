//! One round, position by position: what was drafted, what the target chose, why it ended.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::token_label::quoted;
use crate::protocol::trace::{Round, RoundEnd};
use crate::ui::app::Model;
use crate::ui::format::{ms, ms_bare, share};
use crate::ui::paint::Row;
use crate::ui::playground::walk::{Position, positions};
use crate::ui::rounds::ending;
use crate::ui::theme::{Role, Theme};

/// Title of a round: where it is, what it offered, what came of it.
pub fn title(round: &Round, index: usize, of: usize) -> String {
    let deepest = round.proposed.iter().map(|p| p.depth).max().unwrap_or(0);
    let mut title = format!("round {} of {of} · {}", index + 1, round.mode);
    if round.proposed.is_empty() {
        title.push_str(" · nothing drafted");
    } else {
        let nodes = round.proposed.len();
        title.push_str(&if nodes == deepest {
            format!(" · {nodes} drafted")
        } else {
            format!(" · {nodes} nodes, {deepest} deep")
        });
        let own = round.committed.len().saturating_sub(round.accepted_drafts);
        title.push_str(&format!(" · accepted {} + {own}", round.accepted_drafts));
    }
    title.push_str(&format!(" · {}", ms(Some(round.stages.total()))));
    title
}

fn p(logprob: f32) -> String {
    share(f64::from(logprob).exp())
}

/// Draws the inside of the panel.
pub fn draw(model: &Model, round: &Round, area: Rect, buf: &mut Buffer) {
    let theme = &model.look.theme;
    let dim = theme.style(Role::TextDim);
    if area.height == 0 {
        return;
    }
    let all = positions(round);
    let rows = area.height.saturating_sub(2) as usize;
    let token = ((area.width as usize).saturating_sub(30) / 3).clamp(8, 18);
    let mut row = Row::new(buf, area, 0);
    row.put(format!(" pos   {:<width$}    p   ", "drafted", width = token), dim);
    row.put(format!("{:<token$}  ", "target chose"), dim);
    row.put("also offered here", dim);
    // The turning point must be seen, and what led to it; what lies beyond is for the curious.
    let turn = all.iter().position(|p| p.taken != Some(true)).unwrap_or(all.len());
    let first = if all.len() > rows { (turn + 2).saturating_sub(rows).min(all.len() - rows) } else { 0 };
    for (line, position) in all.iter().skip(first).take(rows).enumerate() {
        position_row(buf, area, line as u16 + 1, theme, position, token);
    }
    let mut row = Row::new(buf, area, area.height - 1);
    let stages = round.stages;
    let times = format!(
        " draft {} build {} verify {} commit {} ms ",
        ms_bare(stages.draft),
        ms_bare(stages.build),
        ms_bare(stages.verify),
        ms_bare(stages.commit)
    );
    let why = why(round);
    if area.width as usize > times.len() + why.chars().count() + 4 {
        row.right(times, dim);
    }
    row.put(" ■ ", theme.style(Role::TextStrong)).put(why, theme.style(Role::TextNormal));
}

/// Why the round ended, with what it hung on.
fn why(round: &Round) -> String {
    if round.end != RoundEnd::Mismatch {
        return ending(round).to_owned();
    }
    let turning = positions(round).into_iter().find(|p| p.taken == Some(false));
    match (turning.and_then(|p| p.draft), round.shadow_hit) {
        (Some((_, draft)), hit) => {
            let saved = match hit {
                Some(true) => "; the tree had it",
                Some(false) => "; the tree did not have it",
                None => "",
            };
            let (drafted, chose) = (quoted(&draft.token, 14), quoted(&round.bonus, 14));
            format!("the target chose {chose} where {drafted} was drafted{saved}")
        }
        (None, _) => ending(round).to_owned(),
    }
}

fn position_row(buf: &mut Buffer, area: Rect, line: u16, theme: &Theme, position: &Position<'_>, token: usize) {
    let dim = theme.style(Role::TextDim);
    let mut row = Row::new(buf, area, line);
    row.put(format!(" {:>3} ", position.depth), dim);
    let (sign, role) = match position.taken {
        Some(true) => ("✓ ", Role::TokenAccepted),
        Some(false) => ("✗ ", Role::TokenRejected),
        None if position.draft.is_some() => ("○ ", Role::TextDim),
        None => ("  ", Role::TextDim),
    };
    let sign_role = if position.taken == Some(false) { Role::StateCrit } else { role };
    row.put(sign, theme.style(sign_role));
    match position.draft {
        Some((_, draft)) => {
            let label = quoted(&draft.token, token);
            let pad = token.saturating_sub(crate::ui::text::width(&label));
            row.put(label, theme.style(role)).skip(pad);
            row.put(format!("  {:>4}  ", p(draft.logprob)), theme.style(Role::TextNormal));
        }
        None => {
            row.put(format!("{:<token$}        ", "—"), dim);
        }
    }
    let target = match (position.target, position.taken) {
        (Some(target), taken) => {
            let role = if taken == Some(true) { Role::TokenAccepted } else { Role::TokenBonus };
            Some((quoted(target, token), role))
        }
        (None, None) if position.draft.is_some() => Some(("not asked".into(), Role::TextDim)),
        _ => None,
    };
    let (label, role) = target.unwrap_or_else(|| ("—".into(), Role::TextDim));
    let star = if role == Role::TokenBonus { "★ " } else { "  " };
    let pad = token.saturating_sub(crate::ui::text::width(&label));
    row.put(star, theme.style(role)).put(label, theme.style(role)).skip(pad + 2);
    for other in position.others.iter().take(6) {
        let chosen = position.taken == Some(false) && position.target.is_some_and(|t| t.id == other.token.id);
        let style = if chosen { theme.style(Role::TokenBonus) } else { dim };
        row.put_whole(format!("{} {}  ", quoted(&other.token, 12), p(other.logprob)), style);
    }
}
