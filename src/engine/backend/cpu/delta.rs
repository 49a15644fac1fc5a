//! Layers with a recurrent state on the CPU: what a session keeps, and the passes over rows and heads. How rows are
//! evaluated, and why so, is told in [`crate::engine::backend::delta`].
#![allow(unsafe_code)]

use super::delta_rule::{self, Families, Head, Heap};
use super::level::Level;
use super::pool::Pool;
use super::shared::Shared;
use super::{Buf, Cache};
use crate::engine::backend::Rows;
use crate::engine::backend::delta::{BLOCK, DeltaNet, DeltaShape, Span, spans};

/// What one session keeps of one layer.
#[derive(Debug, Clone)]
pub struct DeltaCache {
    kernel: usize,
    /// First slot whose row is kept: the convolution looks back a few slots behind the anchor.
    first: usize,
    /// Slots that were written, or kept after a round.
    end: usize,
    /// The slot that [`DeltaCache::state`] stands before.
    anchor: usize,
    /// `[value head][key_dim][value_dim]`.
    state: Vec<f32>,
    inputs: Lines,
    keys: Lines,
    deltas: Lines,
    decays: Lines,
}

/// One line a kept slot.
#[derive(Debug, Clone)]
struct Lines {
    width: usize,
    data: Vec<f32>,
}

impl Lines {
    fn new(width: usize) -> Self {
        Self { width, data: Vec::new() }
    }

    fn copy(&mut self, from: usize, to: usize) {
        self.data.copy_within(from * self.width..(from + 1) * self.width, to * self.width);
    }

    /// Makes `lines` lines out of what there is, without the first `drop`.
    fn shape(&mut self, drop: usize, lines: usize) {
        let drop = (drop * self.width).min(self.data.len());
        if drop > 0 {
            self.data.copy_within(drop.., 0);
            self.data.truncate(self.data.len() - drop);
        }
        self.data.resize(lines * self.width, 0.0);
        // A prefill chunk has many lines; a long answer must not keep room for them.
        if self.data.capacity() / 4 > self.data.len() {
            self.data.shrink_to(self.data.len() * 2);
        }
    }
}

impl DeltaCache {
    /// An empty one.
    pub fn new(shape: &DeltaShape) -> Self {
        Self {
            kernel: shape.kernel,
            first: 0,
            end: 0,
            anchor: 0,
            state: vec![0.0; shape.value_heads * shape.key_dim * shape.value_dim],
            inputs: Lines::new(shape.conv_width()),
            keys: Lines::new(shape.key_width()),
            deltas: Lines::new(shape.value_width()),
            decays: Lines::new(shape.value_heads),
        }
    }

    fn lines(&mut self) -> [&mut Lines; 4] {
        [&mut self.inputs, &mut self.keys, &mut self.deltas, &mut self.decays]
    }

    /// Moves slots `base + path[j]` to `base + j` and forgets those behind.
    pub fn keep(&mut self, base: usize, path: &[usize]) {
        let first = self.first;
        let held = self.inputs.data.len() / self.inputs.width;
        let inside = |slot: usize| slot >= first && slot - first < held;
        for (j, &node) in path.iter().enumerate().filter(|(j, node)| j != *node) {
            if inside(base + node) && inside(base + j) {
                for lines in self.lines() {
                    lines.copy(base + node - first, base + j - first);
                }
            }
        }
        self.end = base + path.len();
    }

    /// Room for rows at slots `base..base + count`; what is missing before them is empty.
    fn open(&mut self, base: usize, count: usize) {
        if base > self.end || base < self.anchor {
            self.anchor = base - base % BLOCK;
            self.first = self.anchor.saturating_sub(self.kernel - 1);
            self.state.fill(0.0);
            for lines in self.lines() {
                lines.data.clear();
            }
        }
        let lines = base + count - self.first;
        for each in self.lines() {
            each.shape(0, lines);
        }
        self.end = base + count;
    }

    /// After the heads have moved the state to the last anchor before `base`: forgets what is no longer needed.
    fn settle(&mut self, base: usize) {
        let anchor = base - base % BLOCK;
        if anchor == self.anchor {
            return;
        }
        self.anchor = anchor;
        let first = anchor.saturating_sub(self.kernel - 1);
        let (drop, lines) = (first - self.first, self.end - first);
        for each in self.lines() {
            each.shape(drop, lines);
        }
        self.first = first;
    }
}

