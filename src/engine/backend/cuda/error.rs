//! What can go wrong with a CUDA device, in words that say what to do next.

use crate::engine::weights::WeightsError;

/// What can go wrong with a CUDA device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no driver.
    #[error("there is no CUDA driver on this machine; install NVIDIA's driver, or run with --device cpu")]
    NoDriver,
    /// There is no such device.
    #[error("there is no device cuda:{wanted}: the driver knows {count} (counted from 0); choose another --device")]
    NoDevice {
        /// What was asked for.
        wanted: usize,
        /// Devices there are.
        count: usize,
    },
    /// The compiler for the kernels is missing.
    #[error(
        "NVRTC, which compiles the CUDA kernels, was not found ({0}); install the CUDA toolkit or the Python wheel nvidia-cuda-nvrtc-cu12, set SPECTOP_NVRTC to its libnvrtc.so, or run with --device cpu"
    )]
    NoCompiler(String),
    /// The compiler is not usable.
    #[error("NVRTC failed: {0}; try another version of it (SPECTOP_NVRTC), or run with --device cpu")]
    Compiler(String),
    /// A kernel does not compile.
    #[error("the kernels in {source_name} do not compile for {architecture}: {log}; please report this")]
    Kernel {
        /// Source file.
        source_name: &'static str,
        /// What for.
        architecture: String,
        /// The compiler's words.
        log: String,
    },
    /// The models do not fit.
    #[error("{0}")]
    DoesNotFit(String),
    /// No memory is left.
    #[error("the CUDA device has no {mib} MiB left; close what else uses it, or ask for a smaller --context")]
    OutOfMemory {
        /// What was asked for.
        mib: usize,
    },
    /// The driver refused something.
    #[error("CUDA: {what} failed ({code}); if it goes on, restart the server or run with --device cpu")]
    Call {
        /// What was tried.
        what: &'static str,
        /// The driver's word for it.
        code: String,
    },
}

impl From<CudaError> for WeightsError {
    fn from(error: CudaError) -> Self {
        Self::Device(error.to_string())
    }
}
