//! The CPU backend: packed weights, a pool of threads, F32 caches.
#![allow(unsafe_code)]

mod attention;
mod gemm;
mod lanes;
mod level;
mod limits;
mod pack;
mod pool;
mod vnni;

use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;

use super::{Backend, Best, Columns, HeadNorms, Heads, Input, Rows, Store};
use attention::{Cache, Query, Scratch};
use gemm::{Acts, ActsView, Sink};
use lanes::LANES;
use level::Level;
use pack::{Format, Matrix, TILE};
use pool::Pool;

pub use lanes::BLOCK;

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

/// A slice that several threads of one job write to, each to places of its own.
struct Shared<T> {
    start: *mut T,
    len: usize,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}
// SAFETY: every use splits the elements so that no two threads touch the same one between two barriers.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    fn new(slice: &mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len() }
    }

    /// SAFETY: no other thread touches `from..from + len` meanwhile.
    unsafe fn slice<'a>(self, from: usize, len: usize) -> &'a mut [T] {
        assert!(from + len <= self.len, "a kernel reached past its buffer");
        // SAFETY: inside the slice by the check; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }

    /// SAFETY: no thread writes meanwhile.
    unsafe fn all<'a>(self) -> &'a [T] {
        // SAFETY: the very slice this was made from.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// SAFETY: no other thread touches this element meanwhile.
    unsafe fn set(self, index: usize, value: T) {
        debug_assert!(index < self.len);
        // SAFETY: callers stay inside the slice (checked in debug builds).
        unsafe { self.start.add(index).write(value) };
    }
}

struct Output {
    data: Shared<f32>,
    width: usize,
    add: bool,
}

impl Sink for Output {
    fn put(&self, row: usize, column: usize, values: &[f32; TILE]) {
        let count = TILE.min(self.width - column);
        // SAFETY: a tile's columns belong to the thread that computes the tile; rows are inside the grown buffer.
        let out = unsafe { self.data.slice(row * self.width + column, count) };
        if self.add {
            for (o, v) in out.iter_mut().zip(values) {
                *o += v;
            }
        } else {
            out.copy_from_slice(&values[..count]);
        }
    }
}

/// The CPU backend.
pub struct Cpu {
    level: Level,
    pool: Pool,
    acts: Acts,
    scratch: Vec<Scratch>,
    angles: Vec<(f32, f32)>,
}

/// Number of threads when none is asked for: the processors this process may use.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(16)
}

impl Cpu {
    /// A backend with `threads` threads (0: one a processor).
    pub fn new(threads: usize) -> Self {
        let threads = if threads == 0 { default_threads() } else { threads };
        Self {
            level: Level::detect(),
            pool: Pool::new(threads),
            acts: Acts::default(),
            scratch: (0..threads).map(|_| Scratch::default()).collect(),
            angles: Vec::new(),
        }
    }
}

