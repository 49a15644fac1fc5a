//! Tokenizers and chat templates on real and made-up models.

mod support;

use std::fs;

use proptest::prelude::*;
use spectop::engine::api::ModelSource;
use spectop::engine::chat_template::ChatTemplate;
use spectop::engine::model::config::{Architecture, TargetConfig};
use spectop::engine::tokenizer::{TextJoiner, Tokenizer};
use spectop::engine::weights::Checkpoint;
use support::gguf::Gguf;

fn text_of(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut joiner = TextJoiner::default();
    let text: String = ids.iter().map(|&id| joiner.push(tokenizer.bytes(id))).collect();
    text + &joiner.finish()
}

#[test]
fn the_default_target_tokenizes_as_its_authors_do() {
    let Some(path) = support::target_gguf() else { return };
    let checkpoint = Checkpoint::open(&ModelSource::Path(path)).expect("opens");
    let config = TargetConfig::read(&checkpoint).expect("configuration");
    assert_eq!(config.architecture, Architecture::Llama);
    assert_eq!((config.hidden, config.layers, config.heads, config.kv_heads, config.head_dim), (576, 30, 9, 3, 64));
    assert_eq!((config.vocab, config.intermediate, config.context, config.tied), (49_152, 1536, 8192, true));
    assert!(config.rope_interleaved);
    assert_eq!(config.stop_tokens, [0, 2]);
    assert_eq!(config.inv_freq.len(), 32);

    let tokenizer = Tokenizer::read(&checkpoint, config.vocab).expect("tokenizer");
    let template = ChatTemplate::read(&checkpoint).expect("template").expect("there is one");
    let expected: serde_json::Value =
        serde_json::from_slice(&fs::read("tests/fixtures/smollm2-story/expected.json").expect("fixture"))
            .expect("JSON");
    for case in expected["cases"].as_array().expect("cases") {
        let message = serde_json::json!({"role": "user", "content": case["prompt"]});
        let text = template.render(&[message]).expect("renders");
        let ids = tokenizer.encode(&text, true);
        let wanted: Vec<u32> = serde_json::from_value(case["prompt_ids"].clone()).expect("ids");
        assert_eq!(ids, wanted, "{}", case["prompt"]);
    }
    assert_eq!(tokenizer.bos(), None);
    assert_eq!(tokenizer.control(2), Some("<|im_end|>"));
    assert!(tokenizer.bytes(2).is_empty());

    // Control tokens spelled out by a user stay text.
    let text = "a<|im_end|>b";
    assert!(tokenizer.encode(text, true).contains(&2));
    let ids = tokenizer.encode(text, false);
    assert!(!ids.contains(&2), "{ids:?}");
    assert_eq!(text_of(&tokenizer, &ids), text);

    for text in ["", " ", "Grüße, 你好 👩‍👩‍👧!\n\n\t x  = 12345;\r\n", "'re'LL", "\u{0}\u{7f}é", "   lead and trail   "]
    {
        assert_eq!(text_of(&tokenizer, &tokenizer.encode(text, false)), text);
    }
    for text in [" a".repeat(20_000), "a".repeat(20_000), " ".repeat(20_000), "1".repeat(20_000)] {
        assert_eq!(text_of(&tokenizer, &tokenizer.encode(&text, false)), text);
    }
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    runner
        .run(&any::<String>(), |text| {
            let back = text_of(&tokenizer, &tokenizer.encode(&text, false));
            prop_assert_eq!(back, text);
            Ok(())
        })
        .expect("every text comes back");
}

/// A folder with the given files and weights of one tensor.
fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Checkpoint) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let header = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat();
    fs::write(dir.path().join("model.safetensors"), weights).expect("a file");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    let checkpoint = Checkpoint::open(&ModelSource::Path(dir.path().to_owned())).expect("opens");
    (dir, checkpoint)
}

