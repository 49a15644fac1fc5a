//! The program as scripts meet it: exit codes, and streams that nobody reads or that cannot be written.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn spectop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spectop"));
    command.args(args).stdin(Stdio::null()).env_remove("SPECTOP_TARGET").env("SPECTOP_OFFLINE", "1");
    command
}

fn fixture() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3-byte-a").display().to_string()
}

/// Exit code and stderr.
fn refused(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("the program starts");
    let told = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!told.contains("panicked"), "{told}");
    (status.code(), told)
}

#[test]
fn wrong_values_are_refused_before_anything_is_loaded() {
    let cases: [(&[&str], &str); 6] = [
        (&["--temperature", "-1"], "0 (greedy) or greater"),
        (&["--temperature", "nan"], "0 (greedy) or greater"),
        (&["--top-p", "0"], "above 0 and at most 1"),
        (&["--max-tokens", "0"], "at least 1"),
        (&["--max-tokens", "99999999999999999999"], "at least 1"),
        (&["--mode", "bogus"], "off, dflash, ddtree, shadow"),
    ];
    for (wrong, advice) in cases {
        let (code, told) = refused(spectop(&[&["generate", "hi", "--tiny"], wrong].concat()));
        assert_eq!(code, Some(2), "{wrong:?}: {told}");
        assert!(told.contains(advice) && !told.contains("reading"), "{wrong:?}: {told}");
    }
}

#[test]
fn a_pair_that_cannot_be_loaded_is_a_usage_error_for_every_command() {
    for command in [&["generate", "hi"][..], &["serve", "--port", "0"]] {
        let (code, told) = refused(spectop(&[command, &["--target", "gone.gguf"]].concat()));
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("gone.gguf does not exist; check the path"), "{told}");
    }
}

#[test]
fn a_named_target_is_never_replaced_by_the_toy_pair() {
    let mut command = spectop(&["generate", "hi", "--max-tokens", "1"]);
    command.env("SPECTOP_TARGET", "gone.gguf");
    let (code, told) = refused(command);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("gone.gguf: SPECTOP_TARGET names it"), "{told}");
}

#[test]
fn setup_wants_the_file_itself() {
    let dir = tempfile::tempdir().expect("a folder");
    let given = dir.path().display().to_string();
    let mut command = spectop(&["setup", "--from", &given]);
    command.env("SPECTOP_CACHE", dir.path());
    let (code, told) = refused(command);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("is not a file"), "{told}");
}

/// `| head` closes the pipe early: the program goes on or ends, but does not complain.
#[test]
fn a_closed_pipe_is_no_failure() {
    let fixture = fixture();
    for args in [&["generate", "hi", "--tiny", "--max-tokens", "200"][..], &["conformance", &fixture]] {
        let mut child =
            spectop(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        drop(child.stdout.take());
        let mut told = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut told).expect("text");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{args:?}: {told}");
        assert!(!told.contains("panicked"), "{args:?}: {told}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device that is always full");
    let fixture = fixture();
    for args in [&["generate", "hi", "--tiny", "--max-tokens", "5"][..], &["conformance", &fixture]] {
        let child = spectop(args).stdout(full()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let output = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        assert!(told.contains("cannot write to the standard output"), "{args:?}: {told}");
    }
    // With nowhere to complain the answer still comes.
    let output =
        spectop(&["generate", "hi", "--tiny", "--max-tokens", "5"]).stderr(full()).output().expect("it starts");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), false));
}
