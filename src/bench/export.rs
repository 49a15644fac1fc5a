//! Placeholder.
use crate::protocol::run::Run;
macro_rules! placeholder { ($($name:ident)*) => { $(
/// Placeholder.
pub fn $name(run: &Run) -> String { format!("{} {}", stringify!($name), run.meta.id) }
)* } }
placeholder!(vllm sglang aiperf csv markdown html);
