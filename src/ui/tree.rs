//! A round's tree as rows and columns: who stands where, what became of it, and how it hangs together.
//!
//! The accepted path and the target's own token take the first row, whatever their probabilities: that is what one
//! looks for. Other branches follow by falling probability, each below its parent.

use crate::protocol::trace::{Proposed, Round};

use super::playground::walk::children;

/// Depth that is drawn at most, whatever a server claims.
const DEEPEST: usize = 512;

/// What stands in a place of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Id {
    /// The newest token before the round: the root.
    Seed,
    /// A proposed node by its number (from 1).
    Node(usize),
    /// A candidate that the budget left out, by its place in the list.
    LeftOut(usize),
    /// The target's own token.
    Bonus,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The root.
    Seed,
    /// The target took it.
    Accepted,
    /// The target's own token.
    Bonus,
    /// The target came by and chose something else.
    Refused,
    /// The target never came by: it turned away before.
    Unreached,
    /// Not verified: the budget went to heavier candidates.
    LeftOut,
}

impl Fate {
    /// The shape that says so without colour.
    pub fn shape(self) -> &'static str {
        match self {
            Fate::Seed => "◆",
            Fate::Accepted => "●",
            Fate::Bonus => "★",
            Fate::Refused => "✗",
            Fate::Unreached => "○",
            Fate::LeftOut => "·",
        }
    }

    /// In words.
    pub fn explain(self) -> &'static str {
        match self {
            Fate::Seed => "the newest token before this round",
            Fate::Accepted => "accepted: the target chose it too",
            Fate::Bonus => "the target's own token: it ends the round",
            Fate::Refused => "refused: the target chose something else here",
            Fate::Unreached => "never reached: the target had turned away before",
            Fate::LeftOut => "left out: the budget went to heavier candidates",
        }
    }
}

/// One place.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// What stands here.
    pub id: Id,
    /// What became of it.
    pub fate: Fate,
    /// Row, from 0.
    pub row: usize,
    /// Depth; 0 is the root.
    pub depth: usize,
    /// Row of the parent.
    pub parent_row: usize,
    /// True when another child of the same parent follows below.
    pub more: bool,
    /// Probability of the token at its slot; absent for the root and the target's token.
    pub p: Option<f64>,
    /// Product of the probabilities along the path.
    pub path_p: f64,
}

/// What of the tree is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zoom {
    /// Branches whose path has less probability are hidden.
    pub least: f64,
    /// Whether candidates that the budget left out are shown.
    pub left_out: bool,
}

impl Default for Zoom {
    fn default() -> Self {
        Self { least: 0.0, left_out: true }
    }
}

impl Zoom {
    /// Thresholds, in the order of their key.
    pub const LEAST: [f64; 4] = [0.0, 0.01, 0.05, 0.2];

    /// The next threshold.
    pub fn next(&mut self) {
        let at = Self::LEAST.iter().position(|l| *l == self.least).map_or(0, |i| i + 1);
        self.least = Self::LEAST[at % Self::LEAST.len()];
    }
}

/// The tree, laid out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layout {
    /// All places, a parent before its children, row by row.
    pub places: Vec<Place>,
    /// Rows.
    pub rows: usize,
    /// Nodes that the zoom hides.
    pub hidden: usize,
}

struct Builder<'a> {
    round: &'a Round,
    zoom: Zoom,
    /// The accepted path, the root included.
    path: Vec<usize>,
    out: Layout,
}

fn probability(proposed: &Proposed) -> f64 {
    let p = f64::from(proposed.logprob).exp();
    if p.is_finite() { p.clamp(0.0, 1.0) } else { 0.0 }
}

/// Lays a round's tree out.
pub fn layout(round: &Round, zoom: Zoom) -> Layout {
    let mut builder = Builder { round, zoom, path: path(round), out: Layout::default() };
    builder.out.places.push(Place {
        id: Id::Seed,
        fate: Fate::Seed,
        row: 0,
        depth: 0,
        parent_row: 0,
        more: false,
        p: None,
        path_p: 1.0,
    });
    builder.below(0, 0, 0, 1.0);
    builder.out.rows = builder.out.places.iter().map(|p| p.row + 1).max().unwrap_or(1);
    builder.out
}

/// The accepted path as far as it holds together.
fn path(round: &Round) -> Vec<usize> {
    let mut path = vec![0];
    for &number in round.accepted.iter().skip(1) {
        let last = path[path.len() - 1];
        match number.checked_sub(1).and_then(|i| round.proposed.get(i)) {
            Some(p) if p.parent == last && number > last => path.push(number),
            _ => break,
        }
    }
    path
}

