//! Threads for kernels: workers spin briefly between jobs and park when nothing comes.
//!
//! A forward pass is some hundred short jobs, each ended by all threads. Waking a parked thread costs more than most of
//! them, so a worker spins for about the length of the gap between two jobs, yields for a while (which is what keeps the
//! engine alive on a machine that has fewer free cores than it has threads), and then parks.
//!
//! Where other processes want the cores too, a thread that has lost its core comes back after milliseconds, and all
//! others wait for it at every barrier. Then fewer threads are faster than all: the pool halves them when it loses time
//! that way, and tries more again after a while.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Spins before a waiting thread begins to yield its core.
const SPINS: usize = 2_000;
/// Yields before a worker without a job parks.
const YIELDS: usize = 200;

/// A job in which the caller waited longer than this, and longer than it worked, has lost time to another process.
const LOST: Duration = Duration::from_micros(300);
/// Such jobs before the threads are halved.
const STRIKES: u32 = 3;
/// Jobs without one that clear the count.
const CLEAN: u32 = 256;
/// How long fewer threads work before more are tried, at first and at most.
const HOLD: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(3)];
/// Most threads of a pool: their number shares a word with the count of jobs.
const MOST: usize = 255;

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
            let waited = wait_until(|| {
                barrier.generation.load(Ordering::Acquire) != generation || self.shared.panicked.load(Ordering::Relaxed)
            });
            if self.id == 0 && !waited.is_zero() {
                self.shared.waited_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
            }
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

/// Waits; returns how long beyond the first spins.
fn wait_until(done: impl Fn() -> bool) -> Duration {
    for _ in 0..SPINS {
        if done() {
            return Duration::ZERO;
        }
        spin_loop();
    }
    let clock = Instant::now();
    while !done() {
        thread::yield_now();
    }
    clock.elapsed()
}

/// How many threads take part, by what they lose to other processes.
#[derive(Debug)]
struct Governor {
    count: usize,
    active: usize,
    strikes: u32,
    clean: u32,
    hold: Duration,
    until: Option<Instant>,
}

impl Governor {
    fn new(count: usize) -> Self {
        Self { count, active: count, strikes: 0, clean: 0, hold: HOLD[0], until: None }
    }

    /// Threads of the job that starts now.
    fn threads(&mut self, now: Instant) -> usize {
        if self.until.is_some_and(|until| now >= until) {
            self.active = (self.active * 2).min(self.count);
            self.until = (self.active < self.count).then(|| now + self.hold);
            // On probation: the first lost job halves them again.
            self.strikes = STRIKES - 1;
            self.clean = 0;
        }
        self.active
    }

    /// A job ended at `now`; the caller worked and waited this long.
    fn ended(&mut self, now: Instant, worked: Duration, waited: Duration) {
        if waited > LOST && waited > worked {
            self.strikes += 1;
            self.clean = 0;
        } else {
            self.clean += 1;
            if self.clean >= CLEAN {
                self.strikes = 0;
                self.clean = 0;
                if self.active == self.count {
                    self.hold = HOLD[0];
                }
            }
        }
        if self.strikes >= STRIKES && self.active > 1 {
            self.active = self.active.div_ceil(2);
            self.strikes = 0;
            self.until = Some(now + self.hold);
            self.hold = (self.hold * 2).min(HOLD[1]);
        }
    }
}

struct Barrier {
    arrived: AtomicUsize,
    generation: AtomicUsize,
}

struct Shared {
    /// The job of the current epoch, its lifetime erased; see the SAFETY note in `run`.
    job: UnsafeCell<Option<*const Job<'static>>>,
    /// Count of jobs, shifted by 8, and threads that take part in the current one.
    epoch: AtomicUsize,
    /// Nanoseconds that the caller waited at barriers of the current job.
    waited_ns: AtomicU64,
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
    governor: Governor,
}

