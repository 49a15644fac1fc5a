//! A program in a terminal of its own: what `bench-ui` measures, and what the terminal tests look at.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A running program and the other side of its terminal.
#[derive(Debug)]
pub struct Pty {
    /// What is written here are keys; what is read are frames. Reads fail when the program has ended.
    pub master: File,
    /// The program. It is killed when this is dropped.
    pub child: Child,
}

impl Pty {
    /// Starts a program as the leader of a session of its own whose terminal has this many columns and rows.
    pub fn spawn(mut command: Command, columns: u16, rows: u16) -> io::Result<Self> {
        let (master, slave) = open(columns, rows)?;
        let stream = || slave.try_clone().map(Stdio::from);
        command.stdin(stream()?).stdout(stream()?).stderr(stream()?);
        let terminal = slave.as_raw_fd();
        lead(&mut command, terminal);
        let child = command.spawn()?;
        Ok(Self { master: File::from(master), child })
    }

    /// Gives the terminal another size; the program gets SIGWINCH.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        resize(self.master.as_raw_fd(), columns, rows)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

#[allow(unsafe_code)]
fn open(columns: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut master, mut slave) = (-1, -1);
    let mut size = size(columns, rows);
    // SAFETY: the pointers are to live variables of the types that `openpty` wants; null stands for "no name" and
    // "default modes".
    let failed = unsafe {
        libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null_mut(), &raw mut size)
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were opened just now and belong to nobody else.
    let both = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // Programs that are started later must not keep the terminal open.
    // SAFETY: `fcntl` with these arguments only sets a flag of a descriptor that is open.
    unsafe {
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
    }
    Ok(both)
}

#[allow(unsafe_code)]
fn lead(command: &mut Command, terminal: RawFd) {
    let lead = move || {
        // SAFETY: both are plain system calls that may be made between fork and exec; `terminal` is still open there.
        let failed = unsafe { libc::setsid() < 0 || libc::ioctl(terminal, libc::TIOCSCTTY as _, 0) < 0 };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure allocates nothing and takes no locks.
    unsafe {
        command.pre_exec(lead);
    }
}

#[allow(unsafe_code)]
fn resize(terminal: RawFd, columns: u16, rows: u16) -> io::Result<()> {
    let size = size(columns, rows);
    // SAFETY: the pointer is to a live `winsize`, which is what this request reads.
    let failed = unsafe { libc::ioctl(terminal, libc::TIOCSWINSZ as _, &raw const size) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_program_sees_its_terminal_and_its_keys() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "stty size; tty; read word; stty size; echo got $word"]);
        let mut pty = Pty::spawn(shell, 91, 17).expect("a shell");
        let mut out = String::new();
        let mut buf = [0; 4096];
        while !out.contains("/dev/") {
            let n = pty.master.read(&mut buf).expect("output");
            out.push_str(&String::from_utf8_lossy(&buf[..n]));
        }
        pty.resize(40, 9).expect("resized");
        pty.master.write_all(b"hello\n").expect("written");
        while let Ok(n @ 1..) = pty.master.read(&mut buf) {
            out.push_str(&String::from_utf8_lossy(&buf[..n]));
        }
        assert!(out.contains("17 91") && out.contains("9 40") && out.contains("got hello"), "{out}");
        assert!(pty.child.wait().expect("ended").success());
    }
}
