//! What a drafter pass and verify passes cost on this machine, for mode `auto`.

use std::time::{Duration, Instant};

use crate::protocol::mode::{Mode, ModeSettings};
use crate::protocol::trace::RoundEnd;

use super::api::Sampling;
use super::backend::{Backend, Rows};
use super::decode::controller::Controller;
use super::decode::costs::{Costs, Measured};
use super::decode::habit::Habit;
use super::model::drafter::Job;
use super::rounds::{Core, Task, Work};

/// Row counts that are measured.
const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// Row counts that are measured over the long context.
const DEEP_ROWS: [usize; 4] = [1, 4, 8, 32];
/// Tokens in the cache while measuring: a short context and a long one.
const CONTEXTS: [usize; 2] = [64, 1024];
/// Timed runs a point, after one that is not; the fastest counts, since noise only adds.
const RUNS: usize = 2;
/// Feature rows whose cost in the drafter is measured.
const WAITING: usize = 62;
/// Rounds of a rehearsal.
const REHEARSAL: usize = 24;
/// A rehearsal ends early after this long.
const REHEARSAL_PATIENCE: Duration = Duration::from_millis(600);
/// No further points once this much time has gone: a large model on a slow machine knows enough by then.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Measures a loaded pair. `None` without a drafter.
pub fn costs<B: Backend>(core: &mut Core<B>) -> Option<Costs> {
    let started = Instant::now();
    let vocab = core.target.config.vocab as u32;
    let [short, long] = CONTEXTS;
    let ids: Vec<u32> = (0..32u32).map(|i| (i * 7 + 1) % vocab).collect();
    let Core { backend, target, drafter, .. } = core;
    let drafter = drafter.as_mut()?;
    let mut cache = target.cache(backend);
    // Nothing is prefilled: attention over zeros takes as long.
    backend.reserve(&mut cache, long + 32);
    let mut rows = Rows::default();
    let reaches = target.config.context >= long + 32;
    let mut pass = |backend: &mut B, start: usize, count: usize| {
        rows.clear(count.div_ceil(64).max(1));
        rows.push_causal(0, start, count);
        let wanted: Vec<usize> = (0..count).collect();
        let clock = Instant::now();
        target.forward(backend, &ids[..count], &rows, &mut [&mut cache], &wanted);
        backend.best(&target.logits, count);
        clock.elapsed().as_secs_f64() * 1e3
    };
    let mut verify: Vec<(usize, f64)> = Vec::new();
    for count in ROWS {
        if verify.len() >= 2 && started.elapsed() > PATIENCE {
            break;
        }
        pass(backend, short, count);
        let ms = (0..RUNS).map(|_| pass(backend, short, count)).fold(f64::INFINITY, f64::min);
        // More rows never cost less; where it looks so, it was noise.
        let before = verify.last().map_or(0.0, |p| p.1);
        verify.push((count, ms.max(before)));
    }
    let mut deep: Vec<(usize, f64)> = Vec::new();
    for count in DEEP_ROWS {
        if !reaches || started.elapsed() > PATIENCE {
            break;
        }
        pass(backend, long, count);
        let ms = (0..RUNS).map(|_| pass(backend, long, count)).fold(f64::INFINITY, f64::min);
        deep.push((count, ms));
    }
    if deep.len() < DEEP_ROWS.len() {
        deep.clear();
    }

    let mut cache = drafter.cache(backend, target.is_exact());
    let whole = drafter.config.block_size;
    let mut sizes = vec![whole];
    if drafter.config.is_causal() {
        sizes.extend([2, 4].into_iter().filter(|&size| size < whole));
        sizes.sort_unstable();
    }
    let mut features = backend.buf(drafter.feature_width());
    backend.upload(&vec![0.1; (2 + WAITING) * drafter.feature_width()], &mut features);
    let mut at = short;
    let mut pass = |backend: &mut B, waiting: usize, size: usize| {
        let job = Job { features: &features, context: waiting, cached: at, block: Some((ids[0], size)) };
        at += waiting;
        let clock = Instant::now();
        drafter.pass(backend, target, &[job], &mut [&mut cache]);
        clock.elapsed().as_secs_f64() * 1e3
    };
    let mut fastest = |waiting: usize, size: usize| {
        pass(backend, waiting, size);
        (0..RUNS).map(|_| pass(backend, waiting, size)).fold(f64::INFINITY, f64::min)
    };
    // As in a round: two new feature rows and the block.
    let mut draft: Vec<(usize, f64)> = Vec::new();
    for size in sizes {
        let ms = fastest(2, size);
        draft.push((size, ms.max(draft.last().map_or(0.0, |p| p.1))));
    }
    let usual = draft.last().map_or(0.0, |p| p.1);
    let feature = ((fastest(2 + WAITING, whole) - usual) / WAITING as f64).max(0.0);
    Some(Costs::new(Measured { draft, feature, verify, contexts: CONTEXTS, deep }))
}

/// Answers `prompt` for a few dozen rounds that all draft, so that the controller knows what drafts are worth before the
/// first request. Nothing of it is kept but that.
pub fn rehearse<B: Backend>(core: &mut Core<B>, prompt: Vec<u32>) {
    let Some(drafter) = &core.drafter else { return };
    let settings =
        ModeSettings { mode: Mode::Auto, block_size: drafter.config.block_size, tree_budget: 1, chain_seed: true };
    let started = Instant::now();
    let most = (prompt.len() + REHEARSAL * drafter.config.block_size).min(core.target.config.context);
    if most <= prompt.len() {
        return;
    }
    let stops = core.target.config.stop_tokens.clone();
    let mut sequence = core.sequence(prompt, most, stops, Sampling::default());
    sequence.habit = Habit::eager();
    let plain = ModeSettings { mode: Mode::Off, ..settings };
    for round in 0..REHEARSAL {
        let task = match sequence.unfilled() {
            // Plain rounds in between say what the others are compared with.
            0 if round % 4 == 1 => Task::Decode(plain),
            0 => Task::Decode(settings),
            left => Task::Prefill(left),
        };
        let (outcomes, _) = core.round(&mut [Work { sequence: &mut sequence, task }]);
        let ended = outcomes.iter().any(|o| matches!(o.end, RoundEnd::Stop | RoundEnd::Length));
        if ended || started.elapsed() > REHEARSAL_PATIENCE {
            break;
        }
    }
}

/// Measures a loaded pair and rehearses: gives the core a controller for mode `auto`. Without a drafter there is none.
pub fn prepare<B: Backend>(core: &mut Core<B>, most_nodes: usize, prompts: Vec<Vec<u32>>) {
    core.controller = costs(core).map(|costs| Controller::new(costs, most_nodes));
    for prompt in prompts.into_iter().filter(|prompt| !prompt.is_empty()) {
        rehearse(core, prompt);
    }
}
