//! Placeholder.
use crate::protocol::run::{Comparison, ModeSummary, RequestRecord, RunPlan};
/// Placeholder.
pub fn summarise(_: &[RequestRecord]) -> Vec<ModeSummary> {
    Vec::new()
}
/// Placeholder.
pub fn compare(_: &RunPlan, _: &[RequestRecord]) -> Vec<Comparison> {
    Vec::new()
}
