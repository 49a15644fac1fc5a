//! How a model on the hub is named: `owner/name`, `owner/name@revision`, `owner/name:file.gguf`, `owner/name:Q4_K_M`.

use std::fmt;
use std::path::Path;

/// A model on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoRef {
    /// `owner/name`.
    pub id: String,
    /// Branch, tag or commit; `main` where none is named.
    pub revision: Option<String>,
    /// One GGUF file of it, or the name of a quantisation.
    pub file: Option<String>,
}

impl RepoRef {
    /// Understands a name. `None` for what can only be a path.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, file) = match text.split_once(':') {
            Some((name, file)) => (name, Some(file)),
            None => (text, None),
        };
        let (id, revision) = match name.split_once('@') {
            Some((id, revision)) => (id, Some(revision)),
            None => (name, None),
        };
        let (owner, repository) = id.split_once('/')?;
        let path_like =
            [".gguf", ".safetensors", ".json"].iter().any(|end| repository.to_ascii_lowercase().ends_with(end));
        let plain = |text: &str| {
            let within = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !text.is_empty()
                && text.len() <= 96
                && !text.starts_with(['.', '-'])
                && !text.contains("..")
                && text.chars().all(within)
        };
        // A revision becomes a file name in the cache, and a file must stay inside its repository.
        let inside = |text: &str| {
            let parts = || text.split('/');
            !text.is_empty() && parts().all(|p| !p.is_empty() && p != "." && p != "..") && !text.contains(['\\', '\0'])
        };
        if !plain(owner)
            || !plain(repository)
            || path_like
            || [revision, file].into_iter().flatten().any(|t| !inside(t))
        {
            return None;
        }
        Some(Self { id: id.to_owned(), revision: revision.map(str::to_owned), file: file.map(str::to_owned) })
    }

    /// A name on the command line, unless something of that name is there.
    pub fn from_argument(argument: &Path) -> Option<Self> {
        // A path that cannot be looked at is a path: the error about it is the better one.
        if argument.try_exists().unwrap_or(true) { None } else { Self::parse(argument.to_str()?) }
    }

    /// Owner and name.
    pub fn split(&self) -> (&str, &str) {
        self.id.split_once('/').unwrap_or(("", &self.id))
    }

    /// The revision that is meant.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl fmt::Display for RepoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ":{file}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_and_come_back_as_they_were() {
        for (text, id, revision, file) in [
            ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", None, None),
            ("z-lab/Qwen3-8B-DFlash-b16@main", "z-lab/Qwen3-8B-DFlash-b16", Some("main"), None),
            ("Qwen/Qwen3-8B-GGUF:Q4_K_M", "Qwen/Qwen3-8B-GGUF", None, Some("Q4_K_M")),
            ("a/b@refs/pr/3:sub/x.gguf", "a/b", Some("refs/pr/3"), Some("sub/x.gguf")),
        ] {
            let found = RepoRef::parse(text).expect(text);
            assert_eq!((&*found.id, found.revision.as_deref(), found.file.as_deref()), (id, revision, file));
            assert_eq!(found.to_string(), text);
        }
    }

    #[test]
    fn paths_are_not_names() {
        for text in [
            "",
            "model",
            "./a/b",
            "../a",
            "/a/b",
            "a/b/c",
            "~/a",
            "models/x.gguf",
            "a/model.safetensors",
            "a/b:../c",
            "a/b@../../c",
            "a/..",
            "-a/b",
            "a b/c",
            "a/b:",
            "a/b@",
            "a\\b/c",
        ] {
            assert_eq!(RepoRef::parse(text), None, "{text}");
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny");
        assert_eq!(RepoRef::from_argument(&here), None);
        assert!(RepoRef::from_argument(Path::new("no-such-owner/no-such-model")).is_some());
    }
}
