//! NVIDIA's driver, loaded at run time: the program starts and runs without it.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction, CUmodule};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use super::CudaError;
use super::driver::{Arg, Driver, Grid, Room};
use super::kernels::SOURCES;
use super::nvrtc::Nvrtc;
use super::store;

/// One GPU.
pub struct Nvidia {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    functions: HashMap<&'static str, CUfunction>,
    modules: Vec<CUmodule>,
    capability: u32,
    processors: usize,
}

// SAFETY: the driver's handles may be used from any thread on which the context is current, which every method sees to.
unsafe impl Send for Nvidia {}
// SAFETY: as above; the driver's functions may be called from several threads.
unsafe impl Sync for Nvidia {}

fn call<T>(what: &'static str, result: Result<T, DriverError>) -> Result<T, CudaError> {
    result.map_err(|error| CudaError::Call { what, code: format!("{:?}", error.0) })
}

/// Number of devices; 0 without a driver.
pub fn devices() -> usize {
    // SAFETY: only looks for the library. Everything else would panic without it.
    if !unsafe { sys::is_culib_present() } {
        return 0;
    }
    if result::init().is_err() {
        return 0;
    }
    result::device::get_count().map_or(0, |count| usize::try_from(count).unwrap_or(0))
}

impl Nvidia {
    /// Opens a device and makes its kernels ready.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        call("starting the driver", result::init())?;
        let count = devices();
        if ordinal >= count {
            return Err(CudaError::NoDevice { wanted: ordinal, count });
        }
        let context = call("opening the device", CudaContext::new(ordinal))?;
        let (major, minor) = call("asking the device", context.compute_capability())?;
        let capability = (major * 10 + minor).cast_unsigned();
        let processors =
            call("asking the device", context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))?;
        let stream = call("making a stream", context.new_stream())?;
        let images = store::images(&Nvrtc::find()?, capability, store::folder().as_deref())?;
        let mut device = Self {
            context,
            stream,
            functions: HashMap::new(),
            modules: Vec::new(),
            capability,
            processors: usize::try_from(processors).unwrap_or(0),
        };
        for (source, image) in SOURCES.iter().zip(&images) {
            // PTX is text and must end with a zero; machine code does not mind one more byte.
            let mut bytes = image.bytes.clone();
            bytes.push(0);
            // SAFETY: the image is what NVRTC made, and the module lives as long as the device.
            let module = unsafe { result::module::load_data(bytes.as_ptr().cast()) };
            let module = call("loading the kernels", module)?;
            device.modules.push(module);
            for &name in source.kernels {
                let symbol = CString::new(name).map_err(|e| CudaError::Compiler(e.to_string()))?;
                // SAFETY: the module has just been loaded.
                let function = unsafe { result::module::get_function(module, symbol) };
                device.functions.insert(name, call("finding a kernel", function)?);
            }
        }
        Ok(device)
    }

    fn enter(&self) -> Result<(), CudaError> {
        call("entering the device", self.context.bind_to_thread())
    }
}

impl Driver for Nvidia {
    fn name(&self) -> String {
        self.context.name().unwrap_or_else(|_| "CUDA device".into())
    }

    fn architecture(&self) -> String {
        format!("sm_{}", self.capability)
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn room(&self) -> Result<Room, CudaError> {
        let (free, total) = call("asking for free memory", self.context.mem_get_info())?;
        Ok(Room { free: free as u64, total: total as u64 })
    }

    fn take(&self, bytes: usize) -> Result<u64, CudaError> {
        self.enter()?;
        // SAFETY: the memory is given back by `give` alone.
        match unsafe { result::malloc_sync(bytes) } {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(CudaError::OutOfMemory { mib: bytes.div_ceil(1 << 20) })
            }
            other => call("taking memory", other),
        }
    }

    fn give(&self, at: u64) {
        if self.enter().is_ok() {
            // SAFETY: `Memory` gives back once what it took; the driver waits for kernels that use it.
            let _ = unsafe { result::free_sync(at) };
        }
    }

    fn upload(&self, bytes: &[u8], at: u64) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: the memory is as large; pageable host memory has been read when the call returns.
        call("copying to the device", unsafe { result::memcpy_htod_async(at, bytes, self.stream.cu_stream()) })
    }

    fn download(&self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: the memory is as large, and is not read before the stream has come to it.
        call("copying from the device", unsafe { result::memcpy_dtoh_async(bytes, at, self.stream.cu_stream()) })?;
        call("computing", self.stream.synchronize())
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: both places are as large and apart.
        call("copying on the device", unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.cu_stream()) })
    }

    fn launch(&self, kernel: &'static str, grid: Grid, args: &[Arg]) -> Result<(), CudaError> {
        let Some(&function) = self.functions.get(kernel) else {
            return Err(CudaError::Call { what: "finding a kernel", code: kernel.to_owned() });
        };
        self.enter()?;
        let mut words: Vec<u64> = args.iter().map(|arg| arg.word()).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let [x, y, z] = grid.blocks.map(|n| n as u32);
        // SAFETY: the arguments are those of the kernel (the tests run every kernel with what the backend passes), and
        // the driver has copied them when the call returns.
        call(kernel, unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (grid.threads as u32, 1, 1),
                grid.shared as u32,
                self.stream.cu_stream(),
                &mut pointers,
            )
        })
    }
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        for module in self.modules.drain(..) {
            // SAFETY: loaded by `open` and unloaded once.
            let _ = unsafe { result::module::unload(module) };
        }
    }
}
