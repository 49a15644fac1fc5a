//! spectop: a `top` for speculative decoding.
//!
//! Parts and who may know whom are fixed in `docs/design.md` and enforced by `tests/imports.rs`.

// They panic on a closed pipe and on a full disk: see `cli::out`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod cli;
pub mod engine;
pub mod gpu;
pub mod protocol;
pub mod server;
pub mod source;
pub mod ui;
