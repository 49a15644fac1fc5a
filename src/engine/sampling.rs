//! What a model's publishers suggest for choosing tokens: `generation_config.json`, or the same in GGUF metadata.

use super::weights::{Checkpoint, WeightsError};

/// Suggestions; absent where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Suggested {
    /// Temperature.
    pub temperature: Option<f32>,
    /// Keep the smallest set of tokens with this probability.
    pub top_p: Option<f32>,
    /// Keep this many tokens.
    pub top_k: Option<usize>,
}

/// Reads them. A value out of its range is no suggestion.
pub fn suggested(checkpoint: &Checkpoint) -> Result<Suggested, WeightsError> {
    let (temperature, top_p, top_k) = if let Some(metadata) = checkpoint.metadata() {
        (
            metadata.float("general.sampling.temp"),
            metadata.float("general.sampling.top_p"),
            metadata.unsigned("general.sampling.top_k"),
        )
    } else {
        let config = checkpoint.json("generation_config.json")?.unwrap_or_default();
        let number = |key: &str| config.get(key).and_then(serde_json::Value::as_f64);
        let greedy = config.get("do_sample").and_then(serde_json::Value::as_bool) == Some(false);
        let temperature = if greedy { Some(0.0) } else { number("temperature") };
        (temperature, number("top_p"), config.get("top_k").and_then(serde_json::Value::as_u64))
    };
    Ok(Suggested {
        temperature: temperature.filter(|t| (0.0..=5.0).contains(t)).map(|t| t as f32),
        top_p: top_p.filter(|p| (0.0..=1.0).contains(p)).map(|p| p as f32),
        top_k: top_k.and_then(|k| usize::try_from(k).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::api::ModelSource;

    fn read(config: &str) -> Suggested {
        let folder = tempfile::tempdir().expect("a folder");
        // The smallest file that is a checkpoint: a header that names no tensor.
        std::fs::write(folder.path().join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}").expect("written");
        std::fs::write(folder.path().join("generation_config.json"), config).expect("written");
        let source = ModelSource::Path(folder.path().to_owned());
        suggested(&Checkpoint::open(&source).expect("it opens")).expect("it is JSON")
    }

    #[test]
    fn what_is_published_is_suggested() {
        let qwen = r#"{"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "eos_token_id": [1, 2]}"#;
        assert_eq!(read(qwen), Suggested { temperature: Some(0.6), top_p: Some(0.95), top_k: Some(20) });
        assert_eq!(read("{}"), Suggested::default());
        assert_eq!(read(r#"{"do_sample": false}"#).temperature, Some(0.0));
        assert_eq!(read(r#"{"temperature": -1, "top_p": 7, "top_k": -3}"#), Suggested::default());
    }
}
