//! Big digits: numbers that can be read from the other end of the room.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Rows of dots of a digit.
const DOTS: usize = 5;

/// Dots of a character, three columns by five rows, the left one first.
fn dots(c: char) -> Option<[&'static str; DOTS]> {
    Some(match c {
        '0' => ["###", "# #", "# #", "# #", "###"],
        '1' => [" # ", "## ", " # ", " # ", "###"],
        '2' => ["###", "  #", "###", "#  ", "###"],
        '3' => ["###", "  #", "###", "  #", "###"],
        '4' => ["# #", "# #", "###", "  #", "  #"],
        '5' => ["###", "#  ", "###", "  #", "###"],
        '6' => ["###", "#  ", "###", "# #", "###"],
        '7' => ["###", "  #", "  #", " # ", " # "],
        '8' => ["###", "# #", "###", "# #", "###"],
        '9' => ["###", "# #", "###", "  #", "###"],
        '—' => ["   ", "   ", "###", "   ", "   "],
        '×' => ["   ", "# #", " # ", "# #", "   "],
        '.' => [" ", " ", " ", " ", "#"],
        _ => return None,
    })
}

/// How big they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A dot is two columns wide and one row high: five rows.
    Large,
    /// A dot is one column wide and half a row high: three rows.
    Small,
}

impl Size {
    /// Rows.
    pub fn rows(self) -> u16 {
        match self {
            Size::Large => 5,
            Size::Small => 3,
        }
    }

    fn dot(self) -> usize {
        match self {
            Size::Large => 2,
            Size::Small => 1,
        }
    }

    /// Columns of a text; characters that there are no dots for take none.
    pub fn width(self, text: &str) -> usize {
        let each = |c| dots(c).map(|d| (d[0].len() + 1) * self.dot());
        text.chars().filter_map(each).sum::<usize>().saturating_sub(self.dot())
    }
}

/// The biggest size in which the text fits; half blocks need more than ASCII.
pub fn fitting(text: &str, area: Rect, ascii: bool) -> Option<Size> {
    [Size::Large, Size::Small]
        .into_iter()
        .filter(|s| !ascii || *s == Size::Large)
        .find(|s| s.rows() <= area.height && s.width(text) <= area.width as usize)
}

/// Draws the text at the area's left upper corner.
pub fn draw(buf: &mut Buffer, area: Rect, text: &str, size: Size, style: Style) {
    let area = area.intersection(buf.area);
    let mut x = 0;
    for rows in text.chars().filter_map(dots) {
        let columns: Vec<[bool; DOTS]> =
            (0..rows[0].len()).map(|c| std::array::from_fn(|r| rows[r].as_bytes()[c] == b'#')).collect();
        for column in columns {
            for row in 0..size.rows() as usize {
                let symbol = match size {
                    Size::Large if column[row] => "█",
                    Size::Large => continue,
                    Size::Small => match (column[row * 2], column.get(row * 2 + 1).copied().unwrap_or(false)) {
                        (true, true) => "█",
                        (true, false) => "▀",
                        (false, true) => "▄",
                        (false, false) => continue,
                    },
                };
                for dx in 0..size.dot() {
                    let (cx, cy) = (x + dx, row);
                    if cx < area.width as usize
                        && cy < area.height as usize
                        && let Some(cell) = buf.cell_mut((area.x + cx as u16, area.y + cy as u16))
                    {
                        cell.set_symbol(symbol).set_style(style);
                    }
                }
            }
            x += size.dot();
        }
        x += size.dot();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, size: Size) -> Vec<String> {
        let area = Rect::new(0, 0, size.width(text) as u16, size.rows());
        let mut buf = Buffer::empty(area);
        draw(&mut buf, area, text, size, Style::new());
        (0..area.height).map(|y| (0..area.width).map(|x| buf[(x, y)].symbol().to_owned()).collect()).collect()
    }

    #[test]
    fn they_look_like_digits() {
        assert_eq!(drawn("7", Size::Large), ["██████", "    ██", "    ██", "  ██  ", "  ██  "]);
        assert_eq!(drawn("1.5", Size::Small), ["▄█    █▀▀", " █    ▀▀█", "▀▀▀ ▀ ▀▀▀"]);
    }

    #[test]
    fn the_biggest_that_fits() {
        let at = |w, h, ascii| fitting("123.4", Rect::new(0, 0, w, h), ascii);
        assert_eq!(at(40, 5, false), Some(Size::Large));
        assert_eq!(at(20, 5, false), Some(Size::Small));
        assert_eq!((at(20, 5, true), at(9, 9, false), at(40, 2, false)), (None, None, None));
    }
}
