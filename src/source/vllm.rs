//! vLLM: counters in `/metrics`. Rates come from the difference of two looks; a counter that fell means a restart, and
//! that interval is dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::attach::{Ended, Never};
use super::foreign::{METRICS_PAUSE, count, metrics_gone, scrape, state, ticks};
use super::native::Client;
use super::now_ms;
use super::outlet::Outlet;
use super::probe::Probe;
use super::prom::Scrape;
use crate::protocol::event::{Event, Sample};
use crate::protocol::state::{Counters, State};

/// Acceptance is pooled over this time: half a second holds too few rounds to say much.
const WINDOW: Duration = Duration::from_secs(10);

/// Asks for the metrics until the server is lost.
pub(super) async fn watch(client: &Client, found: &Probe, outlet: &mut Outlet) -> Result<Never, Ended> {
    let mut ticks = ticks(METRICS_PAUSE);
    let mut window = Window::default();
    let mut greeted = false;
    loop {
        ticks.tick().await;
        let scrape = scrape(client).await?.ok_or_else(metrics_gone)?;
        let totals = Totals::read(&scrape);
        if !greeted {
            greeted = true;
            outlet.event(Event::Hello(Box::new(hello(found, &scrape, &totals)))).await?;
        }
        let sample = window.sample(Instant::now(), &scrape, totals);
        outlet.event(Event::Sample(Box::new(sample))).await?;
    }
}

fn hello(found: &Probe, scrape: &Scrape, totals: &Totals) -> State {
    let speculates = if totals.drafts.is_some() { "" } else { " It does not speculate, or has not yet." };
    let notice = format!(
        "vLLM: figures come from its counters; rounds and live mode switching need a spectop server.{speculates}"
    );
    let whole = |value: Option<f64>| value.unwrap_or(0.0) as u64;
    let (drafts, accepted) = (whole(totals.drafts), whole(totals.accepted));
    let started = scrape.sum(&["process_start_time_seconds"]);
    State {
        uptime_s: started.map_or(0.0, |start| (now_ms() as f64 / 1000.0 - start).max(0.0)),
        counters: Counters {
            rounds: drafts,
            drafted: whole(totals.drafted),
            accepted,
            committed: drafts + accepted,
            accepted_per_pos: totals.per_pos.iter().map(|&value| value as u64).collect(),
            prompt_tokens: whole(totals.prompt),
            generated_tokens: whole(totals.generated),
            ..Counters::default()
        },
        running: count(scrape.sum(&["vllm:num_requests_running"])),
        waiting: count(scrape.sum(&["vllm:num_requests_waiting"])),
        ..state("vllm", found, notice)
    }
}

/// The counters of one look.
#[derive(Debug, Clone, Default, PartialEq)]
struct Totals {
    drafts: Option<f64>,
    drafted: Option<f64>,
    accepted: Option<f64>,
    per_pos: Vec<f64>,
    prompt: Option<f64>,
    generated: Option<f64>,
}

impl Totals {
    fn read(scrape: &Scrape) -> Self {
        let per_pos = scrape.by_number(
            &["vllm:spec_decode_num_accepted_tokens_per_pos_total", "vllm:spec_decode_num_accepted_tokens_per_pos"],
            "position",
        );
        // Positions are counted from 0 without gaps; what follows a gap cannot be placed.
        let per_pos = (0..per_pos.len()).map_while(|position| per_pos.get(&position).copied()).collect();
        Self {
            drafts: scrape.sum(&["vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_drafts"]),
            drafted: scrape.sum(&["vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_draft_tokens"]),
            accepted: scrape
                .sum(&["vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens"]),
            per_pos,
            prompt: scrape.sum(&["vllm:prompt_tokens_total", "vllm:prompt_tokens"]),
            generated: scrape.sum(&["vllm:generation_tokens_total", "vllm:generation_tokens"]),
        }
    }

