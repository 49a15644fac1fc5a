//! GPU and host sensors: one thread that looks at regular intervals, and a place where the last look is kept.

pub mod host;
pub mod nvml;

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::sensor::Sensors;

use self::host::Host;
use self::nvml::Gpus;

/// Interval between two looks when nobody asks for another: faster polling of NVML only disturbs the GPU.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest interval that is honoured.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the sensors in a thread of its own, because a call to NVML may block for a long time.
///
/// Only the latest reading is kept. Dropping the sampler ends the thread after the look in progress; the drop does
/// not wait for it, so that a driver that hangs cannot hang the program.
#[derive(Debug)]
pub struct Sampler {
    latest: Arc<Mutex<Sensors>>,
    // Never sent on: dropping it wakes the thread out of its wait and ends it.
    _stop: mpsc::Sender<()>,
}

impl Sampler {
    /// Starts reading, with the NVML library that [`nvml::LIB_VARIABLE`] names or the driver's own.
    pub fn spawn(interval: Duration) -> io::Result<Self> {
        Self::spawn_with(interval, Gpus::from_env())
    }

    /// Starts reading these GPUs and the host.
    pub fn spawn_with(interval: Duration, mut gpus: Gpus) -> io::Result<Self> {
        let latest = Arc::new(Mutex::new(Sensors::default()));
        let (stop, stopped) = mpsc::channel::<()>();
        let place = Arc::clone(&latest);
        let interval = interval.max(LEAST_INTERVAL);
        thread::Builder::new().name("sensors".into()).spawn(move || {
            let mut host = Host::new();
            loop {
                let begin = Instant::now();
                let (gpus, reason) = gpus.read();
                let mut host = host.read();
                host.no_gpu_reason = reason;
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Sensors { gpus, host };
                // A slow look is followed by a full pause of its own length, so that reading never takes more than
                // half of the time however slow the driver is.
                let took = begin.elapsed();
                let pause = interval.saturating_sub(took).max(took);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { latest, _stop: stop })
    }

    /// The last look; empty until the first one is over.
    pub fn latest(&self) -> Sensors {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
