//! Colours: reading them from theme files, and bringing them down to what a terminal can show.

use ratatui::style::Color;

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// None: attributes only.
    None,
    /// The terminal's own 16.
    Ansi16,
    /// The 256-colour cube.
    Ansi256,
    /// 24 bits.
    #[default]
    True,
}

impl Depth {
    /// From the environment's `NO_COLOR`, `TERM` and `COLORTERM`. An empty `NO_COLOR` counts as not set, as its
    /// convention says.
    pub fn of(no_color: Option<&str>, term: Option<&str>, colorterm: Option<&str>) -> Self {
        let term = term.unwrap_or_default();
        if no_color.is_some_and(|v| !v.is_empty()) || term == "dumb" {
            return Depth::None;
        }
        if colorterm.is_some_and(|v| v.contains("truecolor") || v.contains("24bit")) || term.ends_with("-direct") {
            return Depth::True;
        }
        match term {
            "linux" | "" => Depth::Ansi16,
            t if t.starts_with("vt") => Depth::Ansi16,
            _ => Depth::Ansi256,
        }
    }

    /// The nearest colour that can be shown.
    pub fn fit(self, color: Color) -> Color {
        match (self, color) {
            (Depth::None, _) => Color::Reset,
            (Depth::Ansi256, Color::Rgb(r, g, b)) => Color::Indexed(nearest_256([r, g, b])),
            (Depth::Ansi16, Color::Rgb(r, g, b)) => nearest_16([r, g, b]),
            (_, color) => color,
        }
    }
}

/// `#rrggbb`, `default`, a number below 256, or one of the 16 names (`red`, `bright-blue`, …).
pub fn parse(text: &str) -> Option<Color> {
    if let Some(hex) = text.strip_prefix('#') {
        if hex.len() != 6 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let v = u32::from_str_radix(hex, 16).ok()?;
        return Some(Color::Rgb((v >> 16) as u8, (v >> 8) as u8, v as u8));
    }
    if let Ok(index) = text.parse::<u8>() {
        return Some(Color::Indexed(index));
    }
    Some(match text {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "white" => Color::Gray,
        "bright-black" => Color::DarkGray,
        "bright-red" => Color::LightRed,
        "bright-green" => Color::LightGreen,
        "bright-yellow" => Color::LightYellow,
        "bright-blue" => Color::LightBlue,
        "bright-magenta" => Color::LightMagenta,
        "bright-cyan" => Color::LightCyan,
        "bright-white" => Color::White,
        _ => return None,
    })
}

const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// The usual values of the 16, in ANSI order.
const SIXTEEN: [([u8; 3], Color); 16] = [
    ([0, 0, 0], Color::Black),
    ([205, 0, 0], Color::Red),
    ([0, 205, 0], Color::Green),
    ([205, 205, 0], Color::Yellow),
    ([0, 0, 238], Color::Blue),
    ([205, 0, 205], Color::Magenta),
    ([0, 205, 205], Color::Cyan),
    ([229, 229, 229], Color::Gray),
    ([127, 127, 127], Color::DarkGray),
    ([255, 0, 0], Color::LightRed),
    ([0, 255, 0], Color::LightGreen),
    ([255, 255, 0], Color::LightYellow),
    ([92, 92, 255], Color::LightBlue),
    ([255, 0, 255], Color::LightMagenta),
    ([0, 255, 255], Color::LightCyan),
    ([255, 255, 255], Color::White),
];

/// The RGB values of a colour, as most terminals show it; `None` for the terminal's default.
pub fn rgb(color: Color) -> Option<[u8; 3]> {
    match color {
        Color::Reset => None,
        Color::Rgb(r, g, b) => Some([r, g, b]),
        Color::Indexed(i @ 0..=15) => Some(SIXTEEN[i as usize].0),
        Color::Indexed(i @ 16..=231) => {
            let i = i - 16;
            Some([STEPS[(i / 36) as usize], STEPS[(i / 6 % 6) as usize], STEPS[(i % 6) as usize]])
        }
        Color::Indexed(i) => Some([8 + (i - 232) * 10; 3]),
        named => SIXTEEN.iter().find(|(_, c)| *c == named).map(|(rgb, _)| *rgb),
    }
}

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    // Weighted as the eye does: green counts most.
    a.iter().zip(b).zip([2, 4, 3]).map(|((x, y), w)| u32::from(x.abs_diff(y)).pow(2) * w).sum()
}

/// Index of the nearest colour of the cube or the grey ramp (the first 16 are the user's own and are left out).
pub fn nearest_256(c: [u8; 3]) -> u8 {
    (16..=255u8).min_by_key(|i| rgb(Color::Indexed(*i)).map_or(u32::MAX, |v| distance(c, v))).unwrap_or(16)
}

fn nearest_16(c: [u8; 3]) -> Color {
    SIXTEEN.iter().min_by_key(|(v, _)| distance(c, *v)).map_or(Color::Reset, |(_, color)| *color)
}

/// Contrast ratio of two colours, 1 to 21 (WCAG).
pub fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let luminance = |c: [u8; 3]| {
        let [r, g, b] = c.map(|v| {
            let v = f64::from(v) / 255.0;
            if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_follows_the_environment() {
        assert_eq!(Depth::of(Some("1"), Some("xterm"), Some("truecolor")), Depth::None);
        assert_eq!(Depth::of(Some(""), Some("xterm"), Some("truecolor")), Depth::True);
        assert_eq!(Depth::of(None, Some("dumb"), Some("truecolor")), Depth::None);
        assert_eq!(Depth::of(None, Some("xterm-256color"), None), Depth::Ansi256);
        assert_eq!(Depth::of(None, Some("linux"), None), Depth::Ansi16);
    }

    #[test]
    fn colours_are_read_and_brought_down() {
        assert_eq!(parse("#ff8000"), Some(Color::Rgb(255, 128, 0)));
        assert_eq!(parse("bright-black"), Some(Color::DarkGray));
        assert_eq!(parse("231"), Some(Color::Indexed(231)));
        assert_eq!(parse("#ff80"), None);
        assert_eq!(parse("#+f8000"), None);
        assert_eq!(parse("mauve"), None);
        assert_eq!(Depth::Ansi256.fit(Color::Rgb(255, 0, 0)), Color::Indexed(196));
        assert_eq!(Depth::Ansi256.fit(Color::Rgb(128, 128, 128)), Color::Indexed(244));
        assert_eq!(Depth::Ansi256.fit(Color::Red), Color::Red);
        assert_eq!(Depth::Ansi16.fit(Color::Rgb(250, 250, 250)), Color::White);
        assert_eq!(Depth::None.fit(Color::Red), Color::Reset);
    }

    #[test]
    fn contrast_is_symmetric() {
        assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
        assert_eq!(contrast([10, 20, 30], [200, 210, 220]), contrast([200, 210, 220], [10, 20, 30]));
    }
}
