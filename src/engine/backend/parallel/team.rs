//! One thread a device: each runs its device's part of an operation, all return together.

use std::sync::Mutex;

use crate::engine::backend::cpu::Pool;

/// Threads for as many devices.
pub struct Team {
    pool: Pool,
}

impl Team {
    /// A team for `count` devices; the calling thread is one of it.
    pub fn new(count: usize) -> Self {
        Self { pool: Pool::new(count) }
    }

    /// Runs `job` once for every part, parts beside each other where the pool has the threads.
    pub fn each<T: Send>(&mut self, parts: Vec<T>, job: impl Fn(usize, T) + Sync) {
        let count = parts.len();
        let parts: Vec<Mutex<Option<T>>> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
        self.pool.run(&|worker| {
            for at in worker.share(count, 1) {
                // Taken out by the only thread whose share it is in; a lock cannot be poisoned while nobody holds it.
                let part = parts[at].lock().ok().and_then(|mut part| part.take());
                if let Some(part) = part {
                    job(at, part);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_done_once() {
        for threads in 1..4 {
            let mut team = Team::new(threads);
            for count in 0..6 {
                let mut done = vec![0; count];
                team.each(done.iter_mut().collect(), |at, part| *part += at + 1);
                assert_eq!(done, (1..=count).collect::<Vec<_>>());
            }
        }
    }
}
