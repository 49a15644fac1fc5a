//! The convolution of DFlash 2 over a block's rows.

use super::Buf;
use crate::engine::backend::Rows;

/// See [`crate::engine::backend::Backend::convolve`]. A block has a handful of rows, so one thread makes it.
#[allow(clippy::too_many_arguments)]
pub fn run(x: &Buf, kernels: &Buf, at: usize, base: &[f32], group: usize, rows: &Rows, out: &mut Buf, add: bool) {
    out.grow(rows.len());
    let width = x.width;
    let groups = width / group;
    for (i, row) in rows.rows.iter().enumerate() {
        let to = &mut out.data[i * width..(i + 1) * width];
        if !add {
            to.fill(0.0);
        }
        let own = &kernels.row(i)[at..];
        let before = row.slot - row.prefix.end;
        for (t, base) in base.chunks_exact(width).enumerate().take(before + 1) {
            let own = &own[t * groups..(t + 1) * groups];
            for (c, (to, &x)) in to.iter_mut().zip(x.row(i - t)).enumerate() {
                *to += (base[c] + own[c / group]) * x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::backend::Row;

    /// Two blocks of two rows, two taps, two columns that share a group: by hand.
    #[test]
    fn rows_see_back_to_the_start_of_their_block() {
        let mut rows = Rows::default();
        rows.clear(1);
        for (session, slot) in [(0, 7), (0, 8), (1, 3), (1, 4)] {
            let row = Row { session, position: slot, slot, prefix: 0..if session == 0 { 7 } else { 3 } };
            rows.push(row, &[0]);
        }
        let x = Buf { width: 2, data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] };
        // Four columns a row; the pass uses the last two: one group, two taps.
        let kernels = Buf { width: 4, data: (0..16).map(|i| if i % 4 < 2 { 99.0 } else { i as f32 * 0.5 }).collect() };
        let base = [1.0, 10.0, 0.0, 100.0];
        let mut out = Buf { width: 2, data: vec![1.0; 8] };
        run(&x, &kernels, 2, &base, 2, &rows, &mut out, false);
        let want = [
            (1.0 + 1.0) * 1.0,
            (10.0 + 1.0) * 2.0,
            (1.0 + 3.0) * 3.0 + (0.0 + 3.5) * 1.0,
            (10.0 + 3.0) * 4.0 + (100.0 + 3.5) * 2.0,
            (1.0 + 5.0) * 5.0,
            (10.0 + 5.0) * 6.0,
            (1.0 + 7.0) * 7.0 + (0.0 + 7.5) * 5.0,
            (10.0 + 7.0) * 8.0 + (100.0 + 7.5) * 6.0,
        ];
        assert_eq!(out.data, want);
        run(&x, &kernels, 2, &base, 2, &rows, &mut out, true);
        assert_eq!(out.data, want.map(|w| 2.0 * w));
    }
}