impl Pool {
    /// A pool of `count` threads, the caller included.
    pub fn new(count: usize) -> Self {
        let count = count.clamp(1, MOST);
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            epoch: AtomicUsize::new(0),
            waited_ns: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            parked: (1..count).map(|_| AtomicBool::new(false)).collect(),
            barrier: Barrier { arrived: AtomicUsize::new(0), generation: AtomicUsize::new(0) },
        });
        let mut workers = Vec::new();
        for id in 1..count {
            let shared = Arc::clone(&shared);
            let spawned = thread::Builder::new().name(format!("kernel-{id}")).spawn(move || work(&shared, id));
            // Fewer threads than asked for would leave barriers waiting for ever, so this must not be ignored.
            workers.push(spawned.expect("the system refuses to start a thread"));
        }
        let threads = workers.iter().map(|w| w.thread().clone()).collect();
        Self { shared, workers, threads, governor: Governor::new(count) }
    }

    /// Threads, the caller included.
    pub fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job` once on every thread that takes part and returns when all are done.
    pub fn run(&mut self, job: &Job<'_>) {
        let shared = &*self.shared;
        let started = Instant::now();
        let active = self.governor.threads(started);
        let me = Worker { id: 0, count: active, shared };
        if active == 1 {
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
        shared.running.store(active - 1, Ordering::Relaxed);
        shared.waited_ns.store(0, Ordering::Relaxed);
        let jobs = shared.epoch.load(Ordering::Relaxed) >> 8;
        shared.epoch.store(jobs.wrapping_add(1) << 8 | active, Ordering::SeqCst);
        for (flag, thread) in shared.parked.iter().zip(&self.threads).take(active - 1) {
            if flag.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let guard = WaitForWorkers(shared);
        job(&me);
        drop(guard);
        let waited = Duration::from_nanos(shared.waited_ns.load(Ordering::Relaxed));
        if waited.is_zero() {
            self.governor.ended(started, Duration::ZERO, waited);
        } else {
            let now = Instant::now();
            self.governor.ended(now, (now - started).saturating_sub(waited), waited);
        }
        assert!(!shared.panicked.load(Ordering::Acquire), "a kernel thread panicked");
    }
}

struct WaitForWorkers<'a>(&'a Shared);

impl Drop for WaitForWorkers<'_> {
    fn drop(&mut self) {
        let waited = wait_until(|| self.0.running.load(Ordering::Acquire) == 0);
        if !waited.is_zero() {
            self.0.waited_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

fn work(shared: &Shared, id: usize) {
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
        seen = shared.epoch.load(Ordering::Acquire);
        let count = seen & MOST;
        if id >= count {
            // Not asked; the job may be over already, so nothing of it may be touched.
            continue;
        }
        // SAFETY: the epoch just seen was stored after the pointer was written, and this thread takes part in it, so
        // `run` waits for `running` to reach 0 before the closure behind the pointer may go away.
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
            pool.governor = Governor::new(3);
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
    fn lost_time_halves_the_threads_and_quiet_brings_them_back() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut governor = Governor::new(4);
        // A long job with its share of waiting is no loss, nor is a short wait.
        for _ in 0..100 {
            governor.ended(start, ms(9), ms(8));
            governor.ended(start, ms(0), Duration::from_micros(250));
        }
        assert_eq!(governor.threads(start), 4);
        for _ in 0..STRIKES {
            governor.ended(start, ms(1), ms(3));
        }
        assert_eq!(governor.threads(start), 2);
        for _ in 0..STRIKES {
            governor.ended(start, ms(1), ms(3));
        }
        assert_eq!(governor.threads(start), 1);
        // More are tried after a while; one lost job on probation is enough to go back, and for longer.
        let later = start + HOLD[0] * 2;
        assert_eq!(governor.threads(later), 2);
        governor.ended(later, ms(1), ms(3));
        assert_eq!(governor.threads(later + HOLD[0] * 2), 1);
        let mut now = later;
        for _ in 0..4 {
            now += HOLD[1];
            governor.threads(now);
            for _ in 0..CLEAN {
                governor.ended(now, ms(1), ms(0));
            }
        }
        assert_eq!(governor.threads(now), 4);
    }

    #[test]
    fn jobs_run_whole_whatever_number_of_threads_takes_part() {
        let mut pool = Pool::new(3);
        for round in 0..3_000 {
            pool.governor.active = 1 + round % 3;
            pool.governor.until = None;
            let sum = AtomicUsize::new(0);
            pool.run(&|w| {
                for i in w.share(100, 1) {
                    sum.fetch_add(i, Ordering::Relaxed);
                }
                w.barrier();
                assert_eq!(sum.load(Ordering::Relaxed), 4950);
            });
        }
    }

    #[test]
    fn wakes_after_a_pause() {
        let mut pool = Pool::new(2);
        for _ in 0..3 {
            pool.governor = Governor::new(2);
            let count = AtomicUsize::new(0);
            pool.run(&|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 2);
            thread::sleep(std::time::Duration::from_millis(30));
        }
    }
}
