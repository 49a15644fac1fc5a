//! Screens: each arranges widgets in an area.

pub mod compact;
pub mod dashboard;
