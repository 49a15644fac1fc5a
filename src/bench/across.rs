//! Two runs against each other: every mode against itself in the first run, paired by prompt like the modes of one run.

use std::collections::{BTreeMap, HashMap};

use crate::protocol::run::{Comparison, ModeSpec, Purpose, RequestRecord, RequestStatus, Run, RunPlan};

use super::compare::compare;
use super::plan::PrefixCache;

/// A run against the first one.
#[derive(Debug, Clone, PartialEq)]
pub struct Across {
    /// One entry a shared mode, concurrency, suite (and `all`) and metric; `mode` and `baseline` are `LABEL @ RUN`.
    pub comparisons: Vec<Comparison>,
    /// What differs between the runs apart from what is compared, in words.
    pub notes: Vec<String>,
}

/// Compares the modes that both runs have. Where the token limits differ, an answer that one limit cut short is compared
/// with as much of the other, and later turns of that conversation, which answer another history, are not.
pub fn across(first: &Run, other: &Run) -> Across {
    let notes = differences(first, other);
    let (mut before, mut after) = (first.requests.clone(), other.requests.clone());
    if nonce(&first.plan) || nonce(&other.plan) {
        before.iter_mut().for_each(forget);
    } else {
        align(&mut before, &mut after);
    }
    let shared = first.plan.modes.iter().filter(|mode| other.plan.modes.iter().any(|m| m.label == mode.label));
    let mut comparisons = Vec::new();
    for mode in shared {
        let names = [&first.meta.id, &other.meta.id].map(|id| format!("{} @ {id}", mode.label));
        let mut requests: Vec<RequestRecord> = Vec::new();
        for (records, name) in [&before, &after].into_iter().zip(&names) {
            let of_mode = records.iter().filter(|record| record.mode == mode.label);
            requests.extend(of_mode.map(|record| RequestRecord { mode: name.clone(), ..record.clone() }));
        }
        let modes = names.iter().map(|name| ModeSpec { label: name.clone(), ..mode.clone() }).collect();
        // What was sampled in one of them cannot be compared word for word.
        let temperature = first.plan.temperature.max(other.plan.temperature);
        let plan = RunPlan { modes, temperature, ..first.plan.clone() };
        comparisons.extend(compare(&plan, &requests).into_iter().filter(|compare| compare.mode == names[1]));
    }
    Across { comparisons, notes }
}

fn nonce(plan: &RunPlan) -> bool {
    matches!(PrefixCache::parse(&plan.prefix_cache), Some(PrefixCache::Nonce))
}

fn differences(first: &Run, other: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |what: &str, of: &dyn Fn(&Run) -> Option<String>| {
        if let (Some(a), Some(b)) = (of(first), of(other))
            && a != b
        {
            notes.push(format!("{what}: {a} in {}, {b} in {}", first.meta.id, other.meta.id));
        }
    };
    note("other model", &|run| run.env.model.clone());
    note("other weight format", &|run| run.env.target.as_ref().map(|target| target.dtype.clone()));
    let drafter =
        |run: &Run| run.env.draft.as_ref().map(|draft| format!("{} ({} weights)", draft.name, draft.parameters));
    note("other drafter", &drafter);
    note("other device", &|run| {
        run.env
            .device
            .as_ref()
            .map(|device| format!("{} ({}, {} threads)", device.name, device.kernels, device.threads))
    });
    note("other client", &|run| Some(run.env.client.clone()).filter(|client| !client.is_empty()));
    note("other token limit", &|run| Some(run.plan.max_tokens.to_string()));
    note("other temperature", &|run| Some(run.plan.temperature.to_string()));
    if nonce(&first.plan) || nonce(&other.plan) {
        notes.push("prompts began with a random line of their run: outputs are not compared".into());
    }
    notes
}

/// Takes away what an output could be told by.
fn forget(record: &mut RequestRecord) {
    record.token_ids = None;
    record.margins = None;
    record.text = None;
    record.output_hash.clear();
}

fn shorten(record: &mut RequestRecord, tokens: usize) {
    match &mut record.token_ids {
        Some(ids) => {
            ids.truncate(tokens);
            if let Some(margins) = &mut record.margins {
                margins.truncate(tokens);
            }
        }
        None => forget(record),
    }
}

type Conversation = (String, String, String, usize, usize);

fn conversation(record: &RequestRecord) -> Conversation {
    (record.mode.clone(), record.suite.clone(), record.prompt_id.clone(), record.concurrency, record.repeat)
}

fn align(before: &mut [RequestRecord], after: &mut [RequestRecord]) {
    let measured = |record: &RequestRecord| record.purpose == Purpose::Measure;
    let mut turns: BTreeMap<(Conversation, usize), usize> = BTreeMap::new();
    for (at, record) in after.iter().enumerate().filter(|(_, record)| measured(record)) {
        turns.insert((conversation(record), record.turn), at);
    }
    // The first turn of each conversation that only one of the runs has whole.
    let mut parted: HashMap<Conversation, usize> = HashMap::new();
    for record in before.iter_mut().filter(|record| measured(record)) {
        let place = (conversation(record), record.turn);
        let Some(other) = turns.get(&place).map(|at| &mut after[*at]) else { continue };
        let cut = |a: &RequestRecord, b: &RequestRecord| a.status == RequestStatus::CutShort && b.tokens > a.tokens;
        if cut(record, other) {
            shorten(other, record.tokens);
        } else if cut(other, record) {
            shorten(record, other.tokens);
        } else {
            continue;
        }
        let turn = parted.entry(place.0).or_insert(record.turn);
        *turn = (*turn).min(record.turn);
    }
    let later = |record: &&mut RequestRecord| {
        measured(record) && parted.get(&conversation(record)).is_some_and(|turn| record.turn > *turn)
    };
    before.iter_mut().filter(later).for_each(forget);
}
