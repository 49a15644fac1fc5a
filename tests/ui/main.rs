//! The dashboard as a whole: typed events in, cells out.

mod bless;
mod dashboard;
mod keys;
mod pointer;
mod recording;
mod runs;
mod sample;
mod session;
mod sizes;
mod snapshots;
mod themes;
mod walk;
