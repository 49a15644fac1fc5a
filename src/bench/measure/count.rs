//! Counting the tokens of an answer's pieces.

use super::Piece;
use crate::protocol::run::CountKind;

/// Tokens of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub tokens: usize,
    pub kind: CountKind,
    /// Tokens of each piece.
    pub by_piece: Vec<usize>,
}

/// Counts by the best that the server gave: ids, a running count, a total, or nothing.
pub(super) fn count(pieces: &[Piece], usage: Option<usize>) -> Counted {
    if pieces.iter().any(|piece| !piece.ids.is_empty()) {
        let by_piece: Vec<usize> = pieces.iter().map(|piece| piece.ids.len()).collect();
        return Counted { tokens: by_piece.iter().sum(), kind: CountKind::Exact, by_piece };
    }
    if !pieces.is_empty()
        && let Some(totals) = pieces.iter().map(|piece| piece.total).collect::<Option<Vec<u64>>>()
    {
        let mut before = 0;
        let mut by_piece = Vec::with_capacity(totals.len());
        for total in totals {
            by_piece.push(total.saturating_sub(before) as usize);
            before = before.max(total);
        }
        // A stop token without text comes with no piece: it counts, but when it came is not known.
        let tokens = usage.unwrap_or(0).max(before as usize);
        return Counted { tokens, kind: CountKind::Usage, by_piece };
    }
    match usage {
        Some(total) => Counted { tokens: total, kind: CountKind::Usage, by_piece: share(pieces, total) },
        None => Counted { tokens: pieces.len(), kind: CountKind::Estimated, by_piece: vec![1; pieces.len()] },
    }
}

/// Shares a total among pieces by their length: each gets at least one where there are enough, none is left over.
fn share(pieces: &[Piece], total: usize) -> Vec<usize> {
    if pieces.is_empty() {
        return Vec::new();
    }
    let least = usize::from(total >= pieces.len());
    let rest = total - least * pieces.len();
    let lengths: Vec<u128> = pieces.iter().map(|piece| piece.text.chars().count().max(1) as u128).collect();
    let sum: u128 = lengths.iter().sum();
    let mut shares: Vec<usize> = Vec::with_capacity(pieces.len());
    let (mut given, mut length) = (0, 0);
    for piece in lengths {
        // Rounding the running sum keeps every prefix right to within half a token.
        length += piece;
        let upto = ((2 * length * rest as u128 + sum) / (2 * sum)) as usize;
        shares.push(least + upto - given);
        given = upto;
    }
    shares
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn piece(text: &str) -> Piece {
        Piece { at: Instant::now(), text: text.into(), reasoning: false, ids: vec![], margins: vec![], total: None }
    }

    #[test]
    fn the_best_source_wins() {
        let mut pieces = vec![piece("a"), piece("bbbb"), piece("c")];
        let counted = count(&pieces, None);
        assert_eq!((counted.tokens, counted.kind), (3, CountKind::Estimated));
        let counted = count(&pieces, Some(9));
        assert_eq!((counted.tokens, counted.kind, counted.by_piece), (9, CountKind::Usage, vec![2, 5, 2]));
        for (piece, total) in pieces.iter_mut().zip([2, 7, 8]) {
            piece.total = Some(total);
        }
        let counted = count(&pieces, Some(9));
        assert_eq!((counted.tokens, counted.by_piece), (9, vec![2, 5, 1]));
        pieces[1].ids = vec![4, 5, 6];
        pieces[2].ids = vec![7];
        let counted = count(&pieces, Some(9));
        assert_eq!((counted.tokens, counted.kind, counted.by_piece), (4, CountKind::Exact, vec![0, 3, 1]));
        assert_eq!(count(&[], Some(3)).tokens, 3);
        assert_eq!(count(&[], None).tokens, 0);
    }

    #[test]
    fn shares_always_sum_up() {
        for total in 0..60 {
            for lengths in [vec![1], vec![1, 1, 1], vec![100, 1, 1, 7], vec![0, 0, 3], (1..20).collect()] {
                let pieces: Vec<Piece> = lengths.iter().map(|n| piece(&"ü".repeat(*n))).collect();
                let shares = share(&pieces, total);
                assert_eq!(shares.iter().sum::<usize>(), total, "{lengths:?}");
                assert!(total < pieces.len() || shares.iter().all(|n| *n > 0), "{shares:?}");
            }
        }
    }
}
