//! Benchmarks that can be believed: suites, plans, runs, statistics, exports. No terminal.
//!
//! ```text
//! suite ─► plan (what is sent, in which order) ─► runner (sends, measures, writes each record) ─► records
//!                                                                                                   │
//!                 export ◄─ run.v1 ◄─ summary + compare (pure statistics) + lossless ◄──────────────┘
//! ```

pub mod across;
pub mod compare;
pub mod control;
pub mod export;
pub mod guard;
pub mod import;
pub mod journal;
pub mod lossless;
pub mod measure;
pub mod modes;
pub mod plan;
pub mod runner;
pub mod stats;
pub mod suite;
pub mod summary;
pub mod warmup;
