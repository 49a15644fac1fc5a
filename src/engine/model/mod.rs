//! Model wiring above the backend.

pub mod block_conv;
pub mod config;
pub mod drafter;
pub mod layer;
pub mod load;
pub mod selector;
pub mod target;