/// Rotates one head in place.
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
    type Buf = Buf;
    type Cache = Cache;

    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: "cpu".into(), name: cpu_name(), threads: self.pool.count(), kernels: self.level.to_string() }
    }

    fn pack(&self, parts: &[TensorView<'_>], select: Option<&[u32]>, store: Store) -> Result<Matrix, WeightsError> {
        Matrix::pack(parts, select, store)
    }

    fn describe(&self, matrix: &Matrix) -> (usize, &'static str) {
        (matrix.size(), matrix.label)
    }

    fn buf(&self, width: usize) -> Buf {
        Buf { width, data: Vec::new() }
    }

    fn cache(&self, layers: usize, heads: &Heads) -> Cache {
        Cache::new(layers, heads.kv_heads, heads.head_dim)
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
        self.acts.shape(rows, w.k, w.format);
        let level = self.level;
        let k = w.k;
        let blocks = k / BLOCK;
        let output = Output { data: Shared::new(&mut out.data), width: w.n, add };
        let floats = Shared::new(&mut self.acts.floats);
        let q = Shared::new(&mut self.acts.q);
        let scale = Shared::new(&mut self.acts.scale);
        let sum = Shared::new(&mut self.acts.sum);
        self.pool.run(&|worker| {
            let mut local = Vec::new();
            for row in worker.share(rows, 1) {
                // SAFETY: rows of the activation store are split over the threads, and read only after the barrier.
                let (floats, q, scale, sum) = unsafe {
                    if w.format == Format::F32 {
                        (floats.slice(row * k, k), q.slice(0, 0), scale.slice(0, 0), sum.slice(0, 0))
                    } else {
                        local.resize(k, 0.0);
                        (
                            &mut local[..],
                            q.slice(row * k, k),
                            scale.slice(row * blocks, blocks),
                            sum.slice(row * blocks, blocks),
                        )
                    }
                };
                match input {
                    Input::Plain(x) => floats.copy_from_slice(&x.row(row)[..k]),
                    Input::Normed { x, weight, eps } => lanes::rms_norm(level, x.row(row), weight, *eps, floats),
                    Input::Gated(x) => lanes::gated(level, x.row(row), floats),
                }
                if w.format != Format::F32 {
                    lanes::quantise(level, floats, q, scale, sum);
                }
            }
            worker.barrier();
            // SAFETY: after the barrier nobody writes to the activation store.
            let acts = unsafe { ActsView { floats: floats.all(), q: q.all(), scale: scale.all(), sum: sum.all() } };
            gemm::product(level, w, worker.share(w.tiles(), 1), acts, rows, &output);
        });
    }

    fn norm(&mut self, x: &mut Buf, rows: usize, weight: &[f32], eps: f32) {
        let mut copy = vec![0.0; x.width];
        for row in x.data.chunks_exact_mut(x.width).take(rows) {
            copy.copy_from_slice(row);
            lanes::rms_norm(self.level, &copy, weight, eps, row);
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
        let half = dim / 2;
        // sin and cos once a row; every layer of a forward has the same ones, but they cost little.
        self.angles.clear();
        for row in &rows.rows {
            let position = row.position as f32;
            self.angles.extend(heads.inv_freq.iter().map(|f| (position * f).sin_cos()));
        }
        let angles = &self.angles;
        let width = x.width;
        let data = Shared::new(&mut x.data);
        let places = caches[0].places();
        let stores: Vec<(Shared<f32>, Shared<f32>)> = caches
            .iter_mut()
            .map(|c| {
                let layer = &mut c.layers[layer];
                (Shared::new(&mut layer.k), Shared::new(&mut layer.v))
            })
            .collect();
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
            let (keys, values) = stores[row.session];
            for head in 0..heads.kv_heads {
                let (k, v) = (columns.k + head * dim, columns.v + head * dim);
                let at = places.key(row.slot, head);
                assert!(at + (dim - 1) * LANES < keys.len, "a row's slot has no room in its cache");
                // SAFETY: rows of one session write different slots, so nobody else touches these elements.
                unsafe {
                    for (d, &value) in x[k..k + dim].iter().enumerate() {
                        keys.set(at + d * LANES, value);
                    }
                    values.slice(places.value(row.slot, head), dim).copy_from_slice(&x[v..v + dim]);
                }
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
        caches: &[&mut Cache],
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
            for item in worker.share(rows.len() * heads.heads, 1) {
                let (index, head) = (item / heads.heads, item % heads.heads);
                let row = &rows.rows[index];
                let query = Query {
                    q: &x.row(index)[q + head * dim..q + (head + 1) * dim],
                    kv_head: head / group,
                    prefix: row.prefix.clone(),
                    mask: rows.mask(index),
                };
                // SAFETY: each (row, head) has its own columns.
                let out = unsafe { data.slice(index * width + head * dim, dim) };
                attention::attend(level, caches[row.session], layer, &query, scratch, out);
            }
        });
    }

    fn gather(&mut self, x: &Buf, pick: &[usize], out: &mut Buf) {
        out.grow(pick.len());
        for (&from, to) in pick.iter().zip(out.data.chunks_exact_mut(x.width)) {
            to.copy_from_slice(x.row(from));
        }
    }

    fn place(&mut self, x: &Buf, rows: usize, out: &mut Buf, column: usize) {
        out.grow(rows);
        for (i, to) in out.data.chunks_exact_mut(out.width).take(rows).enumerate() {
            to[column..column + x.width].copy_from_slice(x.row(i));
        }
    }

    fn row<'a>(&'a self, x: &'a Buf, row: usize) -> &'a [f32] {
        x.row(row)
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
