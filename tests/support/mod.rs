//! What several test files share.

#![allow(dead_code)] // every test file is a crate of its own and uses a part of this

pub mod checkpoint;
pub mod engine;
pub mod gguf;
pub mod hybrid_gguf;

use std::path::PathBuf;

use spectop::engine::weights::hub;

/// The default target model. `None` (and a word about it) where it is not at hand and cannot be fetched; with
/// `SPECTOP_REQUIRE_TARGET=1` that is a failure.
pub fn target_gguf() -> Option<PathBuf> {
    match hub::default_target(&mut |_| {}) {
        Ok(path) => Some(path),
        Err(error) => {
            let required = std::env::var("SPECTOP_REQUIRE_TARGET").is_ok_and(|v| v == "1");
            assert!(!required, "the default target is required, but: {error}");
            eprintln!("skipped: the default target is not here ({error})");
            None
        }
    }
}
