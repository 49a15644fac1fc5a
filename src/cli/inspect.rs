//! `spectop inspect`: what a model is, whether a drafter belongs to it, and whether this machine can run it. Only
//! headers are read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::machine::{self, Fit};
use super::{EngineArgs, Exit, Failure, out};
use crate::engine::api::ModelSource;
use crate::engine::inspect::{
    self, DraftFacts, Inspected, LayerCounts, ModelFacts, PairFacts, RopeFacts, TargetFacts, WeightFacts,
};
use crate::engine::weights::hub::{self, Cache, Preview, RepoRef, bytes};

/// Version of what `--json` prints.
const SCHEMA: u32 = 1;

/// What was found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this shape.
    pub schema_version: u32,
    /// The model that was named.
    pub model: ModelFacts,
    /// The drafter, if one was named or is known and at hand.
    pub draft: Option<ModelFacts>,
    /// Whether the two belong together.
    pub pair: Option<PairFacts>,
    /// The drafter that is known to belong to it, or the target of a drafter.
    pub known: Option<String>,
    /// How it fits this machine: one entry a memory, none for a drafter alone.
    pub fit: Vec<Fit>,
}

/// Something to inspect, and what must outlive that.
struct Opened {
    seen: Inspected,
    _preview: Option<Preview>,
}

/// Prints the report.
pub fn run(engine: &EngineArgs, model: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let named = model.or_else(|| engine.target.clone()).ok_or_else(|| {
        Failure::new(Exit::Usage, "name a model: a path, or owner/name on the hub (see docs/models.md)")
    })?;
    let report = report(engine, &named)?;
    let broken = report.pair.as_ref().is_some_and(|p| !p.fits);
    if json {
        let text = serde_json::to_string_pretty(&report);
        out::print_line(&text.map_err(|e| Failure::new(Exit::Failed, format!("cannot write the report: {e}")))?)?;
    } else {
        out::print(&text(&report))?;
    }
    if broken { Err(Failure::new(Exit::Usage, "")) } else { Ok(()) }
}

fn report(engine: &EngineArgs, named: &Path) -> Result<Report, Failure> {
    let opened = open(engine, named)?;
    let name = RepoRef::from_argument(named).map_or_else(|| opened.seen.facts.name().to_owned(), |repo| repo.id);
    let known = match &opened.seen.facts {
        ModelFacts::Target(_) => hub::pair_of(&name).map(|p| p.drafter.to_owned()),
        ModelFacts::Draft(_) => hub::pair_with(&name).map(|p| p.target.to_owned()),
    };
    let draft = match (&engine.draft, &known, &opened.seen.facts) {
        _ if engine.no_draft => None,
        (Some(draft), ..) => Some(open(engine, draft)?),
        // The drafter that would be used: only if it is here, since it was not asked for.
        (None, Some(known), ModelFacts::Target(_)) => {
            let here = RepoRef::parse(known).is_some_and(|r| Cache::from_env().find(&r).is_some());
            here.then(|| open(engine, Path::new(known))).transpose()?
        }
        _ => None,
    };
    let (seen, draft) = (&opened.seen, draft.as_ref().map(|d| &d.seen));
    let pair = draft.map(|draft| inspect::pair(seen, draft));
    let with = draft.filter(|_| pair.as_ref().is_some_and(|p| p.fits));
    let fit = machine::fits(&machine::memories(), seen, with, engine.dtype.into(), engine.context);
    let draft = draft.map(|d| d.facts.clone());
    Ok(Report { schema_version: SCHEMA, model: seen.facts.clone(), draft, pair, known, fit })
}

