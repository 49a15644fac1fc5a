//! Checkpoints: what is read, what is refused and how the refusal reads; nothing in a file may panic.

mod support;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use spectop::engine::api::ModelSource;
use spectop::engine::weights::{Checkpoint, DType, WeightsError};
use support::gguf::Gguf;

fn open(path: &Path) -> Result<Checkpoint, WeightsError> {
    Checkpoint::open(&ModelSource::Path(path.to_owned()))
}

fn open_bytes(name: &str, bytes: &[u8]) -> Result<Checkpoint, WeightsError> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join(name);
    fs::write(&path, bytes).expect("a file");
    open(&path)
}

fn refusal(name: &str, bytes: &[u8]) -> String {
    open_bytes(name, bytes).expect_err("must be refused").to_string()
}

fn sample() -> Gguf {
    let ones: Vec<u8> = std::iter::repeat_n(1f32.to_le_bytes(), 64).flatten().collect();
    let mut nested = 9u32.to_le_bytes().to_vec();
    nested.extend(1u64.to_le_bytes());
    nested.extend(2u32.to_le_bytes());
    nested.extend(2u64.to_le_bytes());
    nested.extend([1, 0, 2, 0]);
    let mut texts = 8u32.to_le_bytes().to_vec();
    texts.extend(2u64.to_le_bytes());
    Gguf::text(&mut texts, "a");
    Gguf::text(&mut texts, "bc");
    let mut name = vec![];
    Gguf::text(&mut name, "Sample");
    Gguf::default()
        .pair("u8", 0, &[200])
        .pair("i8", 1, &[200])
        .pair("u16", 2, &[1, 1])
        .pair("i16", 3, &[255, 255])
        .pair("u32", 4, &7u32.to_le_bytes())
        .pair("i32", 5, &(-7i32).to_le_bytes())
        .pair("f32", 6, &0.5f32.to_le_bytes())
        .pair("bool", 7, &[1])
        .pair("general.name", 8, &name)
        .pair("texts", 9, &texts)
        .pair("nested", 9, &nested)
        .pair("u64", 10, &u64::MAX.to_le_bytes())
        .pair("i64", 11, &i64::MIN.to_le_bytes())
        .pair("f64", 12, &0.25f64.to_le_bytes())
        .tensor("matrix", &[32, 2], 0, &ones)
        .tensor("blocks", &[32, 1], 8, &[[0, 60].as_slice(), &[3; 32]].concat())
}

#[test]
fn a_gguf_file_is_read() {
    let file = open_bytes("model.gguf", &sample().bytes()).expect("a good file");
    assert!(file.is_gguf());
    assert_eq!(file.name(), "Sample");
    assert_eq!(file.names(), ["blocks", "matrix"]);
    let matrix = file.tensor("matrix").expect("there");
    assert_eq!((matrix.rows(), matrix.cols(), matrix.dtype), (2, 32, DType::F32));
    assert_eq!(matrix.to_f32().expect("numbers"), vec![1.0; 64]);
    assert_eq!(file.tensor("blocks").expect("there").to_f32().expect("numbers"), vec![3.0; 32]);
    let mut row = [0.0; 32];
    matrix.row_f32(1, &mut row).expect("a row");
    assert!(matrix.row_f32(2, &mut row).is_err());
    let metadata = file.metadata().expect("metadata");
    assert_eq!(metadata.unsigned("u8"), Some(200));
    assert_eq!(metadata.float("i8"), Some(-56.0));
    assert_eq!(metadata.unsigned("i32"), None);
    assert_eq!(metadata.unsigned("u64"), Some(u64::MAX));
    assert_eq!(metadata.bool("bool"), Some(true));
    assert_eq!(metadata.float("f64"), Some(0.25));
    assert_eq!(metadata.texts("texts").expect("texts"), ["a", "bc"]);
}

