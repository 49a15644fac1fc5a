//! Rotation and attention.

use crate::engine::backend::{Columns, HeadNorms, Heads, Rows};

use super::driver::Driver;
use super::{Buf, Cache, Cuda, THREADS, Vector, done};

/// Slots of a piece of attention, as in the kernel.
const PIECE: usize = 256;
/// Query heads that share a piece, as in the kernel.
const GROUP: usize = 8;
/// Bytes that the pieces of attention may take before rows go in several launches.
const PIECES_ROOM: usize = 64 << 20;

impl<D: Driver> Cuda<D> {
    /// See [`crate::engine::backend::Backend::rotate_store`].
    #[allow(clippy::too_many_arguments)]
    pub(super) fn turn(
        &mut self,
        x: &mut Buf<D>,
        columns: Columns,
        heads: &Heads,
        norms: &HeadNorms<Vector<D>>,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
    ) {
        let Some(first) = caches.first() else { return };
        let (exact, layer) = (first.exact, first.attention(layer));
        let frequencies = self.frequencies(&heads.inv_freq);
        self.table.fill(rows, caches);
        let queries = columns.q.map_or(0, |_| heads.heads);
        let norm = |weight: &Option<Vector<D>>| weight.as_ref().map_or(0, |w| w.at());
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

    /// See [`crate::engine::backend::Backend::attend`].
    #[allow(clippy::too_many_arguments)]
    pub(super) fn look(
        &mut self,
        x: &Buf<D>,
        q: usize,
        heads: &Heads,
        rows: &Rows,
        layer: usize,
        caches: &mut [&mut Cache<D>],
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
}
