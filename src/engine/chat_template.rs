//! Chat templates as published (Jinja), or ChatML where a model has none.

use crate::engine::weights::{Checkpoint, WeightsError};

/// A compiled template.
#[derive(Debug)]
pub struct ChatTemplate {}

impl ChatTemplate {
    /// From GGUF metadata, `tokenizer_config.json` or `chat_template.jinja`; `Ok(None)` where the model has none: the
    /// prompt is then the last user message as it is.
    pub fn read(checkpoint: &Checkpoint) -> Result<Option<Self>, WeightsError> {
        let _ = checkpoint;
        todo!()
    }
    /// The prompt text for an OpenAI `messages` array, with the generation prompt added.
    pub fn render(&self, messages: &[serde_json::Value]) -> Result<String, String> {
        let _ = messages;
        todo!()
    }
}
