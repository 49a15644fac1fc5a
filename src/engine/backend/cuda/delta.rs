//! Layers with a recurrent state on a GPU: what a session keeps, and in which order rows are evaluated. How, and why so,
//! is told in [`crate::engine::backend::delta`].

use std::sync::Arc;

use crate::engine::backend::Rows;
use crate::engine::backend::delta::{BLOCK, DeltaNet, DeltaShape, Span, spans};

use super::driver::{Arg, Driver, Memory};
use super::{Buf, Cache, CudaError, THREADS, Vector, done};

/// Lines of a ring at least: a short block of drafts, the block before it, the convolution's window.
const LEAST_LINES: usize = 64;
/// Numbers of a piece of work, as in the kernel.
const WORK: usize = 19;

/// What one session keeps of one layer.
#[derive(Debug)]
pub struct DeltaCache<D: Driver> {
    shape: DeltaShape,
    /// The slot that the state stands before.
    anchor: usize,
    /// Slots that were written, or kept after a round.
    end: usize,
    lines: usize,
    state: Memory<D>,
    /// Inputs, keys, deltas, decays: `lines` lines each, slot `s` at line `s mod lines`.
    rings: Memory<D>,
}

/// Buffers of a call, kept between calls.
#[derive(Debug)]
pub struct DeltaScratch<D: Driver> {
    queries: Memory<D>,
    values: Memory<D>,
    betas: Memory<D>,
    levels: Memory<D>,
    tables: Memory<D>,
}

impl<D: Driver> DeltaScratch<D> {
    /// None yet.
    pub fn new(driver: &Arc<D>) -> Self {
        let none = || Memory::none(driver);
        Self { queries: none(), values: none(), betas: none(), levels: none(), tables: none() }
    }
}

/// Numbers a slot in each ring.
fn widths(shape: &DeltaShape) -> [usize; 4] {
    [shape.conv_width(), shape.key_width(), shape.value_width(), shape.value_heads]
}

impl<D: Driver> DeltaCache<D> {
    /// An empty one.
    pub fn new(driver: &Arc<D>, shape: &DeltaShape) -> Self {
        let none = || Memory::none(driver);
        Self { shape: shape.clone(), anchor: 0, end: 0, lines: 0, state: none(), rings: none() }
    }

    /// Addresses and widths of the rings.
    pub fn rings(&self) -> [(u64, usize); 4] {
        let mut at = self.rings.at();
        widths(&self.shape).map(|width| {
            let ring = (at, width);
            at += (self.lines * width * 4) as u64;
            ring
        })
    }

    /// Lines of a ring; 0 before anything was written.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Tells that the slots before this one are all that counts.
    pub fn cut(&mut self, end: usize) {
        self.end = end;
    }

    /// First slot whose line is needed.
    fn first(&self) -> usize {
        self.anchor.saturating_sub(self.shape.kernel - 1)
    }

    /// Starts anew, before this slot, where what is kept does not reach it.
    fn open(&mut self, driver: &Arc<D>, base: usize) -> Result<(), CudaError> {
        let fresh = self.lines == 0;
        if !fresh && base <= self.end && base >= self.anchor {
            return Ok(());
        }
        self.anchor = base - base % BLOCK;
        self.end = base;
        if fresh {
            self.state = zeros(driver, self.shape.value_heads * self.shape.key_dim * self.shape.value_dim)?;
        } else {
            self.state.upload(&vec![0; self.state.len()])?;
        }
        self.lines = 0;
        Ok(())
    }

    /// Gives the rings room for `count` more slots behind `base`, and not much more.
    fn shape(&mut self, driver: &Arc<D>, base: usize, count: usize) -> Result<(), CudaError> {
        let need = (base + count - self.first()).next_power_of_two().max(LEAST_LINES);
        if (need..need * 4).contains(&self.lines) {
            return Ok(());
        }
        let old = (self.lines, self.rings());
        let width: usize = widths(&self.shape).iter().sum();
        let rings = zeros(driver, need * width)?;
        let before = std::mem::replace(&mut self.rings, rings);
        self.lines = need;
        if old.0 > 0 {
            for ((to, width), (from, _)) in self.rings().into_iter().zip(old.1) {
                for slot in self.first()..base.min(self.end) {
                    let line = |at: u64, lines: usize| at + (slot % lines * width * 4) as u64;
                    driver.copy(line(from, old.0), line(to, need), width * 4)?;
                }
            }
        }
        drop(before);
        Ok(())
    }
}

fn zeros<D: Driver>(driver: &Arc<D>, floats: usize) -> Result<Memory<D>, CudaError> {
    Memory::of(driver, &vec![0; floats * 4])
}

/// The pieces of work of a call, in order.
#[derive(Default)]
struct Work {
    numbers: Vec<i32>,
    levels: usize,
}

impl Work {
    fn len(&self) -> usize {
        self.numbers.len() / WORK
    }

