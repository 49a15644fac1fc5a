//! The CUDA backend: kernels of our own over a device's memory.
//!
//! A row's results depend on that row alone: every kernel adds in an order that is fixed by the row, whatever the number
//! of rows, so a verify pass gives the logits of plain decoding bit by bit. This is why no library's matrix product is
//! used: those pick their way by the shape of the call.

mod delta;
pub mod driver;
mod error;
pub mod kernels;
pub mod nvidia;
pub mod nvrtc;
pub mod pack;
mod rows;
mod store;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::engine::sampler::top_k;
use crate::engine::weights::{TensorView, WeightsError};
use crate::protocol::state::DeviceInfo;

use super::delta::DeltaNet;
use super::{Backend, Best, Columns, HeadNorms, Heads, Input, Keeps, Rows, Store};
use delta::{DeltaCache, DeltaScratch};
use driver::{Arg, Driver, Grid, Memory, Room};
pub use error::CudaError;
use pack::{Format, Layout};
use rows::{PAGE_SLOTS, Table};

/// Threads of a block where nothing else decides.
const THREADS: usize = 256;
/// Threads of a block that looks for the best entries of a row.
const SEARCH_THREADS: usize = 512;
/// Most entries that the device sorts; beyond, the host does.
const MOST_TOP: usize = 1024;
/// Slots of a piece of attention, as in the kernel.
const PIECE: usize = 256;
/// Query heads that share a piece, as in the kernel.
const GROUP: usize = 8;
/// Bytes that the pieces of attention may take before rows go in several launches.
pub const PIECES_ROOM: usize = 64 << 20;

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

/// What a layer keeps.
#[derive(Debug)]
enum Kept<D: Driver> {
    /// Keys and values: which of the layers in a page it is.
    Attention(usize),
    /// A recurrent state.
    Delta(Box<DeltaCache<D>>),
}

/// What one session keeps: keys and values in pages of [`PAGE_SLOTS`] slots, each for all layers; recurrent states.
#[derive(Debug)]
pub struct Cache<D: Driver> {
    pages: Vec<Memory<D>>,
    kept: Vec<Kept<D>>,
    /// Layers in a page.
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    exact: bool,
}

impl<D: Driver> Cache<D> {
    fn page_bytes(&self) -> usize {
        page_bytes(self.layers, self.kv_heads * self.head_dim, self.exact)
    }

    /// A layer's place in the pages.
    fn attention(&self, layer: usize) -> usize {
        match self.kept[layer] {
            Kept::Attention(index) => index,
            Kept::Delta(_) => unreachable!("attention in a layer that keeps a recurrent state"),
        }
    }

    fn delta(&mut self, layer: usize) -> &mut DeltaCache<D> {
        match &mut self.kept[layer] {
            Kept::Delta(cache) => cache,
            Kept::Attention(_) => unreachable!("a recurrent state in a layer that keeps keys and values"),
        }
    }
}

/// Bytes of a page of `width` keys and as many values a slot and layer.
pub fn page_bytes(layers: usize, width: usize, exact: bool) -> usize {
    layers * 2 * PAGE_SLOTS * width * if exact { 4 } else { 2 }
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

    /// Makes the input of a product: rows in F32 (`split` off) or as sums of two BF16.
    fn prepare(&mut self, input: &Input<'_, Buf<D>, Memory<D>>, rows: usize, k: usize, split: bool) {
        let padded = k.next_multiple_of(32);
        let scratch = &mut self.scratch;
        if split {
            done(scratch.high.grow(rows * padded * 2, 0));
            done(scratch.low.grow(rows * padded * 2, 0));
            done(scratch.sums.grow(rows * padded / 32 * 4, 0));
        } else {
            done(scratch.floats.grow(rows * k * 4, 0));
        }
        let (x, kind, weight, eps) = match input {
            Input::Plain(x) => (x, 0, 0, 0.0),
            Input::Normed { x, weight, eps } => (x, 1, weight.at(), *eps),
            Input::Gated(x) => (x, 2, 0, 0.0),
        };
        let floats = if split { 0 } else { self.scratch.floats.at() };
        let args = [
            x.memory.at().into(),
            x.width.into(),
            Arg::Int(kind),
            weight.into(),
            eps.into(),
            k.into(),
            padded.into(),
            floats.into(),
            self.scratch.high.at().into(),
            self.scratch.low.at().into(),
            self.scratch.sums.at().into(),
        ];
        self.launch("prepare", [rows, 1, 1], THREADS, THREADS / 32, &args);
    }
}

