//! AMX product of one tile of weights with up to sixteen rows: one instruction makes the 16 × 16 dots of a block.
//!
//! Sums of integers are exact, and the float steps behind them are those of the VNNI kernel in the same order, so a row
//! gets the same bits from either. The instructions have no stable intrinsics; they are written out.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, clippy::needless_range_loop, clippy::cast_ptr_alignment)]

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_and_si512, _mm512_cvtepi32_ps, _mm512_cvtph_ps,
    _mm512_fmadd_ps, _mm512_load_si512, _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_srli_epi16, _mm512_store_si512, _mm512_storeu_ps,
};
use std::cell::RefCell;

use super::acts::ActsView;
use super::lanes::BLOCK;
use super::level::each;
use super::pack::{Format, Matrix, Q4_BYTES, Q8_BYTES, Q8_SCALES, TILE};
use super::vnni::AHEAD;

/// Rows of one call at most.
pub const ROWS: usize = 16;

/// Whether the processor has 8-bit tiles and the system lets this process use them. Asks for the permission: threads
/// that start afterwards have it too.
pub fn usable() -> bool {
    use std::arch::x86_64::__cpuid_count;
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    let leaf = __cpuid_count(0, 0).eax;
    leaf >= 7 && __cpuid_count(7, 0).edx & TILE_AND_INT8 == TILE_AND_INT8 && permitted()
}

#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: asks the kernel for a permission; no memory is involved.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// Shapes of the tile registers, as the instruction wants them.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// One line of a scratch buffer.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    /// Unpacked weights of a tile.
    static UNPACKED: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Tile registers shaped for calls with up to `rows` rows, until it is dropped.
pub struct Tiles {
    rows: usize,
}