#[test]
fn damaged_gguf_files_are_refused_in_words() {
    let good = sample().bytes();
    assert!(refusal("m.gguf", b"").contains("cut short"));
    assert!(refusal("m.gguf", b"PK\x03\x04....").contains("not a GGUF file"));
    let cut = refusal("cut.gguf", &good[..good.len() - 1]);
    assert!(cut.contains("cut.gguf") && cut.contains("tensor blocks") && cut.contains("34 bytes"), "{cut}");
    let mut old = good.clone();
    old[4] = 1;
    assert!(refusal("m.gguf", &old).contains("version 1"));
    let mut absurd = good.clone();
    absurd[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(refusal("m.gguf", &absurd).contains("tensors"));
    let far = Gguf::default().info("far", &[32], 0, 1 << 60).bytes();
    assert!(refusal("m.gguf", &far).contains("tensor far"));
    let wrap = Gguf::default().info("wrap", &[32], 0, u64::MAX - 8).bytes();
    assert!(refusal("m.gguf", &wrap).contains("tensor wrap"));
    let huge = Gguf::default().info("huge", &[1 << 40, 1 << 40], 0, 0).bytes();
    assert!(refusal("m.gguf", &huge).contains("absurdly large"));
    let odd = Gguf::default().info("odd", &[33], 3, 0).bytes();
    assert!(refusal("m.gguf", &odd).contains("Q4_1 blocks of 32"));
    let iq = Gguf::default().info("iq", &[256], 20, 0).bytes();
    assert!(refusal("m.gguf", &iq).contains("IQ4_NL"));
    let twice = Gguf::default().info("t", &[0], 0, 0).info("t", &[0], 0, 0).bytes();
    assert!(refusal("m.gguf", &twice).contains("twice"));
    let mut claims = 8u32.to_le_bytes().to_vec();
    claims.extend((1u64 << 61).to_le_bytes());
    assert!(refusal("m.gguf", &Gguf::default().pair("tokens", 9, &claims).bytes()).contains("tokens"));
    let part = Gguf::default().pair("split.count", 2, &[3, 0]).bytes();
    assert!(refusal("m.gguf", &part).contains("join them"));
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn safetensors_folders_with_one_and_with_several_files_are_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let a = safetensors(r#"{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#, &[0x80, 0x3f, 0, 0x40]);
    let b = safetensors(r#"{"model.ids":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}"#, &[9, 0, 0, 0]);
    fs::write(dir.path().join("model.safetensors"), &a).expect("a file");
    let single = open(dir.path()).expect("one file");
    assert_eq!(single.tensor("a").expect("there").to_f32().expect("numbers"), [1.0, 2.0]);
    assert!(!single.is_gguf());
    let missing = single.tensor("b").expect_err("not there").to_string();
    assert!(missing.contains("no tensor b"), "{missing}");

    fs::write(dir.path().join("1.safetensors"), &a).expect("a file");
    fs::write(dir.path().join("2.safetensors"), &b).expect("a file");
    let index = dir.path().join("model.safetensors.index.json");
    fs::write(&index, r#"{"weight_map":{"a":"1.safetensors","model.ids":"2.safetensors"}}"#).expect("a file");
    let sharded = open(dir.path()).expect("two files");
    assert_eq!(sharded.names(), ["a", "model.ids"]);
    // The leading `model.` may be there or not.
    assert_eq!(sharded.tensor("ids").expect("there").to_ids().expect("ids"), [9]);

    fs::write(&index, r#"{"weight_map":{"a":"../../secret.safetensors"}}"#).expect("a file");
    assert!(open(dir.path()).expect_err("leaves the folder").to_string().contains("plain file name"));
    fs::write(&index, r#"{"weight_map":{"a":"gone.safetensors"}}"#).expect("a file");
    let gone = open(dir.path()).expect_err("shard missing").to_string();
    assert!(gone.contains("gone.safetensors") && gone.contains("no such file"), "{gone}");
}

#[test]
fn damaged_safetensors_are_refused_in_words() {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    assert!(refusal("m.safetensors", &safetensors(header, &[0; 7])).contains("cut short"));
    assert!(refusal("m.safetensors", &u64::MAX.to_le_bytes()).contains("m.safetensors"));
    let wrong = r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#;
    assert!(refusal("m.safetensors", &safetensors(wrong, &[0; 8])).contains("not usable"));
    let fp8 = r#"{"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}"#;
    let fp8 = refusal("m.safetensors", &safetensors(fp8, &[0; 8]));
    assert!(fp8.contains("tensor a") && fp8.contains("F8_E4M3"), "{fp8}");
}

#[test]
fn missing_paths_and_empty_folders_say_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let gone = open(&dir.path().join("gone.gguf")).expect_err("not there").to_string();
    assert!(gone.contains("gone.gguf") && gone.contains("check the path"), "{gone}");
    let empty = open(dir.path()).expect_err("nothing in it").to_string();
    assert!(empty.contains("no model.safetensors"), "{empty}");
}

/// Opening a pipe waits until somebody writes to it.
#[cfg(unix)]
#[test]
fn a_pipe_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("m.gguf");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|s| s.success()));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(open(&path).err().map(|e| e.to_string())));
    let problem = told.recv_timeout(std::time::Duration::from_secs(5)).expect("an answer").unwrap_or_default();
    assert!(problem.contains("not a regular file"), "{problem}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), magic in any::<bool>()) {
        let gguf = if magic { [b"GGUF\x03\0\0\0".as_slice(), &bytes].concat() } else { bytes.clone() };
        let _ = open_bytes("m.gguf", &gguf);
        let _ = open_bytes("m.safetensors", &bytes);
    }

    #[test]
    fn truncated_and_altered_gguf_never_panic(cut in 0usize..1000, at in 0usize..1000, value in any::<u8>()) {
        let mut bytes = sample().bytes();
        bytes.truncate(cut.max(8));
        let len = bytes.len();
        bytes[at % len] = value;
        if let Ok(file) = open_bytes("m.gguf", &bytes) {
            for name in file.names() {
                let _ = file.tensor(&name).expect("listed").to_f32();
            }
        }
    }

    #[test]
    fn altered_safetensors_never_panic(at in 0usize..80, value in any::<u8>()) {
        let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let mut bytes = safetensors(header, &[0; 8]);
        let len = bytes.len();
        bytes[at % len] = value;
        if let Ok(file) = open_bytes("m.safetensors", &bytes) {
            for name in file.names() {
                let _ = file.tensor(&name).expect("listed").to_f32();
            }
        }
    }
}
