//! Operations on rows, and choosing from them.

use spectop::engine::backend::cpu::Cpu;
use spectop::engine::backend::{Backend, Best, Rows};
use spectop::engine::sampler::top_k;

use super::simulated::Simulated;
use super::{Dice, close};

fn filled<B: Backend>(backend: &mut B, width: usize, x: &[f32]) -> B::Buf {
    let mut buf = backend.buf(width);
    backend.upload(x, &mut buf);
    buf
}

fn moved<B: Backend>(backend: &mut B, width: usize, x: &[f32]) -> Vec<f32> {
    let rows = x.len() / width;
    let mut buf = filled(backend, width, x);
    let weight = backend.vector((0..width).map(|i| 0.5 + i as f32 * 0.01).collect()).unwrap();
    let mut out = Vec::new();
    backend.norm(&mut buf, rows, &weight, 1e-6);
    out.extend_from_slice(&backend.read(&buf, 0..rows));
    backend.cap(&mut buf, rows - 1, 0.7, Some(1.5));
    out.extend_from_slice(&backend.read(&buf, 0..rows));
    backend.cap(&mut buf, rows, 0.25, None);
    let mut wide = backend.buf(3 * width);
    for column in [0, 2 * width, width] {
        backend.place(&buf, rows, &mut wide, column);
    }
    out.extend_from_slice(&backend.read(&wide, 0..rows));
    // Filled bit by bit: what is there stays, also when the buffer grows.
    let mut picked = backend.buf(3 * width);
    for (at, pick) in [vec![rows - 1, 0], vec![1; 40], vec![0, rows - 1, 0]].iter().enumerate() {
        backend.gather(&wide, pick, &mut picked, at * 2);
    }
    out.extend_from_slice(&backend.read(&picked, 0..7));
    let mut summed = filled(backend, width, x);
    backend.add(&buf, rows - 1, &mut summed);
    out.extend_from_slice(&backend.read(&summed, 0..rows));
    out
}

#[test]
fn norms_caps_and_copies_are_those_of_the_cpu() {
    for (seed, width) in [1usize, 3, 64, 257, 700].into_iter().enumerate() {
        let x = Dice::new(seed as u64 + 3).floats(5 * width);
        let want = moved(&mut Cpu::new(1), width, &x);
        let got = moved(&mut Simulated::backend(), width, &x);
        close(&format!("width {width}"), &got, &want, 2e-6);
    }
}

/// Rows with many ties, with infinities and with what is no number.
fn logits(dice: &mut Dice, rows: usize, width: usize) -> Vec<f32> {
    let steps = dice.of(&[3, 50, 1 << 20]);
    let mut x: Vec<f32> = (0..rows * width).map(|_| dice.below(steps) as f32 / steps as f32 * 20.0 - 10.0).collect();
    for _ in 0..dice.below(3) {
        let at = dice.below(x.len());
        x[at] = dice.of(&[f32::NEG_INFINITY, 0.0, -0.0]);
    }
    x
}

#[test]
fn the_best_are_those_of_the_cpu() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed + 11);
        let (rows, width) = (1 + dice.below(4), 1 + dice.below(3000));
        let x = logits(&mut dice, rows, width);
        let (mut cpu, mut gpu) = (Cpu::new(1), Simulated::backend());
        let want: Vec<Best> = {
            let buf = filled(&mut cpu, width, &x);
            cpu.best(&buf, rows)
        };
        let buf = filled(&mut gpu, width, &x);
        assert_eq!(gpu.best(&buf, rows), want, "width {width}");
        let k = dice.of(&[1, 2, 16, 31, 256, 1024, 2000]);
        let first = dice.below(rows);
        let got = gpu.top(&buf, first..rows, k);
        let want: Vec<(u32, f32)> = x.chunks_exact(width).skip(first).flat_map(|row| top_k(row, k)).collect();
        assert_eq!(
            got.iter().map(|e| e.0).collect::<Vec<_>>(),
            want.iter().map(|e| e.0).collect::<Vec<_>>(),
            "width {width}, k {k}"
        );
        for (g, w) in got.iter().zip(&want) {
            assert!(g.1 == w.1 || (g.1 - w.1).abs() < 1e-4, "{} instead of {}", g.1, w.1);
        }
    }
}

#[test]
fn damaged_logits_give_an_answer_all_the_same() {
    let mut gpu = Simulated::backend();
    let mut x = vec![f32::NAN; 80];
    let buf = filled(&mut gpu, 40, &x);
    assert_eq!(gpu.best(&buf, 2).iter().map(|b| b.index).collect::<Vec<_>>(), [0, 0]);
    x[7] = 1.0;
    let buf = filled(&mut gpu, 40, &x);
    assert_eq!(gpu.best(&buf, 1)[0].index, 7);
    let got: Vec<u32> = gpu.top(&buf, 0..1, 3).iter().map(|e| e.0).collect();
    assert_eq!(got, top_k(&x[..40], 3).iter().map(|e| e.0).collect::<Vec<_>>());
}

fn convolved<B: Backend>(backend: &mut B, x: &[f32], kernels: &[f32], base: &[f32], rows: &Rows) -> Vec<f32> {
    let (width, group, taps) = (24, 4, 3);
    let base = backend.vector(base.to_vec()).unwrap();
    let (x, own) = (filled(backend, width, x), filled(backend, 5 + taps * width / group, kernels));
    let mut out = backend.buf(width);
    backend.convolve(&x, &own, 5, &base, group, rows, &mut out, false);
    backend.convolve(&x, &own, 5, &base, group, rows, &mut out, true);
    backend.read(&out, 0..rows.len()).to_vec()
}

#[test]
fn convolutions_over_blocks_are_those_of_the_cpu() {
    let mut dice = Dice::new(31);
    let mut rows = Rows::default();
    rows.clear(1);
    for (session, count) in [(0, 4), (1, 1), (2, 9)] {
        rows.push_causal(session, 7 * session, count);
    }
    let (x, kernels, base) = (dice.floats(14 * 24), dice.floats(14 * 23), dice.floats(3 * 24));
    let want = convolved(&mut Cpu::new(1), &x, &kernels, &base, &rows);
    let got = convolved(&mut Simulated::backend(), &x, &kernels, &base, &rows);
    close("convolution", &got, &want, 1e-6);
}
