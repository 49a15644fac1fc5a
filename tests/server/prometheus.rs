//! `/metrics` is what a Prometheus scraper can read.

use std::collections::{HashMap, HashSet};

use crate::scripted::{MODEL, Running};

/// A series: name, labels, value.
type Series = (String, Vec<(String, String)>, f64);

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || "_:".contains(c))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
}

/// Reads one sample line by the rules of format 0.0.4; panics when it breaks them.
fn sample(line: &str) -> Series {
    let name_end = line.find(['{', ' ']).expect("a name ends");
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().expect("a value ends") {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().expect("an escape has two characters").1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        c => panic!("bad escape \\{c} in {line}"),
                    },
                    (_, c) => value.push(c),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            rest = rest.strip_prefix(',').expect("labels are separated by commas");
        }
    }
    let value = rest.strip_prefix(' ').expect("a space").parse().expect("a number");
    (name.to_owned(), labels, value)
}

/// Reads the page; panics when a line breaks the format.
fn parse(page: &str) -> Vec<Series> {
    assert!(page.ends_with('\n'));
    let (mut kinds, mut seen) = (HashMap::new(), HashSet::new());
    let mut all = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').expect("a comment of two words");
            let (name, rest) = rest.split_once(' ').expect("a name and more");
            assert!(is_name(name) && !rest.is_empty());
            match word {
                "HELP" => assert!(seen.insert(name.to_owned()), "{name} comes twice"),
                "TYPE" => {
                    assert!(["counter", "gauge"].contains(&rest), "{line}");
                    kinds.insert(name.to_owned(), rest.to_owned());
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let series = sample(line);
        let kind = kinds.get(&series.0).unwrap_or_else(|| panic!("{} has no type", series.0));
        assert_eq!(kind == "counter", series.0.ends_with("_total"), "{line}");
        assert!(!all.iter().any(|(n, l, _): &Series| (n, l) == (&series.0, &series.1)), "{line} comes twice");
        all.push(series);
    }
    all
}

#[tokio::test]
async fn the_page_parses_and_has_the_names() {
    let server = Running::start().await;
    let response = server.get("/metrics").await;
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let all = parse(&response.text().await.expect("a page"));
    let value = |name: &str, label: Option<(&str, &str)>| {
        let label = label.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let mut found = all.iter().filter(|(n, l, _)| n == name && label.as_ref().is_none_or(|x| l.contains(x)));
        found.next().map(|s| s.2)
    };
    for (name, label, want) in [
        ("spectop_ready", None, 1.0),
        ("spectop_mode", Some(("mode", "dflash")), 1.0),
        ("spectop_mode", Some(("mode", "off")), 0.0),
        ("spectop_rounds_total", None, 10.0),
        ("spectop_accepted_per_position_total", Some(("position", "2")), 4.0),
        ("spectop_acceptance_length", None, 3.5),
        ("spectop_stage_seconds_total", Some(("stage", "verify")), 0.0),
        ("vllm:spec_decode_num_drafts_total", Some(("model_name", MODEL)), 10.0),
        ("vllm:spec_decode_num_draft_tokens_total", Some(("engine", "0")), 70.0),
        ("vllm:spec_decode_num_accepted_tokens_total", None, 20.0),
        ("vllm:spec_decode_num_accepted_tokens_per_pos_total", Some(("position", "0")), 8.0),
        ("vllm:num_requests_running", None, 1.0),
        ("vllm:num_requests_waiting", None, 2.0),
        ("vllm:kv_cache_usage_perc", None, 0.25),
        ("vllm:prompt_tokens_total", None, 0.0),
        ("vllm:generation_tokens_total", None, 0.0),
    ] {
        assert_eq!(value(name, label), Some(want), "{name} {label:?}");
    }
    // Absent is not 0.
    assert_eq!(value("spectop_decode_tokens_per_second", None), None);
}

#[tokio::test]
async fn the_page_parses_before_anything_is_known() {
    let server = Running::start().await;
    if let Ok(mut state) = server.backend.state.lock() {
        state.target = None;
        state.counters = spectop::protocol::state::Counters::default();
    }
    let all = parse(&server.get("/metrics").await.text().await.expect("a page"));
    assert!(!all.iter().any(|(name, ..)| name.starts_with("vllm:")));
}
