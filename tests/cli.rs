//! The program as scripts meet it: exit codes, and streams that nobody reads or that cannot be written.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn spectop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spectop"));
    command.args(args).stdin(Stdio::null()).env_remove("SPECTOP_TARGET").env("SPECTOP_OFFLINE", "1");
    // What the user of this machine has set must not decide about the tests.
    command.env("SPECTOP_CONFIG", "/dev/null");
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

/// What a command prints; it must succeed.
fn printed(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).into_owned()
}

#[test]
fn a_configuration_is_written_once_checked_and_shown() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("deep/config.toml");
    let config = |args: &[&str]| {
        let mut command = spectop(&[&["config"], args].concat());
        command.env("SPECTOP_CONFIG", &file);
        command
    };
    assert!(printed(config(&["path"])).contains("deep/config.toml"));
    assert!(printed(config(&["init"])).contains("wrote"));
    let (code, told) = refused(config(&["init"]));
    assert!(code == Some(2) && told.contains("--force"), "{told}");
    assert!(printed(config(&["validate", "--strict"])).contains("valid"));
    let text = "schema_version = 1\nfoo = 1\n[screen]\nfps = 30\ntheme = \"nord\"\n[server]\napi_key = \"hush\"\n\
                [keys.dashboard]\nprompt = \"F9\"\n";
    std::fs::write(&file, text).expect("written");
    let mut print = config(&["print", "--theme", "dracula"]);
    print.env("SPECTOP_MOUSE", "off");
    let print = printed(print);
    let line = |key: &str| print.lines().find(|l| l.contains(key)).unwrap_or_default().to_owned();
    assert!(line("fps").contains("30") && line("fps").ends_with("# file"), "{print}");
    assert!(line("theme").contains("dracula") && line("theme").ends_with("# command line"), "{print}");
    assert!(line("mouse").contains("off") && line("mouse").ends_with("# environment"), "{print}");
    assert!(line("host").ends_with("# default"), "{print}");
    assert!(print.contains("prompt = [\"F9\"]") && !print.contains("hush"), "secrets are not shown: {print}");
    assert!(printed(config(&["keys"])).contains("| `F9` | write a prompt"));
    let Output { status, stderr, .. } = config(&["validate"]).output().expect("starts");
    assert!(status.success() && String::from_utf8_lossy(&stderr).contains("unknown key foo"));
    assert_eq!(refused(config(&["validate", "--strict"])).0, Some(2));
}

#[test]
fn a_wrong_configuration_is_refused_by_every_command_with_all_that_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "schema_version = 1\n[screen]\nfps = 0\n[keys.dashboard]\nprompt = \"m\"\n")
        .expect("written");
    let path = file.display().to_string();
    for args in [&["config", "validate"][..], &["snapshot"], &["serve", "--port", "0"]] {
        let (code, told) = refused(spectop(&[args, &["--config", &path]].concat()));
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("screen.fps") && told.contains("m on dashboard") && told.contains("c.toml"), "{told}");
    }
    assert!(printed(spectop(&["--config", &path, "--help"])).contains("Usage"), "help does not depend on the file");
    assert_eq!(
        refused(spectop(&["--config", "/nowhere/c.toml", "snapshot"])).0,
        Some(2),
        "a file that was named must exist"
    );
    std::fs::create_dir(dir.path().join("themes")).expect("a folder");
    std::fs::write(dir.path().join("themes/mine.toml"), "inherits = \"nord\"\n[state]\nok = \"mauve\"\n")
        .expect("written");
    std::fs::write(&file, "schema_version = 1\n").expect("written");
    let (code, told) = refused(spectop(&["config", "validate", &path]));
    assert!(code == Some(2) && told.contains("theme mine") && told.contains("state.ok"), "{told}");
}

#[test]
fn shells_and_man_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(spectop(&["completions", shell]));
        for word in ["attach", "bench-ui", "config", "reduced-motion"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert!(printed(spectop(&["man"])).contains(".TH spectop 1"));
    let dir = tempfile::tempdir().expect("a folder");
    printed(spectop(&["man", &dir.path().display().to_string()]));
    for page in ["spectop.1", "spectop-serve.1", "spectop-config-validate.1"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
}
