//! The hard property: at temperature 0 the output is the same in every mode, under every switch schedule, whoever
//! shares the forward; above it, the distribution is.

mod support;

use std::time::{Duration, Instant};

use spectop::engine::api::Sampling;
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::rounds::Core;
use spectop::protocol::mode::Mode;
use support::engine::{Dice, decode, default_core, random_pair, settings, tiny_core};

fn greedy(_: usize) -> Sampling {
    Sampling::default()
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// Schedules that are tried on every machine, and the time in which more follow: slow processors need minutes for all.
const LEAST_SCHEDULES: u64 = 12;
const PATIENCE: Duration = Duration::from_mins(1);

/// Random schedules over several prompts decoded together: every sequence changes its mode at random rounds.
fn schedules(core: &mut Core<Cpu>, prompts: &[Vec<u32>], count: u64, limit: usize, block: usize) {
    let off = settings(Mode::Off, block, 1);
    let plain: Vec<Vec<u32>> =
        prompts.iter().map(|p| decode(core, std::slice::from_ref(p), limit, greedy, |_, _| off).remove(0)).collect();
    let started = Instant::now();
    for seed in 1..=count {
        if seed > LEAST_SCHEDULES && started.elapsed() > PATIENCE {
            break;
        }
        let mut dice = Dice(seed * 0x9E37_79B9);
        let mut current = vec![off; prompts.len()];
        let together = decode(core, prompts, limit, greedy, |i, _| {
            if dice.below(3) == 0 {
                current[i] = dice.mode(block);
            }
            current[i]
        });
        assert_eq!(together, plain, "schedule {seed}");
    }
}

#[test]
fn tiny_pair_is_lossless_under_random_schedules() {
    let mut core = tiny_core(1);
    let prompts = ["def fib(n):\n", "class A:\n    def ", "x", "for i in range(10):\n    if i %"].map(bytes);
    schedules(&mut core, &prompts, 60, 64, 8);
}

#[test]
fn default_pair_is_lossless_in_every_mode_and_under_random_schedules() {
    let Some(mut core) = default_core() else { return };
    // "Explain quicksort" and the like, as token ids of the chat template; the text does not matter here.
    let prompts: Vec<Vec<u32>> = prompts_of_the_story();
    let off = settings(Mode::Off, 8, 1);
    let plain: Vec<Vec<u32>> =
        prompts.iter().map(|p| decode(&mut core, std::slice::from_ref(p), 96, greedy, |_, _| off).remove(0)).collect();
    for mode in Mode::ALL {
        for budget in [1, 7, 16, 64] {
            if budget != 16 && !matches!(mode, Mode::Ddtree | Mode::Shadow) {
                continue;
            }
            let got = decode(&mut core, &prompts, 96, greedy, |_, _| settings(mode, 8, budget));
            assert_eq!(got, plain, "{mode} {budget}");
        }
    }
    schedules(&mut core, &prompts, 50, 40, 8);
}

/// A target with recurrent layers under a drafter that guesses at random: most drafts are wrong, so that every round
/// has to take back what it tried.
#[test]
fn hybrid_pair_is_lossless_in_every_mode_and_under_random_schedules() {
    let mut core = random_pair("qwen35-tied", "qwen35-tied-dflash");
    core.target.config.stop_tokens.clear();
    let mut dice = Dice(9);
    let prompts: Vec<Vec<u32>> = [2, 15, 16, 40].map(|n| (0..n).map(|_| dice.below(95) as u32).collect()).into();
    let off = settings(Mode::Off, 8, 1);
    let plain: Vec<Vec<u32>> =
        prompts.iter().map(|p| decode(&mut core, std::slice::from_ref(p), 64, greedy, |_, _| off).remove(0)).collect();
    for mode in Mode::ALL {
        let got = decode(&mut core, &prompts, 64, greedy, |_, _| settings(mode, 8, 24));
        assert_eq!(got, plain, "{mode}");
    }
    schedules(&mut core, &prompts, 60, 64, 8);
}

fn prompts_of_the_story() -> Vec<Vec<u32>> {
    let text = include_str!("fixtures/smollm2-story/expected.json");
    let fixture: serde_json::Value = serde_json::from_str(text).expect("the fixture is JSON");
    let cases = fixture["cases"].as_array().expect("it has cases");
    cases
        .iter()
        .map(|c| {
            let ids = c["prompt_ids"].as_array().expect("ids");
            ids.iter().filter_map(serde_json::Value::as_u64).map(|id| id as u32).collect()
        })
        .collect()
}

/// The number of threads and the kernels' split must not show either.
#[test]
fn thread_count_does_not_change_the_output() {
    let prompt = [bytes("def quicksort(a):\n")];
    let mode = |_, _| settings(Mode::Ddtree, 8, 24);
    let one = decode(&mut tiny_core(1), &prompt, 64, greedy, mode);
    let three = decode(&mut tiny_core(3), &prompt, 64, greedy, mode);
    assert_eq!(one, three);
}

/// Two-sample chi-square statistic over the categories that both samples fill, rare ones pooled; with its degrees of
/// freedom.
fn chi_square(a: &[u32], b: &[u32]) -> (f64, f64) {
    let mut counts = std::collections::BTreeMap::new();
    for &t in a {
        counts.entry(t).or_insert([0.0f64; 2])[0] += 1.0;
    }
    for &t in b {
        counts.entry(t).or_insert([0.0f64; 2])[1] += 1.0;
    }
    let mut cells: Vec<[f64; 2]> = Vec::new();
    let mut rare = [0.0; 2];
    for c in counts.values() {
        if c[0] + c[1] < 20.0 {
            rare[0] += c[0];
            rare[1] += c[1];
        } else {
            cells.push(*c);
        }
    }
    if rare[0] + rare[1] > 0.0 {
        cells.push(rare);
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let statistic = cells
        .iter()
        .map(|c| {
            let total = c[0] + c[1];
            let (x, y) = (total * n / (n + m), total * m / (n + m));
            (c[0] - x).powi(2) / x + (c[1] - y).powi(2) / y
        })
        .sum();
    (statistic, cells.len() as f64 - 1.0)
}

/// Upper bound of chi-square at about 1 in 10,000 (Wilson–Hilferty).
fn critical(df: f64) -> f64 {
    let t = 2.0 / (9.0 * df);
    df * (1.0 - t + 3.719 * t.sqrt()).powi(3)
}

/// Temperature 1, fixed seeds: the joint frequencies of the third and fourth token, which come out of drafting rounds,
/// against plain decoding.
#[test]
fn sampled_distribution_is_that_of_plain_decoding() {
    let mut core = tiny_core(1);
    let prompt = bytes("    return ");
    let runs = 6_000;
    let mut sample = |mode: Mode, top_p: f32, base: u64| -> Vec<u32> {
        let mut out = Vec::with_capacity(runs);
        for batch in 0..runs / 60 {
            let prompts = vec![prompt.clone(); 60];
            let sampling =
                |i: usize| Sampling { temperature: 1.0, top_p, top_k: 0, seed: Some(base + (batch * 60 + i) as u64) };
            let ids = decode(&mut core, &prompts, 5, sampling, |_, _| settings(mode, 5, 12));
            out.extend(ids.iter().map(|t| {
                let at = |i: usize| t.get(i).copied().unwrap_or(300);
                at(2) * 1000 + at(3)
            }));
        }
        out
    };
    for top_p in [1.0, 0.8] {
        let off = sample(Mode::Off, top_p, 1_000_000);
        // The test itself must be able to fail: a wrong temperature is seen at once.
        for mode in [Mode::Dflash, Mode::Ddtree, Mode::Shadow] {
            let got = sample(mode, top_p, 9_000_000);
            let (statistic, df) = chi_square(&off, &got);
            assert!(statistic < critical(df), "{mode} top_p {top_p}: chi-square {statistic:.1} with {df} degrees");
        }
    }
    let off = sample(Mode::Off, 1.0, 1_000_000);
    let sharper = sample(Mode::Off, 0.8, 5_000_000);
    let (statistic, df) = chi_square(&off, &sharper);
    assert!(statistic > critical(df), "the statistic must see a changed distribution");
}
