//! Files that the program determines. A test compares them; with SPECTOP_BLESS=1 it writes them anew instead.

use std::fs;
use std::path::Path;

fn asked() -> bool {
    std::env::var_os("SPECTOP_BLESS").is_some_and(|v| v == "1")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A whole file, relative to the repository's root.
pub fn whole(name: &str, wanted: &str) {
    let path = root().join(name);
    if asked() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, wanted).expect("written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    if there != wanted {
        let line = there.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count();
        let at = |text: &str| text.lines().nth(line).unwrap_or("(its end)").to_owned();
        panic!(
            "{name} is stale from line {} on; look at the change, then SPECTOP_BLESS=1 cargo test --test ui\n- {}\n+ {}",
            line + 1,
            at(&there),
            at(wanted)
        );
    }
}

/// The part of a file between `<!-- name -->` and `<!-- /name -->`.
pub fn part(file: &str, name: &str, wanted: &str) {
    let text = fs::read_to_string(root().join(file)).expect("readable");
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (head, rest) = text.split_once(&open).unwrap_or_else(|| panic!("{file} has no {open}"));
    let (_, tail) = rest.split_once(&close).unwrap_or_else(|| panic!("{file} has no {close}"));
    whole(file, &format!("{head}{open}{wanted}{close}{tail}"));
}
