//! Writing to the standard streams. `println!` and its kin panic when nobody reads any more or the disk is full, so
//! nothing in the program uses them (`lib.rs` denies them).

use std::io::{ErrorKind, Write, stderr, stdout};

use super::{Exit, Failure};

/// Whether somebody still reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// As far as one can tell.
    There,
    /// The other end of the pipe is closed: `| head` has what it wanted, which is no failure.
    Gone,
}

/// Writes a text to the standard output, at once.
pub fn print(text: &str) -> Result<Reader, Failure> {
    print_to(&mut stdout().lock(), text)
}

/// Writes a line to the standard output, at once.
pub fn print_line(line: &str) -> Result<Reader, Failure> {
    print(&format!("{line}\n"))
}

fn print_to(out: &mut impl Write, text: &str) -> Result<Reader, Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::new(Exit::Failed, format!("cannot write to the standard output: {error}"))),
    }
}

/// Writes a line to stderr. When that fails there is nobody left to tell.
pub fn tell(line: &str) {
    let _ = writeln!(stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is() {
        assert_eq!(print_to(&mut Vec::new(), "x").ok(), Some(Reader::There));
        assert_eq!(print_to(&mut Broken(ErrorKind::BrokenPipe), "x").ok(), Some(Reader::Gone));
        let failure = print_to(&mut Broken(ErrorKind::StorageFull), "x").expect_err("nothing was written");
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.message.contains("standard output"), "{}", failure.message);
    }
}
