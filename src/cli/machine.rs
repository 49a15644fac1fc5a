//! What this machine has, and whether a model fits it.

use serde::Serialize;

use crate::engine::api::Precision;
use crate::engine::inspect::Inspected;
use crate::engine::inspect::plan::{Holding, Plan, plan};
use crate::engine::weights::hub::bytes;
use crate::gpu::host::Host;
use crate::gpu::nvml::Gpus;
use crate::protocol::sensor::{GpuReading, HostReading};

/// Memory that a model could go into.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memory {
    /// `cpu`, or `cuda:0` and so on.
    pub device: String,
    /// Product name.
    pub name: String,
    /// Bytes in all.
    pub total: Option<u64>,
    /// Bytes that nobody uses now.
    pub free: Option<u64>,
}

/// Everything that a model could go into: the main memory first, then the GPUs.
pub fn memories() -> Vec<Memory> {
    let (gpus, _) = Gpus::from_env().read();
    from_readings(&Host::new().read(), &gpus)
}

fn from_readings(host: &HostReading, gpus: &[GpuReading]) -> Vec<Memory> {
    let free = |total: Option<u64>, used: Option<u64>| Some(total?.saturating_sub(used?));
    let main = Memory {
        device: "cpu".into(),
        name: "main memory".into(),
        total: host.mem_total,
        free: free(host.mem_total, host.mem_used),
    };
    let gpu = |gpu: &GpuReading| Memory {
        device: format!("cuda:{}", gpu.index),
        name: gpu.name.clone(),
        total: gpu.mem_total,
        free: free(gpu.mem_total, gpu.mem_used),
    };
    std::iter::once(main).chain(gpus.iter().map(gpu)).collect()
}

/// Whether a plan fits a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Fits,
    /// It would if nothing else were in there.
    FitsWhenEmpty,
    /// It does not.
    TooLarge,
    /// The memory cannot be measured.
    Unknown,
}

/// A memory, and how a pair fits it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// Whether it fits.
    pub verdict: Verdict,
    /// What it takes there.
    pub plan: Plan,
    /// Tokens of cache for which there is room beside the weights; absent when even they do not fit.
    pub room_tokens: Option<u64>,
}

impl Fit {
    /// `fits: 9.1 GB of 23.0 GB, 20.1 GB free`, with what to do where it does not.
    pub fn words(&self) -> String {
        let size = |n: Option<u64>| n.map_or("—".into(), bytes);
        let have =
            format!("{} of {}, {} free", bytes(self.plan.total), size(self.memory.total), size(self.memory.free));
        match self.verdict {
            Verdict::Fits => format!("fits: {have}"),
            Verdict::FitsWhenEmpty => format!("fits only when other programs leave room: {have}"),
            Verdict::TooLarge => format!("does not fit: {have}"),
            Verdict::Unknown => format!("unknown: {} are needed", bytes(self.plan.total)),
        }
    }
}

/// How a pair fits every memory. `context` 0: what the engine would take. Empty when `target` is no target.
pub fn fits(
    memories: &[Memory],
    target: &Inspected,
    draft: Option<&Inspected>,
    precision: Precision,
    context: usize,
) -> Vec<Fit> {
    let fit = |memory: &Memory| {
        let holding = if memory.device == "cpu" { Holding::Cpu(precision) } else { Holding::Gpu };
        let plan = plan(target, draft, holding, context, 1)?;
        let beside = memory.free.or(memory.total).and_then(|n| n.checked_sub(plan.total - plan.kv));
        Some(Fit {
            verdict: verdict(&plan, memory),
            memory: memory.clone(),
            plan,
            room_tokens: beside.filter(|_| plan.kv_per_token > 0).map(|n| n / plan.kv_per_token),
        })
    };
    memories.iter().filter_map(fit).collect()
}

fn verdict(plan: &Plan, memory: &Memory) -> Verdict {
    match (memory.free, memory.total) {
        (Some(free), _) if plan.total <= free => Verdict::Fits,
        (_, Some(total)) if plan.total <= total => Verdict::FitsWhenEmpty,
        (_, Some(_)) => Verdict::TooLarge,
        _ => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::api::ModelSource;
    use crate::engine::inspect::inspect;
    use crate::engine::weights::bundle::TINY_TARGET;

    #[test]
    fn what_is_free_decides_before_what_there_is() {
        let target = inspect(&ModelSource::Embedded(&TINY_TARGET)).expect("embedded");
        let memory = |total: u64, free: u64| Memory {
            device: "cpu".into(),
            name: "main memory".into(),
            total: Some(total),
            free: Some(free),
        };
        let fit = |total, free| fits(&[memory(total, free)], &target, None, Precision::Auto, 0).remove(0);
        let need = fit(1 << 40, 1 << 40).plan.total;
        assert_eq!(fit(need * 2, need).verdict, Verdict::Fits);
        assert_eq!(fit(need * 2, need - 1).verdict, Verdict::FitsWhenEmpty);
        assert_eq!(fit(need - 1, need - 1).verdict, Verdict::TooLarge);
        let unknown = Memory { total: None, free: None, ..memory(0, 0) };
        let fit = &fits(&[unknown], &target, None, Precision::Auto, 0)[0];
        assert_eq!((fit.verdict, fit.room_tokens), (Verdict::Unknown, None));
    }

    #[test]
    fn a_gpu_is_named_as_the_engine_names_devices() {
        let gpu = GpuReading {
            index: 1,
            name: "H200".into(),
            mem_total: Some(10),
            mem_used: Some(4),
            ..GpuReading::default()
        };
        let all = from_readings(&HostReading { mem_total: Some(8), ..HostReading::default() }, &[gpu]);
        assert_eq!((&*all[0].device, all[0].total, all[0].free), ("cpu", Some(8), None));
        assert_eq!((&*all[1].device, all[1].total, all[1].free), ("cuda:1", Some(10), Some(6)));
    }
}
