//! NVRTC, NVIDIA's run-time compiler, found at run time.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

use super::CudaError;
use super::kernels::{Source, program};

/// Names that installations have for the library, newest first.
const NAMES: [&str; 5] =
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so", "nvrtc64_120_0.dll"];

/// Options of every compilation. Contraction would make a row's bits depend on how the compiler sees the kernel.
const OPTIONS: [&str; 3] = ["--fmad=false", "--std=c++17", "--device-as-default-execution-space"];

type Program = *mut c_void;
type Status = c_int;

/// The compiler.
pub struct Nvrtc {
    library: Library,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// A compiled source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Machine code, or PTX where the compiler does not know the device.
    pub bytes: Vec<u8>,
}

impl Nvrtc {
    /// Opens the library that `SPECTOP_NVRTC` names, or the first of the usual ones.
    pub fn find() -> Result<Self, CudaError> {
        if let Some(path) = std::env::var_os("SPECTOP_NVRTC") {
            return Self::open(Path::new(&path));
        }
        let mut last = CudaError::NoCompiler("no library by any of its names".into());
        for name in NAMES {
            match Self::open(Path::new(name)) {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Opens this library.
    pub fn open(path: &Path) -> Result<Self, CudaError> {
        // SAFETY: NVRTC's initialisers have no conditions.
        let library = unsafe { Library::new(PathBuf::from(path)) }.map_err(|e| CudaError::NoCompiler(e.to_string()))?;
        let mut nvrtc = Self { library, version: (0, 0) };
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: the signature is NVRTC's; both places are writable.
        unsafe {
            let version: extern "C" fn(*mut c_int, *mut c_int) -> Status = nvrtc.symbol(c"nvrtcVersion")?;
            nvrtc.check(version(&raw mut major, &raw mut minor))?;
        }
        nvrtc.version = (major.cast_unsigned(), minor.cast_unsigned());
        Ok(nvrtc)
    }

    /// SAFETY: `T` must be the type of the function of this name.
    unsafe fn symbol<T: Copy>(&self, name: &CStr) -> Result<T, CudaError> {
        // SAFETY: passed on from the caller; a copy of the pointer lives no longer than `self`.
        unsafe { self.library.get::<T>(name.to_bytes_with_nul()) }
            .map(|symbol| *symbol)
            .map_err(|e| CudaError::Compiler(e.to_string()))
    }

    fn check(&self, status: Status) -> Result<(), CudaError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the signature is NVRTC's; it returns static text for every number.
        let text = unsafe {
            let text: extern "C" fn(Status) -> *const c_char = self.symbol(c"nvrtcGetErrorString")?;
            CStr::from_ptr(text(status))
        };
        Err(CudaError::Compiler(text.to_string_lossy().into_owned()))
    }

    /// Compute capabilities that it makes machine code for, such as 90.
    pub fn architectures(&self) -> Result<Vec<u32>, CudaError> {
        let mut count: c_int = 0;
        // SAFETY: the signatures are NVRTC's; the second call fills as many numbers as the first one counted.
        unsafe {
            let number: extern "C" fn(*mut c_int) -> Status = self.symbol(c"nvrtcGetNumSupportedArchs")?;
            self.check(number(&raw mut count))?;
            let mut list: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
            let fill: extern "C" fn(*mut c_int) -> Status = self.symbol(c"nvrtcGetSupportedArchs")?;
            self.check(fill(list.as_mut_ptr()))?;
            Ok(list.into_iter().map(c_int::cast_unsigned).collect())
        }
    }

    /// Options for a device of this compute capability: machine code where the compiler knows it, else PTX of the
    /// newest one before it, which the driver finishes.
    pub fn options(&self, capability: u32) -> Result<Vec<String>, CudaError> {
        let known = self.architectures()?;
        let target = if known.contains(&capability) {
            format!("sm_{capability}")
        } else {
            let older = known.iter().copied().filter(|&a| a < capability).max();
            let newest = older
                .ok_or_else(|| CudaError::Compiler(format!("it makes no code for compute capability {capability}")))?;
            format!("compute_{newest}")
        };
        let mut options: Vec<String> = OPTIONS.iter().map(|&o| o.to_owned()).collect();
        options.push(format!("--gpu-architecture={target}"));
        Ok(options)
    }

    /// Compiles a source.
    pub fn compile(&self, source: &Source, options: &[String]) -> Result<Image, CudaError> {
        let invalid = |_| CudaError::Compiler("a text with a zero byte".into());
        let text = CString::new(program(source)).map_err(invalid)?;
        let name = CString::new(source.name).map_err(invalid)?;
        let owned = options.iter().map(|o| CString::new(o.as_str())).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
        let pointers: Vec<*const c_char> = owned.iter().map(|o| o.as_ptr()).collect();
        let machine = options.iter().any(|o| o.contains("=sm_"));
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: the signatures are NVRTC's; texts and options outlive the program, which is destroyed below.
        unsafe {
            let create: extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> Status = self.symbol(c"nvrtcCreateProgram")?;
            let compile: extern "C" fn(Program, c_int, *const *const c_char) -> Status =
                self.symbol(c"nvrtcCompileProgram")?;
            let destroy: extern "C" fn(*mut Program) -> Status = self.symbol(c"nvrtcDestroyProgram")?;
            let none = std::ptr::null();
            self.check(create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, none, none))?;
            let result = if compile(program, pointers.len() as c_int, pointers.as_ptr()) == 0 {
                let (size, get) = if machine {
                    (c"nvrtcGetCUBINSize", c"nvrtcGetCUBIN")
                } else {
                    (c"nvrtcGetPTXSize", c"nvrtcGetPTX")
                };
                self.output(program, size, get).map(|bytes| Image { bytes })
            } else {
                let log = self.output(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog")?;
                Err(CudaError::Kernel {
                    source_name: source.name,
                    architecture: options.last().cloned().unwrap_or_default(),
                    log: String::from_utf8_lossy(&log).trim_matches(['\0', '\n']).to_owned(),
                })
            };
            destroy(&raw mut program);
            result
        }
    }

    /// SAFETY: `program` must be alive, and the names those of a function that tells a size and of one that fills it.
    unsafe fn output(&self, program: Program, size: &CStr, get: &CStr) -> Result<Vec<u8>, CudaError> {
        let mut bytes = 0usize;
        // SAFETY: the signatures are NVRTC's; the second call fills as many bytes as the first one told.
        unsafe {
            let tell: extern "C" fn(Program, *mut usize) -> Status = self.symbol(size)?;
            self.check(tell(program, &raw mut bytes))?;
            let mut out = vec![0u8; bytes];
            let fill: extern "C" fn(Program, *mut c_char) -> Status = self.symbol(get)?;
            self.check(fill(program, out.as_mut_ptr().cast()))?;
            Ok(out)
        }
    }
}
