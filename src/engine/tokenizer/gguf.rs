//! Byte-level BPE from GGUF metadata. How text is split before the merges is only named there (`tokenizer.ggml.pre`);
//! a wrong guess gives subtly wrong ids, so an unknown name is an error.

use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior};

use super::Tokenizer;
use super::table::{TokenTable, byte_level, sentence_piece};
use crate::engine::weights::WeightsError;
use crate::engine::weights::gguf::Metadata;

/// Kinds of tokens in `tokenizer.ggml.token_type`.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;
const BYTE: i64 = 6;

const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Marks that combine with a letter stay with it.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

/// How a family splits text.
struct Family {
    split: Vec<PreTokenizerWrapper>,
    /// Text is brought to composed form first.
    composed: bool,
    /// A piece that is a token as a whole is taken without looking at merges.
    whole_words: bool,
    /// A beginning token is wanted unless the file says otherwise.
    bos: bool,
}

fn family(pre: &str) -> Result<Family, String> {
    let bytes = |regex| PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, regex));
    let split = |pattern: &str| {
        Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)
            .map(PreTokenizerWrapper::Split)
            .map_err(|e| e.to_string())
    };
    let plain = |split| Family { split, composed: false, whole_words: false, bos: false };
    Ok(match pre {
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => {
            plain(vec![PreTokenizerWrapper::Digits(Digits::new(true)), bytes(true)])
        }
        "gpt-2" | "gpt2" | "phi-2" | "olmo" => plain(vec![bytes(true)]),
        "default" => plain(vec![
            split(r"[\p{P}\$\+<=>\^~\|]+")?,
            split(GPT2)?,
            split(r"\p{N}+")?,
            split("[0-9][0-9][0-9]")?,
            bytes(false),
        ]),
        "qwen2" => Family { composed: true, ..plain(vec![split(QWEN2)?, bytes(false)]) },
        "qwen35" => Family { composed: true, ..plain(vec![split(QWEN35)?, bytes(false)]) },
        "llama-bpe" | "llama3" | "llama-v3" => {
            Family { whole_words: true, bos: true, ..plain(vec![split(LLAMA3)?, bytes(false)]) }
        }
        other => {
            return Err(format!(
                "its tokenizer splits text in a way named \"{other}\" (tokenizer.ggml.pre), which is not known here; use the safetensors folder of the model with its tokenizer.json"
            ));
        }
    })
}

pub(super) fn read(file: &str, metadata: &Metadata, vocab: usize) -> Result<Tokenizer, WeightsError> {
    build(metadata, vocab).map_err(|problem| WeightsError::config(file, problem))
}

fn build(metadata: &Metadata, vocab: usize) -> Result<Tokenizer, String> {
    match metadata.text("tokenizer.ggml.model") {
        Some("gpt2") => {}
        None => return Err("there is no tokenizer in it (tokenizer.ggml.model); fetch a complete file".into()),
        Some(other) => {
            return Err(format!(
                "its tokenizer is of kind \"{other}\"; only byte-level BPE (\"gpt2\") is read from GGUF: use the safetensors folder of the model with its tokenizer.json"
            ));
        }
    }
    let family = family(metadata.text("tokenizer.ggml.pre").unwrap_or("default"))?;
    let tokens = metadata.texts("tokenizer.ggml.tokens").ok_or("tokenizer.ggml.tokens is missing")?;
    if tokens.len() != vocab {
        return Err(format!("tokenizer.ggml.tokens has {} tokens, but the model has {vocab}", tokens.len()));
    }
    let types = metadata.integers("tokenizer.ggml.token_type").unwrap_or(&[]);
    if !types.is_empty() && types.len() != tokens.len() {
        return Err(format!("tokenizer.ggml.token_type has {} entries for {} tokens", types.len(), tokens.len()));
    }
    let kind = |id: usize| types.get(id).copied().unwrap_or(1);

    let ids: Vocab = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id as u32)).collect();
    let merges = merges(metadata, &ids)?;
    let model = BPE::builder()
        .vocab_and_merges(ids, merges)
        .ignore_merges(family.whole_words)
        .build()
        .map_err(|e| format!("its tokenizer is inconsistent: {e}"))?;
    let mut encoder = tokenizers::Tokenizer::new(model);
    encoder.with_pre_tokenizer(Some(Sequence::new(family.split)));
    if family.composed {
        encoder.with_normalizer(Some(NFC)).map_err(|e| e.to_string())?;
    }
    let added = tokens.iter().enumerate().filter_map(|(id, token)| match kind(id) {
        CONTROL | UNKNOWN => Some(AddedToken::from(token.clone(), true)),
        USER_DEFINED => Some(AddedToken::from(token.clone(), false).normalized(false)),
        _ => None,
    });
    encoder.add_tokens(added).map_err(|e| e.to_string())?;

    let controls = tokens.iter().enumerate().filter(|(id, _)| matches!(kind(*id), CONTROL | UNKNOWN));
    let controls = controls.map(|(id, token)| (id as u32, token.clone())).collect();
    let bytes = tokens.iter().enumerate().map(|(id, token)| match kind(id) {
        CONTROL | UNKNOWN | UNUSED => Vec::new(),
        USER_DEFINED => token.clone().into_bytes(),
        BYTE => sentence_piece(token),
        _ => byte_level(token),
    });
    let table = TokenTable::new(bytes, controls);
    let bos = metadata.unsigned("tokenizer.ggml.bos_token_id").and_then(|n| u32::try_from(n).ok());
    let wanted = metadata.bool("tokenizer.ggml.add_bos_token").unwrap_or(family.bos);
    Ok(Tokenizer::of_pieces(encoder, table, bos.filter(|&id| wanted && (id as usize) < vocab)))
}

/// Pairs to merge, in order of rank. Each pair and its result must be tokens: the BPE builder relies on it.
fn merges(metadata: &Metadata, ids: &Vocab) -> Result<Vec<(String, String)>, String> {
    let lines = metadata.texts("tokenizer.ggml.merges").ok_or("tokenizer.ggml.merges is missing")?;
    lines
        .iter()
        .map(|line| {
            let at = line.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
            let (a, b) =
                at.map(|at| (&line[..at], &line[at + 1..])).ok_or_else(|| format!("merge {line:?} is not a pair"))?;
            if ids.contains_key(a) && ids.contains_key(b) && ids.contains_key(&format!("{a}{b}")) {
                Ok((a.to_owned(), b.to_owned()))
            } else {
                Err(format!("merge {line:?} is of tokens that do not exist; the file is damaged"))
            }
        })
        .collect()
}
