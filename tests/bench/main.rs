//! Benchmarks against a server whose times are known.

mod fake;
mod plan;
mod resume;
mod run;
#[allow(dead_code)] // shared with the tests of the sources, which use more of it
#[path = "../source/scripted.rs"]
mod scripted;
mod times;
