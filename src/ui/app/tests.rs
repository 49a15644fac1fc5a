//! Tests of update.
