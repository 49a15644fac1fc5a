//! Readings of GPUs and of the host. A value that cannot be read is absent, never 0.

use serde::{Deserialize, Serialize};

/// One GPU at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    /// NVML index.
    pub index: u32,
    /// Product name.
    pub name: String,
    /// UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// SM utilisation, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub util_percent: Option<f64>,
    /// Memory in use, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_used: Option<u64>,
    /// Memory in all, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_total: Option<u64>,
    /// Board power, watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Enforced power limit, watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// Temperature, °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_c: Option<f64>,
    /// SM clock, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<u32>,
    /// Why clocks are held down, in words; empty when they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<String>,
    /// Energy counter since the driver was loaded, joules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
}

/// The host and this process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReading {
    /// Processor name.
    pub cpu_name: String,
    /// Logical processors.
    pub cores: usize,
    /// Whole-machine utilisation, percent of all cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// By core, percent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_core: Vec<f64>,
    /// Memory in use, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_used: Option<u64>,
    /// Memory in all, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mem_total: Option<u64>,
    /// Resident memory of the reading process, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<u64>,
    /// Why there are no GPU readings, when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_gpu_reason: Option<String>,
}

/// What one look at the sensors gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sensors {
    /// One entry a GPU.
    #[serde(default)]
    pub gpus: Vec<GpuReading>,
    /// The host.
    pub host: HostReading,
}
