//! Drawing: a small SVG writer, scales and axes. Colours are classes, so that one picture serves light and dark pages.

use std::fmt::Write as _;

/// Colours and text of the plots, for the page or for a picture of its own.
pub const STYLE: &str = include_str!("plot.css");

/// Text as XML or HTML may hold it. Control characters, which neither may, become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate: one decimal is a tenth of a pixel.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Shapes of points, so that modes can be told apart without colour.
const SHAPES: usize = 4;

/// A picture under way.
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// An empty picture; `label` is read to those who do not see it.
    pub fn new(width: f64, height: f64, label: &str) -> Self {
        Self { width, height, label: escape(label), body: String::new() }
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (n(x1), n(y1), n(x2), n(y2));
        let _ = writeln!(self.body, r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#);
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", n(*x), n(*y))).collect();
        let _ = writeln!(self.body, r#"<polyline class="{class}" points="{}"/>"#, points.join(" "));
    }

    /// A rectangle; `tip` is shown under the mouse.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) {
        let (x, y, width, height) = (n(x), n(y), n(width.max(0.0)), n(height.max(0.0)));
        let tip = escape(tip);
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"><title>{tip}</title></rect>"#
        );
    }

    /// A point: circle, square, triangle or diamond, by number.
    pub fn point(&mut self, class: &str, shape: usize, (x, y): (f64, f64), size: f64, tip: &str) {
        let tip = escape(tip);
        let polygon = |corners: &[(f64, f64)]| {
            let corners: Vec<String> =
                corners.iter().map(|(dx, dy)| format!("{},{}", n(x + dx * size), n(y + dy * size))).collect();
            format!(r#"<polygon class="{class}" points="{}"><title>{tip}</title></polygon>"#, corners.join(" "))
        };
        let shape = match shape % SHAPES {
            0 => {
                let (x, y, r) = (n(x), n(y), n(size));
                format!(r#"<circle class="{class}" cx="{x}" cy="{y}" r="{r}"><title>{tip}</title></circle>"#)
            }
            1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => polygon(&[(0.0, -1.15), (1.05, 0.8), (-1.05, 0.8)]),
            _ => polygon(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        };
        let _ = writeln!(self.body, "{shape}");
    }

    pub fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (n(x), n(y), escape(text));
        let _ = writeln!(self.body, r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#);
    }

    /// A row of names with their marks, beginning anew where it would not fit. Returns its height.
    pub fn legend(&mut self, (left, top): (f64, f64), width: f64, entries: &[(String, usize, String)]) -> f64 {
        let (mut x, mut y) = (left, top);
        for (class, shape, name) in entries {
            let wide = 24.0 + name.chars().count() as f64 * 6.7;
            if x > left && x + wide > left + width {
                (x, y) = (left, y + 18.0);
            }
            self.point(class, *shape, (x + 5.0, y + 6.0), 4.5, name);
            self.text("t", Anchor::Start, (x + 14.0, y + 10.0), name);
            x += wide;
        }
        y + 20.0 - top
    }

    /// The picture as an element of a page.
    pub fn finish(self) -> String {
        let Self { width, height, label, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-label=\"{label}\">\n{body}</svg>\n",
            n(width),
            n(height)
        )
    }
}

/// An element of a page as a file of its own. Its colours are written out, since many viewers know no CSS variables:
/// the light ones, and the dark ones for viewers that ask.
pub fn standalone(svg: &str) -> String {
    let rules = STYLE.rsplit_once("\n}\n").map_or("", |(_, rules)| rules);
    let blocks: Vec<&str> = STYLE.split(":root {").skip(1).filter_map(|rest| rest.split('}').next()).collect();
    let with = |block: &str| {
        let pairs = block.split(';').filter_map(|pair| pair.trim().split_once(": "));
        pairs.fold(rules.to_owned(), |css, (name, color)| css.replace(&format!("var({name})"), color))
    };
    let light = blocks.first().map_or_else(String::new, |block| with(block));
    let dark = blocks.get(1).map_or_else(String::new, |block| with(block));
    let style = format!("<style>{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>");
    svg.replacen(">\n", &format!(">{style}\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"), 1)
}

/// Values to pixels.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    from: (f64, f64),
    to: (f64, f64),
    log2: bool,
}

impl Scale {
    /// Values `from` to pixels `to`; an empty range is widened, so that nothing divides by 0.
    pub fn linear(from: (f64, f64), to: (f64, f64)) -> Self {
        let from = if from.1 > from.0 { from } else { (from.0 - 0.5, from.0 + 0.5) };
        Self { from, to, log2: false }
    }

    /// The same on the logarithm to base 2 of positive values.
    pub fn log2(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { log2: true, ..Self::linear((from.0.log2(), from.1.log2()), to) }
    }

    pub fn at(&self, value: f64) -> f64 {
        let value = if self.log2 { value.log2() } else { value };
        self.to.0 + (value - self.from.0) / (self.from.1 - self.from.0) * (self.to.1 - self.to.0)
    }

    /// The range of values.
    pub fn range(&self) -> (f64, f64) {
        self.from
    }

    /// Round values in the range, about `wanted` of them: steps of 1, 2 or 5 times a power of ten.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        let (low, high) = self.from;
        let rough = (high - low) / wanted.max(1) as f64;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough * 0.999).unwrap_or(rough);
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last.min(first + 100)).map(|i| i as f64 * step).collect()
    }
}

