//! Runs that were broken off.

use std::collections::HashSet;
use std::path::Path;

use spectop::bench::journal::{self, Contents};
use spectop::bench::runner::{BenchError, Start, prepare};
use spectop::protocol::run::{Purpose, Run, RunStatus};

use crate::fake::{Fake, options, run, setup, short};
use crate::scripted::Server;

async fn whole(server: &Server, folder: &Path) -> (Run, std::path::PathBuf) {
    let mut options = options(&["off", "dflash"]);
    options.repeats = 1;
    let run = run(setup(Some(server), folder, Start::New(options))).await.unwrap();
    let path = folder.join(format!("{}.jsonl", run.meta.id));
    (run, path)
}

fn seqs(run: &Run) -> Vec<usize> {
    let mut seqs: Vec<usize> =
        run.requests.iter().filter(|record| record.purpose != Purpose::Warmup).map(|record| record.seq).collect();
    seqs.sort_unstable();
    seqs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_wherever_the_journal_ends() {
    let fake = Fake::new(|_, _| short());
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let (first, path) = whole(&server, dir.path()).await;
    let bytes = std::fs::read(&path).unwrap();
    let header = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // Ends at line ends, in the middle of lines, and just before and after them.
    let mut cuts = vec![header, header + 1, bytes.len() - 1, bytes.len()];
    cuts.extend((1..6).map(|n| header + (bytes.len() - header) * n / 6));
    for cut in cuts {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let _ = std::fs::remove_file(path.with_extension("json"));
        let before = Contents::read(&path).unwrap().records;
        let resumed = run(setup(Some(&server), dir.path(), Start::Resume("last".into()))).await.unwrap();
        assert_eq!((resumed.meta.status, &resumed.meta.id), (RunStatus::Complete, &first.meta.id), "{cut}");
        assert_eq!(seqs(&resumed), seqs(&first), "{cut}");
        let all: HashSet<usize> = resumed.requests.iter().map(|record| record.seq).collect();
        assert_eq!(all.len(), resumed.requests.len(), "{cut}");
        for record in &before {
            assert!(resumed.requests.contains(record), "{cut}: record {} was kept", record.seq);
        }
        assert_eq!(resumed.plan, first.plan);
    }
}

#[tokio::test]
async fn what_cannot_go_on_is_refused() {
    let fake = Fake::new(|_, _| short());
    let server = fake.native().await;
    let dir = tempfile::tempdir().unwrap();
    let resume = |id: &str| setup(Some(&server), dir.path(), Start::Resume(id.into()));
    let error = prepare(&resume("last")).await.err().unwrap();
    assert!(matches!(error, BenchError::Journal(journal::JournalError::NoRun { .. })), "{error}");
    let (first, path) = whole(&server, dir.path()).await;
    let error = prepare(&resume(&first.meta.id)).await.err().unwrap().to_string();
    assert!(error.contains("complete"), "{error}");

    std::fs::remove_file(path.with_extension("json")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen(&first.plan.hash, "0123456789abcdef", 1)).unwrap();
    let error = prepare(&resume("last")).await.err().unwrap().to_string();
    assert!(error.contains("prompts of its suites have changed"), "{error}");
    std::fs::write(&path, &text).unwrap();
    let foreign = fake.foreign().await;
    let error = prepare(&setup(Some(&foreign), dir.path(), Start::Resume("last".into()))).await.err().unwrap();
    assert!(error.to_string().contains("begun with"), "{error}");
}

#[tokio::test]
async fn a_server_that_dies_stops_the_run_and_the_rest_can_be_done() {
    let fake = Fake::new(|_, _| short());
    let dir = tempfile::tempdir().unwrap();
    let server = fake.native().await;
    let (tx, mut rx) = tokio::sync::mpsc::channel(1);
    let (_handle, control) = spectop::bench::runner::control();
    let running = tokio::spawn(spectop::bench::runner::run(
        setup(Some(&server), dir.path(), Start::New(options(&["off"]))),
        tx,
        control,
    ));
    let mut server = Some(server);
    let mut done = 0;
    while let Some(progress) = rx.recv().await {
        if matches!(progress, spectop::protocol::run::RunProgress::Done(_)) {
            done += 1;
            if done == 7 {
                server.take();
            }
        }
    }
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, BenchError::ServerGone { .. }) && error.to_string().contains("--resume"), "{error}");
    let listed = journal::find(dir.path(), "last", journal::is_open).unwrap();
    assert!(listed.requests >= 7);

    // It may have moved: an address is no part of the plan.
    let server = fake.native().await;
    let resumed = run(setup(Some(&server), dir.path(), Start::Resume("last".into()))).await.unwrap();
    assert_eq!(resumed.meta.status, RunStatus::Complete);
    assert!(resumed.warnings.iter().any(|warning| warning.contains("went on later")));
    assert_eq!(resumed.requests.iter().filter(|record| record.purpose == Purpose::Measure).count(), 6);
}