    /// Whether a counter is lower than it was, or has gone.
    fn fell_since(&self, earlier: &Self) -> bool {
        let fell = |now: Option<f64>, then: Option<f64>| then.is_some_and(|then| now.is_none_or(|now| now < then));
        fell(self.drafts, earlier.drafts)
            || fell(self.drafted, earlier.drafted)
            || fell(self.accepted, earlier.accepted)
            || fell(self.generated, earlier.generated)
            || self.per_pos.len() < earlier.per_pos.len()
            || self.per_pos.iter().zip(&earlier.per_pos).any(|(now, then)| now < then)
    }
}

/// The looks of the last seconds.
#[derive(Debug, Default)]
struct Window {
    looks: VecDeque<(Instant, Totals)>,
}

impl Window {
    fn sample(&mut self, at: Instant, scrape: &Scrape, totals: Totals) -> Sample {
        if self.looks.back().is_some_and(|(_, last)| totals.fell_since(last)) {
            self.looks.clear();
        }
        let last = self.looks.back().cloned();
        self.looks.push_back((at, totals));
        while self.looks.len() > 2 && at.duration_since(self.looks[0].0) > WINDOW {
            self.looks.pop_front();
        }

        let kv = cache_tokens(scrape);
        let mut sample = Sample {
            at_ms: now_ms(),
            running: count(scrape.sum(&["vllm:num_requests_running"])),
            waiting: count(scrape.sum(&["vllm:num_requests_waiting"])),
            kv_used: kv.map_or(0, |(used, _)| used),
            kv_capacity: kv.map_or(0, |(_, capacity)| capacity),
            ..Sample::default()
        };
        let Some((_, now)) = self.looks.back() else { return sample };
        sample.generated_total = now.generated.unwrap_or(0.0) as u64;
        if let Some((then_at, then)) = &last {
            let seconds = at.duration_since(*then_at).as_secs_f64();
            sample.tok_s = rise(now.generated, then.generated).map(|tokens| tokens / seconds);
        }
        let (first_at, first) = &self.looks[0];
        sample.window_s = at.duration_since(*first_at).as_secs_f64();
        if let Some(drafts) = rise(now.drafts, first.drafts) {
            sample.rounds_s = Some(drafts / sample.window_s);
            // No accepted draft in the window is a fact (τ = 1), a missing counter is not.
            sample.tau = now.accepted.map(|accepted| 1.0 + (accepted - first.accepted.unwrap_or(0.0)) / drafts);
            let before = first.per_pos.iter().copied().chain(std::iter::repeat(0.0));
            sample.per_pos = now.per_pos.iter().zip(before).map(|(now, then)| (now - then) / drafts).collect();
        }
        sample
    }
}

/// How much a counter rose; absent when it did not, so that nothing is divided by nothing. A counter that has just
/// appeared began at 0.
fn rise(now: Option<f64>, then: Option<f64>) -> Option<f64> {
    now.map(|now| now - then.unwrap_or(0.0)).filter(|rise| *rise > 0.0)
}