/// A range that holds the values with some air, and 0 where `zero` is asked for. `None` without values.
pub fn range(values: impl Iterator<Item = f64>, zero: bool) -> Option<(f64, f64)> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return None;
    }
    if zero {
        return Some((low.min(0.0), high.max(0.0) * 1.06));
    }
    let air = ((high - low) * 0.08).max(high.abs() * 0.01);
    Some((low - air, high + air))
}

/// A tick's label without needless zeros.
pub fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// The frame of a plot with grid, ticks and the names of both axes.
pub fn axes(svg: &mut Svg, x: &Scale, x_ticks: &[(f64, String)], x_name: &str, y: &Scale, y_name: &str) {
    let ((left, right), (bottom, top)) = (x.to, y.to);
    for value in y.ticks(5) {
        let at = y.at(value);
        svg.line("grid", (left, at), (right, at));
        svg.text("t dim", Anchor::End, (left - 7.0, at + 4.0), &tick(value));
    }
    for (value, label) in x_ticks {
        let at = x.at(*value);
        svg.line("grid", (at, top), (at, bottom));
        svg.text("t dim", Anchor::Middle, (at, bottom + 17.0), label);
    }
    svg.line("axis", (left, bottom), (right, bottom));
    svg.text("t", Anchor::Middle, (f64::midpoint(left, right), bottom + 36.0), x_name);
    svg.text("t", Anchor::Start, (left - 34.0, top - 10.0), y_name);
}

/// Ticks of a scale with their labels.
pub fn labelled(scale: &Scale, wanted: usize) -> Vec<(f64, String)> {
    scale.ticks(wanted).into_iter().map(|value| (value, tick(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(escape("<a href='x'>&\"\u{1b}\u{0}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_file_of_its_own_names_its_colours() {
        let file = standalone(&Svg::new(10.0, 10.0, "x").finish());
        assert!(!file.contains("var(") && !file.contains("--"), "{file}");
        let at = |text: &str| file.find(text).unwrap_or_else(|| panic!("no {text} in {file}"));
        assert!(at(".plot .t { fill: #1c2330; }") < at("@media"));
        assert!(at("@media") < at(".plot .t { fill: #e4e8ee; }"));
        assert!(at(".plot .st-commit { fill: #16907a; }") < at(".plot .st-commit { fill: #4fd0b4; }"));
    }

    #[test]
    fn ticks_are_round() {
        let of = |from, to| Scale::linear((from, to), (0.0, 1.0)).ticks(5).iter().map(|v| tick(*v)).collect::<Vec<_>>();
        assert_eq!(of(0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(of(0.31, 0.79), ["0.4", "0.5", "0.6", "0.7"]);
        assert_eq!(of(-3.0, 4.0), ["-2", "0", "2", "4"]);
        assert!(!of(5.0, 5.0).is_empty(), "one value has a range too");
    }

    #[test]
    fn scales_go_both_ways() {
        let scale = Scale::log2((16.0, 256.0), (100.0, 500.0));
        assert_eq!((scale.at(16.0), scale.at(64.0), scale.at(256.0)), (100.0, 300.0, 500.0));
        assert_eq!(Scale::linear((0.0, 2.0), (100.0, 0.0)).at(0.5), 75.0);
    }
}
