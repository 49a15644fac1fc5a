//! Every kernel against a product in f64, and against each other.

use std::cell::RefCell;

use proptest::prelude::*;

use super::super::acts::Acts;
use super::super::lanes::{self, quantise};
use super::super::shared::Shared;
use super::super::slab::Slab;
use super::*;
use crate::engine::backend::Store;
use crate::engine::weights::{DType, TensorView};

struct Collect(RefCell<Vec<f32>>, usize);
impl Sink for Collect {
    fn put(&self, row: usize, column: usize, values: &[f32; TILE]) {
        let n = self.1;
        for (i, v) in values.iter().enumerate().take(n - column) {
            self.0.borrow_mut()[row * n + column + i] = *v;
        }
    }
}

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

fn matrix(n: usize, k: usize, store: Store, seed: u64) -> Matrix {
    let data: Vec<u8> = noise(n * k, seed).iter().flat_map(|v| v.to_le_bytes()).collect();
    let view = TensorView { name: "w".into(), dtype: DType::F32, shape: vec![n, k], data: &data };
    Matrix::pack(&Slab::default(), &[view], None, store).unwrap()
}

fn q4_matrix(n: usize, k: usize, seed: u64) -> Matrix {
    let mut data = Vec::new();
    for (i, v) in noise(n * k / 32, seed).iter().enumerate() {
        data.extend(f16::from_f32(0.01 + v.abs()).to_le_bytes());
        data.extend(f16::from_f32(-v.abs() * 7.0).to_le_bytes());
        data.extend((0..16).map(|b| ((i * 31 + b * 17 + seed as usize) % 256) as u8));
    }
    let view = TensorView { name: "w".into(), dtype: DType::Q4_1, shape: vec![n, k], data: &data };
    Matrix::pack(&Slab::default(), &[view], None, Store::AsStored).unwrap()
}

fn run(level: Level, w: &Matrix, x: &[f32], rows: usize) -> Vec<f32> {
    let mut acts = Acts::default();
    acts.shape(rows, w.k, w.format);
    if w.format == Format::F32 {
        acts.floats[..x.len()].copy_from_slice(x);
    } else {
        let (q, scale) = (&Shared::new(&mut acts.q), &Shared::new(&mut acts.scale));
        let (total, sum) = (&Shared::new(&mut acts.total), &Shared::new(&mut acts.sum));
        for row in 0..rows {
            quantise(
                level,
                &x[row * w.k..(row + 1) * w.k],
                &lanes::Places { row, block: 0, rows, q, scale, total, sum },
            );
        }
    }
    let out = Collect(RefCell::new(vec![0.0; rows * w.n]), w.n);
    product(level, w, 0..w.tiles(), acts.view(rows), rows, &out);
    out.0.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every format at every level against a product in f64 of the dequantised weights; a row's result is the same bits
    /// whatever rows stand beside it; and the same at every level with fused multiplication.
    #[test]
    fn products_match_and_rows_do_not_depend_on_their_neighbours(
        n in 1usize..50,
        k in proptest::sample::select(vec![32usize, 96, 160]),
        rows in 1usize..40,
        seed: u32,
        magnitude in proptest::sample::select(vec![1e-4f32, 1.0, 3e3]),
    ) {
        let seed = u64::from(seed);
        for w in [matrix(n, k, Store::F32, seed), matrix(n, k, Store::Q8, seed), q4_matrix(n, k, seed)] {
            let x: Vec<f32> = noise(rows * k, seed ^ 9).iter().map(|v| v * magnitude).collect();
            let mut by_level = Vec::new();
            for level in Level::available() {
                let got = run(level, &w, &x, rows);
                let mut row = vec![0.0; k];
                for o in 0..n {
                    w.row(o, &mut row);
                    for r in 0..rows {
                        let want: f64 = row.iter().zip(&x[r * k..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                        let size: f64 = row.iter().zip(&x[r * k..]).map(|(a, b)| f64::from(a * b).abs()).sum::<f64>();
                        let bound = if w.format == Format::F32 { 1e-6 } else { 1e-2 } * size + 1e-6;
                        let got = f64::from(got[r * n + o]);
                        prop_assert!((got - want).abs() <= bound, "{:?} {level}: {got} against {want}", w.format);
                    }
                }
                for count in [1, 2, 5, 8, 9, 16, 17].into_iter().filter(|&count| count <= rows) {
                    let first = (rows - count) / 2;
                    let part = run(level, &w, &x[first * k..(first + count) * k], count);
                    prop_assert_eq!(&part[..], &got[first * n..(first + count) * n], "{:?} {} {}", w.format, level, count);
                }
                if level != Level::Portable {
                    by_level.push(got);
                }
            }
            prop_assert!(by_level.windows(2).all(|pair| pair[0] == pair[1]), "{:?} differs between levels", w.format);
        }
    }
}
