//! The fixtures recorded from the methods' own reference code.

mod support;

use std::path::Path;

use clap::Parser;
use spectop::cli::Cli;
use spectop::cli::conformance::check_folder;

fn holds(arguments: &[&str], folder: &str) {
    let cli = Cli::parse_from([&["spectop"], arguments].concat());
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let report = check_folder(&cli.engine, &dir, |_| {}).unwrap_or_else(|f| panic!("{}", f.message));
    let failed: Vec<String> =
        report.checks.iter().filter(|c| !c.passed).map(|c| format!("{}: {}", c.name, c.note)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(report.passed >= 40, "{} checks ran", report.passed);
}

#[test]
fn byte_level_pair_a() {
    holds(&[], "qwen3-byte-a");
}

#[test]
fn byte_level_pair_b() {
    holds(&[], "qwen3-byte-b");
}

/// The default pair dequantised to F32. With quantised activations the ids may part at near ties, so only F32 is a test.
#[test]
fn default_pair_in_f32() {
    let Some(target) = support::target_gguf() else { return };
    holds(&["--dtype", "f32", "--target", &target.display().to_string()], "smollm2-story");
}

#[test]
fn what_is_not_a_fixture_is_refused() {
    let cli = Cli::parse_from(["spectop"]);
    let dir = tempfile::tempdir().expect("a folder");
    let failure = check_folder(&cli.engine, dir.path(), |_| {}).expect_err("an empty folder is no fixture");
    assert!(failure.message.contains("expected.json"), "{}", failure.message);
    std::fs::write(dir.path().join("expected.json"), "{\"cases\": 3}").expect("written");
    let failure = check_folder(&cli.engine, dir.path(), |_| {}).expect_err("nor is this");
    assert!(failure.message.contains("docs/conformance.md"), "{}", failure.message);
}
