//! ggml block formats and half floats to F32.
//!
//! Layouts are those of ggml: a block holds its scales beside the packed integers of 32 elements, or of 256 (the
//! `K` formats, whose sub-blocks have small integer scales of their own). All numbers are little-endian.

use half::{bf16, f16};

use super::DType;

/// Writes `out.len()` elements that lie in `data` one after another. `Err` when the lengths do not fit each other or
/// the format has no numeric meaning.
pub fn dequantize_row(dtype: DType, data: &[u8], out: &mut [f32]) -> Result<(), String> {
    let needed = dtype
        .row_bytes(out.len())
        .ok_or_else(|| format!("{} elements are not a whole number of {dtype:?} blocks", out.len()))?;
    if data.len() != needed {
        return Err(format!("{} {dtype:?} elements take {needed} bytes, but there are {}", out.len(), data.len()));
    }
    let (elements, bytes) = dtype.block();
    let blocks = data.chunks_exact(bytes).zip(out.chunks_exact_mut(elements));
    match dtype {
        DType::F32 => blocks.for_each(|(b, y)| y[0] = f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        DType::F16 => blocks.for_each(|(b, y)| y[0] = f16_at(b, 0)),
        DType::BF16 => blocks.for_each(|(b, y)| y[0] = bf16::from_le_bytes([b[0], b[1]]).to_f32()),
        DType::Q4_0 => blocks.for_each(|(b, y)| q4_0(b, y)),
        DType::Q4_1 => blocks.for_each(|(b, y)| q4_1(b, y)),
        DType::Q5_0 => blocks.for_each(|(b, y)| q5_0(b, y)),
        DType::Q5_1 => blocks.for_each(|(b, y)| q5_1(b, y)),
        DType::Q8_0 => blocks.for_each(|(b, y)| q8_0(b, y)),
        DType::Q2K => blocks.for_each(|(b, y)| q2_k(b, y)),
        DType::Q3K => blocks.for_each(|(b, y)| q3_k(b, y)),
        DType::Q4K => blocks.for_each(|(b, y)| q4_k(b, y)),
        DType::Q5K => blocks.for_each(|(b, y)| q5_k(b, y)),
        DType::Q6K => blocks.for_each(|(b, y)| q6_k(b, y)),
        DType::I32 | DType::I64 | DType::Bool => return Err(format!("{dtype:?} elements are not weights")),
    }
    Ok(())
}

fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// `d`, 16 bytes: low nibbles are elements 0..16, high ones 16..32; values are offset by 8.
fn q4_0(b: &[u8], y: &mut [f32]) {
    let d = f16_at(b, 0);
    for (j, &q) in b[2..18].iter().enumerate() {
        y[j] = d * (i32::from(q & 15) - 8) as f32;
        y[j + 16] = d * (i32::from(q >> 4) - 8) as f32;
    }
}

/// `d`, `m`, nibbles as in Q4_0 without offset.
fn q4_1(b: &[u8], y: &mut [f32]) {
    let (d, m) = (f16_at(b, 0), f16_at(b, 2));
    for (j, &q) in b[4..20].iter().enumerate() {
        y[j] = d * f32::from(q & 15) + m;
        y[j + 16] = d * f32::from(q >> 4) + m;
    }
}

/// Q4_0 with a fifth bit for each element in a 32-bit word; values are offset by 16.
fn q5_0(b: &[u8], y: &mut [f32]) {
    let (d, high) = (f16_at(b, 0), u32_at(b, 2));
    for (j, &q) in b[6..22].iter().enumerate() {
        let (low, top) = five_bits(q, high, j);
        y[j] = d * (low as i32 - 16) as f32;
        y[j + 16] = d * (top as i32 - 16) as f32;
    }
}

/// Q4_1 with a fifth bit for each element.
fn q5_1(b: &[u8], y: &mut [f32]) {
    let (d, m, high) = (f16_at(b, 0), f16_at(b, 2), u32_at(b, 4));
    for (j, &q) in b[8..24].iter().enumerate() {
        let (low, top) = five_bits(q, high, j);
        y[j] = d * low as f32 + m;
        y[j + 16] = d * top as f32 + m;
    }
}

/// Elements `j` and `j + 16` of a five-bit block.
fn five_bits(nibbles: u8, high: u32, j: usize) -> (u32, u32) {
    let low = u32::from(nibbles & 15) | ((high >> j) & 1) << 4;
    let top = u32::from(nibbles >> 4) | ((high >> (j + 16)) & 1) << 4;
    (low, top)
}

/// `d` and 32 signed bytes.
fn q8_0(b: &[u8], y: &mut [f32]) {
    let d = f16_at(b, 0);
    for (y, &q) in y.iter_mut().zip(&b[2..34]) {
        *y = d * f32::from(q.cast_signed());
    }
}

/// 16 bytes of 4-bit scales and minima (one a 16 elements), 64 bytes of 2-bit values, `d`, `dmin`.
fn q2_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (f16_at(b, 80), f16_at(b, 82));
    for (i, y) in y.iter_mut().enumerate() {
        // Halves of 128 elements share 32 bytes; each group of 32 takes the next two bits of them.
        let (half, group, lane) = (i / 128, i / 32 % 4, i % 32);
        let q = b[16 + half * 32 + lane] >> (2 * group) & 3;
        let scale = b[i / 16];
        *y = d * f32::from(scale & 15) * f32::from(q) - dmin * f32::from(scale >> 4);
    }
}

