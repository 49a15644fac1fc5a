//! `spectop models`: what is on this machine, which drafter belongs to it, and whether it can be run here.

use std::fmt::Write as _;

use serde::Serialize;

use super::machine::{self, Memory, Verdict};
use super::{EngineArgs, Exit, Failure, out};
use crate::engine::api::{ModelSource, Precision};
use crate::engine::inspect::{self, Inspected, ModelFacts};
use crate::engine::weights::bundle::{SMOLLM2_DRAFT, TINY_DRAFT, TINY_TARGET};
use crate::engine::weights::hub::{self, Cache, Completeness, bytes};

/// Version of what `--json` prints.
const SCHEMA: u32 = 1;

/// The whole list.
#[derive(Debug, Serialize)]
pub struct List {
    /// Version of this shape.
    pub schema_version: u32,
    /// Folder of the hub's cache.
    pub cache: String,
    /// What a model could go into.
    pub memories: Vec<Memory>,
    /// The models.
    pub models: Vec<Entry>,
}

/// One model.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// What to give to `--target` or `--draft`.
    pub name: String,
    /// `target`, `drafter`, or `unknown` for what cannot be read.
    pub kind: &'static str,
    /// `hub`, `default` or `embedded`.
    pub from: &'static str,
    /// Folder or file.
    pub path: Option<String>,
    /// Bytes of the files.
    pub bytes: u64,
    /// Parameters.
    pub parameters: Option<u64>,
    /// Element formats, the largest share first.
    pub formats: Vec<String>,
    /// The drafter that belongs to a target, or the target that a drafter belongs to.
    pub partner: Option<Partner>,
    /// Why it cannot be run, if it cannot.
    pub problem: Option<String>,
    /// By device, for targets.
    pub fits: Vec<DeviceFit>,
}

/// The other half of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Partner {
    /// Its name.
    pub name: String,
    /// It is on this machine.
    pub here: bool,
}

/// Whether a target, with its drafter if that is here, fits a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceFit {
    /// `cpu`, `cuda:0`.
    pub device: String,
    /// Whether it fits.
    pub verdict: Verdict,
    /// Bytes that it takes there.
    pub bytes: u64,
}

/// Prints the list.
pub fn run(engine: &EngineArgs, json: bool) -> Result<(), Failure> {
    let list = list(&Cache::from_env(), machine::memories(), engine.dtype.into(), engine.context);
    let text = if json {
        let text = serde_json::to_string_pretty(&list);
        text.map_err(|e| Failure::new(Exit::Failed, format!("cannot write the list: {e}")))? + "\n"
    } else {
        text(&list)
    };
    out::print(&text).map(drop)
}

/// What is on this machine.
pub fn list(cache: &Cache, memories: Vec<Memory>, precision: Precision, context: usize) -> List {
    let look = Look { cache, memories: &memories, precision, context };
    let mut models = Vec::new();
    if let Some(path) = hub::default_target_here() {
        let size = std::fs::metadata(&path).map_or(0, |m| m.len());
        let partner = Partner { name: SMOLLM2_DRAFT.name.into(), here: true };
        let draft = ModelSource::Embedded(&SMOLLM2_DRAFT);
        models.push(look.entry(
            "SmolLM2-135M-Instruct",
            "default",
            &ModelSource::Path(path),
            size,
            Some((partner, Some(draft))),
        ));
    }
    for repo in cache.repos() {
        if repo.safetensors == Some(Completeness::Partial) {
            models.push(Entry {
                problem: Some(format!("a fetch was broken off; go on with `spectop setup --target {}`", repo.id)),
                path: Some(repo.path.display().to_string()),
                ..Entry::unknown(&repo.id, "hub", repo.bytes)
            });
        } else if repo.safetensors.is_some() {
            let partner = look.partner(&repo.id);
            models.push(look.entry(&repo.id, "hub", &ModelSource::Path(repo.path.clone()), repo.bytes, partner));
        }
        for file in &repo.ggufs {
            let path = repo.path.join(file);
            let size = std::fs::metadata(&path).map_or(0, |m| m.len());
            let partner = look.partner(&repo.id).or_else(|| look.partner(file));
            models.push(look.entry(&format!("{}:{file}", repo.id), "hub", &ModelSource::Path(path), size, partner));
        }
    }
    for (embedded, other) in [(&TINY_TARGET, &TINY_DRAFT), (&TINY_DRAFT, &TINY_TARGET)] {
        let partner = Partner { name: other.name.into(), here: true };
        let draft = std::ptr::eq(embedded, &raw const TINY_TARGET).then_some(ModelSource::Embedded(&TINY_DRAFT));
        let size = embedded.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        models.push(look.entry(
            embedded.name,
            "embedded",
            &ModelSource::Embedded(embedded),
            size,
            Some((partner, draft)),
        ));
    }
    let here = hub::default_target_here().is_some();
    let partner = Partner { name: "SmolLM2-135M-Instruct".into(), here };
    let size = SMOLLM2_DRAFT.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let source = ModelSource::Embedded(&SMOLLM2_DRAFT);
    models.push(look.entry(SMOLLM2_DRAFT.name, "embedded", &source, size, Some((partner, None))));
    List { schema_version: SCHEMA, cache: cache.root().display().to_string(), memories, models }
}

impl Entry {
    fn unknown(name: &str, from: &'static str, bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            kind: "unknown",
            from,
            path: None,
            bytes,
            parameters: None,
            formats: Vec::new(),
            partner: None,
            problem: None,
            fits: Vec::new(),
        }
    }
}

