//! Prompt suites: two built in, any JSON-lines file by path, and the usual public ones by name.

mod hub;
mod line;

use std::path::Path;

use crate::protocol::run::SuiteInfo;

/// Largest suite file that is read.
const FILE_LIMIT: u64 = 64 << 20;

/// The prompts that come with the program.
const BUILTIN: &str = include_str!("suites/builtin.jsonl");

/// The three prompts of the story that the program is shown with.
const STORY: [(&str, &str); 3] = [
    ("code", "Write a Python function fibonacci(n) using iteration"),
    ("explanation", "Explain the quicksort algorithm in 3 sentences"),
    ("one word", "What is 2+2? Answer with just the number."),
];

/// Tokens that an answer of the story may have.
const STORY_TOKENS: usize = 256;

/// One prompt: a conversation of one or more turns.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Prompt {
    /// Unique in its suite.
    pub id: String,
    /// The suite that it counts to.
    pub suite: String,
    /// What the system says before the first turn.
    pub system: Option<String>,
    /// What the user says, turn by turn; the answers between them are the model's.
    pub turns: Vec<String>,
    /// Tokens that an answer may have, where the suite says it.
    pub max_tokens: Option<usize>,
}

/// Prompts of one source. A file may hold several suites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// The suites in it, in order of first appearance.
    pub infos: Vec<SuiteInfo>,
    /// Their prompts, in the order of the source.
    pub prompts: Vec<Prompt>,
}

impl Suite {
    fn new(source: &str, prompts: Vec<Prompt>) -> Self {
        let mut infos: Vec<SuiteInfo> = Vec::new();
        for prompt in &prompts {
            match infos.iter_mut().find(|info| info.name == prompt.suite) {
                Some(info) => info.prompts += 1,
                None => {
                    infos.push(SuiteInfo { name: prompt.suite.clone(), prompts: 1, source: source.to_owned() });
                }
            }
        }
        Self { infos, prompts }
    }
}

/// Why there are no prompts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuiteError {
    /// Neither a name nor a file.
    #[error("there is no suite and no file \"{0}\"; suites are {names}, or give a JSON-lines file", names = names().join(", "))]
    Unknown(String),
    /// The file cannot be read.
    #[error("{file}: {problem}")]
    File {
        /// Its path.
        file: String,
        /// Why.
        problem: String,
    },
    /// A line of the file is wrong.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// Its path.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A public suite could not be fetched.
    #[error(
        "the suite {name} could not be fetched from the Hugging Face hub: {problem}; fetch {from} by hand and give a JSON-lines file with --suite FILE"
    )]
    Hub {
        /// Its name.
        name: String,
        /// Where it should have come from.
        from: String,
        /// Why not.
        problem: String,
    },
}

/// Every name that [`load`] knows.
pub fn names() -> Vec<&'static str> {
    ["story", "builtin"].into_iter().chain(hub::PUBLIC.iter().map(|public| public.name)).collect()
}

/// Loads a suite by name, or a file by path; `limit` is the most prompts that are taken, from the top.
pub async fn load(name: &str, limit: Option<usize>) -> Result<Suite, SuiteError> {
    let limit = limit.unwrap_or(usize::MAX);
    let suite = match name {
        "story" => Suite::new("built in", story().into_iter().take(limit).collect()),
        "builtin" => {
            let lines = line::read_all(BUILTIN.as_bytes(), "builtin", "builtin", limit)?;
            Suite::new("built in", lines)
        }
        _ => match hub::PUBLIC.iter().find(|public| public.name == name) {
            // A file of that name in the current folder was put there to be used.
            Some(public) if !Path::new(name).is_file() => {
                Suite::new(&public.source(), hub::fetch(public, limit).await?)
            }
            _ => from_file(Path::new(name), limit)?,
        },
    };
    if suite.prompts.is_empty() {
        return Err(SuiteError::File { file: name.to_owned(), problem: "there are no prompts in it".into() });
    }
    Ok(suite)
}

fn story() -> Vec<Prompt> {
    STORY
        .iter()
        .map(|(id, text)| Prompt {
            id: (*id).to_owned(),
            suite: "story".to_owned(),
            system: None,
            turns: vec![(*text).to_owned()],
            max_tokens: Some(STORY_TOKENS),
        })
        .collect()
}

fn from_file(path: &Path, limit: usize) -> Result<Suite, SuiteError> {
    let shown = path.display().to_string();
    let problem = |problem: String| SuiteError::File { file: shown.clone(), problem };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(SuiteError::Unknown(shown)),
        Err(error) => return Err(problem(error.to_string())),
    };
    if !meta.is_file() {
        return Err(problem("it is no file; give a JSON-lines file".into()));
    }
    if meta.len() > FILE_LIMIT {
        return Err(problem(format!("it has more than {} MiB; cut it with `head -n`", FILE_LIMIT >> 20)));
    }
    let bytes = std::fs::read(path).map_err(|error| problem(error.to_string()))?;
    let stem = path.file_stem().map_or_else(|| "file".into(), |stem| stem.to_string_lossy().into_owned());
    let source = path.file_name().map_or_else(|| stem.clone(), |name| name.to_string_lossy().into_owned());
    Ok(Suite::new(&source, line::read_all(&bytes, &shown, &stem, limit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_story_is_three_prompts() {
        let story = load("story", None).await.unwrap();
        assert_eq!(story.infos, [SuiteInfo { name: "story".into(), prompts: 3, source: "built in".into() }]);
        assert!(story.prompts.iter().all(|p| p.max_tokens == Some(256) && p.turns.len() == 1));
        assert_eq!(load("story", Some(1)).await.unwrap().prompts.len(), 1);
    }

    #[tokio::test]
    async fn the_built_in_pack_is_wide() {
        let pack = load("builtin", None).await.unwrap();
        assert!(pack.prompts.len() >= 60, "{}", pack.prompts.len());
        let names: Vec<_> = pack.infos.iter().map(|info| info.name.as_str()).collect();
        for name in ["code", "maths", "chat", "summary", "json", "translation", "long", "multi-turn"] {
            assert!(names.contains(&format!("builtin-{name}").as_str()), "{name}: {names:?}");
        }
        assert!(pack.prompts.iter().filter(|p| p.suite == "builtin-multi-turn").all(|p| p.turns.len() >= 2));
        for prompt in pack.prompts.iter().filter(|p| p.suite == "builtin-long") {
            // About four letters make a token.
            let tokens = prompt.turns[0].len() / 4;
            assert!((900..2600).contains(&tokens), "{}: about {tokens}", prompt.id);
        }
        // The first few are of different kinds, so that `--prompts 8` is still a fair picture.
        let mut first: Vec<_> = pack.prompts.iter().take(8).map(|p| &p.suite).collect();
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 8);
    }

    #[tokio::test]
    async fn what_is_not_there_is_said() {
        let error = load("no-such-suite", None).await.unwrap_err().to_string();
        assert!(error.contains("no-such-suite") && error.contains("story") && error.contains("gsm8k"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let error = load(&dir.path().display().to_string(), None).await.unwrap_err().to_string();
        assert!(error.contains("no file"), "{error}");
        let empty = dir.path().join("empty.jsonl");
        std::fs::write(&empty, "\n\n").unwrap();
        let error = load(&empty.display().to_string(), None).await.unwrap_err().to_string();
        assert!(error.contains("no prompts"), "{error}");
    }
}
