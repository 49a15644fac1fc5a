//! Models of the hub, as a user meets them: the program, a server on this machine that speaks the hub's language, and a
//! cache of its own.

#[path = "../support/gguf.rs"]
#[allow(dead_code)]
mod gguf;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use server::{COMMIT, Hub, Repo, sha256};
use tempfile::TempDir;

/// A user with an empty cache.
struct User {
    home: TempDir,
    endpoint: String,
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// How a run ended.
struct Ended {
    code: Option<i32>,
    out: String,
    told: String,
}

impl User {
    fn of(hub: &Hub) -> Self {
        Self { home: tempfile::tempdir().expect("a folder"), endpoint: hub.address.clone() }
    }

    fn cache(&self) -> PathBuf {
        self.home.path().join("hf/hub")
    }

    fn snapshot(&self, id: &str) -> PathBuf {
        self.cache().join(format!("models--{}", id.replace('/', "--"))).join("snapshots").join(COMMIT)
    }

    fn run(&self, args: &[&str], variables: Variables<'_>) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spectop"));
        command.args(args).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.home.path()).env("HF_HOME", self.home.path().join("hf"));
        command.env("TMPDIR", self.home.path()).env("PATH", "");
        command.env("SPECTOP_CACHE", self.home.path()).env("SPECTOP_CONFIG", "/dev/null");
        command.env("HF_ENDPOINT", &self.endpoint).env("NO_PROXY", "127.0.0.1");
        command.envs(variables.iter().copied());
        let output = command.output().expect("the program starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!told.contains("panicked"), "{told}");
        Ended { code: output.status.code(), out: String::from_utf8_lossy(&output.stdout).into_owned(), told }
    }

    fn refused(&self, args: &[&str], variables: Variables<'_>) -> String {
        let ended = self.run(args, variables);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.told);
        ended.told
    }

    fn well(&self, args: &[&str]) -> Ended {
        let ended = self.run(args, &[]);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.told);
        ended
    }
}

fn folder(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny").join(name);
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry"));
    entries.map(|e| (e.file_name().into_string().expect("a name"), fs::read(e.path()).expect("a file"))).collect()
}

/// The tiny pair under the names of a published one.
fn published() -> Hub {
    let mut target = folder("target");
    target.push(("README.md".into(), b"words".to_vec()));
    target.push(("pytorch_model.bin".into(), vec![0; 20_000]));
    Hub::start(vec![("Qwen/Qwen3-4B", Repo::new(target)), ("z-lab/Qwen3-4B-DFlash-b16", Repo::new(folder("drafter")))])
}

const TARGET: &str = "Qwen/Qwen3-4B";
const DRAFTER: &str = "z-lab/Qwen3-4B-DFlash-b16";

#[test]
fn a_target_brings_its_drafter_and_is_fetched_once() {
    let hub = published();
    let user = User::of(&hub);
    let ended = user.well(&["setup", "--target", TARGET]);
    let paths: Vec<&str> = ended.out.lines().collect();
    assert_eq!(paths, [user.snapshot(TARGET).to_str().expect("text"), user.snapshot(DRAFTER).to_str().expect("text")]);
    assert!(
        ended.told.contains("Drafting with z-lab/Qwen3-4B-DFlash-b16, known to belong to Qwen/Qwen3-4B"),
        "{}",
        ended.told
    );
    assert!(ended.told.contains("file 1 of 1: model.safetensors"), "progress is told: {}", ended.told);
    for (name, bytes) in folder("target") {
        assert_eq!(fs::read(user.snapshot(TARGET).join(&name)).expect("a file"), bytes, "{name}");
    }
    let asked: Vec<String> = hub.asked().into_iter().map(|a| a.path).collect();
    assert!(!asked.iter().any(|p| p == "README.md" || p == "pytorch_model.bin"), "{asked:?}");
    // The layout is the shared one: a link to a blob that is called by its hash.
    let blob = fs::canonicalize(user.snapshot(TARGET).join("model.safetensors")).expect("a link");
    let weights = fs::read(&blob).expect("a blob");
    assert_eq!(blob.file_name().and_then(|n| n.to_str()), Some(&*sha256(&weights)));

    // It goes by its name, not by the commit that its folder is called by.
    let path = user.snapshot(TARGET).display().to_string();
    assert!(user.well(&["inspect", &path]).out.starts_with("Qwen3-4B: qwen3 target"));

    let ended = user.well(&["generate", "hi", "--target", TARGET, "--max-tokens", "3", "--json"]);
    assert!(serde_json::from_str::<Value>(&ended.out).is_ok_and(|v| v.is_object()), "{}", ended.out);
    assert_eq!(hub.asked(), [], "what is there is not asked for again");
    user.well(&["setup", "--target", TARGET, "--force"]);
    let asked: Vec<String> = hub.asked().into_iter().map(|a| a.path).collect();
    assert_eq!(asked, ["list", "list"], "a newer one is looked for, but nothing has changed");
}

