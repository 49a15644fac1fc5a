//! The host: processor, memory, and the memory of this process.

use std::time::Instant;

use sysinfo::{
    CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate,
    RefreshKind, System,
};

use crate::protocol::sensor::HostReading;

/// Reads the host. Utilisation is a difference between two reads, so the first read has none.
pub struct Host {
    // Absent on a system that sysinfo cannot read: then everything but the core count is unknown.
    system: Option<System>,
    pid: Option<Pid>,
    cpu_name: String,
    cores: usize,
    /// When the processor counters were last read.
    cpu_read: Option<Instant>,
    /// Whether the last processor reading was a difference.
    cpu_known: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// Reads what does not change.
    pub fn new() -> Self {
        let what = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_usage());
        let system = System::new_with_specifics(what).ok();
        let cpus = system.as_ref().map_or(&[][..], System::cpus);
        let cpu_name = cpus.iter().map(|cpu| cpu.brand().trim()).find(|brand| !brand.is_empty()).unwrap_or_default();
        let known = std::thread::available_parallelism().map_or(0, usize::from);
        Self {
            cpu_name: cpu_name.to_owned(),
            cores: if cpus.is_empty() { known } else { cpus.len() },
            pid: sysinfo::get_current_pid().ok(),
            cpu_read: system.as_ref().map(|_| Instant::now()),
            cpu_known: false,
            system,
        }
    }

    /// One look. The reason for missing GPUs is not the host's to fill in.
    pub fn read(&mut self) -> HostReading {
        let mut reading = HostReading { cpu_name: self.cpu_name.clone(), cores: self.cores, ..HostReading::default() };
        let Some(system) = &mut self.system else { return reading };

        // Two reads too close together give noise: keep the older difference until the interval is long enough.
        if self.cpu_read.is_none_or(|at| at.elapsed() >= MINIMUM_CPU_UPDATE_INTERVAL) {
            system.refresh_cpu_usage();
            self.cpu_known = self.cpu_read.is_some();
            self.cpu_read = Some(Instant::now());
        }
        if self.cpu_known && !system.cpus().is_empty() {
            reading.cpu_percent = finite(system.global_cpu_usage());
            reading.per_core = system.cpus().iter().map(|cpu| f64::from(cpu.usage())).collect();
        }

        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        if system.total_memory() > 0 {
            reading.mem_total = Some(system.total_memory());
            reading.mem_used = Some(system.used_memory());
        }
        if let Some(pid) = self.pid {
            let what = ProcessRefreshKind::nothing().with_memory().without_tasks();
            system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
            reading.rss = system.process(pid).map(sysinfo::Process::memory).filter(|&bytes| bytes > 0);
        }
        reading
    }
}

fn finite(value: f32) -> Option<f64> {
    value.is_finite().then_some(f64::from(value))
}