/// Buffers of a call, kept between calls.
#[derive(Debug, Default)]
pub struct DeltaScratch {
    queries: Vec<f32>,
    values: Vec<f32>,
    betas: Vec<f32>,
    mixed: Vec<Vec<f32>>,
    heaps: Vec<Heap>,
}

/// One session's cache, open to the threads of a call.
#[derive(Clone, Copy)]
struct Open {
    first: usize,
    anchor: usize,
    state: Shared<f32>,
    inputs: Shared<f32>,
    keys: Shared<f32>,
    deltas: Shared<f32>,
    decays: Shared<f32>,
}

/// See [`crate::engine::backend::Backend::delta`].
#[allow(clippy::too_many_arguments)]
pub fn run(
    level: Level,
    pool: &mut Pool,
    scratch: &mut DeltaScratch,
    x: &Buf,
    gates: &Buf,
    net: &DeltaNet,
    rows: &Rows,
    layer: usize,
    caches: &mut [&mut Cache],
    out: &mut Buf,
) {
    let shape = &net.shape;
    let (kw, vw, cw) = (shape.key_width(), shape.value_width(), shape.conv_width());
    let (kd, vd, heads) = (shape.key_dim, shape.value_dim, shape.value_heads);
    let count = rows.len();
    out.grow(count);
    scratch.queries.resize(count * kw, 0.0);
    scratch.values.resize(count * vw, 0.0);
    scratch.betas.resize(count * heads, 0.0);
    scratch.mixed.resize_with(pool.count(), Vec::new);
    scratch.heaps.resize_with(pool.count(), Heap::default);

    let spans = spans(rows);
    let before: Vec<Option<usize>> = (0..count).map(|row| rows.before(row)).collect();
    let families: Vec<Families> = spans.iter().map(|s| families(rows, &before, s)).collect();
    let mut span_of = Vec::with_capacity(count);
    let mut open = Vec::with_capacity(spans.len());
    for (index, span) in spans.iter().enumerate() {
        span_of.extend(std::iter::repeat_n(index, span.count));
        let cache = caches[span.session].delta(layer);
        cache.open(span.base, span.count);
        open.push(Open {
            first: cache.first,
            anchor: cache.anchor,
            state: Shared::new(&mut cache.state),
            inputs: Shared::new(&mut cache.inputs.data),
            keys: Shared::new(&mut cache.keys.data),
            deltas: Shared::new(&mut cache.deltas.data),
            decays: Shared::new(&mut cache.decays.data),
        });
    }

    let queries = Shared::new(&mut scratch.queries);
    let values = Shared::new(&mut scratch.values);
    let betas = Shared::new(&mut scratch.betas);
    let mixed = Shared::new(&mut scratch.mixed);
    let heaps = Shared::new(&mut scratch.heaps);
    let width = out.width;
    let outputs = Shared::new(&mut out.data);
    // The slot before `slot` on the path of a row of this span.
    let up = |span: &Span, slot: usize| {
        if slot >= span.base { before[span.row + slot - span.base] } else { slot.checked_sub(1) }
    };
    pool.run(&|worker| {
        for row in worker.share(count, 1) {
            let cache = &open[span_of[row]];
            let at = rows.rows[row].slot - cache.first;
            // SAFETY: rows of one session have different slots, and a row is one thread's.
            unsafe { cache.inputs.slice(at * cw, cw) }.copy_from_slice(&x.row(row)[..cw]);
        }
        worker.barrier();
        // SAFETY: one entry a thread.
        let mixed = &mut unsafe { mixed.slice(worker.id, 1) }[0];
        for row in worker.share(count, 1) {
            let (span, cache) = (&spans[span_of[row]], &open[span_of[row]]);
            let slot = rows.rows[row].slot;
            // SAFETY: nobody writes inputs after the barrier.
            let inputs = unsafe { cache.inputs.all() };
            mixed.clear();
            mixed.resize(cw, 0.0);
            let mut source = Some(slot);
            for tap in (0..shape.kernel).rev() {
                let Some(from) = source else { break };
                let line = &inputs[(from - cache.first) * cw..][..cw];
                delta_rule::weigh(level, line, &net.conv[tap * cw..(tap + 1) * cw], mixed);
                source = up(span, from);
            }
            delta_rule::silu(level, mixed);
            let at = slot - cache.first;
            // SAFETY: a row's places are one thread's.
            let (q, k, v) =
                unsafe { (queries.slice(row * kw, kw), cache.keys.slice(at * kw, kw), values.slice(row * vw, vw)) };
            let scale = (kd as f32).sqrt().recip();
            for head in (0..kw).step_by(kd) {
                delta_rule::normalise(level, &mixed[head..head + kd], scale, &mut q[head..head + kd]);
                delta_rule::normalise(level, &mixed[kw + head..kw + head + kd], 1.0, &mut k[head..head + kd]);
            }
            v.copy_from_slice(&mixed[2 * kw..]);
            // SAFETY: as above.
            let (beta, decay) = unsafe { (betas.slice(row * heads, heads), cache.decays.slice(at * heads, heads)) };
            let (b, a) = gates.row(row).split_at(heads);
            for h in 0..heads {
                beta[h] = delta_rule::sigmoid(b[h]);
                decay[h] = (net.decay[h] * delta_rule::softplus(a[h] + net.bias[h])).exp();
            }
        }
        worker.barrier();
        // SAFETY: one entry a thread.
        let heap = &mut unsafe { heaps.slice(worker.id, 1) }[0];
        for item in worker.share(spans.len() * heads, 1) {
            let (index, h) = (item / heads, item % heads);
            let (span, cache, families) = (&spans[index], &open[index], &families[index]);
            // SAFETY: after the barrier nobody writes keys, decays, queries, values or betas.
            let (keys, decays, queries, values, betas) =
                unsafe { (cache.keys.all(), cache.decays.all(), queries.all(), values.all(), betas.all()) };
            let head = Head {
                level,
                key_dim: kd,
                value_dim: vd,
                keys: &keys[shape.key_head(h) * kd..],
                key_stride: kw,
                decays: &decays[h..],
                decay_stride: heads,
                deltas: cache.deltas,
                delta_at: h * vd,
                delta_stride: vw,
                first: cache.first,
            };
            // SAFETY: a head's state is one thread's.
            let state = unsafe { cache.state.slice(h * kd * vd, kd * vd) };
            let mut anchor = cache.anchor;
            while span.base >= anchor + BLOCK {
                head.absorb(state, anchor + BLOCK - 1, |slot| up(span, slot), heap);
                anchor += BLOCK;
            }
            let column = cw + h * vd;
            let mut finish = |row: usize, o: &[f32]| {
                // SAFETY: a row's columns of one head are one thread's.
                let to = unsafe { outputs.slice(row * width + h * vd, vd) };
                delta_rule::gated_norm(level, o, &net.norm, shape.eps, &x.row(row)[column..column + vd], to);
            };
            let key_at = shape.key_head(h) * kd;
            let one = |row: usize| delta_rule::Row {
                index: row,
                slot: rows.rows[row].slot,
                steps: rows.rows[row].position % BLOCK,
                q: &queries[row * kw + key_at..][..kd],
                v: &values[row * vw + h * vd..][..vd],
                beta: betas[row * heads + h],
            };
            head.evaluate(families, 0, state, &one, &|slot| up(span, slot), heap, &mut finish);
        }
    });
    for span in &spans {
        caches[span.session].delta(layer).settle(span.base);
    }
}

/// Groups rows by the state they start from: those before the next anchor use the cache's, others that of the row in
/// which their path crosses it.
fn families(rows: &Rows, before: &[Option<usize>], span: &Span) -> Families {
    let mut all = Families::default();
    all.add(None, None);
    let mut of = Vec::with_capacity(span.count);
    for (index, parent) in before.iter().enumerate().skip(span.row).take(span.count) {
        let parent = parent.filter(|&slot| slot >= span.base);
        let family = match parent {
            None => 0,
            Some(slot) if rows.rows[index].position.is_multiple_of(BLOCK) => {
                let above = of[slot - span.base];
                all.find(slot).unwrap_or_else(|| all.add(Some(slot), Some(above)))
            }
            Some(slot) => of[slot - span.base],
        };
        all.push(family, index);
        of.push(family);
    }
    all
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
