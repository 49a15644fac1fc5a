//! Model wiring above the backend.

pub mod config;