impl Builder<'_> {
    /// Lays out what hangs below a node that stands in `row`; returns the rows taken.
    fn below(&mut self, node: usize, row: usize, depth: usize, path_p: f64) -> usize {
        if depth >= DEEPEST {
            return 1;
        }
        let on_path = self.path.contains(&node);
        let last = self.path.last() == Some(&node);
        let mut entries: Vec<(Id, Fate, Option<f64>)> = Vec::new();
        if last && self.round.committed.len() > self.round.accepted_drafts {
            entries.push((Id::Bonus, Fate::Bonus, None));
        }
        let mut nodes = children(self.round, node);
        nodes.sort_by_key(|(number, _)| !self.path.contains(number));
        for (number, proposed) in nodes {
            let fate = match () {
                () if self.path.contains(&number) => Fate::Accepted,
                () if on_path => Fate::Refused,
                () => Fate::Unreached,
            };
            entries.push((Id::Node(number), fate, Some(probability(proposed))));
        }
        if self.zoom.left_out {
            for (i, left) in self.round.left_out.iter().enumerate().filter(|(_, l)| l.parent == node) {
                entries.push((Id::LeftOut(i), Fate::LeftOut, Some(probability(left))));
            }
        }
        let before = entries.len();
        entries.retain(|(_, fate, p)| {
            matches!(fate, Fate::Accepted | Fate::Bonus) || path_p * p.unwrap_or(1.0) >= self.zoom.least
        });
        self.out.hidden += before - entries.len();
        let mut used = 0;
        let mut above: Option<usize> = None;
        for (id, fate, p) in entries {
            let here = row + used;
            let path_p = path_p * p.unwrap_or(1.0);
            if let Some(above) = above.replace(self.out.places.len()) {
                self.out.places[above].more = true;
            }
            self.out.places.push(Place {
                id,
                fate,
                row: here,
                depth: depth + 1,
                parent_row: row,
                more: false,
                p,
                path_p,
            });
            used += match id {
                Id::Node(number) => self.below(number, here, depth + 1, path_p),
                _ => 1,
            };
        }
        used.max(1)
    }
}

/// Nodes by depth, from depth 1: how many there are, and whether one of them was accepted.
pub fn by_depth(round: &Round) -> Vec<(usize, bool)> {
    let path = path(round);
    let deepest = round.proposed.iter().map(|p| p.depth).max().unwrap_or(0).min(DEEPEST);
    let mut all = vec![(0, false); deepest];
    for (i, proposed) in round.proposed.iter().enumerate() {
        if let Some(entry) = proposed.depth.checked_sub(1).and_then(|d| all.get_mut(d)) {
            entry.0 += 1;
            entry.1 |= path.contains(&(i + 1));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mode::Mode;
    use crate::protocol::state::StageTimes;
    use crate::protocol::trace::{RoundEnd, Token};

    fn round() -> Round {
        let node = |t: &str, p: f32, parent, depth| Proposed {
            token: Token::new(1, t.as_bytes()),
            logprob: p.ln(),
            parent,
            depth,
        };
        Round {
            request: "r".into(),
            round: 0,
            step: 0,
            mode: Mode::Ddtree,
            proposed: vec![
                node("a", 0.6, 0, 1),
                node("c", 0.7, 1, 2),
                node("b", 0.3, 0, 1),
                node("d", 0.4, 3, 2),
                node("e", 0.2, 1, 2),
            ],
            left_out: vec![node("x", 0.05, 1, 2)],
            accepted: vec![0, 3],
            bonus: Token::new(2, b"z"),
            committed: vec![Token::new(1, b"b"), Token::new(2, b"z")],
            accepted_drafts: 1,
            end: RoundEnd::Mismatch,
            shadow_hit: None,
            stages: StageTimes::default(),
            rows: 6,
            context: 9,
            at_ms: 0,
        }
    }

    fn told(layout: &Layout) -> Vec<(Id, &'static str, usize, usize, bool)> {
        layout.places.iter().map(|p| (p.id, p.fate.shape(), p.row, p.depth, p.more)).collect()
    }

    #[test]
    fn the_path_comes_first_and_everybody_has_a_fate() {
        // ◆ ● b ─ ★ z
        //   │     └ ✗ d
        //   └ ✗ a ─ ○ c
        //           ├ ○ e
        //           └ · x
        assert_eq!(
            told(&layout(&round(), Zoom::default())),
            [
                (Id::Seed, "◆", 0, 0, false),
                (Id::Node(3), "●", 0, 1, true),
                (Id::Bonus, "★", 0, 2, true),
                (Id::Node(4), "✗", 1, 2, false),
                (Id::Node(1), "✗", 2, 1, false),
                (Id::Node(2), "○", 2, 2, true),
                (Id::Node(5), "○", 3, 2, true),
                (Id::LeftOut(0), "·", 4, 2, false),
            ]
        );
    }

    #[test]
    fn zoom_hides_unlikely_branches_but_never_the_path() {
        let shown = layout(&round(), Zoom { least: 0.5, left_out: false });
        let ids: Vec<_> = shown.places.iter().map(|p| p.id).collect();
        assert_eq!(ids, [Id::Seed, Id::Node(3), Id::Bonus, Id::Node(1)]);
        assert_eq!(shown.hidden, 3);
        assert_eq!(by_depth(&round()), [(2, true), (3, false)]);
    }

    #[test]
    fn every_row_is_used_once_a_depth() {
        let shown = layout(&round(), Zoom::default());
        for (i, a) in shown.places.iter().enumerate() {
            assert!(shown.places[i + 1..].iter().all(|b| (a.row, a.depth) != (b.row, b.depth)));
        }
        assert_eq!(shown.rows, 5);
    }
}
