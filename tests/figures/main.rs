//! From requests to figures and files: summaries, comparisons, statistics, exports and imports.

#![allow(clippy::match_same_arms, clippy::struct_field_names, clippy::unused_self)] // tables and builders of tests

mod across;
mod compare;
mod export;
mod import;
mod schema;
mod stats;

#[path = "../support/run.rs"]
mod run;
