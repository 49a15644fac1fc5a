//! Names under which published safetensors checkpoints keep one and the same tensor.

/// Other names to look a tensor up by, in order. Drafters come with and without the leading `model.`, models that
/// also see pictures keep those of their text part under `language_model`, a one-layer
/// drafter may call its layer `midlayer`, and the first DFlash generation called the fusion `encoder`.
pub(super) fn other_names(name: &str) -> Vec<String> {
    let bare = name.strip_prefix("model.").unwrap_or(name);
    let mut names = vec![bare.to_owned(), format!("model.{bare}")];
    names.push(format!("model.language_model.{bare}"));
    names.push(format!("language_model.model.{bare}"));
    if let Some(rest) = bare.strip_prefix("layers.0.") {
        names.push(format!("midlayer.{rest}"));
    }
    match bare {
        "fc.weight" => names.push("encoder.fc.weight".into()),
        "hidden_norm.weight" => names.push("encoder.output_norm_enc.weight".into()),
        _ => {}
    }
    names
}
