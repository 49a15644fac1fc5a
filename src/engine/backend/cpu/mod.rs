//! The CPU backend: packed weights, a pool of threads, caches in F16 or F32.
#![allow(unsafe_code)]

mod acts;
mod amx;
mod attention;
mod attention256;
mod attention512;
mod avx2;
mod cache;
mod convolve;
mod delta;
mod delta_rule;
mod gemm;
mod lanes;
mod lanes512;
mod level;
mod limits;
mod pack;
mod pool;
mod shared;
mod slab;
mod stretch;
mod vnni;

use std::borrow::Cow;
use std::ops::Range;

use crate::engine::sampler::top_k;
use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;

use super::delta::DeltaNet;
use super::{Backend, Best, Columns, HeadNorms, Heads, Input, Keeps, Rows, Store};
use acts::Acts;
use attention::{GROUP, Query, Scratch};
use cache::Cache;
use delta::DeltaScratch;
use level::Level;
use pack::{Format, Matrix};
pub(super) use pool::Pool;
use shared::Shared;
use slab::Slab;
use stretch::{Output, Sharing, Stretch, halves};

pub use lanes::BLOCK;
pub use pack::planned;

/// Rows below this are rotated by the calling thread alone: handing them out would cost more.
const ROTATE_ALONE: usize = 4;

/// Activations `[rows, width]`.
#[derive(Debug)]
pub struct Buf {
    width: usize,
    data: Vec<f32>,
}

impl Buf {
    fn grow(&mut self, rows: usize) {
        if self.data.len() < rows * self.width {
            self.data.resize(rows * self.width, 0.0);
        }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.width..(row + 1) * self.width]
    }
}

/// The CPU backend.
pub struct Cpu {
    level: Level,
    pool: Pool,
    slab: Slab,
    acts: Acts,
    /// Every thread's own, for a single row.
    own: Vec<Acts>,
    floats: Vec<Vec<f32>>,
    scratch: Vec<Scratch>,
    angles: Angles,
    delta: DeltaScratch,
}

/// Sine and cosine of every row's angles; the layers of a forward share them.
#[derive(Default)]
struct Angles {
    positions: Vec<usize>,
    frequencies: Vec<f32>,
    values: Vec<(f32, f32)>,
}

impl Angles {
    fn of(&mut self, rows: &Rows, frequencies: &[f32]) {
        let same = self.frequencies == frequencies
            && self.positions.len() == rows.len()
            && self.positions.iter().zip(&rows.rows).all(|(&p, row)| p == row.position);
        if same {
            return;
        }
        self.frequencies = frequencies.to_vec();
        self.positions.clear();
        self.positions.extend(rows.rows.iter().map(|row| row.position));
        self.values.clear();
        for row in &rows.rows {
            let position = row.position as f32;
            self.values.extend(frequencies.iter().map(|f| (position * f).sin_cos()));
        }
    }
}

/// Number of threads when none is asked for: the processors this process may use.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(16)
}

impl Cpu {
    /// Threads where so many are asked for: 0 is one a processor.
    pub fn threads(asked: usize) -> usize {
        if asked == 0 { default_threads() } else { asked }
    }

    /// A backend with `threads` threads (0: one a processor).
    pub fn new(threads: usize) -> Self {
        let threads = Self::threads(threads);
        Self {
            level: Level::detect(),
            pool: Pool::new(threads),
            slab: Slab::default(),
            acts: Acts::default(),
            own: (0..threads).map(|_| Acts::default()).collect(),
            floats: vec![Vec::new(); threads],
            scratch: (0..threads).map(|_| Scratch::default()).collect(),
            angles: Angles::default(),
            delta: DeltaScratch::default(),
        }
    }
}

/// Rotates one head in place, or the first elements of it where there are fewer angles.
fn rotate(head: &mut [f32], angles: &[(f32, f32)], interleaved: bool) {
    let half = angles.len();
    for (j, &(sin, cos)) in angles.iter().enumerate() {
        let (a, b) = if interleaved { (2 * j, 2 * j + 1) } else { (j, j + half) };
        let (x, y) = (head[a], head[b]);
        head[a] = x * cos - y * sin;
        head[b] = y * cos + x * sin;
    }
}