fn open(engine: &EngineArgs, named: &Path) -> Result<Opened, Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::new(Exit::Usage, e.to_string());
    let (path, preview) = match RepoRef::from_argument(named) {
        None => (named.to_owned(), None),
        Some(repo) => {
            let cache = Cache::from_env();
            if let Some(path) = cache.find(&repo) {
                (path, None)
            } else {
                let offline = engine.offline || hub::is_offline();
                let preview = hub::preview(&repo, &cache, offline).map_err(|e| usage(&e))?;
                (preview.path().to_owned(), Some(preview))
            }
        }
    };
    let mut seen = inspect::inspect(&ModelSource::Path(path)).map_err(|e| usage(&e))?;
    // A folder of the cache is called by its commit, one of a preview is gone soon.
    if let Some(repo) = RepoRef::from_argument(named) {
        let (_, name) = repo.split();
        let (shown, location) = match &mut seen.facts {
            ModelFacts::Target(t) => (&mut t.name, &mut t.location),
            ModelFacts::Draft(d) => (&mut d.name, &mut d.location),
        };
        name.clone_into(shown);
        if preview.is_some() {
            *location = format!("hub: {repo}");
        }
    }
    Ok(Opened { seen, _preview: preview })
}

/// The report for people.
fn text(report: &Report) -> String {
    let mut text = String::new();
    facts(&mut text, &report.model);
    if let Some(draft) = &report.draft {
        text.push('\n');
        facts(&mut text, draft);
    }
    if let Some(pair) = &report.pair {
        let word = pair.problem.as_deref().map_or("they belong together".to_owned(), |p| format!("no: {p}"));
        text.push('\n');
        line(&mut text, "pair", &word);
    } else if let Some(known) = &report.known {
        text.push('\n');
        line(&mut text, "known pair", known);
    }
    if let Some(first) = report.fit.first() {
        let _ = writeln!(text, "\nmemory for one sequence of {} tokens", first.plan.context);
        for fit in &report.fit {
            line(&mut text, &fit.memory.device, &fit.words());
            let plan = &fit.plan;
            let mut parts = vec![format!("target {}", bytes(plan.target))];
            if plan.drafter > 0 {
                parts.push(format!("drafter {}", bytes(plan.drafter)));
            }
            parts.push(format!("cache {} ({} a token)", bytes(plan.kv), bytes(plan.kv_per_token)));
            if plan.state > 0 {
                parts.push(format!("recurrent state {}", bytes(plan.state)));
            }
            parts.push(format!("buffers about {}", bytes(plan.workspace)));
            line(&mut text, "", &parts.join(", "));
            if let Some(room) = fit.room_tokens {
                line(&mut text, "", &format!("room for {room} tokens of cache in all"));
            }
        }
    }
    text
}

fn line(text: &mut String, what: &str, value: &str) {
    let _ = writeln!(text, "  {what:<11} {value}");
}

fn facts(text: &mut String, facts: &ModelFacts) {
    match facts {
        ModelFacts::Target(target) => target_facts(text, target),
        ModelFacts::Draft(draft) => draft_facts(text, draft),
    }
}

fn target_facts(text: &mut String, t: &TargetFacts) {
    let _ = writeln!(text, "{}: {} target, {}", t.name, t.architecture, weights(&t.weights));
    line(text, "from", &format!("{} ({})", t.location, t.container));
    line(text, "layers", &layers(&t.layers));
    let mlp = match (t.intermediate, t.experts) {
        (Some(width), Some(experts)) => format!(", {experts} experts of width {width}"),
        (Some(width), None) => format!(", MLP {width}"),
        _ => String::new(),
    };
    line(
        text,
        "width",
        &format!("{}{mlp}; {} query heads and {} KV heads of {}", t.hidden, t.heads, t.kv_heads, t.head_dim),
    );
    if let Some(l) = &t.linear {
        let (keys, values) = (l.key_heads, l.value_heads);
        let word = format!(
            "{keys} key heads of {}, {values} value heads of {}, convolution over {}",
            l.key_dim, l.value_dim, l.conv_kernel
        );
        line(text, "recurrence", &word);
    }
    line(
        text,
        "vocabulary",
        &format!("{}, LM head {}", t.vocab, if t.tied { "tied to the embedding" } else { "of its own" }),
    );
    line(text, "context", &t.context.map_or("—".into(), |n| format!("{n} tokens")));
    line(text, "RoPE", &rope(&t.rope, t.head_dim));
    let stops: Vec<String> = t
        .stop_tokens
        .iter()
        .map(|s| s.text.as_ref().map_or_else(|| s.id.to_string(), |text| format!("{} {text}", s.id)))
        .collect();
    line(text, "stop tokens", &if stops.is_empty() { "—".into() } else { stops.join(", ") });
    let template = if t.chat_template { "with a chat template" } else { "no chat template" };
    line(text, "tokenizer", &format!("{}, {template}", t.tokenizer.as_deref().unwrap_or("missing")));
    unused(text, &t.weights);
    line(text, "loads", &t.not_loadable.as_ref().map_or("yes".into(), |why| format!("no: {why}")));
}

