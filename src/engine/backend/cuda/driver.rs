//! What the backend needs of a device: memory, copies, kernel launches. NVIDIA's driver is one; the tests run the same
//! kernels on a simulated one.

use std::sync::Arc;

use super::CudaError;

/// One argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Arg {
    /// An address on the device, or 0 for none.
    Address(u64),
    /// A count.
    Int(i32),
    /// A number.
    Float(f32),
}

impl Arg {
    /// As the bytes that a kernel's parameter is read from: little-endian, so that narrow ones stand first.
    pub fn word(self) -> u64 {
        match self {
            Arg::Address(at) => at,
            Arg::Int(value) => u64::from(value.cast_unsigned()),
            Arg::Float(value) => u64::from(value.to_bits()),
        }
    }
}

impl From<i32> for Arg {
    fn from(value: i32) -> Self {
        Arg::Int(value)
    }
}

impl From<usize> for Arg {
    fn from(value: usize) -> Self {
        Arg::Int(value as i32)
    }
}

impl From<bool> for Arg {
    fn from(value: bool) -> Self {
        Arg::Int(i32::from(value))
    }
}

impl From<f32> for Arg {
    fn from(value: f32) -> Self {
        Arg::Float(value)
    }
}

impl From<u64> for Arg {
    fn from(value: u64) -> Self {
        Arg::Address(value)
    }
}

/// How a kernel is spread over the device.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Blocks.
    pub blocks: [usize; 3],
    /// Threads a block.
    pub threads: usize,
    /// Bytes of shared memory a block.
    pub shared: usize,
}

/// Memory of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that nobody uses.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A device. Everything happens in the order of the calls.
pub trait Driver: Send + Sync + 'static {
    /// Name of the device.
    fn name(&self) -> String;
    /// What its kernels were compiled for, such as `sm_90`.
    fn architecture(&self) -> String;
    /// Multiprocessors.
    fn processors(&self) -> usize;
    /// Its memory.
    fn room(&self) -> Result<Room, CudaError>;
    /// Takes memory, aligned to 256 bytes; what is in it is undefined.
    fn take(&self, bytes: usize) -> Result<u64, CudaError>;
    /// Gives memory back.
    fn give(&self, at: u64);
    /// Copies from the host. `bytes` may be used again at once.
    fn upload(&self, bytes: &[u8], at: u64) -> Result<(), CudaError>;
    /// Copies to the host, when all that was asked for before is done.
    fn download(&self, at: u64, bytes: &mut [u8]) -> Result<(), CudaError>;
    /// Copies on the device, between places that do not overlap.
    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), CudaError>;
    /// Starts a kernel: one of [`super::kernels::SOURCES`], by name.
    fn launch(&self, kernel: &'static str, grid: Grid, args: &[Arg]) -> Result<(), CudaError>;
}

/// Memory of a device that gives itself back.
pub struct Memory<D: Driver> {
    driver: Arc<D>,
    at: u64,
    bytes: usize,
}

impl<D: Driver> std::fmt::Debug for Memory<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

impl<D: Driver> Memory<D> {
    /// No memory yet.
    pub fn none(driver: &Arc<D>) -> Self {
        Self { driver: Arc::clone(driver), at: 0, bytes: 0 }
    }

    /// This many bytes, undefined.
    pub fn new(driver: &Arc<D>, bytes: usize) -> Result<Self, CudaError> {
        let at = if bytes == 0 { 0 } else { driver.take(bytes)? };
        Ok(Self { driver: Arc::clone(driver), at, bytes })
    }

    /// A copy of host memory.
    pub fn of(driver: &Arc<D>, bytes: &[u8]) -> Result<Self, CudaError> {
        let memory = Self::new(driver, bytes.len())?;
        memory.upload(bytes)?;
        Ok(memory)
    }

    /// Where it is; 0 while there is none.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How much it is.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Grows to `bytes` if it is smaller, by half at least. The first `keep` bytes stay.
    pub fn grow(&mut self, bytes: usize, keep: usize) -> Result<(), CudaError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let larger = Self::new(&self.driver, bytes.max(self.bytes + self.bytes / 2).next_multiple_of(256))?;
        let keep = keep.min(self.bytes);
        if keep > 0 {
            self.driver.copy(self.at, larger.at, keep)?;
        }
        *self = larger;
        Ok(())
    }

    /// Copies from the host to its beginning.
    pub fn upload(&self, bytes: &[u8]) -> Result<(), CudaError> {
        debug_assert!(bytes.len() <= self.bytes);
        if bytes.is_empty() { Ok(()) } else { self.driver.upload(bytes, self.at) }
    }
}

impl<D: Driver> Drop for Memory<D> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.driver.give(self.at);
        }
    }
}
