//! Is the output that of the baseline? Token ids where both sides have them, the text's bytes otherwise; never a
//! similarity.

use std::collections::BTreeMap;

use crate::protocol::run::{Divergence, Losslessness, RequestRecord};

use super::summary::counts;

/// Differences that are kept.
pub const MOST_DIVERGENCES: usize = 20;
/// Bytes of text shown on either side of a difference.
const AROUND: usize = 60;

/// A turn of a conversation: suite, prompt, turn.
type Place<'a> = (&'a str, &'a str, usize);

/// Compares the answers of `mode` with those of `baseline`, prompt by prompt, turn by turn, repeat by repeat; and the
/// baseline with its own first repeat, which says how much may differ without any mode's doing.
///
/// Above temperature 0 nothing is compared: outputs may differ by right. After a difference the later turns of that
/// conversation are left out, because they answer another history.
pub fn lossless(temperature: f32, records: &[&RequestRecord], baseline: &str, mode: &str) -> Losslessness {
    if temperature > 0.0 {
        return Losslessness::default();
    }
    let base = answers(records, baseline);
    let other = answers(records, mode);
    let mut result = Losslessness { checked: true, baseline_differs: noise(&base), ..Losslessness::default() };
    let mut by_ids = true;
    let mut parted: Vec<(&str, &str, usize)> = Vec::new();
    for ((place, repeat), ours) in &other {
        let (suite, prompt, _) = *place;
        let Some(theirs) = base.get(&(*place, *repeat)) else { continue };
        if parted.contains(&(suite, prompt, *repeat)) {
            continue;
        }
        let outcome = compare(theirs, ours);
        if outcome == Outcome::Unknown {
            continue;
        }
        result.compared += 1;
        by_ids &= both_ids(theirs, ours).is_some();
        if outcome == Outcome::Same {
            result.identical += 1;
            continue;
        }
        parted.push((suite, prompt, *repeat));
        if result.divergences.len() < MOST_DIVERGENCES {
            result.divergences.extend(divergence(theirs, ours));
        }
    }
    if result.compared > 0 {
        result.by = (if by_ids { "token ids" } else { "text" }).into();
    }
    result
}

/// Answers in order of place and repeat, so that a conversation's turns come one after the other.
fn answers<'a>(records: &[&'a RequestRecord], mode: &str) -> BTreeMap<(Place<'a>, usize), &'a RequestRecord> {
    records
        .iter()
        .copied()
        .filter(|record| record.mode == mode && counts(record))
        .map(|record| (((record.suite.as_str(), record.prompt_id.as_str(), record.turn), record.repeat), record))
        .collect()
}

fn noise(base: &BTreeMap<(Place<'_>, usize), &RequestRecord>) -> usize {
    let mut first: Option<(Place<'_>, &RequestRecord)> = None;
    let mut differs = 0;
    for ((place, _), record) in base {
        match first {
            Some((at, reference)) if at == *place => {
                differs += usize::from(compare(reference, record) == Outcome::Different);
            }
            _ => first = Some((*place, record)),
        }
    }
    differs
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Same,
    Different,
    /// Neither ids nor text nor hash on both sides.
    Unknown,
}

fn both_ids<'a>(a: &'a RequestRecord, b: &'a RequestRecord) -> Option<(&'a [u32], &'a [u32])> {
    Some((a.token_ids.as_deref()?, b.token_ids.as_deref()?))
}

fn both_texts<'a>(a: &'a RequestRecord, b: &'a RequestRecord) -> Option<(&'a str, &'a str)> {
    Some((a.text.as_deref()?, b.text.as_deref()?))
}

fn compare(a: &RequestRecord, b: &RequestRecord) -> Outcome {
    let same = if let Some((a, b)) = both_ids(a, b) {
        a == b
    } else if let Some((a, b)) = both_texts(a, b) {
        a == b
    } else if a.output_hash.is_empty() || b.output_hash.is_empty() {
        return Outcome::Unknown;
    } else {
        a.output_hash == b.output_hash
    };
    if same { Outcome::Same } else { Outcome::Different }
}

fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()))
}

/// Where two answers part; absent where only their hashes are known.
fn divergence(base: &RequestRecord, other: &RequestRecord) -> Option<Divergence> {
    let texts = both_texts(base, other);
    let text_at = texts.map(|(a, b)| first_difference(a.as_bytes(), b.as_bytes()));
    let ids = both_ids(base, other);
    let index = ids.map(|(a, b)| first_difference(a, b)).or(text_at)?;
    let shown = |text: &str| text_at.map_or_else(String::new, |at| around(text, at));
    Some(Divergence {
        suite: base.suite.clone(),
        prompt_id: base.prompt_id.clone(),
        turn: base.turn,
        repeat: base.repeat,
        index,
        unit: if ids.is_some() { "token" } else { "byte" }.to_owned(),
        baseline: texts.map_or_else(String::new, |(text, _)| shown(text)),
        other: texts.map_or_else(String::new, |(_, text)| shown(text)),
        baseline_id: ids.and_then(|(a, _)| a.get(index).copied()),
        other_id: ids.and_then(|(_, b)| b.get(index).copied()),
        margin: ids
            .and(base.margins.as_ref())
            .and_then(|margins| margins.get(index))
            .map(|margin| f64::from(*margin))
            .filter(|margin| margin.is_finite()),
        same_end: match (&base.finish_reason, &other.finish_reason) {
            (Some(a), Some(b)) => a == b,
            _ => base.status == other.status,
        },
    })
}

/// The text around a byte, cut at characters, with … where it goes on.
fn around(text: &str, at: usize) -> String {
    let at = at.min(text.len());
    let (from, to) = (at.saturating_sub(AROUND), (at + AROUND).min(text.len()));
    let from = (from..=at).find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let to = (to..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
    let (left, right) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{left}{}{right}", text.get(from..to).unwrap_or(text))
}
