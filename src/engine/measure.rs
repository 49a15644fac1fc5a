//! What a drafter pass and verify passes cost on this machine, for mode `auto`.

use std::time::{Duration, Instant};

use super::backend::{Backend, Rows};
use super::decode::controller::Costs;
use super::model::drafter::Job;
use super::rounds::Core;

/// Row counts that are measured.
const ROWS: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// Row counts that are measured over the long context.
const DEEP_ROWS: [usize; 4] = [1, 4, 8, 32];
/// Tokens in the cache while measuring: a short context and a long one.
const CONTEXTS: [usize; 2] = [64, 1024];
/// Timed runs a point, after one that is not; the fastest counts, since noise only adds.
const RUNS: usize = 2;
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
    let mut cache = backend.cache(target.config.layers, &target.heads, target.is_exact());
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

    let mut cache = backend.cache(drafter.config.layers.len(), &drafter.heads, target.is_exact());
    let mut features = backend.buf(drafter.feature_width());
    backend.upload(&vec![0.1; 2 * drafter.feature_width()], &mut features);
    let block = Some((ids[0], drafter.config.block_size));
    let mut draft = f64::INFINITY;
    for run in 0..=RUNS {
        // As in a round: two new feature rows and the block.
        let job = Job { features: &features, context: 2, cached: short + 2 * run, block };
        let clock = Instant::now();
        drafter.pass(backend, target, &[job], &mut [&mut cache]);
        if run > 0 {
            draft = draft.min(clock.elapsed().as_secs_f64() * 1e3);
        }
    }
    Some(Costs { draft, verify, contexts: CONTEXTS, deep })
}