/// What another program has fetched is used, and completed where something is missing.
#[test]
fn weights_without_a_tokenizer_are_completed() {
    let hub = published();
    let user = User::of(&hub);
    user.well(&["setup", "--target", TARGET, "--no-draft"]);
    let config = user.snapshot(TARGET).join("tokenizer_config.json");
    fs::remove_file(&config).expect("gone");
    hub.asked();
    user.well(&["setup", "--target", TARGET, "--no-draft"]);
    assert!(config.is_file());
    let asked: Vec<String> = hub.asked().into_iter().map(|a| a.path).collect();
    assert!(!asked.iter().any(|p| p == "model.safetensors"), "{asked:?}");

    fs::remove_file(&config).expect("gone");
    let lost = User { endpoint: "http://127.0.0.1:1".into(), home: user.home };
    lost.well(&["setup", "--target", TARGET, "--no-draft"]);
}

#[test]
fn offline_uses_what_is_there_and_says_what_is_not() {
    let hub = published();
    let user = User::of(&hub);
    let told = user.refused(&["setup", "--target", TARGET, "--offline"], &[]);
    assert!(told.contains("spectop is offline") && told.contains("setup --target Qwen/Qwen3-4B"), "{told}");
    let told = user.refused(&["inspect", TARGET], &[("HF_HUB_OFFLINE", "1")]);
    assert!(told.contains("spectop is offline"), "{told}");
    user.well(&["setup", "--target", TARGET, "--no-draft"]);
    assert!(!user.snapshot(DRAFTER).exists());
    hub.asked();
    let ended = user.well(&["setup", "--target", TARGET, "--offline"]);
    assert!(ended.told.contains("it is not in the cache and spectop is offline"), "{}", ended.told);
    assert_eq!((ended.out.lines().count(), hub.asked()), (1, vec![]));
}

