//! Tokenizers and chat templates on real and made-up models.

mod support;

use std::fs;

use proptest::prelude::*;
use spectop::engine::api::ModelSource;
use spectop::engine::chat_template::ChatTemplate;
use spectop::engine::model::config::{Architecture, TargetConfig};
use spectop::engine::tokenizer::{TextJoiner, Tokenizer};
use spectop::engine::weights::Checkpoint;

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
