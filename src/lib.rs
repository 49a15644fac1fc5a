//! spectop: a `top` for speculative decoding.
//!
//! Parts and who may know whom are fixed in `docs/design.md` and enforced by `tests/imports.rs`.

pub mod bench;
pub mod cli;
pub mod engine;
pub mod gpu;
pub mod protocol;
pub mod server;
pub mod source;
pub mod ui;