#[test]
fn a_transfer_that_breaks_off_goes_on_where_it_stopped() {
    // Large enough to be worth it, and small enough to come in three pieces.
    let weights: Vec<u8> = (0..2_500_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let gguf = ("model-Q4_0.gguf".to_owned(), weights.clone());
    let repo = Repo { breaks_after: Some(1_000_000), ..Repo::new(vec![gguf.clone()]) };
    let hub = Hub::start(vec![("acme/big-GGUF", repo)]);
    let user = User::of(&hub);
    // An earlier run was killed after 200,000 bytes.
    let blobs = user.cache().join("models--acme--big-GGUF/blobs");
    fs::create_dir_all(&blobs).expect("a folder");
    let incomplete = blobs.join(format!("{}.incomplete", sha256(&weights)));
    fs::write(&incomplete, &weights[..200_000]).expect("a file");
    let ended = user.run(&["setup", "--target", "acme/big-GGUF:Q4_0", "--no-draft"], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.told);
    let path = user.snapshot("acme/big-GGUF").join("model-Q4_0.gguf");
    assert_eq!(fs::read(&path).expect("a file"), weights);
    assert!(!incomplete.exists());
    let ranges: Vec<String> = hub.asked().into_iter().filter_map(|a| a.range).collect();
    let starts: Vec<&str> = ranges.iter().filter_map(|r| r.strip_prefix("bytes=")?.split('-').next()).collect();
    assert_eq!(starts, ["200000", "1200000", "2200000"]);

    hub.put("acme/lies-GGUF", Repo { lies: true, ..Repo::new(vec![gguf]) });
    let told = user.refused(&["setup", "--target", "acme/lies-GGUF", "--no-draft"], &[]);
    assert!(told.contains("came damaged") && told.contains("SHA-256"), "{told}");
    assert!(!user.cache().join("models--acme--lies-GGUF/snapshots").join(COMMIT).join("model-Q4_0.gguf").exists());
}

#[test]
fn refusals_say_what_to_do() {
    let gated = Repo { gated_files: true, ..Repo::new(folder("target")) };
    let limited = Repo { refuses: Some((429, "")), ..Repo::default() };
    let broken = Repo { refuses: Some((418, "")), ..Repo::default() };
    let closed = Repo { refuses: Some((401, "")), ..Repo::default() };
    let two = Repo::new(vec![("m-Q4_0.gguf".into(), vec![0; 9]), ("m-Q8_0.gguf".into(), vec![0; 9])]);
    let vast = Repo { claims: Some(1 << 60), ..Repo::new(vec![("m.gguf".into(), vec![0; 20_000])]) };
    let words = Repo::new(vec![("config.json".into(), b"{}".to_vec())]);
    let hub = Hub::start(vec![
        ("meta-llama/gated", gated),
        ("acme/limited", limited),
        ("acme/broken", broken),
        ("acme/closed", closed),
        ("acme/two", two),
        ("acme/vast", vast),
        ("acme/words", words),
    ]);
    let user = User::of(&hub);
    let token = [("HF_TOKEN", "hf_secret")];
    let cases: [(&str, Variables<'_>, &str); 11] = [
        ("acme/nothing", &[], "the hub has no such model, or it is private"),
        ("acme/nothing", &token, "whether your token may read it"),
        ("acme/two@v9", &[], "acme/two has no revision v9"),
        ("meta-llama/gated", &[], "is gated: accept its terms on its page on the hub, then set HF_TOKEN"),
        ("meta-llama/gated", &token, "with the account that your token belongs to"),
        ("acme/closed", &token, "does not accept the token"),
        ("acme/limited", &[], "asks for a pause"),
        ("acme/broken", &[], "answered 418"),
        ("acme/two", &[], "name one of them after a colon: m-Q4_0.gguf (9 B), m-Q8_0.gguf (9 B)"),
        ("acme/two:Q5_0", &[], "it has no GGUF file Q5_0"),
        ("acme/words", &[], "no GGUF file; other formats are not read"),
    ];
    for (name, variables, advice) in cases {
        let told = user.refused(&["setup", "--target", name, "--no-draft"], variables);
        assert!(told.contains(advice), "{name}: {told}");
        assert!(!told.contains("hf_secret"), "{told}");
    }
    let told = user.refused(&["setup", "--target", "acme/vast", "--no-draft"], &[]);
    assert!(told.contains("acme/vast needs 1152921504.6 GB more") && told.contains("HF_HOME"), "{told}");
    assert!(hub.asked().iter().any(|a| a.token.as_deref() == Some("Bearer hf_secret")));

    let lost = User { endpoint: "http://127.0.0.1:1".into(), ..User::of(&hub) };
    let told = lost.refused(&["setup", "--target", "acme/two:Q4_0"], &[]);
    assert!(told.contains("the hub cannot be reached") && told.contains("refused"), "{told}");
    // The drafter alone is no reason to fail.
    hub.put(TARGET, Repo::new(folder("target")));
    let ended = user.well(&["setup", "--target", TARGET]);
    assert!(
        ended.told.contains("Only plain decoding is on offer. z-lab/Qwen3-4B-DFlash-b16 is known"),
        "{}",
        ended.told
    );
}

#[test]
fn a_token_is_read_from_where_all_programs_keep_it() {
    let hub = published();
    let user = User::of(&hub);
    fs::create_dir_all(user.home.path().join("hf")).expect("a folder");
    fs::write(user.home.path().join("hf/token"), "hf_from_file\n").expect("a file");
    user.well(&["setup", "--target", TARGET, "--no-draft"]);
    assert!(hub.asked().iter().any(|a| a.path == "list" && a.token.as_deref() == Some("Bearer hf_from_file")));
}

#[test]
fn a_model_that_cannot_be_run_is_not_fetched() {
    let config = br#"{"model_type": "mystery", "hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 8}"#;
    let elements: usize = 150_000_000;
    let header =
        format!(r#"{{"w": {{"dtype": "BF16", "shape": [{elements}], "data_offsets": [0, {}]}}}}"#, elements * 2);
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header.as_bytes());
    weights.resize(weights.len() + elements * 2, 0);
    let files = vec![("config.json".into(), config.to_vec()), ("model.safetensors".into(), weights)];
    let hub = Hub::start(vec![("acme/mystery", Repo::new(files))]);
    let user = User::of(&hub);
    let told = user.refused(&["setup", "--target", "acme/mystery"], &[]);
    assert!(told.contains("acme/mystery was not fetched") && told.contains("\"mystery\""), "{told}");
    assert!(hub.asked().iter().filter(|a| a.path == "model.safetensors").all(|a| a.range.is_some()));
    // Nor is it for a look at it.
    let ended = user.well(&["inspect", "acme/mystery"]);
    assert!(ended.out.contains("150.0 M parameters") && ended.out.contains("loads       no"), "{}", ended.out);
}

#[test]
fn inspect_and_models_tell_the_same_about_a_pair() {
    let hub = published();
    let user = User::of(&hub);
    let inspect = ["inspect", TARGET, "--draft", DRAFTER, "--json"];
    let before: Value = serde_json::from_str(&user.well(&inspect).out).expect("JSON");
    assert!(!user.cache().exists(), "nothing is fetched for a look");
    assert_eq!((&before["schema_version"], &before["model"]["kind"]), (&1.into(), &"target".into()));
    assert_eq!((&before["pair"]["fits"], &before["draft"]["block_size"]), (&true.into(), &8.into()));
    assert_eq!(before["known"], DRAFTER);
    let empty: Value = serde_json::from_str(&user.well(&["models", "--json"]).out).expect("JSON");
    assert!(empty["models"].as_array().is_some_and(|m| m.iter().all(|m| m["from"] == "embedded")), "{empty}");
    let text = user.well(&["models"]).out;
    assert!(text.contains("spectop setup --target"), "{text}");

    user.well(&["setup", "--target", TARGET]);
    let after: Value = serde_json::from_str(&user.well(&inspect).out).expect("JSON");
    assert_eq!(after["model"]["weights"], before["model"]["weights"]);
    let list: Value = serde_json::from_str(&user.well(&["models", "--json"]).out).expect("JSON");
    let entry = |name: &str| list["models"].as_array().and_then(|m| m.iter().find(|m| m["name"] == name)).cloned();
    let target = entry(TARGET).expect("it is listed");
    assert_eq!((&target["kind"], &target["partner"]["here"]), (&"target".into(), &true.into()));
    assert_eq!(target["fits"][0]["bytes"], after["fit"][0]["plan"]["total"]);
    assert_eq!(entry(DRAFTER).map(|d| d["kind"].clone()), Some("drafter".into()));
    let text = user.well(&["models"]).out;
    assert!(text.lines().any(|l| l.starts_with(TARGET) && l.contains(DRAFTER)), "{text}");

    // The drafter that is known and here is looked at without being named.
    let alone: Value = serde_json::from_str(&user.well(&["inspect", TARGET, "--json"]).out).expect("JSON");
    assert_eq!((&alone["pair"]["fits"], &alone["fit"][0]["plan"]), (&true.into(), &after["fit"][0]["plan"]));

    // Halves of two pairs: exit code 2, and the reason on the screen.
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/smollm2-135m-dflash").display().to_string();
    let ended = user.run(&["inspect", TARGET, "--draft", &other], &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.told);
    assert!(ended.out.contains("was made for hidden size 576, but the target has 128"), "{}", ended.out);
}

#[test]
fn a_gguf_file_is_looked_at_from_afar() {
    let file = gguf::Gguf::default()
        .pair_text("general.architecture", "qwen35")
        .pair_u32("qwen35.embedding_length", 8)
        .pair_u32("qwen35.attention.head_count", 2)
        .pair_u32("qwen35.attention.head_count_kv", 1)
        .pair_u32("qwen35.attention.key_length", 4)
        .pair_u32("qwen35.block_count", 2)
        .pair_u32("qwen35.context_length", 64)
        .pair_u32("qwen35.ssm.conv_kernel", 4)
        .pair_u32("qwen35.ssm.group_count", 1)
        .pair_u32("qwen35.ssm.inner_size", 8)
        .pair_u32("qwen35.ssm.state_size", 4)
        .pair_u32("qwen35.ssm.time_step_rank", 2)
        .tensor("token_embd.weight", &[8, 16], 0, &[0; 8 * 16 * 4])
        .tensor("blk.0.ssm_out.weight", &[8, 8], 1, &[0; 8 * 8 * 2])
        .tensor("blk.1.attn_q.weight", &[8, 16], 0, &[0; 8 * 16 * 4]);
    let hub = Hub::start(vec![("acme/hybrid-GGUF", Repo::new(vec![("hybrid-F16.gguf".into(), file.bytes())]))]);
    let user = User::of(&hub);
    let ended = user.well(&["inspect", "acme/hybrid-GGUF", "--json"]);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    let model = &report["model"];
    assert_eq!((&model["architecture"], &model["container"]), (&"qwen35".into(), &"gguf".into()));
    assert_eq!((&model["layers"]["full"], &model["layers"]["linear"]), (&1.into(), &1.into()));
    assert_eq!((&model["linear"]["value_heads"], &model["linear"]["value_dim"]), (&2.into(), &4.into()));
    assert_eq!((&model["weights"]["formats"][0]["format"], &model["vocab"]), (&"F32".into(), &16.into()));
    let share = model["weights"]["formats"][1]["share"].as_f64().expect("a share");
    assert!((share - 64.0 / 320.0).abs() < 1e-9, "{share}");
}
