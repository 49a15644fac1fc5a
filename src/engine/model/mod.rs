//! Model wiring above the backend.

pub mod config;
pub mod drafter;
pub mod layer;
pub mod load;
pub mod target;
