use super::*;
use crate::protocol::run::{CountKind, Purpose, RequestStatus};

fn header(id: &str) -> Header {
    let meta = RunMeta {
        id: id.into(),
        title: "a run".into(),
        started_ms: 5,
        finished_ms: None,
        status: RunStatus::Unfinished,
        made_by: "spectop test".into(),
    };
    let options = RunOptions {
        suites: vec!["story".into()],
        prompts: None,
        modes: vec!["off".into()],
        repeats: 1,
        concurrency: vec![1],
        temperature: 0.0,
        max_tokens: 8,
        seed: 1,
        timeout_s: 1.0,
    };
    let plan = RunPlan {
        suites: vec![],
        modes: vec![],
        repeats: 1,
        concurrency: vec![1],
        temperature: 0.0,
        max_tokens: 8,
        seed: 1,
        prefix_cache: "none".into(),
        hash: "0".into(),
    };
    Header::new(meta, options, plan, Environment::default())
}

fn record(seq: usize) -> RequestRecord {
    RequestRecord {
        seq,
        purpose: Purpose::Measure,
        suite: "story".into(),
        prompt_id: "code".into(),
        turn: 0,
        mode: "off".into(),
        repeat: 0,
        order: 0,
        concurrency: 1,
        status: RequestStatus::Finished,
        error: None,
        retries: 0,
        sent_ms: 1.5,
        ttft_ms: Some(2.25),
        ttfat_ms: None,
        e2e_ms: 3.0,
        tokens: 2,
        prompt_tokens: None,
        count: CountKind::Exact,
        decode_tok_s: None,
        e2e_tok_s: None,
        tpot_ms: None,
        chunks: vec![],
        finish_reason: None,
        token_ids: Some(vec![1, 2]),
        margins: None,
        text: Some("héllo\nworld".into()),
        output_hash: "x".into(),
        server: None,
        energy_j: None,
    }
}

#[test]
fn what_was_written_is_read_whatever_byte_the_end_is_at() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &header("a")).unwrap();
    let begin = journal.good;
    let mut ends = vec![begin];
    for seq in 0..3 {
        journal.append(&record(seq)).unwrap();
        ends.push(journal.good);
    }
    let path = journal.path().to_owned();
    let bytes = fs::read(&path).unwrap();
    for length in 0..=bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        if (length as u64) < begin {
            assert!(matches!(Contents::read(&path), Err(JournalError::Damaged { line: 1, .. })), "{length}");
            continue;
        }
        let whole = ends.iter().filter(|end| **end <= length as u64).count() - 1;
        let (mut journal, contents) = Journal::reopen(&path).unwrap();
        assert_eq!(contents.records, (0..whole).map(record).collect::<Vec<_>>(), "{length}");
        assert_eq!(contents.header, header("a"));
        journal.append(&record(9)).unwrap();
        let again = Contents::read(&path).unwrap().records;
        assert_eq!((again.len(), again[whole].seq), (whole + 1, 9), "{length}");
    }
}

#[test]
fn damage_in_the_middle_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &header("a")).unwrap();
    journal.append(&record(0)).unwrap();
    journal.append(&record(0)).unwrap();
    let path = journal.path().to_owned();
    let error = Contents::read(&path).unwrap_err().to_string();
    assert!(error.contains("a.jsonl:3: request 0 is there already"), "{error}");
    let text = fs::read_to_string(&path).unwrap().replacen("\"seq\":0", "\"seq\":", 1);
    fs::write(&path, text).unwrap();
    let error = Contents::read(&path).unwrap_err().to_string();
    assert!(error.contains("a.jsonl:2: no record"), "{error}");
    fs::write(&path, "{}\n").unwrap();
    assert!(Contents::read(&path).unwrap_err().to_string().contains("no journal"));
    let error = Journal::create(dir.path(), &header("a")).unwrap_err();
    assert!(matches!(error, JournalError::Io { .. }), "a run is never written over");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut journal = Journal { file, path: "runs/x.jsonl".into(), good: 0 };
    let error = journal.append(&record(0)).unwrap_err().to_string();
    assert!(error.contains("runs/x.jsonl") && error.contains("--resume"), "{error}");
    assert_eq!(journal.good, 0);
    assert!(write_whole(Path::new("/dev/full/x"), b"x").is_err());
}

#[test]
fn runs_are_listed_once_and_found() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(list(&dir.path().join("none")).unwrap(), []);
    for (id, started, requests) in [("a", 1, 2), ("b", 2, 0), ("c", 3, 1)] {
        let mut header = header(id);
        header.meta.started_ms = started;
        let mut journal = Journal::create(dir.path(), &header).unwrap();
        for seq in 0..requests {
            journal.append(&record(seq)).unwrap();
        }
    }
    let meta = RunMeta { status: RunStatus::Complete, started_ms: 3, ..header("c").meta };
    let run = Run {
        schema: "run.v1".into(),
        meta,
        plan: header("c").plan,
        env: Environment::default(),
        requests: vec![record(0)],
        summary: vec![],
        compare: vec![],
        warnings: vec![],
    };
    let file = write_run(dir.path(), &run).unwrap();
    assert_eq!(serde_json::from_slice::<Run>(&fs::read(file).unwrap()).unwrap(), run);
    fs::write(dir.path().join("junk.json"), "{").unwrap();
    let runs = list(dir.path()).unwrap();
    let brief: Vec<_> = runs.iter().map(|run| (run.meta.id.as_str(), run.requests)).collect();
    assert_eq!(brief, [("c", 1), ("b", 0), ("a", 2)]);
    assert_eq!(find(dir.path(), "last", is_open).unwrap().meta.id, "b");
    assert_eq!(find(dir.path(), "a", is_open).unwrap().requests, 2);
    let error = find(dir.path(), "../a", is_open).unwrap_err().to_string();
    assert!(error.contains("bench list"), "{error}");
}

#[test]
fn ids_are_dates() {
    assert!(new_id(0).starts_with("19700101-0000-"));
    assert!(new_id(1_796_124_000_000).starts_with("20261201-1120-"), "{}", new_id(1_796_124_000_000));
    assert!(new_id(951_827_640_000).starts_with("20000229-1234-"));
    assert_eq!(date(19_782), (2024, 2, 29));
    assert_eq!(date(19_783), (2024, 3, 1));
    assert_eq!(date(365), (1971, 1, 1));
}
