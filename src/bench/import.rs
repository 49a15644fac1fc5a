//! Placeholder.
use crate::protocol::run::Run;
/// Placeholder.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub String);
/// Placeholder.
pub fn read(path: &std::path::Path) -> Result<Run, ImportError> {
    let text = std::fs::read_to_string(path).map_err(|e| ImportError(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| ImportError(e.to_string()))
}