    /// `row` is none to move a state over an anchor.
    fn push(&mut self, level: usize, row: Option<usize>, slots: &[usize]) {
        self.levels = self.levels.max(level);
        let from = self.numbers.len();
        self.numbers.extend([level as i32, row.map_or(-1, |row| row as i32), slots.len() as i32]);
        self.numbers.extend(slots.iter().map(|&slot| slot as i32));
        self.numbers.resize(from + WORK, 0);
    }

    /// The rows of a span, parents first and a family at a time: a state beyond an anchor is made once, and is used up
    /// before the next one of its level is made.
    fn rows(&mut self, rows: &Rows, span: &Span, before: &[Option<usize>]) {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); span.count];
        let mut open: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for i in (0..span.count).rev() {
            if let Some(parent) = before[span.row + i].filter(|&slot| slot >= span.base) {
                children[parent - span.base].push(i);
            } else {
                // A root at an anchor starts from the cache's state, which stands there.
                let anchor = span.base - span.base % BLOCK;
                open.push((i, 0, (anchor..span.base).collect()));
            }
        }
        while let Some((i, level, mut path)) = open.pop() {
            path.push(span.base + i);
            self.push(level, Some(span.row + i), &path);
            if rows.rows[span.row + i].position % BLOCK != BLOCK - 1 {
                open.extend(children[i].iter().map(|&child| (child, level, path.clone())));
            } else if !children[i].is_empty() {
                self.push(level + 1, None, &path);
                // Deeper levels are not this one, so all children find it as it is.
                open.extend(children[i].iter().map(|&child| (child, level + 1, Vec::new())));
            }
        }
    }
}

impl<D: Driver> super::Cuda<D> {
    /// See [`crate::engine::backend::Backend::delta`].
    #[allow(clippy::too_many_arguments)]
    pub(super) fn recall(
        &mut self,
        x: &Buf<D>,
        gates: &Buf<D>,
        net: &DeltaNet<Vector<D>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
        out: &mut Buf<D>,
    ) {
        let shape = &net.shape;
        let count = rows.len();
        out.grow(count);
        if count == 0 {
            return;
        }
        let spans = spans(rows);
        let driver = Arc::clone(&self.driver);
        // What earlier rounds committed moves the states first; then old lines may go.
        let mut settle = Work::default();
        let mut settled = Vec::new();
        for span in &spans {
            let cache = caches[span.session].delta(layer);
            done(cache.open(&driver, span.base));
            let from = settle.len();
            while cache.lines > 0 && span.base >= cache.anchor + BLOCK {
                let slots: Vec<usize> = (cache.anchor..cache.anchor + BLOCK).collect();
                settle.push(0, None, &slots);
                cache.anchor += BLOCK;
            }
            settled.push(from..settle.len());
        }
        if settle.len() > 0 {
            let sessions = sessions(&spans, caches, layer, &settled, |_| 0);
            self.rule(shape, &settle, &sessions, 0);
        }
        for span in &spans {
            done(caches[span.session].delta(layer).shape(&driver, span.base, span.count));
        }

        let before: Vec<Option<usize>> = (0..count).map(|row| rows.before(row)).collect();
        let mut work = Work::default();
        let mut ranges = Vec::new();
        for span in &spans {
            let from = work.len();
            work.rows(rows, span, &before);
            ranges.push(from..work.len());
        }
        let size = shape.value_heads * shape.key_dim * shape.value_dim * 4;
        let states = work.levels * size;
        done(self.delta.levels.grow(spans.len() * states, 0));
        let levels = self.delta.levels.at();
        let sessions = sessions(&spans, caches, layer, &ranges, |span| levels + (span * states) as u64);

        let mut places = Vec::with_capacity(count * (2 + shape.kernel));
        for (index, span) in spans.iter().enumerate() {
            places.extend((0..span.count).flat_map(|i| [index as i32, (span.base + i) as i32]));
        }
        for span in &spans {
            for i in 0..span.count {
                let mut slot = Some(span.base + i);
                for _ in 0..shape.kernel {
                    places.push(slot.map_or(-1, |slot| slot as i32));
                    slot = slot.and_then(|slot| match slot.checked_sub(span.base) {
                        Some(i) => before[span.row + i],
                        None => slot.checked_sub(1),
                    });
                }
            }
        }
        self.evaluate(x, gates, net, &places, &work, &sessions, count, out);
        for span in &spans {
            caches[span.session].delta(layer).end = span.base + span.count;
        }
    }

