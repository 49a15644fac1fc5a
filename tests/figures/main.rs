//! From requests to figures and files: summaries, comparisons, statistics, exports and imports.

mod compare;
mod stats;

#[path = "../support/run.rs"]
mod run;
