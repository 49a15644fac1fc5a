//! A cursor over the rounds of a request, and what it stands on.

use crate::protocol::trace::{Proposed, Round, Token};
use crate::ui::rounds::Traced;

/// Nodes of a round that are walked through at most, whatever a server claims.
const MOST_NODES: usize = 2_048;

/// Which request is looked at, and which of its rounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// The request; none: the newest one.
    pub request: Option<String>,
    /// Index among the rounds that are kept; none: the newest round, live.
    pub at: Option<usize>,
    /// The node that is looked at in the tree.
    pub node: Option<usize>,
}

impl Walk {
    /// The index of the round that is shown.
    pub fn index(&self, traced: &Traced) -> Option<usize> {
        let last = traced.rounds.len().checked_sub(1)?;
        Some(self.at.map_or(last, |at| at.min(last)))
    }

    /// The round that is shown.
    pub fn round<'a>(&self, traced: &'a Traced) -> Option<&'a Round> {
        self.index(traced).map(|i| traced.rounds[i].as_ref())
    }

    /// Moves by so many rounds; at the end of a running request it becomes live again only when asked to.
    pub fn go(&mut self, traced: &Traced, by: isize) {
        if let Some(now) = self.index(traced) {
            let last = traced.rounds.len() - 1;
            self.at = Some(now.saturating_add_signed(by).min(last));
            self.node = None;
        }
    }
}

/// One position of a round: what was drafted there, and what the target chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Position<'a> {
    /// Depth, from 1.
    pub depth: usize,
    /// The draft on the path, with the number of its node; none where the path ended before.
    pub draft: Option<(usize, &'a Proposed)>,
    /// Whether the target took it; none where it was not asked.
    pub taken: Option<bool>,
    /// What the target chose here; none where it was not asked.
    pub target: Option<&'a Token>,
    /// Other candidates at the same place, most probable first.
    pub others: Vec<&'a Proposed>,
}

/// The positions of a round: the accepted path, then what was offered where the target turned away, then the rest of
/// the most probable continuation, which the target never saw.
pub fn positions(round: &Round) -> Vec<Position<'_>> {
    let node = |number: usize| number.checked_sub(1).and_then(|i| round.proposed.get(i));
    let mut all = Vec::new();
    let mut parent = 0;
    for &number in round.accepted.iter().skip(1) {
        let Some(draft) = node(number) else { break };
        all.push(Position {
            depth: all.len() + 1,
            draft: Some((number, draft)),
            taken: Some(true),
            target: Some(&draft.token),
            others: children(round, parent).into_iter().filter(|(n, _)| *n != number).map(|(_, p)| p).collect(),
        });
        parent = number;
    }
    // At a limit the bonus is not committed: then there is nothing that the target would have said.
    let said = (round.committed.len() > round.accepted_drafts).then_some(&round.bonus);
    let mut offered = children(round, parent).into_iter();
    let best = offered.next();
    if best.is_some() || said.is_some() {
        all.push(Position {
            depth: all.len() + 1,
            draft: best,
            taken: best.map(|_| false),
            target: said,
            others: offered.map(|(_, p)| p).collect(),
        });
    }
    let mut next = best;
    while let Some((number, _)) = next {
        let mut below = children(round, number).into_iter();
        next = below.next();
        if let Some(draft) = next {
            let depth = all.len() + 1;
            all.push(Position {
                depth,
                draft: Some(draft),
                taken: None,
                target: None,
                others: below.map(|(_, p)| p).collect(),
            });
        }
    }
    all
}

