//! Tokenizers as published for Transformers: `tokenizer.json`, beside a `tokenizer_config.json`.

use serde_json::Value;

use super::Tokenizer;
use super::table::{TokenTable, byte_level, sentence_piece};
use crate::engine::weights::WeightsError;

/// More tokens than any vocabulary has; ids beyond would only make large tables.
const MAX_TOKENS: usize = 1 << 22;

pub(super) fn read(file: &str, text: &[u8], config: Option<&Value>, vocab: usize) -> Result<Tokenizer, WeightsError> {
    build(text, config, vocab).map_err(|problem| WeightsError::config(file, problem))
}

fn build(text: &[u8], config: Option<&Value>, vocab: usize) -> Result<Tokenizer, String> {
    let json: Value = serde_json::from_slice(text).map_err(|e| format!("it is not valid JSON: {e}"))?;
    check_merges(&json)?;
    let mut encoder = tokenizers::Tokenizer::from_bytes(text).map_err(|e| format!("it is not a tokenizer: {e}"))?;
    encoder.with_truncation(None).map_err(|e| e.to_string())?;
    encoder.with_padding(None);

    let added = encoder.get_added_tokens_decoder();
    let names = encoder.get_vocab(true);
    let count = names.values().map(|&id| id as usize + 1).max().unwrap_or(0);
    if count > MAX_TOKENS {
        return Err(format!("it has a token number {}, which is absurd", count - 1));
    }
    // Padded models have more rows than tokens; the other way round, a token would have no embedding.
    if let Some((name, id)) = names.iter().find(|(_, id)| **id as usize >= vocab) {
        return Err(format!(
            "token {name:?} has number {id}, but the model has {vocab} tokens; they do not belong together"
        ));
    }
    let to_bytes = if is_byte_level(&json) { byte_level } else { sentence_piece };
    let mut tokens = vec![Vec::new(); count];
    for (name, &id) in &names {
        tokens[id as usize] = match added.get(&id) {
            Some(token) if token.special => Vec::new(),
            Some(token) => token.content.clone().into_bytes(),
            None => to_bytes(name),
        };
    }
    let controls = added.iter().filter(|(_, t)| t.special).map(|(&id, t)| (id, t.content.clone())).collect();
    let bos = bos(&encoder, config);
    Ok(Tokenizer::of_pieces(encoder, TokenTable::new(tokens, controls), bos))
}

/// The BPE builder writes each merged pair into a buffer as long as the longest token: a pair that is longer would
/// make it panic.
fn check_merges(json: &Value) -> Result<(), String> {
    let Some(merges) = json.pointer("/model/merges").and_then(Value::as_array) else { return Ok(()) };
    let vocab = json.pointer("/model/vocab").and_then(Value::as_object);
    let longest = vocab.map_or(0, |v| v.keys().map(String::len).max().unwrap_or(0));
    let prefix = json.pointer("/model/continuing_subword_prefix").and_then(Value::as_str).unwrap_or("");
    for merge in merges {
        let pair = match merge {
            Value::String(line) => line.split_once(' '),
            Value::Array(pair) => pair.first().and_then(Value::as_str).zip(pair.get(1).and_then(Value::as_str)),
            _ => None,
        };
        let fits = pair.is_some_and(|(a, b)| {
            // A prefix that marks continuations is cut off the second part.
            b.len() >= prefix.len() && a.len() + b.len() - prefix.len() <= longest
        });
        if !fits {
            return Err(format!("merge {merge} is not of tokens in its vocabulary; the file is damaged"));
        }
    }
    Ok(())
}

fn is_byte_level(json: &Value) -> bool {
    fn mentions(value: Option<&Value>) -> bool {
        match value {
            Some(Value::Object(map)) => {
                map.get("type").and_then(Value::as_str) == Some("ByteLevel")
                    || ["pretokenizers", "decoders"].iter().any(|k| mentions(map.get(*k)))
            }
            Some(Value::Array(list)) => list.iter().any(|v| mentions(Some(v))),
            _ => false,
        }
    }
    mentions(json.get("decoder")) || mentions(json.get("pre_tokenizer"))
}

/// The beginning token, where the tokenizer adds one: by its configuration, or by its post-processor.
fn bos(encoder: &tokenizers::Tokenizer, config: Option<&Value>) -> Option<u32> {
    let named = config.and_then(|c| c.get("bos_token")).and_then(|t| t.as_str().or_else(|| t.get("content")?.as_str()));
    let id = encoder.token_to_id(named?)?;
    let adds = match config.and_then(|c| c.get("add_bos_token")).and_then(Value::as_bool) {
        Some(adds) => adds,
        None => encoder.encode_fast("a", true).is_ok_and(|e| e.get_ids().first() == Some(&id)),
    };
    adds.then_some(id)
}