/// The kernel for a product of so many rows, and the rows that one of its blocks takes.
fn product(format: Format, rows: usize) -> (&'static str, usize) {
    let names: [&'static str; 3] = match format {
        Format::F32 => return if rows == 1 { ("linear_f32_1", 1) } else { ("linear_f32_8", 8) },
        Format::F16 => ["linear_f16_1", "linear_f16_4", "linear_f16_4"],
        Format::BF16 => ["linear_bf16_1", "linear_bf16_2", "linear_bf16_4"],
        Format::Q8 => ["linear_q8_1", "linear_q8_2", "linear_q8_4"],
        Format::Q4 => ["linear_q4_1", "linear_q4_2", "linear_q4_4"],
    };
    match rows {
        ..=8 => (names[0], 8),
        9..=16 if names[1] != names[2] => (names[1], 16),
        _ => (names[2], 32),
    }
}

impl<D: Driver> Backend for Cuda<D> {
    type Matrix = Matrix<D>;
    type Vector = Memory<D>;
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

    fn vector(&self, values: Vec<f32>) -> Result<Memory<D>, WeightsError> {
        Ok(Memory::of(&self.driver, bytemuck::cast_slice(&values))?)
    }

    fn buf(&self, width: usize) -> Buf<D> {
        Buf { width, memory: Memory::none(&self.driver) }
    }