/// Used and available cache rows in tokens, where the server tells its number of blocks.
fn cache_tokens(scrape: &Scrape) -> Option<(usize, usize)> {
    let number = |label| scrape.label("vllm:cache_config_info", label).and_then(|text| text.parse::<f64>().ok());
    let engines = scrape.sum(&["vllm:cache_config_info"]).filter(|engines| *engines >= 1.0)?;
    let capacity = number("num_gpu_blocks")? * number("block_size")? * engines;
    let used = scrape.mean(&["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"])? * capacity;
    Some((count(Some(used)), count(Some(capacity))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(drafts: u32, accepted: [u32; 3], generated: u32) -> Scrape {
        let [a, b, c] = accepted;
        Scrape::parse(&format!(
            "# TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{{engine=\"0\",model_name=\"m\"}} 2.0\n\
             vllm:num_requests_waiting{{engine=\"0\",model_name=\"m\"}} 1.0\n\
             vllm:kv_cache_usage_perc{{engine=\"0\",model_name=\"m\"}} 0.25\n\
             vllm:cache_config_info{{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"1000\"}} 1.0\n\
             vllm:generation_tokens_total{{engine=\"0\",model_name=\"m\"}} {generated}.0\n\
             vllm:spec_decode_num_drafts_total{{engine=\"0\",model_name=\"m\"}} {drafts}.0\n\
             vllm:spec_decode_num_draft_tokens_total{{engine=\"0\",model_name=\"m\"}} {}.0\n\
             vllm:spec_decode_num_accepted_tokens_total{{engine=\"0\",model_name=\"m\"}} {}.0\n\
             vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine=\"0\",model_name=\"m\",position=\"0\"}} {a}.0\n\
             vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine=\"0\",model_name=\"m\",position=\"1\"}} {b}.0\n\
             vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine=\"0\",model_name=\"m\",position=\"2\"}} {c}.0\n",
            drafts * 3,
            a + b + c
        ))
    }

    fn look(window: &mut Window, at: Instant, scrape: &Scrape) -> Sample {
        window.sample(at, scrape, Totals::read(scrape))
    }

    #[test]
    fn rates_are_differences() {
        let mut window = Window::default();
        let start = Instant::now();
        let first = look(&mut window, start, &text(100, [80, 60, 40], 1000));
        assert_eq!((first.tau, first.tok_s, first.rounds_s), (None, None, None));
        assert!(first.per_pos.is_empty());
        assert_eq!((first.running, first.waiting, first.kv_used, first.kv_capacity), (2, 1, 4000, 16000));
        assert_eq!(first.generated_total, 1000);

        let second = look(&mut window, start + Duration::from_millis(500), &text(120, [96, 70, 44], 1050));
        assert_eq!(second.tau, Some(1.0 + 30.0 / 20.0));
        assert_eq!(second.per_pos, [0.8, 0.5, 0.2]);
        assert_eq!((second.tok_s, second.rounds_s, second.window_s), (Some(100.0), Some(40.0), 0.5));
    }

    #[test]
    fn idle_is_absent_and_a_restart_drops_its_interval() {
        let mut window = Window::default();
        let at = |ms| Duration::from_millis(ms);
        let start = Instant::now();
        look(&mut window, start, &text(100, [80, 60, 40], 1000));
        let idle = look(&mut window, start + at(500), &text(100, [80, 60, 40], 1000));
        assert_eq!((idle.tau, idle.tok_s), (None, None));

        let restarted = look(&mut window, start + at(1000), &text(5, [1, 0, 0], 20));
        assert_eq!((restarted.tau, restarted.tok_s, restarted.window_s), (None, None, 0.0));
        let after = look(&mut window, start + at(1500), &text(15, [1, 0, 0], 30));
        assert_eq!((after.tau, after.tok_s), (Some(1.0), Some(20.0)));
        assert_eq!(after.per_pos, [0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_window_slides() {
        let mut window = Window::default();
        let start = Instant::now();
        for step in 0..60 {
            look(&mut window, start + METRICS_PAUSE * step, &text(step * 10, [step * 8, 0, 0], step * 18));
        }
        let (oldest, newest) = (window.looks[0].0, window.looks[window.looks.len() - 1].0);
        assert_eq!(newest - oldest, WINDOW);
    }

    #[test]
    fn without_speculation_there_is_speed_and_no_acceptance() {
        let scrape = |n| {
            Scrape::parse(&format!(
                "vllm:generation_tokens_total{{engine=\"0\"}} {n}\nvllm:generation_tokens_total{{engine=\"1\"}} {n}\n"
            ))
        };
        let mut window = Window::default();
        let start = Instant::now();
        look(&mut window, start, &scrape(100));
        let sample = look(&mut window, start + Duration::from_secs(1), &scrape(150));
        assert_eq!((sample.tau, sample.tok_s), (None, Some(100.0)));
        assert_eq!((sample.kv_used, sample.kv_capacity), (0, 0));
    }
}
