//! Exports: the keys that other tools read, the schema, and a report that holds together.

use std::collections::BTreeSet;

use serde_json::Value;
use spectop::bench::export::{self, ExportError, Format};
use spectop::protocol::run::Run;

use super::run::Simulation;

fn run() -> Run {
    Simulation::default().run()
}

/// Writes the report to look at: `cargo test --test figures write_report -- --ignored`, then `target/tmp/report.html`.
#[test]
#[ignore = "writes files to look at"]
fn write_report() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let run = run();
    std::fs::write(folder.join("report.html"), export::html(&run)).unwrap();
    std::fs::write(folder.join("report.md"), export::markdown(&run)).unwrap();
    for plot in export::plot::plots(&run) {
        std::fs::write(folder.join(format!("{}.svg", plot.id)), plot.standalone()).unwrap();
    }
    let ladder =
        Simulation { concurrency: vec![1, 2, 4, 8], suites: vec![("story", 3)], ..Simulation::default() }.run();
    std::fs::write(folder.join("ladder.html"), export::html(&ladder)).unwrap();
}
