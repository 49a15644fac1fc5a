//! Text to ids and back, byte-exact.

mod gguf;
mod joiner;
mod json;
mod table;

use std::sync::{Arc, OnceLock};

use crate::engine::weights::{Checkpoint, WeightsError};
pub use joiner::TextJoiner;
use table::TokenTable;

/// Vocabularies below this are taken for bytes when no tokenizer file is there.
const BYTE_VOCAB: usize = 512;

/// A tokenizer with the bytes of every token. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    encoder: Encoder,
    table: TokenTable,
    bos: Option<u32>,
}

#[derive(Debug)]
enum Encoder {
    /// Token ids are bytes.
    Bytes,
    /// A tokenizer that reads control tokens spelled out in the text, and one that does not. Most programs need only
    /// one of them, so the second is made when it is first asked for.
    Pieces { special: Box<tokenizers::Tokenizer>, plain: OnceLock<Box<tokenizers::Tokenizer>> },
}

impl Tokenizer {
    /// From GGUF metadata, `tokenizer.json`, or bytes (a folder whose `tokenizer_config.json` says
    /// `"tokenizer_class": "ByteTokenizer"`, or a vocabulary under 512 rows without any tokenizer file).
    pub fn read(checkpoint: &Checkpoint, vocab: usize) -> Result<Self, WeightsError> {
        if let Some(metadata) = checkpoint.metadata() {
            return gguf::read(&checkpoint.location(), metadata, vocab);
        }
        let config = checkpoint.json("tokenizer_config.json")?;
        let class = config.as_ref().and_then(|c| c.get("tokenizer_class")).and_then(|c| c.as_str());
        let file = checkpoint.file("tokenizer.json");
        match file {
            Some(text) if class != Some("ByteTokenizer") => {
                let path = format!("{}/tokenizer.json", checkpoint.location());
                json::read(&path, &text, config.as_ref(), vocab)
            }
            _ if class == Some("ByteTokenizer") || vocab < BYTE_VOCAB => Self::of_bytes(checkpoint, vocab),
            _ => Err(WeightsError::config(
                checkpoint.location(),
                "there is no tokenizer.json in it; copy it from where the model was published (vocab.json and tokenizer.model alone are not read)",
            )),
        }
    }

    fn of_bytes(checkpoint: &Checkpoint, vocab: usize) -> Result<Self, WeightsError> {
        if vocab < 256 {
            return Err(WeightsError::config(
                checkpoint.location(),
                format!("a byte tokenizer needs at least 256 tokens, but the vocabulary has {vocab}"),
            ));
        }
        let table = TokenTable::new((0..=255u8).map(|b| vec![b]), Vec::new());
        Ok(Self(Arc::new(Inner { encoder: Encoder::Bytes, table, bos: None })))
    }

    fn of_pieces(encoder: tokenizers::Tokenizer, table: TokenTable, bos: Option<u32>) -> Self {
        let encoder = Encoder::Pieces { special: Box::new(encoder), plain: OnceLock::new() };
        Self(Arc::new(Inner { encoder, table, bos }))
    }

    /// Ids of a text. With `parse_special`, control tokens spelled out in the text become their ids (chat template
    /// output); without, they are ordinary text (user input). No token is ever added: see [`Tokenizer::bos`].
    pub fn encode(&self, text: &str, parse_special: bool) -> Vec<u32> {
        match &self.0.encoder {
            Encoder::Bytes => text.bytes().map(u32::from).collect(),
            Encoder::Pieces { special, plain } => {
                let encoder = if parse_special {
                    special
                } else {
                    plain.get_or_init(|| {
                        let mut plain = special.clone();
                        plain.set_encode_special_tokens(true);
                        plain
                    })
                };
                // The models that are read cover all bytes, so there is nothing that they could refuse.
                encoder.encode_fast(text, false).map(|e| e.get_ids().to_vec()).unwrap_or_default()
            }
        }
    }

    /// Bytes of a token; empty for control tokens and ids out of range.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.0.table.bytes(id)
    }

    /// Token that this model wants in front of a text that no chat template has made. (A template that wants it
    /// writes it itself.)
    pub fn bos(&self) -> Option<u32> {
        self.0.bos
    }

    /// Spelling of a control token, e.g. `<|im_end|>`; `None` for ordinary tokens.
    pub fn control(&self, id: u32) -> Option<&str> {
        self.0.table.control(id)
    }
}