/// What is needed to judge a model.
struct Look<'a> {
    cache: &'a Cache,
    memories: &'a [Memory],
    precision: Precision,
    context: usize,
}

/// The other half of a pair, and where its files are when it is a drafter that is here.
type Found = (Partner, Option<ModelSource>);

impl Look<'_> {
    fn partner(&self, name: &str) -> Option<Found> {
        if let Some(pair) = hub::pair_with(name) {
            let here = hub::RepoRef::parse(pair.target).and_then(|r| self.cache.find(&r)).is_some();
            return Some((Partner { name: pair.target.into(), here }, None));
        }
        let pair = hub::pair_of(name)?;
        let path = hub::RepoRef::parse(pair.drafter).and_then(|r| self.cache.find(&r));
        Some((Partner { name: pair.drafter.into(), here: path.is_some() }, path.map(ModelSource::Path)))
    }

    fn entry(&self, name: &str, from: &'static str, source: &ModelSource, size: u64, found: Option<Found>) -> Entry {
        let path = match source {
            ModelSource::Path(path) => Some(path.display().to_string()),
            ModelSource::Embedded(_) => None,
        };
        let entry = Entry { path, ..Entry::unknown(name, from, size) };
        let seen = match inspect::inspect(source) {
            Ok(seen) => seen,
            Err(error) => return Entry { problem: Some(error.to_string()), ..entry },
        };
        let (partner, draft) = found.map_or((None, None), |(partner, source)| (Some(partner), source));
        let weights = seen.facts.weights();
        let entry = Entry {
            parameters: Some(weights.parameters),
            formats: weights.formats.iter().map(|f| f.format.clone()).collect(),
            partner,
            ..entry
        };
        match &seen.facts {
            ModelFacts::Draft(_) => Entry { kind: "drafter", ..entry },
            ModelFacts::Target(target) => {
                let problem = target.not_loadable.clone();
                Entry { kind: "target", problem, fits: self.fits(&seen, draft.as_ref()), ..entry }
            }
        }
    }

    fn fits(&self, target: &Inspected, draft: Option<&ModelSource>) -> Vec<DeviceFit> {
        let draft = draft.and_then(|source| inspect::inspect(source).ok());
        let draft = draft.filter(|d| inspect::pair(target, d).fits);
        machine::fits(self.memories, target, draft.as_ref(), self.precision, self.context)
            .into_iter()
            .map(|fit| DeviceFit { device: fit.memory.device, verdict: fit.verdict, bytes: fit.plan.total })
            .collect()
    }
}

/// The list for people.
fn text(list: &List) -> String {
    let head = ["MODEL", "KIND", "SIZE", "WEIGHTS", "DRAFTER OR TARGET", "FITS"].map(str::to_owned);
    let mut rows = vec![head];
    for model in &list.models {
        let partner = model
            .partner
            .as_ref()
            .map_or("—".to_owned(), |p| if p.here { p.name.clone() } else { format!("{} (not here)", p.name) });
        let fits: Vec<String> = model.fits.iter().map(fit_words).collect();
        rows.push([
            model.name.clone(),
            model.kind.to_owned(),
            bytes(model.bytes),
            if model.formats.is_empty() { "—".into() } else { model.formats.join("+") },
            partner,
            if fits.is_empty() { "—".into() } else { fits.join(", ") },
        ]);
    }
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    for model in list.models.iter().filter(|m| m.problem.is_some()) {
        let _ = writeln!(text, "\n{}: {}", model.name, model.problem.as_deref().unwrap_or_default());
    }
    let named = |from: &str| list.models.iter().any(|m| m.from == from);
    if !named("default") {
        text.push_str("\nThe default model is not here yet: `spectop setup` fetches it (98 MB).\n");
    }
    if !named("hub") {
        let _ = writeln!(
            text,
            "\nNo model of the hub is in the cache ({}). `spectop setup --target Qwen/Qwen3-4B` fetches one, with its drafter; docs/models.md lists the pairs that are known.",
            list.cache
        );
    }
    text
}

fn fit_words(fit: &DeviceFit) -> String {
    let word = match fit.verdict {
        Verdict::Fits => "yes",
        Verdict::FitsWhenEmpty => "when empty",
        Verdict::TooLarge => "no",
        Verdict::Unknown => "—",
    };
    format!("{} {word} ({})", fit.device, bytes(fit.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cache_lists_what_is_embedded_and_says_how_to_get_more() {
        let dir = tempfile::tempdir().expect("a folder");
        let memory =
            Memory { device: "cpu".into(), name: "main memory".into(), total: Some(1 << 34), free: Some(1 << 33) };
        let list = list(&Cache::at(dir.path().join("none")), vec![memory], Precision::Auto, 0);
        let tiny = list.models.iter().find(|m| m.name == "tiny-byte-qwen3").expect("embedded");
        assert_eq!((tiny.kind, tiny.fits.len(), tiny.fits[0].verdict), ("target", 1, Verdict::Fits));
        assert_eq!(tiny.partner, Some(Partner { name: "tiny-byte-dflash".into(), here: true }));
        let drafter = list.models.iter().find(|m| m.name == "smollm2-135m-dflash").expect("embedded");
        assert_eq!((drafter.kind, drafter.fits.len()), ("drafter", 0));
        let text = text(&list);
        assert!(text.contains("spectop setup --target Qwen/Qwen3-4B") && text.contains("tiny-byte-qwen3"), "{text}");
    }
}