fn draft_facts(text: &mut String, d: &DraftFacts) {
    let _ = writeln!(text, "{}: {} drafter, {}", d.name, d.method, weights(&d.weights));
    line(text, "from", &d.location);
    line(text, "layers", &draft_layers(d));
    line(
        text,
        "width",
        &format!(
            "{}, MLP {}; {} query heads and {} KV heads of {}",
            d.hidden, d.intermediate, d.heads, d.kv_heads, d.head_dim
        ),
    );
    let taps: Vec<String> = d.taps.iter().map(ToString::to_string).collect();
    let of = d.target_layers.map(|n| format!(" of {n} target layers")).unwrap_or_default();
    line(text, "taps", &format!("{}{of}", taps.join(", ")));
    line(text, "block", &format!("{} slots, mask token {}", d.block_size, d.mask_token));
    let reduced = d.draft_vocab.map(|n| format!(", drafts {n} of them")).unwrap_or_default();
    line(text, "vocabulary", &format!("{}{reduced}", d.vocab));
    line(text, "RoPE", &rope(&d.rope, d.head_dim));
    unused(text, &d.weights);
}

fn weights(w: &WeightFacts) -> String {
    let count = match w.parameters {
        n @ 1_000_000_000.. => format!("{:.2} B", n as f64 / 1e9),
        n => format!("{:.1} M", n as f64 / 1e6),
    };
    let formats: Vec<String> = w
        .formats
        .iter()
        .filter(|f| f.share >= 0.0005)
        .map(|f| if w.formats.len() == 1 { f.format.clone() } else { format!("{} {:.1} %", f.format, f.share * 100.0) })
        .collect();
    format!("{count} parameters, {} as {}", bytes(w.bytes), formats.join(", "))
}

fn unused(text: &mut String, w: &WeightFacts) {
    for part in &w.unused {
        line(
            text,
            "not used",
            &format!("{}: {:.1} M parameters, {}", part.part, part.parameters as f64 / 1e6, bytes(part.bytes)),
        );
    }
}

fn layers(l: &LayerCounts) -> String {
    let kinds = [(l.full, "full attention"), (l.linear, "linear"), (l.sliding, "sliding window")];
    let kinds: Vec<String> = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}")).collect();
    format!("{}: {}", l.total, kinds.join(", "))
}

/// Runs of equal layers: `4 sliding (2048, causal), 1 full (sees its whole block)`.
fn draft_layers(d: &DraftFacts) -> String {
    let runs: Vec<String> = d
        .layers
        .chunk_by(|a, b| a == b)
        .map(|run| {
            let sees = if run[0].causal { "causal" } else { "sees its whole block" };
            match run[0].window {
                Some(window) => format!("{} sliding ({window} tokens, {sees})", run.len()),
                None => format!("{} full ({sees})", run.len()),
            }
        })
        .collect();
    format!("{}: {}", d.layers.len(), runs.join(", "))
}

fn rope(r: &RopeFacts, head_dim: usize) -> String {
    let theta = r.theta.map_or("—".into(), |t| format!("θ {t}"));
    let part = if r.dims == head_dim { String::new() } else { format!(", {} of {head_dim} elements", r.dims) };
    format!("{theta}{part}{}", r.scaling.as_ref().map(|s| format!(", scaled: {s}")).unwrap_or_default())
}