impl Backend for Cpu {
    type Matrix = Matrix;
    type Vector = Vec<f32>;
    type Buf = Buf;
    type Cache = Cache;

    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: "cpu".into(), name: cpu_name(), threads: self.pool.count(), kernels: self.level.to_string() }
    }

    fn read_bandwidth(&mut self, bytes: usize) -> f64 {
        self.measure_bandwidth(bytes)
    }

    fn integer_peak(&mut self) -> Option<f64> {
        self.measure_integers()
    }

    fn pack(&self, parts: &[TensorView<'_>], select: Option<&[u32]>, store: Store) -> Result<Matrix, WeightsError> {
        Matrix::pack(&self.slab, parts, select, store)
    }

    fn describe(&self, matrix: &Matrix) -> (usize, &'static str) {
        (matrix.size(), matrix.label)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vec<f32>, WeightsError> {
        Ok(values)
    }

    fn buf(&self, width: usize) -> Buf {
        Buf { width, data: Vec::new() }
    }

    fn cache(&self, layers: &[Keeps<'_>], exact: bool) -> Cache {
        Cache::new(layers, exact)
    }

    fn reserve(&self, cache: &mut Cache, slots: usize) {
        cache.reserve(slots);
    }

    fn embed(&mut self, table: &Matrix, ids: &[u32], scale: f32, out: &mut Buf) {
        out.grow(ids.len());
        for (&id, row) in ids.iter().zip(out.data.chunks_exact_mut(table.k)) {
            table.row(id as usize, row);
            if scale != 1.0 {
                for v in row {
                    *v *= scale;
                }
            }
        }
    }

    fn upload(&mut self, data: &[f32], out: &mut Buf) {
        out.grow(data.len() / out.width);
        out.data[..data.len()].copy_from_slice(data);
    }

    fn linear(&mut self, input: &Input<'_, Buf>, rows: usize, w: &Matrix, out: &mut Buf, add: bool) {
        if rows == 0 {
            return;
        }
        out.grow(rows);
        let level = self.level;
        let output = Output { data: Shared::new(&mut out.data), width: w.n, add };
        let floats = Shared::new(&mut self.floats);
        let exact = w.format == Format::F32;
        let stretch = |columns| Stretch { level, input, rows, k: w.k, exact, columns };
        if rows == 1 && !matches!(input, Input::Gated(_)) {
            // Every thread prepares the row for itself: waiting for one that does it would take longer.
            let own = Shared::new(&mut self.own);
            self.pool.run(&|worker| {
                // SAFETY: one entry a thread.
                let (acts, floats) = unsafe { (&mut own.slice(worker.id, 1)[0], &mut floats.slice(worker.id, 1)[0]) };
                acts.shape(1, w.k, w.format);
                stretch(0..w.k).prepare(&Sharing::of(acts), floats);
                for tiles in halves(worker, w.tiles()) {
                    gemm::product(level, w, tiles, acts.view(1), 1, &output);
                }
            });
            return;
        }
        self.acts.shape(rows, w.k, w.format);
        let sharing = Sharing::of(&mut self.acts);
        self.pool.run(&|worker| {
            // SAFETY: one entry a thread.
            let floats = unsafe { &mut floats.slice(worker.id, 1)[0] };
            // Threads split the columns, not the rows: what one writes then shares no cache line with the others, and
            // gated columns are those that it has just computed.
            stretch(worker.share(w.k, BLOCK)).prepare(&sharing, floats);
            worker.barrier();
            // SAFETY: after the barrier nobody writes to the activation store.
            let acts = unsafe { sharing.view(rows) };
            for tiles in halves(worker, w.tiles()) {
                gemm::product(level, w, tiles, acts, rows, &output);
            }
        });
    }

    fn norm(&mut self, x: &mut Buf, rows: usize, weight: &Vec<f32>, eps: f32) {
        let mut copy = vec![0.0; x.width];
        for row in x.data.chunks_exact_mut(x.width).take(rows) {
            copy.copy_from_slice(row);
            lanes::rms_norm(self.level, &copy, weight, eps, row);
        }
    }

    fn cap(&mut self, x: &mut Buf, rows: usize, scale: f32, cap: Option<f32>) {
        for v in &mut x.data[..rows * x.width] {
            *v *= scale;
            if let Some(cap) = cap {
                *v = cap * (*v / cap).tanh();
            }
        }
    }

    fn rotate_store(
        &mut self,
        x: &mut Buf,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache],
    ) {
        let level = self.level;
        let dim = heads.head_dim;
        let half = heads.inv_freq.len();
        self.angles.of(rows, &heads.inv_freq);
        let angles = &self.angles.values;
        let width = x.width;
        let data = Shared::new(&mut x.data);
        let stores: Vec<cache::Writer> = caches.iter_mut().map(|c| c.writer(layer)).collect();
        let one = |index: usize| {
            let row = &rows.rows[index];
            let angles = &angles[index * half..(index + 1) * half];
            // SAFETY: each row is handled by one thread.
            let x = unsafe { data.slice(index * width, width) };
            let mut copy = vec![0.0f32; dim];
            let mut prepare = |at: usize, norm: &Option<Vec<f32>>| {
                let head = &mut x[at..at + dim];
                if let Some(weight) = norm {
                    copy[..dim].copy_from_slice(head);
                    lanes::rms_norm(level, &copy[..dim], weight, heads.eps, head);
                }
                rotate(head, angles, heads.interleaved);
            };
            if let Some(q) = columns.q {
                for head in 0..heads.heads {
                    prepare(q + head * dim, &norms.q);
                }
            }
            for head in 0..heads.kv_heads {
                prepare(columns.k + head * dim, &norms.k);
            }
            for head in 0..heads.kv_heads {
                let (k, v) = (columns.k + head * dim, columns.v + head * dim);
                // SAFETY: rows of one session write different slots, so nobody else touches these elements.
                unsafe { stores[row.session].put(row.slot, head, &x[k..k + dim], &x[v..v + dim]) };
            }
        };
        if rows.len() <= ROTATE_ALONE {
            (0..rows.len()).for_each(one);
        } else {
            self.pool.run(&|worker| worker.share(rows.len(), 1).for_each(one));
        }
    }

    fn attend(
        &mut self,
        x: &Buf,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache],
        out: &mut Buf,
    ) {
        out.grow(rows.len());
        let level = self.level;
        let dim = heads.head_dim;
        let group = heads.heads / heads.kv_heads;
        let width = out.width;
        let data = Shared::new(&mut out.data);
        let caches: Vec<&Cache> = caches.iter().map(|c| &**c).collect();
        let scratch = Shared::new(&mut self.scratch);
        self.pool.run(&|worker| {
            // SAFETY: one scratch a thread.
            let scratch = &mut unsafe { scratch.slice(worker.id, 1) }[0];
            // Items are ordered by KV head, row, query head. A thread takes a stretch of them, and in it those together
            // that read the same keys and values.
            let a_head = rows.len() * group;
            let mut items = worker.share(a_head * heads.kv_heads, 1);
            while !items.is_empty() {
                let kv_head = items.start / a_head;
                let row = &rows.rows[items.start % a_head / group];
                let mut queries: Vec<Query<'_>> = Vec::with_capacity(GROUP);
                while queries.len() < GROUP && !items.is_empty() && items.start / a_head == kv_head {
                    let (index, head) = (items.start % a_head / group, kv_head * group + items.start % group);
                    let other = &rows.rows[index];
                    if (other.session, &other.prefix) != (row.session, &row.prefix) {
                        break;
                    }
                    queries.push(Query {
                        q: &x.row(index)[q + head * dim..q + (head + 1) * dim],
                        mask: rows.mask(index),
                        // SAFETY: each (row, head) has its own columns and is one thread's.
                        out: unsafe { data.slice(index * width + head * dim, dim) },
                    });
                    items.start += 1;
                }
                let cache = caches[row.session];
                attention::attend(level, cache, layer, kv_head, row.prefix.clone(), &mut queries, scratch);
            }
        });
    }

    fn convolve(
        &mut self,
        x: &Buf,
        kernels: &Buf,
        at: usize,
        base: &Vec<f32>,
        group: usize,
        rows: &Rows,
        out: &mut Buf,
        add: bool,
    ) {
        convolve::run(x, kernels, at, base, group, rows, out, add);
    }

    fn gate(&mut self, x: &mut Buf, rows: usize, gates: &Buf, column: usize) {
        let (level, width) = (self.level, x.width);
        let data = Shared::new(&mut x.data);
        let one = |row: usize| {
            // SAFETY: each row is handled by one thread.
            let x = unsafe { data.slice(row * width, width) };
            delta_rule::gate(level, x, &gates.row(row)[column..column + width]);
        };
        if rows <= ROTATE_ALONE {
            (0..rows).for_each(one);
        } else {
            self.pool.run(&|worker| worker.share(rows, 1).for_each(one));
        }
    }

    fn delta(
        &mut self,
        x: &Buf,
        gates: &Buf,
        net: &DeltaNet,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache],
        out: &mut Buf,
    ) {
        delta::run(self.level, &mut self.pool, &mut self.delta, x, gates, net, rows, layer, caches, out);
    }

    fn gather(&mut self, x: &Buf, pick: &[usize], out: &mut Buf, at: usize) {
        out.grow(at + pick.len());
        for (&from, to) in pick.iter().zip(out.data[at * x.width..].chunks_exact_mut(x.width)) {
            to.copy_from_slice(x.row(from));
        }
    }

    fn place(&mut self, x: &Buf, rows: usize, out: &mut Buf, column: usize) {
        out.grow(rows);
        for (i, to) in out.data.chunks_exact_mut(out.width).take(rows).enumerate() {
            to[column..column + x.width].copy_from_slice(x.row(i));
        }
    }

    fn add(&mut self, x: &Buf, rows: usize, out: &mut Buf) {
        out.grow(rows);
        for (o, v) in out.data.iter_mut().zip(&x.data[..rows * x.width]) {
            *o += v;
        }
    }

    fn read<'a>(&'a self, x: &'a Buf, rows: Range<usize>) -> Cow<'a, [f32]> {
        Cow::Borrowed(&x.data[rows.start * x.width..rows.end * x.width])
    }

    fn best(&mut self, x: &Buf, rows: usize) -> Vec<Best> {
        let level = self.level;
        let mut out = vec![Best { index: 0, value: 0.0, second: 0.0 }; rows];
        let to = Shared::new(&mut out);
        self.pool.run(&|worker| {
            for row in worker.share(rows, 1) {
                // SAFETY: one row a thread.
                unsafe { to.set(row, best_of(level, x.row(row))) };
            }
        });
        out
    }

    fn top(&mut self, x: &Buf, rows: Range<usize>, k: usize) -> Vec<(u32, f32)> {
        let k = k.min(x.width);
        let mut out = vec![(0, 0.0); rows.len() * k];
        let to = Shared::new(&mut out);
        self.pool.run(&|worker| {
            for i in worker.share(rows.len(), 1) {
                // SAFETY: each row's entries are one thread's.
                unsafe { to.slice(i * k, k) }.copy_from_slice(&top_k(x.row(rows.start + i), k));
            }
        });
        out
    }

    fn keep(&mut self, cache: &mut Cache, base: usize, path: &[usize]) {
        cache.keep(base, path);
    }
}

fn best_of(level: Level, x: &[f32]) -> Best {
    let value = lanes::maximum(level, x);
    let index = x.iter().position(|&v| v == value).unwrap_or(0);
    let (before, after) = x.split_at(index);
    let second = lanes::maximum(level, before).max(lanes::maximum(level, after.get(1..).unwrap_or(&[])));
    Best { index: index as u32, value, second }
}

/// `ln Σ e^x` of a row, by the kernels of this processor.
pub fn log_sum_exp(x: &[f32]) -> f32 {
    lanes::log_sum_exp(Level::detect(), x)
}

fn cpu_name() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
