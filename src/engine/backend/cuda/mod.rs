//! The CUDA backend: kernels of our own over a device's memory.
//!
//! A row's results depend on that row alone: every kernel adds in an order that is fixed by the row, whatever the number
//! of rows, so a verify pass gives the logits of plain decoding bit by bit. This is why no library's matrix product is
//! used: those pick their way by the shape of the call.

mod attention;
mod cache;
mod choose;
mod delta;
pub mod driver;
mod error;
pub mod kernels;
pub mod nvidia;
pub mod nvrtc;
pub mod pack;
mod products;
mod rows;
mod store;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;

use super::delta::DeltaNet;
use super::{Backend, Best, Columns, HeadNorms, Heads, Input, Keeps, Rows, Store};
pub use cache::Cache;
use cache::Kept;
use delta::DeltaScratch;
use driver::{Arg, Driver, Grid, Memory, Room};
pub use error::CudaError;
use pack::Layout;
use rows::Table;

/// Threads of a block where nothing else decides.
const THREADS: usize = 256;

/// A weight vector on the device.
pub type Vector<D> = Arc<Memory<D>>;

/// Packed weights on the device.
#[derive(Debug)]
pub struct Matrix<D: Driver> {
    layout: Layout,
    memory: Memory<D>,
}

/// Activations `[rows, width]` on the device.
#[derive(Debug)]
pub struct Buf<D: Driver> {
    width: usize,
    memory: Memory<D>,
}

impl<D: Driver> Buf<D> {
    fn grow(&mut self, rows: usize) {
        let bytes = rows * self.width * 4;
        let keep = self.memory.len();
        done(self.memory.grow(bytes, keep));
    }

    fn row(&self, row: usize) -> u64 {
        self.memory.at() + (row * self.width * 4) as u64
    }
}

/// Memory for what one operation hands to the next.
#[derive(Debug)]
struct Scratch<D: Driver> {
    floats: Memory<D>,
    high: Memory<D>,
    low: Memory<D>,
    sums: Memory<D>,
    ids: Memory<D>,
    pieces: Memory<D>,
    peaks: Memory<D>,
    totals: Memory<D>,
    answers: Memory<D>,
}

/// The CUDA backend.
pub struct Cuda<D: Driver> {
    driver: Arc<D>,
    scratch: Scratch<D>,
    table: Table<D>,
    delta: DeltaScratch<D>,
    /// RoPE frequencies of the models, by their values.
    frequencies: Vec<(Vec<f32>, Memory<D>)>,
}

