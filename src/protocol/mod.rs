//! The words that server and clients share: serde types only, no behaviour beyond constructors and small derivations.
//!
//! Every type here travels as JSON. [`SCHEMA_VERSION`] is raised when a field changes its meaning or disappears;
//! new optional fields do not raise it, so that an older dashboard keeps working on a newer server.

pub mod event;
pub mod mode;
pub mod run;
pub mod sensor;
pub mod state;
pub mod trace;

/// Version of the wire format, sent in [`state::State::schema`].
pub const SCHEMA_VERSION: u32 = 1;