    /// The kernels of a call, in order.
    #[allow(clippy::too_many_arguments)]
    fn evaluate(
        &mut self,
        x: &Buf<D>,
        gates: &Buf<D>,
        net: &DeltaNet<Vector<D>>,
        places: &[i32],
        work: &Work,
        sessions: &[u64],
        count: usize,
        out: &mut Buf<D>,
    ) {
        let shape = &net.shape;
        let scratch = &mut self.delta;
        done(scratch.queries.grow(count * shape.key_width() * 4, 0));
        done(scratch.values.grow(count * shape.value_width() * 4, 0));
        done(scratch.betas.grow(count * shape.value_heads * 4, 0));
        let [table, places_at, work_at] = self.tables([
            bytemuck::cast_slice(sessions),
            bytemuck::cast_slice(places),
            bytemuck::cast_slice(&work.numbers),
        ]);
        let before_at = places_at + (count * 2 * 4) as u64;
        let scratch = &self.delta;
        let args = [
            x.memory.at().into(),
            x.width.into(),
            shape.conv_width().into(),
            gates.memory.at().into(),
            shape.value_heads.into(),
            net.decay.at().into(),
            net.bias.at().into(),
            places_at.into(),
            table.into(),
            scratch.betas.at().into(),
        ];
        self.launch("delta_take", [count, 1, 1], THREADS, 0, &args);
        let args = [
            net.conv.at().into(),
            shape.kernel.into(),
            shape.conv_width().into(),
            shape.key_heads.into(),
            shape.key_dim.into(),
            shape.value_heads.into(),
            shape.value_dim.into(),
            places_at.into(),
            before_at.into(),
            table.into(),
            scratch.queries.at().into(),
            scratch.values.at().into(),
        ];
        let blocks = [2 * shape.key_heads + shape.value_heads, count, 1];
        self.launch("delta_mix", blocks, 128, 4, &args);
        let blocks = [shape.value_heads, sessions.len() / 9, 1];
        self.launch_rule(shape, work_at, table, out.memory.at(), blocks);
        let args = [
            out.memory.at().into(),
            shape.value_heads.into(),
            shape.value_dim.into(),
            net.norm.at().into(),
            shape.eps.into(),
            x.memory.at().into(),
            x.width.into(),
            shape.conv_width().into(),
        ];
        self.launch("delta_finish", [shape.value_heads, count, 1], 128, 4, &args);
    }

    /// Brings tables to the device, each at a multiple of 8 bytes.
    fn tables<const N: usize>(&mut self, tables: [&[u8]; N]) -> [u64; N] {
        let mut bytes = Vec::new();
        let starts = tables.map(|table| {
            bytes.resize(bytes.len().next_multiple_of(8), 0u8);
            let start = bytes.len() as u64;
            bytes.extend_from_slice(table);
            start
        });
        done(self.delta.tables.grow(bytes.len(), 0));
        done(self.delta.tables.upload(&bytes));
        starts.map(|start| self.delta.tables.at() + start)
    }

    fn rule(&mut self, shape: &DeltaShape, work: &Work, sessions: &[u64], out: u64) {
        let [table, work_at] = self.tables([bytemuck::cast_slice(sessions), bytemuck::cast_slice(&work.numbers)]);
        self.launch_rule(shape, work_at, table, out, [shape.value_heads, sessions.len() / 9, 1]);
    }

    fn launch_rule(&self, shape: &DeltaShape, work: u64, sessions: u64, out: u64, blocks: [usize; 3]) {
        let scratch = &self.delta;
        let args: [Arg; 11] = [
            work.into(),
            shape.key_heads.into(),
            shape.key_dim.into(),
            shape.value_heads.into(),
            shape.value_dim.into(),
            shape.tiled.into(),
            sessions.into(),
            scratch.queries.at().into(),
            scratch.values.at().into(),
            scratch.betas.at().into(),
            out.into(),
        ];
        self.launch("delta_rule", blocks, 128, 2 * shape.key_dim + 2 * BLOCK, &args);
    }

    /// Moves what a round accepted to where it belongs.
    pub(super) fn keep_lines(&mut self, cache: &mut DeltaCache<D>, base: usize, path: &[usize]) {
        cache.cut(base + path.len());
        if cache.lines() == 0 || path.iter().enumerate().all(|(to, &from)| to == from) {
            return;
        }
        let rings: Vec<u64> = cache.rings().iter().flat_map(|&(at, width)| [at, width as u64]).collect();
        let path: Vec<u32> = path.iter().map(|&node| node as u32).collect();
        let [rings, moved] = self.tables([bytemuck::cast_slice(&rings), bytemuck::cast_slice(&path)]);
        let args = [rings.into(), cache.lines().into(), base.into(), moved.into(), path.len().into()];
        self.launch("delta_keep", [4, 1, 1], THREADS, 0, &args);
    }
}

/// The table of sessions, as in the kernels.
fn sessions<D: Driver>(
    spans: &[Span],
    caches: &mut [&mut Cache<D>],
    layer: usize,
    work: &[std::ops::Range<usize>],
    levels: impl Fn(usize) -> u64,
) -> Vec<u64> {
    let mut table = Vec::with_capacity(spans.len() * 9);
    for (index, (span, work)) in spans.iter().zip(work).enumerate() {
        let cache = caches[span.session].delta(layer);
        table.push(cache.state.at());
        table.extend(cache.rings().map(|(at, _)| at));
        table.extend([cache.lines as u64, work.start as u64, work.end as u64, levels(index)]);
    }
    table
}
