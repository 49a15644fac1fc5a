//! SGLang: gauges in `/metrics` when it was started with `--enable-metrics`, else the figures in `/server_info`.

use serde_json::Value;

use super::attach::{Ended, Never};
use super::error::SourceError;
use super::foreign::{METRICS_PAUSE, count, model, scrape, state, ticks};
use super::native::Client;
use super::now_ms;
use super::outlet::Outlet;
use super::probe::Probe;
use super::prom::Scrape;
use crate::protocol::event::{Event, Sample};
use crate::protocol::mode::Mode;
use crate::protocol::state::State;

/// The newer and the older name.
const INFO_PATHS: [&str; 2] = ["/server_info", "/get_server_info"];

/// What the server says about itself; `None` when it is no SGLang server.
pub(super) async fn server_info(client: &Client) -> Result<Option<Value>, SourceError> {
    for path in INFO_PATHS {
        // vLLM has a path of the first name in its developers' mode, with other content.
        if let Some(info) = client.get(path).await?.json()
            && ["internal_states", "tp_size", "speculative_algorithm"].iter().any(|key| info.get(key).is_some())
        {
            return Ok(Some(info));
        }
    }
    Ok(None)
}

/// Asks for the figures until the server is lost.
pub(super) async fn watch(client: &Client, found: &Probe, outlet: &mut Outlet) -> Result<Never, Ended> {
    let mut ticks = ticks(METRICS_PAUSE);
    let info = server_info(client).await?;
    let metrics = scrape(client).await?.is_some_and(|scrape| scrape.has_prefix("sglang:"));
    outlet.event(Event::Hello(Box::new(hello(found, info.as_ref(), metrics)))).await?;
    loop {
        ticks.tick().await;
        let sample = if metrics {
            match scrape(client).await? {
                Some(scrape) => from_metrics(scrape),
                None => return Err(super::foreign::metrics_gone()),
            }
        } else {
            match server_info(client).await? {
                Some(info) => from_info(&info),
                None => return Err(SourceError::Malformed("/server_info is gone".into()).into()),
            }
        };
        outlet.event(Event::Sample(Box::new(sample))).await?;
    }
}

fn hello(found: &Probe, info: Option<&Value>, metrics: bool) -> State {
    let text = |key: &str| info.and_then(|info| info[key].as_str());
    let algorithm = text("speculative_algorithm");
    let figures = if metrics {
        "SGLang: figures come from its gauges"
    } else {
        "SGLang without --enable-metrics: acceptance is the mean since its start"
    };
    let algorithm_words = algorithm.map(|name| format!(" It speculates with {name}.")).unwrap_or_default();
    let notice = format!("{figures}; rounds and live mode switching need a spectop server.{algorithm_words}");
    let mut state = state("sglang", found, notice);
    if algorithm == Some("DFLASH") {
        state.mode.mode = Mode::Dflash;
        state.mode.block_size =
            info.and_then(|info| info["speculative_num_draft_tokens"].as_u64()).unwrap_or(0) as usize;
    }
    state.draft = text("speculative_draft_model_path").map(model);
    state
}

fn from_metrics(scrape: Scrape) -> Sample {
    let scrape = scrape.first_rank();
    let used = scrape.sum(&["sglang:num_used_tokens"]);
    let capacity = scrape.sum(&["sglang:max_total_num_tokens"]).or_else(|| {
        let share = scrape.mean(&["sglang:token_usage"]).filter(|share| *share > 0.0)?;
        used.map(|used| used / share)
    });
    Sample {
        at_ms: now_ms(),
        window_s: METRICS_PAUSE.as_secs_f64(),
        tok_s: positive(scrape.sum(&["sglang:gen_throughput"])),
        tau: accept_length(scrape.mean(&["sglang:spec_accept_length"])),
        running: count(scrape.sum(&["sglang:num_running_reqs"])),
        waiting: count(scrape.sum(&["sglang:num_queue_reqs"])),
        // Without a capacity nothing can be shown as a share of it.
        kv_used: if capacity.is_some() { count(used) } else { 0 },
        kv_capacity: count(capacity),
        generated_total: count(scrape.sum(&["sglang:generation_tokens_total"])) as u64,
        ..Sample::default()
    }
}

fn from_info(info: &Value) -> Sample {
    let states = info["internal_states"].as_array().map_or(&[][..], Vec::as_slice);
    let values = |key: &str| -> Vec<f64> { states.iter().filter_map(|state| state[key].as_f64()).collect() };
    let lengths = values("avg_spec_accept_length");
    let mean = (!lengths.is_empty()).then(|| lengths.iter().sum::<f64>() / lengths.len() as f64);
    Sample {
        at_ms: now_ms(),
        window_s: METRICS_PAUSE.as_secs_f64(),
        tok_s: positive(Some(values("last_gen_throughput").iter().sum())),
        tau: accept_length(mean),
        ..Sample::default()
    }
}

fn positive(value: Option<f64>) -> Option<f64> {
    value.filter(|value| *value > 0.0)
}

/// A round commits at least one token: less is the gauge's "nothing yet".
fn accept_length(value: Option<f64>) -> Option<f64> {
    value.filter(|value| *value >= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn gauges_of_one_tensor_rank_and_all_data_ranks() {
        let rank = |dp: u8, tp: u8, length: f64, speed: f64| {
            let labels = format!("{{dp_rank=\"{dp}\",model_name=\"m\",pp_rank=\"0\",tp_rank=\"{tp}\"}}");
            format!(
                "sglang:spec_accept_length{labels} {length}\nsglang:gen_throughput{labels} {speed}\n\
                 sglang:num_running_reqs{labels} 3\nsglang:num_queue_reqs{labels} 1\n\
                 sglang:num_used_tokens{labels} 500\nsglang:token_usage{labels} 0.5\n"
            )
        };
        let text = [rank(0, 0, 4.0, 100.0), rank(0, 1, 4.0, 100.0), rank(1, 0, 5.0, 60.0)].concat();
        let sample = from_metrics(Scrape::parse(&text));
        assert_eq!((sample.tau, sample.tok_s), (Some(4.5), Some(160.0)));
        assert_eq!((sample.running, sample.waiting), (6, 2));
        assert_eq!((sample.kv_used, sample.kv_capacity), (1000, 2000));
    }

    #[test]
    fn zero_gauges_are_absent() {
        let sample = from_metrics(Scrape::parse(
            "sglang:spec_accept_length 0\nsglang:gen_throughput 0.0\nsglang:token_usage 0\n",
        ));
        assert_eq!((sample.tau, sample.tok_s, sample.kv_capacity), (None, None, 0));
    }

    #[test]
    fn server_info_is_the_fallback() {
        let info = json!({"internal_states": [
            {"avg_spec_accept_length": 4.0, "last_gen_throughput": 120.5},
            {"avg_spec_accept_length": 2.0, "last_gen_throughput": 79.5}]});
        let sample = from_info(&info);
        assert_eq!((sample.tau, sample.tok_s), (Some(3.0), Some(200.0)));
        let nothing = from_info(&json!({"internal_states": [{}]}));
        assert_eq!((nothing.tau, nothing.tok_s), (None, None));
    }
}
