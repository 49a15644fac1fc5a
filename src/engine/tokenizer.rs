//! Text to ids and back, byte-exact.

use crate::engine::weights::{Checkpoint, WeightsError};

/// A tokenizer with the bytes of every token.
#[derive(Debug, Clone)]
pub struct Tokenizer {}

impl Tokenizer {
    /// From GGUF metadata, `tokenizer.json`, or bytes (a folder whose `tokenizer_config.json` says
    /// `"tokenizer_class": "ByteTokenizer"`, or a vocabulary under 512 rows without any tokenizer file).
    pub fn read(checkpoint: &Checkpoint, vocab: usize) -> Result<Self, WeightsError> {
        let _ = (checkpoint, vocab);
        todo!()
    }
    /// Ids of a text. With `parse_special`, control tokens spelled out in the text become their ids (chat template
    /// output); without, they are ordinary text (user input).
    pub fn encode(&self, text: &str, parse_special: bool) -> Vec<u32> {
        let _ = (text, parse_special);
        todo!()
    }
    /// Bytes of a token; empty for control tokens and ids out of range.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let _ = id;
        todo!()
    }
}

/// Joins token bytes into whole characters.
#[derive(Debug, Clone, Default)]
pub struct TextJoiner {}

impl TextJoiner {
    /// Adds bytes; returns what is whole now. Bytes that can never become valid turn into U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let _ = bytes;
        todo!()
    }
    /// The rest, lossily.
    pub fn finish(&mut self) -> String {
        todo!()
    }
}
