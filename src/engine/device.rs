//! Which device the models run on, and how code is run on it without knowing which.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::api::EngineError;
use super::backend::Backend;
use super::backend::cpu::Cpu;
use super::backend::cuda::nvidia::{self, Nvidia};
use super::backend::cuda::{Cuda, CudaError};
use super::backend::parallel::Parallel;

/// Which device the models run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Device {
    /// The first GPU if there is one that works, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A GPU by its number.
    Cuda(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("\"{text}\" is no device; choose auto, cpu or cuda:N")),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// What is to be done on a device.
pub trait OnDevice {
    /// What comes of it.
    type Out;
    /// Does it.
    fn run<B: Backend>(self, backend: B) -> Self::Out;
}

/// Where the models run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The device; of several GPUs the first.
    pub device: Device,
    /// Compute threads on the processor; 0: one a processor.
    pub threads: usize,
    /// Devices that share the target's layers; on the processor they share its threads.
    pub tensor_parallel: usize,
}

/// Opens the devices and runs `work` on them. `tell` hears why `auto` does not take a GPU that is there.
pub fn on<W: OnDevice>(place: Place, work: W, mut tell: impl FnMut(String)) -> Result<W::Out, EngineError> {
    let of = place.tensor_parallel.max(1);
    let gpus = |first: usize| -> Result<Vec<Cuda<Nvidia>>, CudaError> {
        (first..first + of).map(|number| Nvidia::open(number).map(|gpu| Cuda::new(Arc::new(gpu)))).collect()
    };
    match place.device {
        Device::Cuda(first) => {
            let gpus = gpus(first).map_err(|error| EngineError::Load(error.to_string()))?;
            Ok(together(gpus, work))
        }
        Device::Auto if nvidia::devices() >= of => match gpus(0) {
            Ok(gpus) => Ok(together(gpus, work)),
            Err(error) => {
                tell(format!("the GPU is not used: {error}"));
                Ok(processor(place, of, work))
            }
        },
        Device::Auto | Device::Cpu => Ok(processor(place, of, work)),
    }
}

fn processor<W: OnDevice>(place: Place, of: usize, work: W) -> W::Out {
    let threads = if of == 1 { place.threads } else { (Cpu::threads(place.threads) / of).max(1) };
    together((0..of).map(|_| Cpu::new(threads)).collect(), work)
}

fn together<B, W: OnDevice>(mut devices: Vec<B>, work: W) -> W::Out
where
    B: Backend,
    B::Matrix: Sync,
    B::Vector: Clone + Sync,
    B::Buf: Sync,
    B::Cache: Sync,
{
    match devices.pop() {
        Some(only) if devices.is_empty() => work.run(only),
        last => {
            devices.extend(last);
            work.run(Parallel::new(devices))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        for (text, device) in [("auto", Device::Auto), ("cpu", Device::Cpu), ("cuda:3", Device::Cuda(3))] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string(), text);
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda0", ""] {
            let error = wrong.parse::<Device>().unwrap_err();
            assert!(error.contains("cpu or cuda:N"), "{error}");
        }
    }

    struct Name;
    impl OnDevice for Name {
        type Out = String;
        fn run<B: Backend>(self, backend: B) -> String {
            backend.info().kind
        }
    }

    #[test]
    fn a_gpu_that_is_not_there_is_told_in_one_sentence() {
        assert_eq!(
            on(Place { device: Device::Cpu, threads: 1, tensor_parallel: 1 }, Name, |_| ()),
            Ok("cpu".to_owned())
        );
        // On a machine with a driver the number is the problem.
        let far = Place { device: Device::Cuda(9_999), threads: 1, tensor_parallel: 2 };
        let error = on(far, Name, |_| ()).unwrap_err().to_string();
        assert!(error.contains("CUDA driver") || error.contains("cuda:9999"), "{error}");
        assert!(!error.contains('\n') && error.contains("--device"), "{error}");
    }
}
