//! The terminal interface: model, update, view. No I/O.