/// 32 bytes of high bits, 64 of low two bits, 12 of 6-bit scales, `d`. A clear high bit means minus 4.
fn q3_k(b: &[u8], y: &mut [f32]) {
    let d = f16_at(b, 108);
    let scales = &b[96..108];
    for (i, y) in y.iter_mut().enumerate() {
        let (half, group, lane) = (i / 128, i / 32 % 4, i % 32);
        let low = b[32 + half * 32 + lane] >> (2 * group) & 3;
        let high = b[lane] >> (half * 4 + group) & 1;
        let q = i32::from(low) - if high == 1 { 0 } else { 4 };
        // Scale k: four low bits in a nibble of bytes 0..8, two high bits in bytes 8..12.
        let k = i / 16;
        let nibble = if k < 8 { scales[k] & 15 } else { scales[k - 8] >> 4 };
        let top = scales[8 + k % 4] >> (2 * (k / 4)) & 3;
        let scale = i32::from(nibble | top << 4) - 32;
        *y = d * scale as f32 * q as f32;
    }
}

/// Scale and minimum of the 32 elements number `k` of 8, six bits each, packed in 12 bytes.
fn scale_min(k: usize, packed: &[u8]) -> (f32, f32) {
    let (scale, min) = if k < 4 {
        (packed[k] & 63, packed[k + 4] & 63)
    } else {
        (packed[k + 4] & 15 | packed[k - 4] >> 6 << 4, packed[k + 4] >> 4 | packed[k] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}

/// `d`, `dmin`, 12 bytes of scales and minima, 128 bytes of nibbles: 32 bytes hold 32 low and then 32 high elements.
fn q4_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (f16_at(b, 0), f16_at(b, 2));
    for (k, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(k, &b[4..16]);
        let (scale, min) = (d * scale, dmin * min);
        let bytes = &b[16 + k / 2 * 32..][..32];
        for (y, q) in y.iter_mut().zip(bytes) {
            *y = scale * f32::from(q >> (4 * (k % 2)) & 15) - min;
        }
    }
}

/// Q4_K with 32 bytes of fifth bits between scales and nibbles: bit `k` of byte `lane` belongs to group `k`.
fn q5_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (f16_at(b, 0), f16_at(b, 2));
    let high = &b[16..48];
    for (k, y) in y.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(k, &b[4..16]);
        let (scale, min) = (d * scale, dmin * min);
        let bytes = &b[48 + k / 2 * 32..][..32];
        for (lane, y) in y.iter_mut().enumerate() {
            let q = bytes[lane] >> (4 * (k % 2)) & 15 | (high[lane] >> k & 1) << 4;
            *y = scale * f32::from(q) - min;
        }
    }
}

/// 128 bytes of low nibbles, 64 of high two bits, 16 signed scales, `d`; values are offset by 32.
fn q6_k(b: &[u8], y: &mut [f32]) {
    let d = f16_at(b, 208);
    for (i, y) in y.iter_mut().enumerate() {
        let (half, group, lane) = (i / 128, i / 32 % 4, i % 32);
        let low = b[half * 64 + group % 2 * 32 + lane] >> (4 * (group / 2)) & 15;
        let high = b[128 + half * 32 + lane] >> (2 * group) & 3;
        let q = i32::from(low | high << 4) - 32;
        let scale = b[192 + i / 16].cast_signed();
        *y = d * f32::from(scale) * q as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
    }

    #[test]
    fn every_format_agrees_with_the_reference_to_the_bit() {
        let formats = [
            ("F16", DType::F16),
            ("BF16", DType::BF16),
            ("Q4_0", DType::Q4_0),
            ("Q4_1", DType::Q4_1),
            ("Q5_0", DType::Q5_0),
            ("Q5_1", DType::Q5_1),
            ("Q8_0", DType::Q8_0),
            ("Q2K", DType::Q2K),
            ("Q3K", DType::Q3K),
            ("Q4K", DType::Q4K),
            ("Q5K", DType::Q5K),
            ("Q6K", DType::Q6K),
        ];
        let mut seen = std::collections::HashSet::new();
        for line in include_str!("../../../tests/fixtures/dequantize.txt").lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<_> = line.split(' ').collect();
            let dtype = formats.iter().find(|(n, _)| *n == fields[0]).expect("a known format").1;
            let (data, expected) = (unhex(fields[1]), unhex(fields[2]));
            let expected: Vec<f32> =
                expected.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            let mut found = vec![f32::NAN; expected.len()];
            dequantize_row(dtype, &data, &mut found).expect("whole blocks");
            for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
                assert!(f == e, "{dtype:?} element {i}: {f} instead of {e}");
            }
            seen.insert(dtype);
        }
        assert_eq!(seen.len(), formats.len());
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let mut out = [0.0; 32];
        assert!(dequantize_row(DType::Q4_0, &[0; 17], &mut out).is_err());
        assert!(dequantize_row(DType::Q4_0, &[0; 18], &mut out[..31]).is_err());
        assert!(dequantize_row(DType::Q4K, &[0; 144], &mut out).is_err());
        assert!(dequantize_row(DType::Bool, &[0; 32], &mut out).is_err());
        assert!(dequantize_row(DType::F32, &[0; 128], &mut out).is_ok());
    }
}