    fn cache(&self, layers: &[Keeps<'_>], exact: bool) -> Cache<D> {
        let mut cache = Cache { pages: Vec::new(), kept: Vec::new(), layers: 0, kv_heads: 0, head_dim: 0, exact };
        for layer in layers {
            cache.kept.push(match layer {
                Keeps::Attention(heads) => {
                    (cache.kv_heads, cache.head_dim) = (heads.kv_heads, heads.head_dim);
                    cache.layers += 1;
                    Kept::Attention(cache.layers - 1)
                }
                Keeps::Delta(shape) => Kept::Delta(Box::new(DeltaCache::new(&self.driver, shape))),
            });
        }
        cache
    }

    fn reserve(&self, cache: &mut Cache<D>, slots: usize) {
        while cache.layers > 0 && cache.pages.len() * PAGE_SLOTS < slots {
            let page = done(Memory::new(&self.driver, cache.page_bytes()));
            cache.pages.push(page);
        }
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
        input: &Input<'_, Buf<D>, Memory<D>>,
        rows: usize,
        w: &Matrix<D>,
        out: &mut Buf<D>,
        add: bool,
    ) {
        if rows == 0 {
            return;
        }
        out.grow(rows);
        let layout = &w.layout;
        let (kernel, rows_a_block) = product(layout.format, rows);
        let groups = rows.div_ceil(rows_a_block);
        if layout.format == Format::F32 {
            let x = match input {
                Input::Plain(x) if x.width == layout.k => x.memory.at(),
                _ => {
                    self.prepare(input, rows, layout.k, false);
                    self.scratch.floats.at()
                }
            };
            let args = [
                w.memory.at().into(),
                x.into(),
                out.memory.at().into(),
                layout.n.into(),
                layout.k.into(),
                rows.into(),
                add.into(),
            ];
            self.launch(kernel, [layout.n.div_ceil(THREADS / 32), groups, 1], THREADS, 0, &args);
            return;
        }
        self.prepare(input, rows, layout.k, true);
        let args = [
            w.memory.at().into(),
            self.scratch.high.at().into(),
            self.scratch.low.at().into(),
            self.scratch.sums.at().into(),
            out.memory.at().into(),
            layout.n.into(),
            layout.blocks().into(),
            rows.into(),
            add.into(),
        ];
        // A float a warp, row and feature of the block.
        let floats = THREADS / 32 * rows_a_block * 16;
        self.launch(kernel, [layout.tiles(), groups, 1], THREADS, floats, &args);
    }

    fn norm(&mut self, x: &mut Buf<D>, rows: usize, weight: &Memory<D>, eps: f32) {
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
        norms: &HeadNorms<Memory<D>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
    ) {
        let Some(first) = caches.first() else { return };
        let (exact, layer) = (first.exact, first.attention(layer));
        let frequencies = self.frequencies(&heads.inv_freq);
        self.table.fill(rows, caches);
        let queries = columns.q.map_or(0, |_| heads.heads);
        let norm = |weight: &Option<Memory<D>>| weight.as_ref().map_or(0, Memory::at);
        let args = [
            x.memory.at().into(),
            x.width.into(),
            columns.q.unwrap_or(0).into(),
            columns.k.into(),
            columns.v.into(),
            queries.into(),
            heads.kv_heads.into(),
            heads.head_dim.into(),
            norm(&norms.q).into(),
            norm(&norms.k).into(),
            heads.eps.into(),
            frequencies.into(),
            heads.inv_freq.len().into(),
            heads.interleaved.into(),
            self.table.rows(0).into(),
            self.table.pages().into(),
            layer.into(),
            exact.into(),
        ];
        let threads = heads.head_dim.next_multiple_of(32).min(THREADS);
        let blocks = [rows.len(), queries + heads.kv_heads, 1];
        self.launch("rotate_store", blocks, threads, heads.head_dim + threads / 32, &args);
    }

    fn attend(
        &mut self,
        x: &Buf<D>,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &[&mut Cache<D>],
        out: &mut Buf<D>,
    ) {
        out.grow(rows.len());
        let Some(first) = caches.first() else { return };
        let (exact, layer) = (first.exact, first.attention(layer));
        self.table.fill(rows, caches);
        let (count, dim) = (heads.heads, heads.head_dim);
        let pieces = self.table.visible().div_ceil(PIECE).max(1);
        let a_row = count * pieces * dim * 4;
        let step = (PIECES_ROOM / a_row).clamp(1, rows.len().max(1));
        done(self.scratch.pieces.grow(step * a_row, 0));
        done(self.scratch.peaks.grow(step * count * pieces * 4, 0));
        done(self.scratch.totals.grow(step * count * pieces * 4, 0));
        let groups = (count / heads.kv_heads).div_ceil(GROUP);
        let scale = (dim as f32).sqrt().recip();
        for from in (0..rows.len()).step_by(step) {
            let some = step.min(rows.len() - from);
            let args = [
                x.row(from).into(),
                x.width.into(),
                q.into(),
                count.into(),
                heads.kv_heads.into(),
                dim.into(),
                scale.into(),
                self.table.rows(from).into(),
                self.table.masks(from).into(),
                rows.words.into(),
                self.table.pages().into(),
                layer.into(),
                exact.into(),
                self.scratch.pieces.at().into(),
                self.scratch.peaks.at().into(),
                self.scratch.totals.at().into(),
                pieces.into(),
            ];
            let floats = GROUP * dim + GROUP * PIECE + GROUP * THREADS.max(dim) + PIECE;
            self.launch("attend_piece", [pieces, heads.kv_heads * groups, some], THREADS, floats, &args);
            let args = [
                self.scratch.pieces.at().into(),
                self.scratch.peaks.at().into(),
                self.scratch.totals.at().into(),
                pieces.into(),
                count.into(),
                dim.into(),
                self.table.rows(from).into(),
                out.row(from).into(),
            ];
            self.launch("attend_merge", [count, some, 1], 128, 0, &args);
        }
    }

    fn gate(&mut self, x: &mut Buf<D>, rows: usize, gates: &Buf<D>, column: usize) {
        let args = [x.memory.at().into(), x.width.into(), gates.memory.at().into(), gates.width.into(), column.into()];
        self.launch("gate", [rows, 1, 1], THREADS, 0, &args);
    }

    fn delta(
        &mut self,
        x: &Buf<D>,
        gates: &Buf<D>,
        net: &DeltaNet<Memory<D>>,
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

    fn read<'a>(&'a self, x: &'a Buf<D>, rows: Range<usize>) -> Cow<'a, [f32]> {
        let mut out = vec![0.0f32; rows.len() * x.width];
        done(self.driver.download(x.row(rows.start), bytemuck::cast_slice_mut(&mut out)));
        Cow::Owned(out)
    }

    fn best(&mut self, x: &Buf<D>, rows: usize) -> Vec<Best> {
        if rows == 0 {
            return Vec::new();
        }
        done(self.scratch.answers.grow(rows * 12, 0));
        let args = [x.memory.at().into(), x.width.into(), self.scratch.answers.at().into()];
        self.launch("best", [rows, 1, 1], SEARCH_THREADS, SEARCH_THREADS * 3, &args);
        let mut words = vec![0u32; rows * 3];
        done(self.driver.download(self.scratch.answers.at(), bytemuck::cast_slice_mut(&mut words)));
        words
            .as_chunks::<3>()
            .0
            .iter()
            .map(|&[index, value, second]| Best { index, value: f32::from_bits(value), second: f32::from_bits(second) })
            .collect()
    }

    fn top(&mut self, x: &Buf<D>, rows: Range<usize>, k: usize) -> Vec<(u32, f32)> {
        let k = k.min(x.width);
        if k == 0 || rows.is_empty() {
            return Vec::new();
        }
        if k > MOST_TOP {
            let logits = self.read(x, rows);
            return logits.chunks_exact(x.width).flat_map(|row| top_k(row, k)).collect();
        }
        let count = rows.len() * k;
        done(self.scratch.answers.grow(count * 8, 0));
        let room = k.next_power_of_two();
        let args = [
            x.memory.at().into(),
            x.width.into(),
            rows.start.into(),
            k.into(),
            room.into(),
            self.scratch.answers.at().into(),
        ];
        self.launch("top", [rows.len(), 1, 1], SEARCH_THREADS, 32 + 256 + 4 + 2 * room, &args);
        let mut words = vec![0u32; count * 2];
        done(self.driver.download(self.scratch.answers.at(), bytemuck::cast_slice_mut(&mut words)));
        words.as_chunks::<2>().0.iter().map(|&[index, logprob]| (index, f32::from_bits(logprob))).collect()
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