impl Tiles {
    /// Shapes this thread's registers: 0 and 1 take sums, 2 and 3 activations, 4 and 5 weights.
    pub fn shape(rows: usize) -> Self {
        let rows = padded(rows);
        let mut config =
            Config { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        for (register, bytes, count) in
            [(0, 64, rows), (1, 64, rows), (2, BLOCK, rows), (3, BLOCK, rows), (4, 64, 8), (5, 64, 8)]
        {
            config.bytes[register] = bytes as u16;
            config.rows[register] = count as u8;
        }
        // SAFETY: callers are at `Level::Amx`: the instructions exist and are permitted. The block may read memory, so
        // the configuration is written before it.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack)) };
        Self { rows }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: as in `shape`. Released registers need not be saved at every change of threads.
        unsafe { asm!("tilerelease", options(nostack)) };
    }
}

/// Rows that are computed for so many wanted ones.
pub fn padded(rows: usize) -> usize {
    rows.next_multiple_of(4).clamp(8, ROWS)
}

/// Computes `counts` rows, group after group, from row 0 on, against one tile, and hands each group's results to
/// `sink(first row, results)`. Rows beyond the wanted ones hold nothing of use.
pub fn tile(
    tiles: &Tiles,
    w: &Matrix,
    tile: usize,
    acts: ActsView<'_>,
    firsts: impl Iterator<Item = usize>,
    mut sink: impl FnMut(usize, &[[f32; TILE]; ROWS]),
) {
    let blocks = w.k / BLOCK;
    let weights = w.tile(tile);
    let mut out = [[0.0; TILE]; ROWS];
    UNPACKED.with_borrow_mut(|unpacked| {
        if w.format == Format::Q4 {
            unpacked.resize(unpacked.len().max(blocks * 8), Line([0; 64]));
            // SAFETY: the tile has `blocks` blocks, the buffer has room for them; AMX comes with AVX-512.
            unsafe { unpack(weights, blocks, unpacked) };
        }
        for first in firsts {
            acts.check(first, tiles.rows, blocks);
            // SAFETY: as above; rows were just checked, and the registers have the shape for them.
            unsafe {
                match (w.format, tiles.rows) {
                    (Format::Q4, 8) => q4::<8>(unpacked, weights, blocks, acts, first, &mut out),
                    (Format::Q4, 12) => q4::<12>(unpacked, weights, blocks, acts, first, &mut out),
                    (Format::Q4, _) => q4::<16>(unpacked, weights, blocks, acts, first, &mut out),
                    (_, 8) => q8::<8>(weights, blocks, acts, first, &mut out),
                    (_, 12) => q8::<12>(weights, blocks, acts, first, &mut out),
                    (_, _) => q8::<16>(weights, blocks, acts, first, &mut out),
                }
            }
            sink(first, &out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn unpack(weights: &[u8], blocks: usize, to: &mut [Line]) {
    let low = _mm512_set1_epi8(15);
    for j in 0..blocks {
        // SAFETY: block j lies inside `weights`, lines 8j..8j+8 inside `to`; prefetching never faults.
        unsafe {
            let p = weights.as_ptr().add(j * Q4_BYTES);
            let to = to.as_mut_ptr().add(j * 8);
            for line in 0..5 {
                _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD + line * 64).cast());
            }
            for g in 0..4 {
                let pair = _mm512_load_si512(p.add(g * 64).cast());
                _mm512_store_si512(to.add(g).cast(), _mm512_and_si512(pair, low));
                _mm512_store_si512(to.add(g + 4).cast(), _mm512_and_si512(_mm512_srli_epi16::<4>(pair), low));
            }
        }
    }
}

/// Dots of one block: activations at `$a` (rows of 32), weights at `$b` (8 lines), sums to `$c` (a line a row).
/// SAFETY: see the callers. Registers are written that no compiler uses: none are declared.
macro_rules! dots {
    ($op:literal, $c:literal, $a:literal, $b:literal, $acts:expr, $weights:expr, $sums:expr) => {
        asm!(
            concat!("tilezero ", $c),
            concat!("tileloadd ", $b, ", [{w} + {line}]"),
            concat!("tileloadd ", $a, ", [{x} + {half}]"),
            concat!($op, " ", $c, ", ", $a, ", ", $b),
            concat!("tilestored [{s} + {line}], ", $c),
            w = in(reg) $weights,
            x = in(reg) $acts,
            s = in(reg) $sums,
            line = in(reg) 64usize,
            half = in(reg) 32usize,
            options(nostack)
        )
    };
}

/// Runs `$dots` for block after block, one ahead of `$floats`, so that the tile unit and the vector units both work.
macro_rules! pipeline {
    ($blocks:ident, |$j:ident, $sums:ident, $odd:ident| $dots:block, |$k:ident, $done:ident| $floats:block) => {{
        let mut sums = [[Line([0; 64]); ROWS]; 2];
        let sums = sums.as_mut_ptr();
        {
            let ($j, $sums) = (0usize, sums);
            const $odd: bool = false;
            $dots
        }
        let mut at = 1;
        while at <= $blocks {
            if at < $blocks {
                let ($j, $sums) = (at, sums.add(1));
                const $odd: bool = true;
                $dots
            }
            {
                let ($k, $done) = (at - 1, sums.cast::<Line>());
                $floats
            }
            at += 1;
            if at > $blocks {
                break;
            }
            if at < $blocks {
                let ($j, $sums) = (at, sums);
                const $odd: bool = false;
                $dots
            }
            {
                let ($k, $done) = (at - 1, sums.add(1).cast::<Line>());
                $floats
            }
            at += 1;
        }
    }};
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,f16c")]
unsafe fn q4<const M: usize>(
    unpacked: &[Line],
    weights: &[u8],
    blocks: usize,
    acts: ActsView<'_>,
    first: usize,
    out: &mut [[f32; TILE]; ROWS],
) {
    let mut acc = [_mm512_setzero_ps(); M];
    // SAFETY: block indices are below `blocks`; rows `first..first + M` of every block are in the store; M lines of
    // sums are written and read.
    unsafe {
        pipeline!(
            blocks,
            |j, sums, ODD| {
                let x = acts.q.as_ptr().add((j * acts.rows + first) * BLOCK);
                let w = unpacked.as_ptr().add(j * 8);
                if ODD {
                    dots!("tdpbsud", "tmm1", "tmm3", "tmm5", x, w, sums);
                } else {
                    dots!("tdpbsud", "tmm0", "tmm2", "tmm4", x, w, sums);
                }
            },
            |j, sums| {
                let p = weights.as_ptr().add(j * Q4_BYTES);
                let d = _mm512_cvtph_ps(_mm256_loadu_si256(p.add(256).cast::<__m256i>()));
                let m = _mm512_cvtph_ps(_mm256_loadu_si256(p.add(288).cast::<__m256i>()));
                let at = j * acts.rows + first;
                let (scale, sum) = (acts.scale.as_ptr().add(at), acts.sum.as_ptr().add(at));
                each!(M, i, {
                    let f = _mm512_cvtepi32_ps(_mm512_load_si512(sums.add(i).cast()));
                    acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(*scale.add(i))), f, acc[i]);
                    acc[i] = _mm512_fmadd_ps(m, _mm512_set1_ps(*sum.add(i)), acc[i]);
                });
            }
        );
        for i in 0..M {
            _mm512_storeu_ps(out[i].as_mut_ptr(), acc[i]);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,f16c")]
unsafe fn q8<const M: usize>(
    weights: &[u8],
    blocks: usize,
    acts: ActsView<'_>,
    first: usize,
    out: &mut [[f32; TILE]; ROWS],
) {
    let mut acc = [_mm512_setzero_ps(); M];
    // SAFETY: as in `q4`; weights come straight from the tile, whose blocks are 8 lines.
    unsafe {
        pipeline!(
            blocks,
            |j, sums, ODD| {
                let x = acts.q.as_ptr().add((j * acts.rows + first) * BLOCK);
                let w = weights.as_ptr().add(j * Q8_BYTES);
                for line in 0..8 {
                    _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(AHEAD + line * 64).cast());
                }
                if ODD {
                    dots!("tdpbssd", "tmm1", "tmm3", "tmm5", x, w, sums);
                } else {
                    dots!("tdpbssd", "tmm0", "tmm2", "tmm4", x, w, sums);
                }
            },
            |j, sums| {
                let scales = weights.as_ptr().add(blocks * Q8_BYTES + j * Q8_SCALES);
                _mm_prefetch::<_MM_HINT_T0>(scales.wrapping_add(512).cast());
                let d = _mm512_cvtph_ps(_mm256_loadu_si256(scales.cast::<__m256i>()));
                let scale = acts.scale.as_ptr().add(j * acts.rows + first);
                each!(M, i, {
                    let f = _mm512_cvtepi32_ps(_mm512_load_si512(sums.add(i).cast()));
                    acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(*scale.add(i))), f, acc[i]);
                });
            }
        );
        for i in 0..M {
            _mm512_storeu_ps(out[i].as_mut_ptr(), acc[i]);
        }
    }
}

/// Operations of one step of [`peak`].
pub const PEAK_STEP_OPS: usize = 4 * 16 * 16 * 64 * 2;

/// As many dots as the tile unit can do, out of registers.
pub fn peak(steps: usize) {
    let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
    config.bytes[..8].fill(64);
    config.rows[..8].fill(16);
    // SAFETY: callers are at `Level::Amx`; see `Tiles::shape`. Loading a configuration clears the registers.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const config, options(nostack));
        for _ in 0..steps {
            asm!(
                "tdpbssd tmm0, tmm4, tmm6",
                "tdpbssd tmm1, tmm5, tmm7",
                "tdpbssd tmm2, tmm4, tmm7",
                "tdpbssd tmm3, tmm5, tmm6",
                options(nostack)
            );
        }
        asm!("tilerelease", options(nostack));
    }
}
