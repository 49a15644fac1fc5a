//! A CUDA device on the CPU: the kernels' own source, compiled as C++ against `shim.h`.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use libloading::Library;
use spectop::engine::backend::cuda::driver::{Arg, Driver, Grid, Room};
use spectop::engine::backend::cuda::kernels::{PRELUDE, SOURCES};
use spectop::engine::backend::cuda::{Cuda, CudaError};

/// Bytes before and behind every piece of memory that nobody may touch.
const GUARD: usize = 256;
const UNTOUCHED: u8 = 0xa5;

type Launch = unsafe extern "C" fn(*const u32, u32, usize, *mut *mut c_void);

/// The compiled kernels. They have one set of fibers, so one launch runs at a time.
static KERNELS: LazyLock<(Library, Mutex<()>)> = LazyLock::new(|| {
    let file = compile();
    // SAFETY: the library has no initialisers with conditions.
    let library = unsafe { Library::new(file) }.expect("the simulated kernels load");
    (library, Mutex::new(()))
});

fn compile() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/shim.h");
    let mut text = format!("#include \"{}\"\n{PRELUDE}\n", shim.display());
    for source in SOURCES {
        text.push_str(source.text);
        for kernel in source.kernels {
            let _ = write!(
                text,
                "\nextern \"C\" void launch_{kernel}(const unsigned *grid, unsigned threads, size_t shared, void **args) {{\
                 simulated::launch({kernel}, grid, threads, shared, args); }}\n"
            );
        }
    }
    let id = std::process::id();
    let (source, object) = (folder.join(format!("kernels-{id}.cpp")), folder.join(format!("kernels-{id}.so")));
    std::fs::write(&source, text).expect("the folder for tests is writable");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let output = Command::new(&compiler)
        .args(["-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-o"])
        .args([&object, &source])
        .output()
        .unwrap_or_else(|e| panic!("these tests need a C++ compiler ({compiler}: {e})"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    object
}

/// The device.
#[derive(Default)]
pub struct Simulated {
    /// Sizes of the pieces of memory, by address.
    pieces: Mutex<HashMap<u64, usize>>,
}

impl Simulated {
    /// A backend on a device of its own.
    pub fn backend() -> Cuda<Simulated> {
        Cuda::new(Arc::new(Self::default()))
    }

    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes + 2 * GUARD, 256).expect("a size")
    }

    /// Whether these bytes lie in memory that was taken.
    fn check(&self, at: u64, bytes: usize) {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = pieces.iter().any(|(&start, &size)| at >= start && at + bytes as u64 <= start + size as u64);
        assert!(inside || bytes == 0, "a copy of {bytes} bytes reaches beyond the device's memory");
    }
}

impl Driver for Simulated {
    fn name(&self) -> String {
        "simulated".into()
    }

    fn architecture(&self) -> String {
        "c++".into()
    }

    fn processors(&self) -> usize {
        1
    }

    fn room(&self) -> Result<Room, CudaError> {
        Ok(Room { free: 1 << 30, total: 1 << 30 })
    }

    fn take(&self, bytes: usize) -> Result<u64, CudaError> {
        // SAFETY: the size is not zero. All bytes are set: as F32 and as F16 they are NaN.
        let at = unsafe {
            let start = std::alloc::alloc(Self::layout(bytes));
            std::ptr::write_bytes(start, UNTOUCHED, bytes + 2 * GUARD);
            std::ptr::write_bytes(start.add(GUARD), 0xff, bytes);
            start as u64 + GUARD as u64
        };
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).insert(at, bytes);
        Ok(at)
    }

    fn give(&self, at: u64) {
        let bytes = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).remove(&at).expect("taken before");
        let start = (at - GUARD as u64) as *mut u8;
        // SAFETY: `take` made it, with guards.
        unsafe {
            let guards =
                [std::slice::from_raw_parts(start, GUARD), std::slice::from_raw_parts(start.add(GUARD + bytes), GUARD)];
            let whole = guards.iter().all(|guard| guard.iter().all(|&b| b == UNTOUCHED));
            assert!(whole || std::thread::panicking(), "a kernel wrote beyond its memory of {bytes} bytes");
            std::alloc::dealloc(start, Self::layout(bytes));
        }
    }

    fn upload(&self, bytes: &[u8], at: u64) -> Result<(), CudaError> {
        self.check(at, bytes.len());
        // SAFETY: inside by the check.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        Ok(())
    }

    fn download(&self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.check(at, bytes.len());
        // SAFETY: inside by the check.
        unsafe { std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError> {
        self.check(from, bytes);
        self.check(to, bytes);
        // SAFETY: inside by the checks, and different pieces.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    fn launch(&self, kernel: &'static str, grid: Grid, args: &[Arg]) -> Result<(), CudaError> {
        let (library, one) = &*KERNELS;
        let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words: Vec<u64> = args.iter().map(|arg| arg.word()).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        let blocks = grid.blocks.map(|n| u32::try_from(n).expect("a grid"));
        // SAFETY: the wrapper has this signature and takes the arguments by the kernel's own.
        unsafe {
            let launch = library.get::<Launch>(format!("launch_{kernel}\0")).expect("the kernel is there");
            launch(blocks.as_ptr(), grid.threads as u32, grid.shared, pointers.as_mut_ptr());
        }
        Ok(())
    }
}
