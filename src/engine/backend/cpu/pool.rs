//! Threads for kernels: workers spin briefly between jobs and park when nothing comes.
//!
//! A forward pass is some hundred short jobs, each ended by all threads. Waking a parked thread costs more than most of
//! them, so a worker spins for about the length of the gap between two jobs, yields for a while (which is what keeps the
//! engine alive on a machine that has fewer free cores than it has threads), and then parks.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// Spins before a waiting thread begins to yield its core.
const SPINS: usize = 2_000;
/// Yields before a worker without a job parks.
const YIELDS: usize = 200;

type Job<'a> = dyn Fn(&Worker<'_>) + Sync + 'a;

/// A thread's view of the job it takes part in.
pub struct Worker<'a> {
    /// Index of this thread, from 0.
    pub id: usize,
    /// Threads in the pool.
    pub count: usize,
    shared: &'a Shared,
}

impl Worker<'_> {
    /// Waits until every thread of the job is here.
    pub fn barrier(&self) {
        if self.count == 1 {
            return;
        }
        let barrier = &self.shared.barrier;
        let generation = barrier.generation.load(Ordering::Acquire);
        if barrier.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            barrier.arrived.store(0, Ordering::Relaxed);
            barrier.generation.store(generation.wrapping_add(1), Ordering::Release);
        } else {
            // A thread that panicked never arrives; the others must not wait for it.
            wait_until(|| {
                barrier.generation.load(Ordering::Acquire) != generation || self.shared.panicked.load(Ordering::Relaxed)
            });
        }
    }

    /// This thread's share of `0..n`, in whole multiples of `step`.
    pub fn share(&self, n: usize, step: usize) -> std::ops::Range<usize> {
        let units = n.div_ceil(step);
        let from = units * self.id / self.count * step;
        let to = units * (self.id + 1) / self.count * step;
        from.min(n)..to.min(n)
    }
}

fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..SPINS {
        if done() {
            return;
        }
        spin_loop();
    }
    while !done() {
        thread::yield_now();
    }
}

struct Barrier {
    arrived: AtomicUsize,
    generation: AtomicUsize,
}

struct Shared {
    /// The job of the current epoch, its lifetime erased; see the SAFETY note in `run`.
    job: UnsafeCell<Option<*const Job<'static>>>,
    epoch: AtomicUsize,
    running: AtomicUsize,
    stop: AtomicBool,
    panicked: AtomicBool,
    parked: Vec<AtomicBool>,
    barrier: Barrier,
}

// SAFETY: `job` is written only by `Pool::run` while no worker runs (running == 0), and read by workers only after they
// have seen the epoch that was stored with Release after the write.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer inside is only followed between the epoch store and the last `running` decrement.
unsafe impl Send for Shared {}

/// A fixed set of threads; the caller of [`Pool::run`] is one of them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    threads: Vec<Thread>,
}

impl Pool {
    /// A pool of `count` threads, the caller included.
    pub fn new(count: usize) -> Self {
        let count = count.max(1);
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            epoch: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            parked: (1..count).map(|_| AtomicBool::new(false)).collect(),
            barrier: Barrier { arrived: AtomicUsize::new(0), generation: AtomicUsize::new(0) },
        });
        let mut workers = Vec::new();
        for id in 1..count {
            let shared = Arc::clone(&shared);
            let spawned = thread::Builder::new().name(format!("kernel-{id}")).spawn(move || work(&shared, id, count));
            // Fewer threads than asked for would leave barriers waiting for ever, so this must not be ignored.
            workers.push(spawned.expect("the system refuses to start a thread"));
        }
        let threads = workers.iter().map(|w| w.thread().clone()).collect();
        Self { shared, workers, threads }
    }

    /// Threads, the caller included.
    pub fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job` once on every thread and returns when all are done.
    pub fn run(&mut self, job: &Job<'_>) {
        let shared = &*self.shared;
        let me = Worker { id: 0, count: self.count(), shared };
        if self.workers.is_empty() {
            job(&me);
            return;
        }
        // SAFETY: `&mut self` means that no other run is under way, and the last one waited for running == 0, so nobody
        // reads `job` now. The erased lifetime is sound because this function does not return (nor unwind past the
        // guard below) before every worker has finished with the pointer.
        unsafe {
            let erased: *const Job<'_> = job;
            #[allow(clippy::transmute_ptr_to_ptr)] // a cast cannot lengthen the lifetime of a trait object
            let erased: *const Job<'static> = std::mem::transmute::<*const Job<'_>, *const Job<'static>>(erased);
            *shared.job.get() = Some(erased);
        }
        shared.running.store(self.workers.len(), Ordering::Relaxed);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        for (flag, thread) in shared.parked.iter().zip(&self.threads) {
            if flag.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let guard = WaitForWorkers(shared);
        job(&me);
        drop(guard);
        assert!(!shared.panicked.load(Ordering::Acquire), "a kernel thread panicked");
    }
}

struct WaitForWorkers<'a>(&'a Shared);

impl Drop for WaitForWorkers<'_> {
    fn drop(&mut self) {
        wait_until(|| self.0.running.load(Ordering::Acquire) == 0);
    }
}

fn work(shared: &Shared, id: usize, count: usize) {
    let mut seen = 0;
    loop {
        let arrived = || shared.epoch.load(Ordering::Acquire) != seen || shared.stop.load(Ordering::Acquire);
        let mut waited = 0;
        while !arrived() {
            waited += 1;
            if waited < SPINS {
                spin_loop();
            } else if waited < SPINS + YIELDS {
                thread::yield_now();
            } else {
                let flag = &shared.parked[id - 1];
                flag.store(true, Ordering::SeqCst);
                // Look again after the flag is up: a job stored before it would otherwise be slept through.
                while shared.epoch.load(Ordering::SeqCst) == seen && !shared.stop.load(Ordering::SeqCst) {
                    thread::park();
                }
                flag.store(false, Ordering::SeqCst);
            }
        }
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        seen = seen.wrapping_add(1);
        // SAFETY: the epoch just seen was stored after the pointer was written, and `run` waits for `running` to reach
        // 0 before the closure behind it may go away.
        let job = unsafe { (*shared.job.get()).map(|job| &*job) };
        if let Some(job) = job {
            let worker = Worker { id, count, shared };
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(&worker))).is_err() {
                shared.panicked.store(true, Ordering::Release);
            }
        }
        shared.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker that panicked has been reported by `run` already.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_takes_part_and_barriers_hold() {
        let mut pool = Pool::new(3);
        for round in 0..2_000 {
            let first = AtomicUsize::new(0);
            let second = AtomicUsize::new(0);
            pool.run(&|w| {
                first.fetch_add(w.id + 1, Ordering::Relaxed);
                w.barrier();
                if first.load(Ordering::Relaxed) == 6 {
                    second.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(second.load(Ordering::Relaxed), 3, "round {round}");
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        let mut pool = Pool::new(3);
        for n in [0, 1, 15, 16, 17, 100] {
            let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            pool.run(&|w| {
                for i in w.share(n, 16) {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn wakes_after_a_pause() {
        let mut pool = Pool::new(2);
        for _ in 0..3 {
            let count = AtomicUsize::new(0);
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 2);
            thread::sleep(std::time::Duration::from_millis(30));
        }
    }
}
