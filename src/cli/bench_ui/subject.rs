//! The dashboard under measurement: this program's own binary in a terminal of its own.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Failure;
use crate::cli::pty::Pty;

/// What came out of the terminal.
#[derive(Default)]
struct Seen {
    /// Bytes since the start.
    total: u64,
    /// Bytes since [`Subject::forget`], and when each read that brought some of them returned.
    recent: Vec<u8>,
    reads: Vec<(usize, Instant)>,
    ended: bool,
}

/// See the module.
pub struct Subject {
    pty: Pty,
    seen: Arc<(Mutex<Seen>, Condvar)>,
    /// When it was started.
    pub started: Instant,
}

/// CPU seconds and resident bytes of a process.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// User and system time of all its threads, seconds.
    pub cpu_s: f64,
    /// Resident memory, bytes.
    pub rss: u64,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subject {
    /// Attaches a dashboard to a server.
    pub fn start(url: &str, (columns, rows): (u16, u16)) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|e| Failure::broken("this program is not found", &e))?;
        let mut command = Command::new(program);
        command.args(["attach", url]).env("TERM", "xterm-256color").env("COLORTERM", "truecolor");
        // What the user set for looks would change what is measured.
        command.env("LC_ALL", "C.UTF-8").env("SPECTOP_CONFIG", "/dev/null");
        for name in ["NO_COLOR", "SPECTOP_ASCII", "SPECTOP_REDUCED_MOTION", "SPECTOP_FPS", "SPECTOP_COLOR"] {
            command.env_remove(name);
        }
        let started = Instant::now();
        let pty = Pty::spawn(command, columns, rows).map_err(|e| Failure::broken("no terminal can be made", &e))?;
        let mut master = pty.master.try_clone().map_err(|e| Failure::broken("the terminal cannot be read", &e))?;
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let place = Arc::clone(&seen);
        thread::spawn(move || {
            let mut buf = vec![0; 64 * 1024];
            loop {
                let read = master.read(&mut buf);
                let now = Instant::now();
                let mut seen = lock(&place.0);
                match read {
                    Ok(n @ 1..) => {
                        seen.total += n as u64;
                        seen.recent.extend_from_slice(&buf[..n]);
                        let end = seen.recent.len();
                        seen.reads.push((end, now));
                    }
                    // A terminal whose last program is gone answers with an error.
                    _ => seen.ended = true,
                }
                place.1.notify_all();
                if seen.ended {
                    return;
                }
            }
        });
        Ok(Self { pty, seen, started })
    }

    /// Forgets what came out so far, so that a wait sees only what is new.
    pub fn forget(&self) {
        let mut seen = lock(&self.seen.0);
        seen.recent.clear();
        seen.reads.clear();
    }

    /// Presses keys. Returns the moment just before.
    pub fn keys(&mut self, keys: &[u8]) -> Result<Instant, Failure> {
        let now = Instant::now();
        self.pty.master.write_all(keys).map_err(|e| Failure::broken("the terminal takes no keys", &e))?;
        Ok(now)
    }

    /// When these bytes came out; `None` after the time is up or when the program has ended.
    pub fn wait(&self, bytes: &[u8], limit: Duration) -> Option<Instant> {
        let until = Instant::now() + limit;
        let mut seen = lock(&self.seen.0);
        let mut from = 0;
        loop {
            if let Some(at) = seen.recent[from..].windows(bytes.len()).position(|w| w == bytes) {
                let end = from + at + bytes.len();
                return seen.reads.iter().find(|(e, _)| *e >= end).map(|(_, when)| *when);
            }
            from = seen.recent.len().saturating_sub(bytes.len() - 1);
            let left = until.checked_duration_since(Instant::now()).filter(|_| !seen.ended)?;
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
            // Somebody forgot in between.
            from = from.min(seen.recent.len());
        }
    }

    /// Bytes that came out since the start.
    pub fn total(&self) -> u64 {
        lock(&self.seen.0).total
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Usage, Failure> {
        usage(self.pty.pid())
    }

    /// Asks it to leave and waits for that.
    pub fn quit(mut self) -> Result<bool, Failure> {
        self.keys(&[3])?;
        let until = Instant::now() + Duration::from_secs(3);
        loop {
            match self.pty.child.try_wait() {
                Ok(Some(status)) => return Ok(status.success()),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                _ => return Ok(false),
            }
        }
    }
}

fn usage(pid: u32) -> Result<Usage, Failure> {
    let gone = |e: &dyn std::fmt::Display| Failure::broken("the dashboard ended while it was measured", e);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|e| gone(&e))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| gone(&e))?;
    let cpu_s = cpu_seconds(&stat).ok_or_else(|| gone(&"its /proc entry cannot be read"))?;
    let kb =
        status.lines().find_map(|l| l.strip_prefix("VmRSS:")).and_then(|l| l.split_whitespace().next()?.parse().ok());
    let rss: u64 = kb.ok_or_else(|| gone(&"it has no memory any more"))?;
    Ok(Usage { cpu_s, rss: rss * 1024 })
}

/// Fields 14 and 15 of `/proc/PID/stat`, in ticks of which Linux has 100 a second for every program.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name of the program may hold spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("7 (x) S 1"), None);
        assert!(usage(std::process::id()).is_ok_and(|u| u.rss > 1_000_000));
    }
}
