//! SVG pictures as PNG files, for places that show no SVG.

use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::{Exit, Failure};

/// Pixels per unit of the picture: sharp on dense screens.
const SCALE: f32 = 2.0;

/// Draws SVG pictures with the fonts of this machine.
pub struct Painter {
    options: Options<'static>,
}

impl Painter {
    /// Reads the machine's fonts. Fails without any, since all text would be missing.
    pub fn new() -> Result<Self, Failure> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        if fonts.is_empty() {
            let text =
                "there are no fonts here to draw text with: install some (DejaVu Sans Mono, say), or leave out --png";
            return Err(Failure::new(Exit::Failed, text));
        }
        // What generic families mean differs between systems; a picture without text helps nobody.
        if let Some(name) = mono(&fonts) {
            fonts.set_monospace_family(&name);
            fonts.set_sans_serif_family(&name);
            fonts.set_serif_family(&name);
        }
        Ok(Self { options: Options { fontdb: Arc::new(fonts), ..Options::default() } })
    }

    /// An SVG picture as PNG bytes, twice its size.
    pub fn png(&self, svg: &str) -> Result<Vec<u8>, String> {
        let tree = Tree::from_str(svg, &self.options).map_err(|e| e.to_string())?;
        let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the picture has no size")?;
        let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|e| e.to_string())
    }

    /// Writes a picture beside its SVG file.
    pub fn beside(&self, svg_file: &Path, svg: &str) -> Result<(), Failure> {
        let file = svg_file.with_extension("png");
        let failed = |e: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("{}: {e}", file.display()));
        let bytes = self.png(svg).map_err(|e| failed(&e))?;
        std::fs::write(&file, bytes).map_err(|e| failed(&e))
    }
}

/// A monospaced family, or any.
fn mono(fonts: &fontdb::Database) -> Option<String> {
    let face = fonts.faces().find(|face| face.monospaced).or_else(|| fonts.faces().next())?;
    face.families.first().map(|family| family.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_their_colours_at_twice_the_size() {
        let painter = Painter { options: Options::default() };
        let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2" width="4" height="2">
            <rect width="2" height="2" fill="#ff0000"/><rect x="2" width="2" height="2" fill="#0000ff"/></svg>"##;
        let pixels = Pixmap::decode_png(&painter.png(svg).expect("a picture")).expect("a PNG");
        assert_eq!((pixels.width(), pixels.height()), (8, 4));
        let color = |x, y| pixels.pixel(x, y).map(|p| (p.red(), p.green(), p.blue()));
        assert_eq!((color(1, 1), color(6, 2)), (Some((255, 0, 0)), Some((0, 0, 255))));
        assert!(painter.png("<svg").is_err());
    }
}
