//! Benchmarks that can be believed: suites, plans, runs, statistics, exports. No terminal.
//!
//! ```text
//! suite ─► plan (what is sent, in which order) ─► runner (sends, measures, writes each record) ─► records
//!                                                                                                   │
//!                 export ◄─ run.v1 ◄─ summary + compare (pure statistics) + lossless ◄──────────────┘
//! ```

pub mod compare;
pub mod export;
pub mod import;
pub mod lossless;
pub mod stats;
pub mod summary;
