//! Which files of a repository are needed.

use super::error::bytes;

/// A file on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    /// Path in the repository.
    pub(super) path: String,
    /// Bytes.
    pub(super) size: u64,
    /// Name of the blob in the cache: the SHA-256 of large files, git's object id of small ones.
    pub(super) etag: String,
    /// SHA-256, where the hub tells it.
    pub(super) sha256: Option<String>,
}

/// Files that say how a model is to be used, in the order in which they are fetched.
pub(super) const SIDE_FILES: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "tokenizer.json",
    "special_tokens_map.json",
    INDEX,
];

/// The index of a model in several files.
pub(super) const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// How the weights of a repository are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Weights {
    /// One GGUF file, which needs nothing beside it.
    Gguf(Remote),
    /// One safetensors file.
    Single(Remote),
    /// Several that the index names.
    Sharded,
}

/// Chooses the weights. `file` is what the user named: a GGUF file or a quantisation.
pub(super) fn weights(files: &[Remote], file: Option<&str>) -> Result<Weights, String> {
    let named = |name: &str| files.iter().find(|f| f.path == name).cloned();
    if let Some(asked) = file {
        return gguf(files, asked).map(Weights::Gguf);
    }
    if named(INDEX).is_some() {
        return Ok(Weights::Sharded);
    }
    if let Some(single) = named(SINGLE) {
        return Ok(Weights::Single(single));
    }
    match ggufs(files).as_slice() {
        [] => Err(format!("it has no {SINGLE} and no GGUF file; other formats are not read")),
        [one] => Ok(Weights::Gguf((*one).clone())),
        many => Err(format!("it has several GGUF files; name one of them after a colon: {}", listed(many))),
    }
}

/// Whether a file is a GGUF model: the one beside a vision model that projects its images is none.
pub(super) fn is_gguf_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let gguf = name.rsplit_once('.').is_some_and(|(_, end)| end == "gguf");
    gguf && !name.starts_with("mmproj") && !name.contains("imatrix")
}

fn ggufs(files: &[Remote]) -> Vec<&Remote> {
    files.iter().filter(|f| is_gguf_model(&f.path)).collect()
}

fn gguf(files: &[Remote], asked: &str) -> Result<Remote, String> {
    let all = ggufs(files);
    if let Some(exact) = all.iter().find(|f| f.path == asked) {
        return whole(exact);
    }
    // A quantisation is the last piece of a name: `Qwen3-8B-Q4_K_M.gguf`, `model.q4_0.gguf`.
    let ends = |f: &Remote| {
        let stem = f.path.to_ascii_lowercase();
        let stem = stem.trim_end_matches(".gguf");
        let before = stem.strip_suffix(&asked.to_ascii_lowercase());
        before.is_some_and(|b| b.is_empty() || b.ends_with(['-', '.', '_', '/']))
    };
    let found: Vec<&Remote> = all.iter().copied().filter(|f| ends(f)).collect();
    match found.as_slice() {
        [one] => whole(one),
        [] if all.is_empty() => Err(format!("it has no GGUF file, so {asked} cannot be one; leave it out")),
        [] => Err(format!("it has no GGUF file {asked}; there are {}", listed(&all))),
        many => Err(format!("{asked} could be any of {}; name the file", listed(many))),
    }
}

fn whole(file: &Remote) -> Result<Remote, String> {
    let split = file.path.to_ascii_lowercase().contains("-of-0");
    if split {
        return Err(format!(
            "{} is one part of a model split over several files, which are not read; choose another",
            file.path
        ));
    }
    Ok(file.clone())
}

fn listed(files: &[&Remote]) -> String {
    const MOST: usize = 12;
    let mut names: Vec<String> = files.iter().take(MOST).map(|f| format!("{} ({})", f.path, bytes(f.size))).collect();
    if files.len() > MOST {
        names.push(format!("and {} more", files.len() - MOST));
    }
    names.join(", ")
}

/// The side files that are there, in order.
pub(super) fn side_files(files: &[Remote]) -> Vec<Remote> {
    SIDE_FILES.iter().filter_map(|name| files.iter().find(|f| f.path == *name).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<Remote> {
        let file = |name: &&str| Remote { path: (*name).into(), size: 4_000_000_000, etag: "e".into(), sha256: None };
        names.iter().map(file).collect()
    }

    fn chosen(names: &[&str], file: Option<&str>) -> Result<String, String> {
        weights(&files(names), file).map(|w| match w {
            Weights::Gguf(f) => format!("gguf {}", f.path),
            Weights::Single(f) => format!("single {}", f.path),
            Weights::Sharded => "sharded".into(),
        })
    }

    #[test]
    fn only_what_is_needed_is_chosen() {
        let hub =
            ["README.md", "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX];
        assert_eq!(chosen(&hub, None).as_deref(), Ok("sharded"));
        assert_eq!(
            chosen(&["config.json", SINGLE, "pytorch_model.bin"], None).as_deref(),
            Ok("single model.safetensors")
        );
        assert!(chosen(&["pytorch_model.bin"], None).expect_err("no weights").contains("other formats"));
        let side: Vec<String> =
            side_files(&files(&["tokenizer.json", "config.json", "vocab.json"])).into_iter().map(|f| f.path).collect();
        assert_eq!(side, ["config.json", "tokenizer.json"]);
    }

    #[test]
    fn a_gguf_file_is_found_by_name_or_quantisation() {
        let hub =
            ["Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q8_0.gguf", "mmproj-F16.gguf", "big/Qwen3-8B-F16-00001-of-00002.gguf"];
        assert_eq!(chosen(&hub, Some("Q4_K_M")).as_deref(), Ok("gguf Qwen3-8B-Q4_K_M.gguf"));
        assert_eq!(chosen(&hub, Some("q8_0")).as_deref(), Ok("gguf Qwen3-8B-Q8_0.gguf"));
        assert_eq!(chosen(&hub, Some("Qwen3-8B-Q8_0.gguf")).as_deref(), Ok("gguf Qwen3-8B-Q8_0.gguf"));
        let error = chosen(&hub, Some("Q5_0")).expect_err("not there");
        assert!(error.contains("Q4_K_M.gguf (4.0 GB)"), "{error}");
        assert!(chosen(&hub, None).expect_err("several").contains("name one"));
        assert!(chosen(&hub, Some("big/Qwen3-8B-F16-00001-of-00002.gguf")).expect_err("split").contains("one part"));
        assert_eq!(chosen(&["only.gguf", "mmproj.gguf"], None).as_deref(), Ok("gguf only.gguf"));
    }
}
