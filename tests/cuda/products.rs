//! Products of all formats, with every kind of input.

use half::{bf16, f16};
use spectop::engine::backend::cpu::Cpu;
use spectop::engine::backend::{Backend, Input, Store};
use spectop::engine::weights::{DType, TensorView};

use super::simulated::Simulated;
use super::{Dice, close};

/// A tensor's bytes. Quantised ones are made of random quants and small scales.
fn tensor(dice: &mut Dice, dtype: DType, n: usize, k: usize) -> Vec<u8> {
    let scale = |dice: &mut Dice| f16::from_f32(0.002 + dice.below(100) as f32 * 0.0005).to_le_bytes();
    let mut bytes = Vec::new();
    match dtype {
        DType::F32 => dice.floats(n * k).iter().for_each(|v| bytes.extend(v.to_le_bytes())),
        DType::F16 => dice.floats(n * k).iter().for_each(|v| bytes.extend(f16::from_f32(*v).to_le_bytes())),
        DType::BF16 => dice.floats(n * k).iter().for_each(|v| bytes.extend(bf16::from_f32(*v).to_le_bytes())),
        _ => {
            let (_, width) = dtype.block();
            for _ in 0..n * k / 32 {
                let minimum = matches!(dtype, DType::Q4_1 | DType::Q5_1);
                let head = if minimum { 4 } else { 2 };
                bytes.extend(scale(dice));
                if minimum {
                    bytes.extend(f16::from_f32(-0.1 - dice.below(10) as f32 * 0.01).to_le_bytes());
                }
                bytes.extend((head..width).map(|_| dice.bits() as u8));
            }
        }
    }
    bytes
}

struct Case<'a> {
    parts: &'a [TensorView<'a>],
    store: Store,
    rows: usize,
    kind: usize,
    x: &'a [f32],
    width: usize,
    weight: &'a [f32],
    before: Option<&'a [f32]>,
}

fn run<B: Backend>(backend: &mut B, case: &Case<'_>) -> Vec<f32> {
    let n: usize = case.parts.iter().map(TensorView::rows).sum();
    let w = backend.pack(case.parts, None, case.store).unwrap();
    let weight = backend.vector(case.weight.to_vec()).unwrap();
    let (mut x, mut out) = (backend.buf(case.width), backend.buf(n));
    backend.upload(&case.x[..case.rows * case.width], &mut x);
    if let Some(before) = case.before {
        backend.upload(&before[..case.rows * n], &mut out);
    }
    let input = match case.kind {
        0 => Input::Plain(&x),
        1 => Input::Normed { x: &x, weight: &weight, eps: 1e-5 },
        _ => Input::Gated(&x),
    };
    backend.linear(&input, case.rows, &w, &mut out, case.before.is_some());
    backend.read(&out, 0..case.rows).to_vec()
}

#[test]
fn products_are_those_of_the_dequantised_weights() {
    let mut cpu = Cpu::new(1);
    let mut gpu = Simulated::backend();
    let dtypes = [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_1, DType::Q8_0];
    for (seed, &dtype) in dtypes.iter().cycle().take(32).enumerate() {
        let mut dice = Dice::new(seed as u64 + 1);
        let k = if dtype.is_quantised() { 32 * (1 + dice.below(12)) } else { 1 + dice.below(300) };
        let (n, more) = (1 + dice.below(60), 1 + dice.below(20));
        let rows = dice.of(&[1, 2, 7, 8, 9, 16, 17, 33, 40]);
        let kind = dice.below(3);
        let width = if kind == 2 { 2 * k } else { k };
        let data = [tensor(&mut dice, dtype, n, k), tensor(&mut dice, dtype, more, k)];
        let parts: Vec<TensorView<'_>> = data
            .iter()
            .zip([n, more])
            .map(|(data, n)| TensorView { name: "w".into(), dtype, shape: vec![n, k], data })
            .collect();
        let x: Vec<f32> = dice.floats(rows * width).iter().map(|v| v * 3.0).collect();
        let weight = dice.floats(k);
        let before = dice.floats(rows * (n + more));
        let add = (dice.below(2) == 0).then_some(before.as_slice());
        let case = Case { parts: &parts, store: Store::F32, rows, kind, x: &x, width, weight: &weight, before: add };
        let want = run(&mut cpu, &case);
        let case = Case { store: Store::AsStored, ..case };
        let got = run(&mut gpu, &case);
        let what = format!("{dtype:?} [{} {k}], {rows} rows, input {kind}", n + more);
        // Q5_1 is requantised to 8 bits: half a step of rounding a weight.
        let tolerance = match dtype {
            DType::F32 => 1e-4,
            DType::Q5_1 => 0.2,
            // Activations keep 17 bits.
            _ => 1e-3,
        };
        close(&what, &got, &want, tolerance);
        // Each row alone gives the same bits.
        for row in [0, rows / 2, rows - 1] {
            let before = add.map(|b| &b[row * (n + more)..]);
            let alone = run(&mut gpu, &Case { rows: 1, x: &x[row * width..], before, ..case });
            assert_eq!(alone, got[row * (n + more)..(row + 1) * (n + more)], "{what}: row {row} alone");
        }
    }
}

#[test]
fn selected_rows_and_eight_bits_are_packed_like_on_the_cpu() {
    let mut dice = Dice::new(77);
    let (n, k) = (40, 96);
    let data = tensor(&mut dice, DType::F32, n, k);
    let part = [TensorView { name: "w".into(), dtype: DType::F32, shape: vec![n, k], data: &data }];
    let select: Vec<u32> = (0..21).map(|_| dice.below(n) as u32).collect();
    let ids: Vec<u32> = (0..21).collect();
    let embed = |table: Vec<f32>| table;
    let mut cpu = Cpu::new(1);
    let mut gpu = Simulated::backend();
    for store in [Store::Q8, Store::AsStored] {
        let want = {
            let table = cpu.pack(&part, Some(&select), store).unwrap();
            let mut out = cpu.buf(k);
            cpu.embed(&table, &ids, 0.5, &mut out);
            embed(cpu.read(&out, 0..ids.len()).to_vec())
        };
        let table = gpu.pack(&part, Some(&select), store).unwrap();
        let mut out = gpu.buf(k);
        gpu.embed(&table, &ids, 0.5, &mut out);
        assert_eq!(gpu.read(&out, 0..ids.len()).to_vec(), want);
    }
}

#[test]
fn embeddings_of_every_format_are_its_values() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_1] {
        let mut dice = Dice::new(5);
        let (n, k) = (37, 64);
        let data = tensor(&mut dice, dtype, n, k);
        let part = [TensorView { name: "w".into(), dtype, shape: vec![n, k], data: &data }];
        let mut gpu = Simulated::backend();
        let table = gpu.pack(&part, None, Store::AsStored).unwrap();
        let mut out = gpu.buf(k);
        let ids: Vec<u32> = (0..n as u32).rev().collect();
        gpu.embed(&table, &ids, 1.0, &mut out);
        let got = gpu.read(&out, 0..n).to_vec();
        let want: Vec<f32> = ids
            .iter()
            .flat_map(|&id| {
                let mut row = vec![0.0; k];
                part[0].row_f32(id as usize, &mut row).unwrap();
                row
            })
            .collect();
        close(&format!("{dtype:?}"), &got, &want, 1e-6);
    }
}