#[test]
fn byte_models_take_bytes_as_ids() {
    for files in [&[("tokenizer_config.json", r#"{"tokenizer_class":"ByteTokenizer"}"#)][..], &[]] {
        let (_dir, checkpoint) = folder(files);
        let tokenizer = Tokenizer::read(&checkpoint, 264).expect("bytes");
        assert_eq!(tokenizer.encode("é!", true), [0xc3, 0xa9, 0x21]);
        assert_eq!(tokenizer.bytes(0xc3), [0xc3]);
        assert!(tokenizer.bytes(256).is_empty());
        assert!(ChatTemplate::read(&checkpoint).expect("reads").is_none());
    }
    let (_dir, checkpoint) = folder(&[]);
    let error = Tokenizer::read(&checkpoint, 1000).expect_err("no tokenizer").to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
    assert!(Tokenizer::read(&checkpoint, 100).is_err());
}

const SMALL: &str = r#"{
  "version": "1.0",
  "added_tokens": [
    {"id": 5, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 6, "content": "<tool>", "special": false, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}
  ],
  "normalizer": null, "post_processor": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ã": 4}, "merges": [["a", "b"]]}
}"#;

#[test]
fn published_tokenizers_are_read() {
    let config = r#"{"bos_token": {"content": "<s>"}, "add_bos_token": true,
        "chat_template": [{"name": "default", "template": "{{ bos_token }}{{ messages[-1].content }}"}]}"#;
    let (_dir, checkpoint) = folder(&[("tokenizer.json", SMALL), ("tokenizer_config.json", config)]);
    let tokenizer = Tokenizer::read(&checkpoint, 16).expect("reads");
    assert_eq!(tokenizer.encode("<s>ab a<tool>", true), [5, 2, 3, 0, 6]);
    assert_eq!(tokenizer.bytes(2), b"ab");
    assert_eq!(tokenizer.bytes(3), b" ");
    assert_eq!(tokenizer.bytes(4), [0xc3]);
    assert_eq!((tokenizer.bytes(5), tokenizer.bytes(6)), (b"".as_slice(), b"<tool>".as_slice()));
    assert_eq!(tokenizer.bos(), Some(5));
    assert!(!tokenizer.encode("<s>ab", false).contains(&5));
    let template = ChatTemplate::read(&checkpoint).expect("reads").expect("there is one");
    let message = serde_json::json!({"role": "user", "content": "hi"});
    assert_eq!(template.render(&[message]).expect("renders"), "<s>hi");

    let error = Tokenizer::read(&checkpoint, 6).expect_err("too many tokens").to_string();
    assert!(error.contains("<tool>") && error.contains("6 tokens"), "{error}");
    let damaged = SMALL.replace(r#"["a", "b"]"#, r#"["ab", "ab"]"#);
    let (_dir, checkpoint) = folder(&[("tokenizer.json", &damaged)]);
    assert!(Tokenizer::read(&checkpoint, 16).expect_err("bad merge").to_string().contains("damaged"));
}

/// A llama model of two tokens' width with a tokenizer that knows the letters a and b.
fn small_gguf(pre: &str) -> Gguf {
    let mut types = 5u32.to_le_bytes().to_vec();
    types.extend(6u64.to_le_bytes());
    for kind in [3i32, 1, 1, 1, 4, 6] {
        types.extend(kind.to_le_bytes());
    }
    Gguf::default()
        .pair_text("general.architecture", "llama")
        .pair_u32("llama.embedding_length", 4)
        .pair_u32("llama.block_count", 1)
        .pair_u32("llama.feed_forward_length", 8)
        .pair_u32("llama.attention.head_count", 2)
        .pair_u32("llama.context_length", 32)
        .pair_text("tokenizer.ggml.model", "gpt2")
        .pair_text("tokenizer.ggml.pre", pre)
        .pair_texts("tokenizer.ggml.tokens", &["<|im_end|>", "a", "b", "ab", "[x]", "<0x0A>"])
        .pair("tokenizer.ggml.token_type", 9, &types)
        .pair_texts("tokenizer.ggml.merges", &["a b"])
        .pair_u32("tokenizer.ggml.bos_token_id", 0)
        .pair_text("tokenizer.chat_template", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
        .tensor("token_embd.weight", &[4, 6], 0, &[0; 96])
}

/// Reads everything there is to read, and uses it.
fn read_all(bytes: &[u8]) -> Result<(TargetConfig, Tokenizer), String> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("small.gguf");
    fs::write(&path, bytes).expect("a file");
    let checkpoint = Checkpoint::open(&ModelSource::Path(path)).map_err(|e| e.to_string())?;
    let config = TargetConfig::read(&checkpoint).map_err(|e| e.to_string())?;
    let tokenizer = Tokenizer::read(&checkpoint, config.vocab).map_err(|e| e.to_string())?;
    let template = ChatTemplate::read(&checkpoint).map_err(|e| e.to_string())?;
    let _ = template.map(|t| t.render(&[serde_json::json!({"role": "user", "content": "ab"})]));
    let _ = text_of(&tokenizer, &tokenizer.encode("abba<|im_end|>[x]", true));
    Ok((config, tokenizer))
}

#[test]
fn a_small_gguf_is_read() {
    for pre in ["smollm", "gpt-2", "default", "qwen2", "qwen35", "llama-bpe"] {
        let (config, tokenizer) = read_all(&small_gguf(pre).bytes()).expect(pre);
        assert_eq!((config.head_dim, config.kv_heads, config.vocab, config.tied), (2, 2, 6, true));
        assert_eq!(config.stop_tokens, [0]);
        assert_eq!(tokenizer.encode("abb<|im_end|>a[x]", true), [3, 2, 0, 1, 4], "{pre}");
        assert_eq!(tokenizer.bytes(4), b"[x]");
        assert_eq!(tokenizer.bytes(5), b"\n");
        assert_eq!(tokenizer.bos(), (pre == "llama-bpe").then_some(0));
    }
    let error = read_all(&small_gguf("made-up").bytes()).expect_err("unknown");
    assert!(error.contains("\"made-up\"") && error.contains("small.gguf"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn altered_models_never_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = small_gguf("smollm").bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read_all(&bytes);
    }

    #[test]
    fn altered_tokenizer_files_never_panic(at in any::<prop::sample::Index>(), value in 32u8..127) {
        let mut text = SMALL.as_bytes().to_vec();
        let at = at.index(text.len());
        if text[at].is_ascii() && (at == 0 || text[at - 1].is_ascii()) {
            text[at] = value;
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let (_dir, checkpoint) = folder(&[("tokenizer.json", &text)]);
        if let Ok(tokenizer) = Tokenizer::read(&checkpoint, 600) {
            let _ = tokenizer.encode("<s>ab a<tool>", true);
        }
    }
}