/// Children of a node with their numbers, most probable first. A parent comes before its children; what claims
/// otherwise is left out, so that no walk goes round in circles.
pub fn children(round: &Round, parent: usize) -> Vec<(usize, &Proposed)> {
    let of = |(i, p): (usize, &'_ Proposed)| p.parent == parent && parent < i + 1;
    let mut all: Vec<_> = round
        .proposed
        .iter()
        .take(MOST_NODES)
        .enumerate()
        .filter(|&(i, p)| of((i, p)))
        .map(|(i, p)| (i + 1, p))
        .collect();
    all.sort_by(|a, b| b.1.logprob.total_cmp(&a.1.logprob));
    all
}

/// How many drafts the most probable chain alone would have had accepted, and whether that is certain: a tree that does
/// not hold the whole chain leaves open how far it would have come.
pub fn chain_would_have(round: &Round) -> (usize, bool) {
    let mut parent = 0;
    let mut taken = 0;
    for &number in round.accepted.iter().skip(1) {
        match children(round, parent).first() {
            Some(&(best, _)) if best == number => taken += 1,
            _ => return (taken, true),
        }
        parent = number;
    }
    // The path is the chain. If the chain went on in the tree, the target refused it there, or took all of it.
    let deepest = round.proposed.iter().map(|p| p.depth).max().unwrap_or(0);
    (taken, !children(round, parent).is_empty() || taken >= deepest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::mode::Mode;
    use crate::protocol::state::StageTimes;
    use crate::protocol::trace::RoundEnd;

    /// seed ─ a .6 ─ c .7 ─ e .5
    ///      └ b .3 ─ d .4
    fn tree(accepted: &[usize], bonus: &str) -> Round {
        let token = |t: &str| Token::new(1, t.as_bytes());
        let node = |t: &str, p: f32, parent, depth| Proposed { token: token(t), logprob: p.ln(), parent, depth };
        let proposed = vec![
            node("a", 0.6, 0, 1),
            node("c", 0.7, 1, 2),
            node("e", 0.5, 2, 3),
            node("b", 0.3, 0, 1),
            node("d", 0.4, 4, 2),
        ];
        let drafts = accepted.len() - 1;
        let mut committed: Vec<Token> = accepted[1..].iter().map(|n| proposed[n - 1].token.clone()).collect();
        committed.push(token(bonus));
        Round {
            request: "r".into(),
            round: 0,
            step: 0,
            mode: Mode::Ddtree,
            proposed,
            left_out: Vec::new(),
            accepted: accepted.to_vec(),
            bonus: token(bonus),
            committed,
            accepted_drafts: drafts,
            end: RoundEnd::Mismatch,
            shadow_hit: None,
            stages: StageTimes::default(),
            rows: 6,
            context: 9,
            at_ms: 0,
        }
    }

    fn told(round: &Round) -> Vec<(String, Option<bool>, Option<String>, usize)> {
        let text = |t: &Token| t.text.clone().unwrap_or_default();
        positions(round)
            .iter()
            .map(|p| {
                let draft = p.draft.map_or_else(String::new, |(_, d)| text(&d.token));
                (draft, p.taken, p.target.map(text), p.others.len())
            })
            .collect()
    }

    #[test]
    fn a_path_its_turning_and_what_lay_beyond() {
        let s = |t: &str| Some(t.to_owned());
        assert_eq!(
            told(&tree(&[0, 1], "x")),
            [("a".into(), Some(true), s("a"), 1), ("c".into(), Some(false), s("x"), 0), ("e".into(), None, None, 0),]
        );
        assert_eq!(
            told(&tree(&[0, 4, 5], "y")),
            [
                ("b".into(), Some(true), s("b"), 1),
                ("d".into(), Some(true), s("d"), 0),
                (String::new(), None, s("y"), 0),
            ]
        );
    }

    #[test]
    fn the_chain_alone() {
        assert_eq!(chain_would_have(&tree(&[0, 1], "x")), (1, true));
        assert_eq!(chain_would_have(&tree(&[0, 4, 5], "x")), (0, true));
        assert_eq!(chain_would_have(&tree(&[0, 1, 2, 3], "x")), (3, true));
        let mut open = tree(&[0, 1], "x");
        open.proposed.truncate(1);
        open.proposed.push(Proposed { token: Token::new(3, b"q"), logprob: -3.0, parent: 0, depth: 1 });
        open.proposed.push(Proposed { token: Token::new(3, b"w"), logprob: -3.0, parent: 2, depth: 2 });
        assert_eq!(chain_would_have(&open), (1, false), "the tree ends where the chain would have gone on");
    }

    #[test]
    fn circles_are_not_walked() {
        let mut round = tree(&[0], "x");
        round.proposed[0].parent = 1;
        round.proposed[1].parent = 2;
        assert!(positions(&round).len() <= 6);
    }
}
