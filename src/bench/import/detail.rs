//! The requests of a detailed result: `--save-detailed` (vLLM), `--output-details` (SGLang).

use serde_json::{Map, Value};

use crate::protocol::run::{ChunkRecord, CountKind, Purpose, RequestRecord, RequestStatus};

/// Where the requests of a result belong.
pub struct Place<'a> {
    pub suite: &'a str,
    pub mode: &'a str,
    pub concurrency: usize,
    /// Number of the first.
    pub seq: usize,
}

/// The requests; none where the result has only totals.
///
/// SGLang's native backend writes a gap a token, vLLM and the OpenAI backends a gap a chunk. Where there is a gap a token
/// both readings are the same, so the tool makes no difference here.
pub fn records<'a>(result: &'a Map<String, Value>, place: &Place<'_>) -> Result<Vec<RequestRecord>, String> {
    let Some(output_lens) = array(result, "output_lens") else { return Ok(Vec::new()) };
    let n = output_lens.len();
    let column = |key: &str| -> Result<Option<&'a Vec<Value>>, String> {
        match array(result, key) {
            Some(values) if values.len() != n => {
                Err(format!("{key} has {} entries, output_lens {n}: they must be of the same requests", values.len()))
            }
            found => Ok(found),
        }
    };
    let (input, ttfts, itls) = (column("input_lens")?, column("ttfts")?, column("itls")?);
    let (latencies, starts) = (column("latencies")?, column("start_times")?);
    let (texts, errors) = (column("generated_texts")?, column("errors")?);
    let seconds = |values: Option<&Vec<Value>>, index: usize| {
        values.and_then(|values| values[index].as_f64()).filter(|value| value.is_finite() && *value >= 0.0)
    };
    let began = (0..n).filter_map(|index| seconds(starts, index)).fold(f64::INFINITY, f64::min);
    let text = |values: Option<&'a Vec<Value>>, index: usize| {
        values.and_then(|values| values[index].as_str()).filter(|text| !text.is_empty())
    };
    let one = |index: usize| -> RequestRecord {
        let error = text(errors, index);
        let tokens = output_lens[index].as_u64().unwrap_or(0) as usize;
        let good = error.is_none() && tokens > 0;
        let gaps: Vec<f64> = itls
            .and_then(|values| values[index].as_array())
            .map(|gaps| gaps.iter().filter_map(Value::as_f64).map(|gap| gap * 1000.0).collect())
            .unwrap_or_default();
        let ttft_ms = seconds(ttfts, index).filter(|_| good).map(|ttft| ttft * 1000.0);
        let chunks = ttft_ms.filter(|_| good).map_or_else(Vec::new, |ttft| chunks(ttft, &gaps, tokens));
        let decode_ms: f64 = gaps.iter().sum();
        let last = chunks.last().map(|chunk| chunk.at_ms);
        let e2e_ms = seconds(latencies, index).map(|s| s * 1000.0).or(last).unwrap_or(0.0);
        let rest = tokens - chunks.first().map_or(0, |chunk| chunk.tokens).min(tokens);
        let decode =
            (good && rest > 0 && decode_ms > 0.0 && !chunks.is_empty()).then(|| rest as f64 / decode_ms * 1000.0);
        RequestRecord {
            seq: place.seq + index,
            purpose: Purpose::Measure,
            suite: place.suite.to_owned(),
            prompt_id: format!("{:04}", index + 1),
            turn: 0,
            mode: place.mode.to_owned(),
            repeat: 0,
            order: 0,
            concurrency: place.concurrency,
            status: if good { RequestStatus::Finished } else { RequestStatus::Failed },
            error: (!good).then(|| error.unwrap_or("no tokens").to_owned()),
            retries: 0,
            sent_ms: seconds(starts, index).map_or(0.0, |start| (start - began) * 1000.0),
            ttft_ms,
            ttfat_ms: None,
            e2e_ms,
            tokens,
            prompt_tokens: input.and_then(|values| values[index].as_u64()).map(|n| n as usize),
            count: CountKind::Usage,
            decode_tok_s: decode,
            e2e_tok_s: (good && e2e_ms > 0.0).then(|| tokens as f64 / e2e_ms * 1000.0),
            tpot_ms: decode.map(|rate| 1000.0 / rate),
            chunks,
            finish_reason: None,
            token_ids: None,
            margins: None,
            text: text(texts, index).map(str::to_owned),
            output_hash: String::new(),
            server: None,
            energy_j: None,
        }
    };
    Ok((0..n).map(one).collect())
}

/// The chunks of an answer. With as many gaps as tokens after the first, a token each; with fewer, the tokens are spread
/// evenly over the chunks after the first, which is the best that the file allows.
fn chunks(ttft: f64, gaps: &[f64], tokens: usize) -> Vec<ChunkRecord> {
    let first = if gaps.is_empty() { tokens } else { 1 };
    let rest = tokens.saturating_sub(first);
    let mut at_ms = ttft;
    let mut chunks = vec![ChunkRecord { at_ms, tokens: first }];
    for (index, gap) in gaps.iter().enumerate() {
        at_ms += gap;
        let upto = |count: usize| rest * count / gaps.len();
        chunks.push(ChunkRecord { at_ms, tokens: upto(index + 1) - upto(index) });
    }
    chunks
}

fn array<'a>(result: &'a Map<String, Value>, key: &str) -> Option<&'a Vec<Value>> {
    result.get(key).and_then(Value::as_array)
}

/// vLLM's `20261201-112000` as milliseconds since the epoch, taken for UTC (the file does not name a zone).
pub fn epoch_ms(date: &str) -> Option<u64> {
    let (day, time) = date.split_once('-')?;
    let part = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    if day.len() != 8 || time.len() != 6 {
        return None;
    }
    let (year, month, day) = (part(day, 0, 4)?, part(day, 4, 6)?, part(day, 6, 8)?);
    let (hour, minute, second) = (part(time, 0, 2)?, part(time, 2, 4)?, part(time, 4, 6)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let years: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months: u64 = lengths.iter().take(month as usize - 1).sum();
    Some(((years + months + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_back() {
        assert_eq!(epoch_ms("20261201-112000"), Some(1_796_124_000_000));
        assert_eq!(epoch_ms("20000229-000000"), Some(951_782_400_000));
        for odd in ["", "2026-12-01", "20261301-000000", "20261201-1120", "2026120é-112000"] {
            assert_eq!(epoch_ms(odd), None, "{odd}");
        }
    }

    #[test]
    fn tokens_are_spread_without_losing_any() {
        for (gaps, tokens) in [(0, 5), (4, 5), (3, 11), (7, 3), (2, 1)] {
            let chunks = chunks(10.0, &vec![1.0; gaps], tokens);
            assert_eq!(chunks.len(), gaps + 1);
            assert_eq!(chunks.iter().map(|chunk| chunk.tokens).sum::<usize>(), tokens, "{gaps} gaps");
        }
    }
}
