//! The arrows of docs/design.md section 2, enforced: which part of `src/` may use which, what a part must not touch,
//! and how long a file may be.

#[path = "imports/paths.rs"]
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use paths::{Used, used_paths};

/// Each part and the parts that it may use. What is not listed here is not allowed to exist.
const ALLOWED: [(&str, &[&str]); 9] = [
    ("protocol", &[]),
    ("engine", &["protocol"]),
    ("gpu", &["protocol"]),
    ("server", &["engine", "gpu", "protocol"]),
    ("source", &["protocol"]),
    ("bench", &["source", "protocol"]),
    ("ui", &["source", "protocol"]),
    ("cli", EVERYTHING),
    ("", EVERYTHING), // lib.rs and main.rs
];

const EVERYTHING: &[&str] = &["protocol", "engine", "gpu", "server", "source", "bench", "ui", "cli"];

/// Crates and modules that a part must not mention: the terminal does no I/O, the engine knows neither HTTP nor
/// terminals.
const FORBIDDEN: [(&str, &[&str]); 3] = [
    ("ui", &["std::fs", "std::net", "reqwest", "tokio::net", "tokio::fs"]),
    ("engine", &["axum", "reqwest", "ratatui", "crossterm", "hf_hub"]),
    ("protocol", &["axum", "reqwest", "ratatui", "crossterm", "tokio"]),
];

/// Files that may use something that their part must not.
/// Fetching models is the one place where the engine's part reaches out: `hf-hub` wants a client of its own with bounded
/// timeouts.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("engine/weights/hub/huggingface.rs", "hf_hub"),
    ("engine/weights/hub/huggingface.rs", "reqwest"),
    ("engine/weights/hub/remote.rs", "hf_hub"),
    ("engine/weights/hub/remote.rs", "reqwest"),
];

/// Lines that a source file may have.
const MOST_LINES: usize = 500;

