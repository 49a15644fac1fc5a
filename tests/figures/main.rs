//! From requests to figures and files: summaries, comparisons, statistics, exports and imports.

mod compare;
mod export;
mod import;
mod schema;
mod stats;

#[path = "../support/run.rs"]
mod run;
