//! From measured times to figures.

use std::collections::BTreeMap;

use serde::Serialize;

use super::timed::{Part, Times};
use super::{Bench, ROWS, STAGED};
use crate::engine::backend::Backend;

/// A median and how far the measurements lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Measurements.
    pub n: usize,
}

impl Spread {
    /// Of these values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        Some(Self {
            median: f64::midpoint(*sorted.get(n.checked_sub(1)? / 2)?, sorted[n / 2]),
            min: sorted[0],
            max: sorted[n - 1],
            n,
        })
    }
}

/// Reading weights against what the machine reads.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bandwidth {
    /// Measured by reading a buffer as large as the weights with the same threads, GB/s (10⁹).
    pub measured_gb_s: f64,
    /// Weights a plain step reads, GB/s.
    pub used_gb_s: f64,
    /// The one over the other.
    pub share: f64,
}

/// Integer arithmetic against what the machine does.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Arithmetic {
    /// Measured from registers with the same threads, 10⁹ operations a second.
    pub peak_gop_s: f64,
    /// Operations of the projections of a 64-row pass, over the time of the pass.
    pub used_gop_s: f64,
    /// The one over the other.
    pub share: f64,
}

/// The figures. Times are milliseconds; medians unless they say otherwise.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Processor.
    pub machine: String,
    /// Kernels in use.
    pub kernels: String,
    /// Threads.
    pub threads: usize,
    /// Target.
    pub model: String,
    /// Format of its weights.
    pub dtype: String,
    /// Bytes of its weights in memory.
    pub weight_bytes: u64,
    /// Tokens in the cache.
    pub context: usize,
    /// Plain decoding, tokens a second, whole rounds.
    pub decode_tok_s: f64,
    /// The same with its spread.
    pub decode_spread: Spread,
    /// Prompt tokens a second.
    pub prefill_tok_s: f64,
    /// The same with its spread.
    pub prefill_spread: Spread,
    /// A 40-token prompt to its first token.
    pub first_token_ms: f64,
    /// Verify pass by rows.
    pub verify_ms: BTreeMap<String, f64>,
    /// The same with their spreads.
    pub verify_spread: BTreeMap<String, Spread>,
    /// Eight rows over one.
    pub t8_t1: f64,
    /// Sixteen rows over one.
    pub t16_t1: f64,
    /// Parts of a pass by rows, means.
    pub stages_ms: BTreeMap<String, BTreeMap<&'static str, f64>>,
    /// A drafter pass within a round.
    pub draft_ms: Option<f64>,
    /// What a drafting round takes beside the backend's operations: tree, walk, bookkeeping.
    pub outside_kernels_ms: Option<f64>,
    /// Weights read by plain decoding.
    pub bandwidth: Bandwidth,
    /// Arithmetic of large passes.
    pub arithmetic: Option<Arithmetic>,
    /// Largest memory of the process so far, bytes; Linux only.
    pub peak_memory_bytes: Option<u64>,
}

impl<B: Backend> Bench<B> {
    pub(super) fn report(&self) -> Report {
        let info = self.core.backend.info();
        let target = &self.core.target;
        let spread = |values: &[f64]| Spread::of(values).expect("at least one round is run");
        let verify: Vec<Spread> = self.verify.iter().map(|v| spread(v)).collect();
        let name = |rows: usize| rows.to_string();
        let at = |rows: usize| verify[ROWS.iter().position(|&r| r == rows).expect("these rows are measured")].median;
        let decode_spread = spread(&self.decode);
        let prefill_spread = spread(&self.prefill);
        let used_gb_s = target.info.bytes as f64 / at(1) / 1e6;
        let measured_gb_s = self.bandwidth / 1e9;
        // Every weight is multiplied and added once a row.
        let used_gop_s = target.info.parameters as f64 * 2.0 * 64.0 / at(64) / 1e6;
        Report {
            machine: info.name,
            kernels: info.kernels,
            threads: info.threads,
            model: target.info.name.clone(),
            dtype: target.info.dtype.clone(),
            weight_bytes: target.info.bytes,
            context: self.ask.context,
            decode_tok_s: decode_spread.median,
            decode_spread,
            prefill_tok_s: prefill_spread.median,
            prefill_spread,
            first_token_ms: spread(&self.first_token).median,
            verify_ms: ROWS.iter().zip(&verify).map(|(&rows, s)| (name(rows), s.median)).collect(),
            verify_spread: ROWS.iter().zip(&verify).map(|(&rows, &s)| (name(rows), s)).collect(),
            t8_t1: at(8) / at(1),
            t16_t1: at(16) / at(1),
            stages_ms: STAGED.iter().zip(&self.stages).map(|(&rows, times)| (name(rows), means(times))).collect(),
            draft_ms: Spread::of(&self.draft).map(|s| s.median),
            outside_kernels_ms: Spread::of(&self.outside).map(|s| s.median),
            bandwidth: Bandwidth { measured_gb_s, used_gb_s, share: used_gb_s / measured_gb_s },
            arithmetic: self.peak.map(|peak| Arithmetic {
                peak_gop_s: peak / 1e9,
                used_gop_s,
                share: used_gop_s / (peak / 1e9),
            }),
            peak_memory_bytes: peak_memory(),
        }
    }
}

fn means(times: &[Times]) -> BTreeMap<&'static str, f64> {
    Part::ALL
        .iter()
        .map(|&part| (part.name(), times.iter().map(|t| t[part as usize]).sum::<f64>() / times.len().max(1) as f64))
        .collect()
}

fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_medians_of_either_parity() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0, n: 3 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).map(|s| s.median), Some(2.5));
    }
}
