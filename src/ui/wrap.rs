//! From a stream to rows of cells: wrapping by display width, at spaces where there are any.

use super::stream::{Kind, Piece, Stream};
use super::text;

/// Columns between tab stops.
const TAB: usize = 4;
/// Characters that one cell may collect from lone combining marks.
const MARKS: usize = 10;

/// Which rejected drafts are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rejects {
    /// Those of the last round.
    #[default]
    LastRound,
    /// Those of every round, in place.
    Inline,
    /// None, and no marks either: the text alone.
    Clean,
}

impl Rejects {
    /// The next choice.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Rejects::LastRound => Rejects::Inline,
            Rejects::Inline => Rejects::Clean,
            Rejects::Clean => Rejects::LastRound,
        }
    }

    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Rejects::LastRound => "rejects: last round",
            Rejects::Inline => "rejects and round ends: everywhere",
            Rejects::Clean => "clean text",
        }
    }
}

/// One grapheme of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What is written.
    pub symbol: String,
    /// Columns.
    pub width: usize,
    /// What it is.
    pub kind: Kind,
    /// Round of the request that it belongs to.
    pub step: u64,
}

fn shown(piece: &Piece, rejects: Rejects, last_step: u64) -> bool {
    match rejects {
        Rejects::Inline => true,
        // The bonus token ends each round and says so by its shape; marks between all rounds would only tear words apart.
        Rejects::LastRound => match piece.kind {
            Kind::Boundary => false,
            Kind::Rejected => piece.step == last_step,
            _ => true,
        },
        Rejects::Clean => !piece.mark && piece.kind != Kind::Rejected,
    }
}

fn cells(line: &[Piece], rejects: Rejects, last_step: u64) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut column = 0;
    for piece in line.iter().filter(|p| shown(p, rejects, last_step)) {
        for (symbol, width) in text::cells(&piece.text) {
            if symbol == "␉" && piece.text.contains('\t') {
                let stop = TAB - column % TAB;
                cells.extend((0..stop).map(|_| Cell {
                    symbol: " ".into(),
                    width: 1,
                    kind: piece.kind,
                    step: piece.step,
                }));
                column += stop;
            } else if width > 0 {
                cells.push(Cell { symbol: symbol.into_owned(), width, kind: piece.kind, step: piece.step });
                column += width;
            } else if let Some(before) = cells.last_mut() {
                // A combining mark that came as a token of its own. Joiners are dropped: they would merge neighbours
                // into something of another width.
                let joined = format!("{}{symbol}", before.symbol);
                if !symbol.contains('\u{200d}')
                    && joined.chars().count() <= MARKS
                    && text::width(&joined) == before.width
                {
                    before.symbol = joined;
                }
            }
        }
    }
    cells
}

/// Rows of one line; an empty line is one empty row.
pub fn rows(line: &[Piece], columns: usize, rejects: Rejects, last_step: u64) -> Vec<Vec<Cell>> {
    let columns = columns.max(1);
    let mut rows = Vec::new();
    let mut row: Vec<Cell> = Vec::new();
    let mut used = 0;
    for mut cell in cells(line, rejects, last_step) {
        if cell.width > columns {
            cell = Cell { symbol: "…".into(), width: 1, ..cell };
        }
        if used + cell.width > columns {
            let space = row.iter().rposition(|c| c.symbol == " ");
            // Indentation is no place to break, nor is the space that would leave nothing in front of it.
            let cut = match space {
                Some(at) if cell.symbol != " " && row[..at].iter().any(|c| c.symbol != " ") => at + 1,
                _ => row.len(),
            };
            let rest = row.split_off(cut);
            let swallow = cell.symbol == " ";
            rows.push(std::mem::replace(&mut row, rest));
            used = row.iter().map(|c| c.width).sum();
            // The space at which a row ends is not carried over to the next.
            if swallow {
                continue;
            }
        }
        used += cell.width;
        row.push(cell);
    }
    rows.push(row);
    rows
}

