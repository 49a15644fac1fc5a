//! NVIDIA GPUs through NVML. The driver's library is loaded at run time; without one there is a reason instead of
//! readings. Each value stands alone: a call that this GPU or driver does not know leaves only its own field empty.

use std::env;
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::protocol::sensor::GpuReading;

/// Environment variable that names another NVML library than the driver's.
pub const LIB_VARIABLE: &str = "SPECTOP_NVML_LIB";

/// The library of the driver.
const DRIVER_LIB: &str = "libnvidia-ml.so.1";

/// After a failed start, how long until the next: a driver may be loaded or reloaded while we run.
const RETRY: Duration = Duration::from_secs(30);

/// All GPUs of the machine.
#[derive(Debug)]
pub struct Gpus {
    lib: Option<OsString>,
    retry: Duration,
    link: Link,
}

#[derive(Debug)]
enum Link {
    Closed,
    Open(Box<Nvml>),
    Failed { reason: String, at: Instant },
}

impl Gpus {
    /// With the library at this path, or the driver's. Nothing is loaded before the first [`Gpus::read`].
    pub fn new(lib: Option<OsString>) -> Self {
        Self { lib, retry: RETRY, link: Link::Closed }
    }

    /// With the library that [`LIB_VARIABLE`] names, or the driver's.
    pub fn from_env() -> Self {
        Self::new(env::var_os(LIB_VARIABLE).filter(|path| !path.is_empty()))
    }

    /// Changes the pause between two attempts to load the library.
    #[must_use]
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.retry = pause;
        self
    }

    /// One look at every GPU. A GPU that cannot be reached is left out and named in the reason.
    pub fn read(&mut self) -> (Vec<GpuReading>, Option<String>) {
        if let Link::Failed { reason, at } = &self.link
            && at.elapsed() < self.retry
        {
            return (Vec::new(), Some(reason.clone()));
        }
        if !matches!(self.link, Link::Open(_)) {
            self.link = match open(self.lib.as_deref()) {
                Ok(nvml) => Link::Open(Box::new(nvml)),
                Err(error) => self.failed(&error),
            };
        }
        let outcome = match &self.link {
            Link::Open(nvml) => read_all(nvml),
            Link::Failed { reason, .. } => return (Vec::new(), Some(reason.clone())),
            Link::Closed => return (Vec::new(), None),
        };
        match outcome {
            Ok(readings) => readings,
            Err(error) => {
                // The driver went away under us (unloaded, updated): start over after the pause.
                self.link = self.failed(&error);
                (Vec::new(), Some(self.explain(&error)))
            }
        }
    }

    fn failed(&self, error: &NvmlError) -> Link {
        Link::Failed { reason: self.explain(error), at: Instant::now() }
    }

    fn explain(&self, error: &NvmlError) -> String {
        match error {
            NvmlError::LibloadingError(error) => match &self.lib {
                None => format!("no NVIDIA driver ({DRIVER_LIB} not found)"),
                Some(path) => format!("cannot load {}: {error}", path.display()),
            },
            NvmlError::DriverNotLoaded => "the NVIDIA driver is not running".into(),
            NvmlError::LibRmVersionMismatch => {
                "the NVIDIA driver and its library differ in version; reload the driver or restart the machine".into()
            }
            NvmlError::NoPermission => "no permission to talk to the NVIDIA driver".into(),
            error => format!("NVML failed: {error}"),
        }
    }
}

fn open(lib: Option<&OsStr>) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(lib.unwrap_or(OsStr::new(DRIVER_LIB))).init()
}

fn read_all(nvml: &Nvml) -> Result<(Vec<GpuReading>, Option<String>), NvmlError> {
    let count = nvml.device_count()?;
    if count == 0 {
        return Ok((Vec::new(), Some("the NVIDIA driver reports no GPU".into())));
    }
    let mut readings = Vec::new();
    let mut missing = Vec::new();
    for index in 0..count {
        match nvml.device_by_index(index).and_then(|device| read_one(nvml, index, &device)) {
            Ok(reading) => readings.push(reading),
            Err(NvmlError::Uninitialized) => return Err(NvmlError::Uninitialized),
            Err(NvmlError::GpuLost) => missing.push(format!("GPU {index} was lost: it fell off the bus")),
            Err(error) => missing.push(format!("GPU {index} cannot be read: {error}")),
        }
    }
    Ok((readings, (!missing.is_empty()).then(|| missing.join("; "))))
}

/// Everything that this GPU tells; an error only when the GPU itself is gone.
fn read_one(nvml: &Nvml, index: u32, device: &Device<'_>) -> Result<GpuReading, NvmlError> {
    let milli = |value: u32| f64::from(value) / 1000.0;
    let memory = known(memory(nvml, device))?;
    Ok(GpuReading {
        index,
        name: known(device.name())?.unwrap_or_else(|| format!("GPU {index}")),
        uuid: known(device.uuid())?,
        util_percent: known(device.utilization_rates())?.map(|rates| f64::from(rates.gpu)),
        mem_used: memory.map(|(used, _)| used),
        mem_total: memory.map(|(_, total)| total),
        power_w: known(device.power_usage())?.map(milli),
        power_limit_w: known(device.enforced_power_limit())?.map(milli),
        temp_c: known(device.temperature(TemperatureSensor::Gpu))?.map(f64::from),
        sm_mhz: known(device.clock_info(Clock::SM))?,
        throttle: known(device.current_throttle_reasons())?.map(throttle_words).unwrap_or_default(),
        energy_j: known(device.total_energy_consumption())?.map(|millijoules| millijoules as f64 / 1000.0),
    })
}

/// A value that cannot be had is absent; a GPU that is gone is an error.
fn known<T>(result: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(gone @ (NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized)) => Err(gone),
        Err(_) => Ok(None),
    }
}

/// Used and total bytes. Drivers older than 510 know only the first version of the call, whose `used` counts the
/// driver's own reserve in.
fn memory(nvml: &Nvml, device: &Device<'_>) -> Result<(u64, u64), NvmlError> {
    match device.memory_info() {
        Ok(info) => Ok((info.used, info.total)),
        Err(error @ (NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound)) => memory_v1(nvml, device, error),
        Err(error) => Err(error),
    }
}

#[allow(unsafe_code)]
fn memory_v1(nvml: &Nvml, device: &Device<'_>, v2_error: NvmlError) -> Result<(u64, u64), NvmlError> {
    let Ok(call) = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref() else { return Err(v2_error) };
    let mut info = std::mem::MaybeUninit::zeroed();
    // SAFETY: the symbol was loaded from the library that `nvml` keeps open, `device` was handed out by the same
    // library, and `info` is a plain C structure of three integers for which zero is valid; NVML writes only to it.
    let info = unsafe {
        nvml_wrapper::error::nvml_try(call(device.handle(), info.as_mut_ptr()))?;
        info.assume_init()
    };
    Ok((info.used, info.total))
}

/// What holds the clocks down. Being idle does not count: nothing is held down then.
fn throttle_words(reasons: ThrottleReasons) -> Vec<String> {
    const WORDS: [(ThrottleReasons, &str); 8] = [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "thermal slowdown (hardware)"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "thermal slowdown (software)"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost with another GPU"),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application clocks setting"),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clock setting"),
    ];
    WORDS.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, words)| (*words).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_no_throttling_and_reasons_add_up() {
        assert!(throttle_words(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(throttle_words(ThrottleReasons::NONE).is_empty());
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::GPU_IDLE;
        assert_eq!(throttle_words(both), ["power cap", "hardware slowdown"]);
    }
}