#[test]
fn parts_use_only_what_they_may() {
    let mut complaints = Vec::new();
    for file in source_files() {
        let text = fs::read_to_string(&file).unwrap();
        complaints.extend(check(&relative(&file), &text));
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn no_source_file_is_too_long() {
    let long: Vec<String> = source_files()
        .iter()
        .filter_map(|file| {
            let lines = fs::read_to_string(file).unwrap().lines().count();
            let name = relative(file);
            (lines > MOST_LINES).then(|| format!("src/{name}: {lines} lines; split it, {MOST_LINES} are the most"))
        })
        .collect();
    assert!(long.is_empty(), "\n{}\n", long.join("\n"));
}

/// Complaints about one file, `src/file:line: what`. The name is relative to `src/`.
fn check(name: &str, text: &str) -> Vec<String> {
    let segments: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
    let part = match segments[..] {
        ["lib" | "main"] => "",
        [part, ..] => part,
        [] => unreachable!("splitting gives at least one piece"),
    };
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == part) else {
        return vec![format!("src/{name}: \"{part}\" is no part of the design; add it to tests/imports first")];
    };
    // The module that the file is: `a/mod.rs` is `a`, `a/b.rs` is `a::b`, lib.rs is the root.
    let depth = if part.is_empty() {
        0
    } else if segments.last() == Some(&"mod") {
        segments.len() - 1
    } else {
        segments.len()
    };

    let mut complaints = Vec::new();
    for used in used_paths(text) {
        let place = format!("src/{name}:{}", used.line);
        if let Some(other) = other_part(&used, depth) {
            if other == "*" {
                if allowed.len() < EVERYTHING.len() {
                    complaints.push(format!("{place}: {used} takes in every part; name the one that is meant"));
                }
            } else if EVERYTHING.contains(&other) && other != part && !allowed.contains(&other) {
                let may = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
                complaints.push(format!("{place}: {part} must not use {other} ({used}); allowed: {may}"));
            }
        }
        for (_, forbidden) in FORBIDDEN.iter().filter(|(whose, _)| *whose == part) {
            for path in *forbidden {
                if used.starts_with(path) && !EXCEPTIONS.contains(&(name, path)) {
                    complaints.push(format!("{place}: {part} must not use {path} ({used})"));
                }
            }
        }
    }
    complaints
}

/// The part that a path leads to, if it goes through the root of the crate.
fn other_part(used: &Used, depth: usize) -> Option<&str> {
    let first = used.path.first()?.as_str();
    if first == "crate" || first == "spectop" {
        return used.path.get(1).map(String::as_str);
    }
    let start = usize::from(first == "self");
    let supers = used.path[start..].iter().take_while(|segment| *segment == "super").count();
    let reaches_root = supers > 0 && supers == depth + used.inner_modules;
    if reaches_root { used.path.get(start + supers).map(String::as_str) } else { None }
}

fn source_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 5, "src/ was found");
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn relative(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

#[test]
fn violations_are_caught_with_their_place() {
    let table: &[(&str, &str, &str)] = &[
        ("ui/app.rs", "use crate::engine::Engine;", "src/ui/app.rs:1: ui must not use engine (crate::engine::Engine)"),
        ("engine/mod.rs", "\nfn f() { crate::server::start(); }", "src/engine/mod.rs:2: engine must not use server"),
        (
            "source/sse.rs",
            "use crate::{\n  protocol::event::Event,\n  ui::{app, theme},\n};",
            "sse.rs:3: source must not",
        ),
        ("gpu/nvml.rs", "use super::super::engine::x;", "gpu must not use engine"),
        ("gpu/mod.rs", "mod tests { use super::super::ui; }", "gpu must not use ui"),
        ("bench/stats.rs", "use self::super::super::gpu;", "bench must not use gpu"),
        ("protocol/mode.rs", "type X = spectop::gpu::Sampler;", "protocol must not use gpu"),
        ("source/mod.rs", "use crate::*;", "takes in every part"),
        ("server/mod.rs", "use crate::cli;", "allowed: engine, gpu, protocol"),
        ("ui/app.rs", "use std::{fmt, fs};", "ui must not use std::fs (std::fs)"),
        ("ui/app.rs", "fn f() { let _ = std::fs::read(\"x\"); }", "ui must not use std::fs"),
        ("ui/app.rs", "use tokio::{net::{TcpStream as T}, sync};", "ui must not use tokio::net"),
        ("engine/mod.rs", "fn f(c: ::reqwest::Client) {}", "engine must not use reqwest"),
        ("engine/mod.rs", "use hf_hub::api;", "engine must not use hf_hub"),
        ("extra/mod.rs", "", "no part of the design"),
    ];
    for (name, text, expected) in table {
        let complaints = check(name, text);
        let caught = !complaints.is_empty() && complaints.iter().all(|complaint| complaint.contains(expected));
        assert!(caught, "{name}: {text}\n→ {complaints:?}");
    }
}

#[test]
fn what_is_allowed_passes() {
    let table: &[(&str, &str)] = &[
        ("ui/app.rs", "use crate::{source::Update, protocol::mode::Mode};\nuse crate::ui::theme;"),
        ("ui/screen/gpu.rs", "use super::super::theme::Theme; use super::dashboard;"),
        ("ui/screen/mod.rs", "mod gpu; mod tests { use super::super::theme; }"),
        (
            "ui/app.rs",
            "// use crate::engine::Engine;\n/* std::fs /* reqwest:: */ */ const A: &str = \"crate::engine::x\";",
        ),
        ("ui/app.rs", "const A: &str = r#\"std::fs::read(\"x\")\"#; const B: char = '\"'; use crate::source::x;"),
        ("ui/app.rs", "/// See [`crate::engine::Engine`].\nfn f<'a>(x: &'a str) {}"),
        ("engine/weights/hub/huggingface.rs", "use hf_hub::api;"),
        ("engine/mod.rs", "use crate::protocol::event::Event; fn f() { reqwest_like(); x.axum(); }"),
        ("lib.rs", "pub mod engine; use crate::ui::x;"),
        ("main.rs", "use spectop::cli::Cli;"),
        ("cli/mod.rs", "use crate::engine::api::Precision; use super::*;"),
    ];
    for (name, text) in table {
        assert_eq!(check(name, text), Vec::<String>::new(), "{name}: {text}");
    }
}