/// The `height` rows that end `skip` rows before the end of the text. Only as much is laid out as is needed.
pub fn tail(stream: &Stream, columns: usize, height: usize, skip: usize, rejects: Rejects) -> Vec<Vec<Cell>> {
    let mut out: Vec<Vec<Cell>> = Vec::new();
    for line in stream.lines().iter().rev() {
        let mut laid = rows(line, columns, rejects, stream.last_step);
        laid.reverse();
        out.extend(laid);
        if out.len() >= height.saturating_add(skip) {
            break;
        }
    }
    out.truncate(height.saturating_add(skip));
    let mut window: Vec<_> = out.into_iter().skip(skip).collect();
    window.reverse();
    window
}

/// Rows of the whole text.
pub fn count(stream: &Stream, columns: usize, rejects: Rejects) -> usize {
    stream.lines().iter().map(|l| rows(l, columns, rejects, stream.last_step).len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(parts: &[(&str, Kind)]) -> Vec<Piece> {
        parts.iter().map(|(t, k)| Piece { text: (*t).into(), kind: *k, step: 0, mark: *k == Kind::Boundary }).collect()
    }

    fn texts(line: &[Piece], columns: usize) -> Vec<String> {
        rows(line, columns, Rejects::Inline, 0)
            .iter()
            .map(|r| r.iter().map(|c| c.symbol.as_str()).collect::<String>())
            .collect()
    }

    #[test]
    fn words_stay_whole_and_long_ones_are_cut() {
        assert_eq!(texts(&line(&[("the quick fox", Kind::Plain)]), 10), ["the quick ", "fox"]);
        assert_eq!(texts(&line(&[("abcdefghij", Kind::Plain)]), 4), ["abcd", "efgh", "ij"]);
        assert_eq!(texts(&line(&[("    indented", Kind::Plain)]), 8), ["    inde", "nted"]);
        assert_eq!(texts(&[], 4), [""]);
    }

    #[test]
    fn wide_characters_never_straddle_the_edge() {
        for columns in 1..9 {
            for row in rows(&line(&[("a漢字b漢👩‍💻e\u{301}", Kind::Plain)]), columns, Rejects::Inline, 0) {
                assert!(row.iter().map(|c| c.width).sum::<usize>() <= columns);
            }
        }
    }

    #[test]
    fn marks_from_their_own_token_join_the_cell_before() {
        assert_eq!(texts(&line(&[("e", Kind::Accepted), ("\u{301}", Kind::Bonus)]), 9), ["e\u{301}"]);
        assert_eq!(
            texts(&line(&[("👩", Kind::Accepted), ("\u{200d}", Kind::Bonus), ("💻", Kind::Bonus)]), 9),
            ["👩💻"]
        );
        assert_eq!(texts(&line(&[("\u{301}", Kind::Bonus)]), 9), [""]);
    }

    #[test]
    fn tabs_go_to_the_next_stop_and_escapes_are_shown() {
        assert_eq!(texts(&line(&[("a\tb", Kind::Plain)]), 20), ["a   b"]);
        assert_eq!(texts(&line(&[("\x1b[2J", Kind::Plain)]), 20), ["␛[2J"]);
    }

    #[test]
    fn rejects_can_be_hidden() {
        let l = line(&[("a", Kind::Accepted), ("‹b›", Kind::Rejected), ("c", Kind::Bonus), ("│", Kind::Boundary)]);
        let show = |rejects, last| -> String {
            rows(&l, 20, rejects, last).concat().iter().map(|c| c.symbol.as_str()).collect()
        };
        assert_eq!(show(Rejects::Inline, 5), "a‹b›c│");
        assert_eq!(show(Rejects::LastRound, 0), "a‹b›c");
        assert_eq!(show(Rejects::LastRound, 5), "ac");
        assert_eq!(show(Rejects::Clean, 0), "ac");
    }
}
