//! Which device the models run on, and how code is run on it without knowing which.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::api::EngineError;
use super::backend::Backend;
use super::backend::cpu::Cpu;
use super::backend::cuda::nvidia::{self, Nvidia};
use super::backend::cuda::{Cuda, CudaError};

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

/// Opens the device and runs `work` on it. `tell` hears why `auto` does not take a GPU that is there.
pub fn on<W: OnDevice>(
    device: Device,
    threads: usize,
    work: W,
    mut tell: impl FnMut(String),
) -> Result<W::Out, EngineError> {
    let open = |number| Nvidia::open(number).map(|gpu| Cuda::new(Arc::new(gpu)));
    let failed = |error: CudaError| EngineError::Load(error.to_string());
    match device {
        Device::Cuda(number) => Ok(work.run(open(number).map_err(failed)?)),
        Device::Auto if nvidia::devices() > 0 => match open(0) {
            Ok(backend) => Ok(work.run(backend)),
            Err(error) => {
                tell(format!("the GPU is not used: {error}"));
                Ok(work.run(Cpu::new(threads)))
            }
        },
        Device::Auto | Device::Cpu => Ok(work.run(Cpu::new(threads))),
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
        assert_eq!(on(Device::Cpu, 1, Name, |_| ()), Ok("cpu".to_owned()));
        // On a machine with a driver the number is the problem.
        let error = on(Device::Cuda(9_999), 1, Name, |_| ()).unwrap_err().to_string();
        assert!(error.contains("CUDA driver") || error.contains("cuda:9999"), "{error}");
        assert!(!error.contains('\n') && error.contains("--device"), "{error}");
    }
}