/// A device that fails in the middle of a pass leaves nothing to go on with; the scheduler tells every client.
fn done<T>(result: Result<T, CudaError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn bytes_of(values: &[u32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

impl<D: Driver> Cuda<D> {
    /// A backend on this device.
    pub fn new(driver: Arc<D>) -> Self {
        let none = || Memory::none(&driver);
        Self {
            scratch: Scratch {
                floats: none(),
                high: none(),
                low: none(),
                sums: none(),
                ids: none(),
                pieces: none(),
                peaks: none(),
                totals: none(),
                answers: none(),
            },
            table: Table::new(&driver),
            delta: DeltaScratch::new(&driver),
            frequencies: Vec::new(),
            driver,
        }
    }

    /// The device.
    pub fn driver(&self) -> &Arc<D> {
        &self.driver
    }

    fn launch(&self, kernel: &'static str, blocks: [usize; 3], threads: usize, floats: usize, args: &[Arg]) {
        if blocks.contains(&0) {
            return;
        }
        done(self.driver.launch(kernel, Grid { blocks, threads, shared: floats * 4 }, args));
    }

    /// Brings indices to the device for the next launch.
    fn indices(&mut self, indices: impl Iterator<Item = usize>) -> u64 {
        let ids: Vec<u32> = indices.map(|i| i as u32).collect();
        done(self.scratch.ids.grow(ids.len() * 4, 0));
        done(self.scratch.ids.upload(bytes_of(&ids)));
        self.scratch.ids.at()
    }

    fn frequencies(&mut self, values: &[f32]) -> u64 {
        if let Some((_, memory)) = self.frequencies.iter().find(|(known, _)| known == values) {
            return memory.at();
        }
        let memory = done(Memory::of(&self.driver, bytemuck::cast_slice(values)));
        let at = memory.at();
        self.frequencies.push((values.to_vec(), memory));
        at
    }
}

impl<D: Driver> Backend for Cuda<D> {
    type Matrix = Matrix<D>;
    type Vector = Vector<D>;
    type Buf = Buf<D>;
    type Cache = Cache<D>;

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "cuda".into(),
            name: self.driver.name(),
            threads: self.driver.processors(),
            kernels: self.driver.architecture(),
        }
    }

    fn read_bandwidth(&mut self, bytes: usize) -> f64 {
        let copies = 8;
        let (from, to) = (done(Memory::new(&self.driver, bytes)), done(Memory::new(&self.driver, bytes)));
        // A download of nothing but a byte waits for all that was asked for.
        let wait = || done(self.driver.download(to.at(), &mut [0]));
        done(self.driver.copy(from.at(), to.at(), bytes));
        wait();
        let clock = Instant::now();
        for _ in 0..copies {
            done(self.driver.copy(from.at(), to.at(), bytes));
        }
        wait();
        // A copy reads and writes.
        (2 * copies * bytes) as f64 / clock.elapsed().as_secs_f64()
    }

    fn room(&self) -> Option<Room> {
        self.driver.room().ok()
    }

    fn pack(&self, parts: &[TensorView<'_>], select: Option<&[u32]>, store: Store) -> Result<Matrix<D>, WeightsError> {
        let n = select.map_or_else(|| parts.iter().map(TensorView::rows).sum(), <[u32]>::len);
        let dtypes: Vec<_> = parts.iter().map(|p| p.dtype).collect();
        let layout = Layout::of(&dtypes, n, parts.first().map_or(0, TensorView::cols), store);
        let bytes = layout.pack(parts, select)?;
        Ok(Matrix { layout, memory: Memory::of(&self.driver, &bytes)? })
    }

    fn describe(&self, matrix: &Matrix<D>) -> (usize, &'static str) {
        (matrix.memory.len(), matrix.layout.label)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vector<D>, WeightsError> {
        Ok(Arc::new(Memory::of(&self.driver, bytemuck::cast_slice(&values))?))
    }

    fn buf(&self, width: usize) -> Buf<D> {
        Buf { width, memory: Memory::none(&self.driver) }
    }

    fn cache(&self, layers: &[Keeps<'_>], exact: bool) -> Cache<D> {
        Cache::new(&self.driver, layers, exact)
    }

    fn reserve(&self, cache: &mut Cache<D>, slots: usize) {
        done(cache.reserve(&self.driver, slots));
    }

    fn embed(&mut self, table: &Matrix<D>, ids: &[u32], scale: f32, out: &mut Buf<D>) {
        out.grow(ids.len());
        let at = self.indices(ids.iter().map(|&id| id as usize));
        let layout = &table.layout;
        let args = [
            table.memory.at().into(),
            Arg::Int(layout.format as i32),
            layout.k.into(),
            layout.tiles().into(),
            at.into(),
            scale.into(),
            out.memory.at().into(),
        ];
        self.launch("embed", [ids.len(), 1, 1], THREADS, 0, &args);
    }

    fn upload(&mut self, data: &[f32], out: &mut Buf<D>) {
        out.grow(data.len() / out.width);
        done(out.memory.upload(bytemuck::cast_slice(data)));
    }

    fn linear(
        &mut self,
        input: &Input<'_, Buf<D>, Vector<D>>,
        rows: usize,
        w: &Matrix<D>,
        out: &mut Buf<D>,
        add: bool,
    ) {
        self.multiply(input, rows, w, out, add);
    }

    fn norm(&mut self, x: &mut Buf<D>, rows: usize, weight: &Vector<D>, eps: f32) {
        let args = [x.memory.at().into(), x.width.into(), weight.at().into(), eps.into()];
        self.launch("rms_norm", [rows, 1, 1], THREADS, THREADS / 32, &args);
    }

    fn cap(&mut self, x: &mut Buf<D>, rows: usize, scale: f32, cap: Option<f32>) {
        let count = rows * x.width;
        let args = [x.memory.at().into(), Arg::Address(count as u64), scale.into(), cap.unwrap_or(0.0).into()];
        self.launch("cap", [count.div_ceil(THREADS), 1, 1], THREADS, 0, &args);
    }

    fn rotate_store(
        &mut self,
        x: &mut Buf<D>,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms<Vector<D>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
    ) {
        self.turn(x, columns, heads, norms, rows, layer, caches);
    }

    fn attend(
        &mut self,
        x: &Buf<D>,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
        out: &mut Buf<D>,
    ) {
        self.look(x, q, heads, rows, layer, caches, out);
    }

    fn convolve(
        &mut self,
        x: &Buf<D>,
        kernels: &Buf<D>,
        at: usize,
        base: &Vector<D>,
        group: usize,
        rows: &Rows,
        out: &mut Buf<D>,
        add: bool,
    ) {
        out.grow(rows.len());
        let before = self.indices(rows.rows.iter().map(|row| row.slot - row.prefix.end));
        let args = [
            x.memory.at().into(),
            x.width.into(),
            kernels.memory.at().into(),
            kernels.width.into(),
            at.into(),
            base.at().into(),
            (base.len() / 4 / x.width).into(),
            group.into(),
            before.into(),
            out.memory.at().into(),
            add.into(),
        ];
        self.launch("convolve", [rows.len(), 1, 1], THREADS, 0, &args);
    }

    fn gate(&mut self, x: &mut Buf<D>, rows: usize, gates: &Buf<D>, column: usize) {
        let args = [x.memory.at().into(), x.width.into(), gates.memory.at().into(), gates.width.into(), column.into()];
        self.launch("gate", [rows, 1, 1], THREADS, 0, &args);
    }

    fn delta(
        &mut self,
        x: &Buf<D>,
        gates: &Buf<D>,
        net: &DeltaNet<Vector<D>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
        out: &mut Buf<D>,
    ) {
        self.recall(x, gates, net, rows, layer, caches, out);
    }

    fn gather(&mut self, x: &Buf<D>, pick: &[usize], out: &mut Buf<D>, at: usize) {
        out.grow(at + pick.len());
        let picks = self.indices(pick.iter().copied());
        let args = [x.memory.at().into(), picks.into(), out.memory.at().into(), x.width.into(), at.into()];
        self.launch("gather", [pick.len(), 1, 1], THREADS, 0, &args);
    }

    fn place(&mut self, x: &Buf<D>, rows: usize, out: &mut Buf<D>, column: usize) {
        out.grow(rows);
        let args = [x.memory.at().into(), x.width.into(), out.memory.at().into(), out.width.into(), column.into()];
        self.launch("place", [rows, 1, 1], THREADS, 0, &args);
    }

    fn add(&mut self, x: &Buf<D>, rows: usize, out: &mut Buf<D>) {
        out.grow(rows);
        let count = rows * x.width;
        let args = [x.memory.at().into(), Arg::Address(count as u64), out.memory.at().into()];
        self.launch("add", [count.div_ceil(THREADS), 1, 1], THREADS, 0, &args);
    }

    fn read<'a>(&'a self, x: &'a Buf<D>, rows: Range<usize>) -> Cow<'a, [f32]> {
        let mut out = vec![0.0f32; rows.len() * x.width];
        done(self.driver.download(x.row(rows.start), bytemuck::cast_slice_mut(&mut out)));
        Cow::Owned(out)
    }

    fn best(&mut self, x: &Buf<D>, rows: usize) -> Vec<Best> {
        self.find_best(x, rows)
    }

    fn top(&mut self, x: &Buf<D>, rows: Range<usize>, k: usize) -> Vec<(u32, f32)> {
        self.find_top(x, rows, k)
    }

    fn keep(&mut self, cache: &mut Cache<D>, base: usize, path: &[usize]) {
        for kept in &mut cache.kept {
            if let Kept::Delta(delta) = kept {
                self.keep_lines(delta, base, path);
            }
        }
        if cache.layers == 0 || path.iter().enumerate().all(|(to, &from)| to == from) {
            return;
        }
        let pages = self.table.pages_of(cache);
        let at = self.indices(path.iter().copied());
        let args = [
            pages.into(),
            base.into(),
            at.into(),
            path.len().into(),
            cache.kv_heads.into(),
            cache.head_dim.into(),
            cache.exact.into(),
        ];
        self.launch("keep", [cache.layers * 2, 1, 1], THREADS, 0, &args);
    }
}
