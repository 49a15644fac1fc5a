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
    /// Shapes this thread's registers: 0 to 3 take sums, 4 and 5 activations, 6 and 7 weights.
    pub fn shape(rows: usize) -> Self {
        let rows = rows.next_multiple_of(4).min(ROWS);
        let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        config.bytes[..8].copy_from_slice(&[64, 64, 64, 64, BLOCK as u16, BLOCK as u16, 64, 64]);
        config.rows[..6].fill(rows as u8);
        config.rows[6..8].fill(8);
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

/// Computes a group of rows for each of `firsts` against one tile, and hands its results to `sink(first row, results)`.
/// Rows beyond the wanted ones hold nothing of use.
pub fn tile(
    tiles: &Tiles,
    w: &Matrix,
    tile: usize,
    acts: ActsView<'_>,
    firsts: impl ExactSizeIterator<Item = usize>,
    mut sink: impl FnMut(usize, &[[f32; TILE]; ROWS]),
) {
    let blocks = w.k / BLOCK;
    let weights = w.tile(tile);
    let mut out = [[0.0; TILE]; ROWS];
    UNPACKED.with_borrow_mut(|unpacked| {
        // One group needs a block's weights only while it is at that block: a ring of four stays in the nearest cache.
        let ring = if firsts.len() == 1 { 4 } else { blocks.next_power_of_two() };
        if w.format == Format::Q4 {
            unpacked.resize(unpacked.len().max(ring.max(4) * 8), Line([0; 64]));
        }
        for (group, first) in firsts.enumerate() {
            acts.check(first, tiles.rows, blocks);
            let job = Job { weights, blocks, acts, first, mask: ring - 1, unpack: group == 0 };
            macro_rules! by_rows {
                ($f:ident($($arg:expr),*)) => {
                    match tiles.rows {
                        4 => $f::<4>($($arg),*),
                        8 => $f::<8>($($arg),*),
                        12 => $f::<12>($($arg),*),
                        _ => $f::<16>($($arg),*),
                    }
                };
            }
            // SAFETY: the tile has `blocks` blocks, `unpacked` has room for the ring; rows were just checked, and the
            // registers have the shape for them. AMX comes with AVX-512.
            unsafe {
                match w.format {
                    Format::Q4 => by_rows!(q4(&job, unpacked, &mut out)),
                    _ => by_rows!(q8(&job, &mut out)),
                }
            }
            sink(first, &out);
        }
    });
}

/// One group of rows against one tile.
struct Job<'a> {
    weights: &'a [u8],
    blocks: usize,
    acts: ActsView<'a>,
    first: usize,
    /// Block `j` is unpacked to place `j & mask`.
    mask: usize,
    /// Whether this group unpacks; later ones find it done.
    unpack: bool,
}

/// SAFETY: `j < blocks`; eight lines at `to`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn unpack(weights: &[u8], j: usize, to: *mut Line) {
    let low = _mm512_set1_epi8(15);
    // SAFETY: the caller's promise; prefetching never faults.
    unsafe {
        let p = weights.as_ptr().add(j * Q4_BYTES);
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

/// Dots of one block into register `$c`: activations at `$x` (rows of 32), weights at `$w` (8 lines).
/// SAFETY: see the callers. Registers are written that no compiler uses: none are declared.
macro_rules! dots {
    ($op:literal, $c:literal, $a:literal, $b:literal, $x:expr, $w:expr) => {
        asm!(
            concat!("tilezero ", $c),
            concat!("tileloadd ", $b, ", [{w} + {line}]"),
            concat!("tileloadd ", $a, ", [{x} + {half}]"),
            concat!($op, " ", $c, ", ", $a, ", ", $b),
            w = in(reg) $w,
            x = in(reg) $x,
            line = in(reg) 64usize,
            half = in(reg) 32usize,
            options(nostack)
        )
    };
}

/// Stores sums from register `$c`, a line a row.
macro_rules! store {
    ($c:literal, $to:expr) => {
        asm!(concat!("tilestored [{s} + {line}], ", $c), s = in(reg) $to, line = in(reg) 64usize, options(nostack))
    };
}

/// For block after block: dots of block `j`, store the sums of block `j − 2`, and `$floats` for those of block `j − 4`.
/// The distances let the tile unit, the stores and the vector units work at the same time.
macro_rules! pipeline {
    ($op:literal, $job:ident, |$j:ident| $place:block, |$k:ident, $sums:ident| $floats:block) => {{
        let mut ring = [[Line([0; 64]); ROWS]; 4];
        let ring: *mut [Line; ROWS] = ring.as_mut_ptr();
        macro_rules! step {
            ($at:expr, $new:literal, $a:literal, $b:literal, $old:literal, $stored:literal, $done:literal) => {{
                let at: usize = $at;
                if at < $job.blocks {
                    let $j = at;
                    let w: *const u8 = $place;
                    let x = $job.acts.q.as_ptr().add((at * $job.acts.rows + $job.first) * BLOCK);
                    dots!($op, $new, $a, $b, x, w);
                }
                if at >= 2 && at < $job.blocks + 2 {
                    store!($old, ring.add($stored));
                }
                if at >= 4 && at < $job.blocks + 4 {
                    let ($k, $sums) = (at - 4, ring.add($done).cast::<Line>());
                    $floats
                }
            }};
        }
        let mut at = 0;
        while at < $job.blocks + 4 {
            step!(at, "tmm0", "tmm4", "tmm6", "tmm2", 2, 0);
            step!(at + 1, "tmm1", "tmm5", "tmm7", "tmm3", 3, 1);
            step!(at + 2, "tmm2", "tmm4", "tmm6", "tmm0", 0, 2);
            step!(at + 3, "tmm3", "tmm5", "tmm7", "tmm1", 1, 3);
            at += 4;
        }
    }};
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,f16c")]
unsafe fn q4<const M: usize>(job: &Job<'_>, unpacked: &mut [Line], out: &mut [[f32; TILE]; ROWS]) {
    let mut acc = [_mm512_setzero_ps(); M];
    let unpacked = unpacked.as_mut_ptr();
    // SAFETY: block indices are below `blocks`; rows `first..first + M` of every block are in the store; M lines of
    // sums are written and read.
    unsafe {
        if job.unpack {
            for j in 0..job.blocks.min(2) {
                unpack(job.weights, j, unpacked.add((j & job.mask) * 8));
            }
        }
        pipeline!(
            "tdpbsud",
            job,
            |j| {
                if job.unpack && j + 2 < job.blocks {
                    unpack(job.weights, j + 2, unpacked.add(((j + 2) & job.mask) * 8));
                }
                unpacked.add((j & job.mask) * 8).cast()
            },
            |j, sums| {
                let p = job.weights.as_ptr().add(j * Q4_BYTES);
                let d = _mm512_cvtph_ps(_mm256_loadu_si256(p.add(256).cast::<__m256i>()));
                let m = _mm512_cvtph_ps(_mm256_loadu_si256(p.add(288).cast::<__m256i>()));
                let at = j * job.acts.rows + job.first;
                let (scale, sum) = (job.acts.scale.as_ptr().add(at), job.acts.sum.as_ptr().add(at));
                each!(M, i, {
                    let f = _mm512_cvtepi32_ps(_mm512_load_si512(sums.add(i).cast()));
                    acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(*scale.add(i))), f, acc[i]);
                    acc[i] = _mm512_fmadd_ps(m, _mm512_set1_ps(*sum.add(i)), acc[i]);
                });
            }
        );
        each!(M, i, {
            _mm512_storeu_ps(out[i].as_mut_ptr(), acc[i]);
        });
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,f16c")]
unsafe fn q8<const M: usize>(job: &Job<'_>, out: &mut [[f32; TILE]; ROWS]) {
    let mut acc = [_mm512_setzero_ps(); M];
    // SAFETY: as in `q4`; weights come straight from the tile, whose blocks are 8 lines.
    unsafe {
        pipeline!(
            "tdpbssd",
            job,
            |j| {
                let w = job.weights.as_ptr().add(j * Q8_BYTES);
                if job.unpack {
                    for line in 0..8 {
                        _mm_prefetch::<_MM_HINT_T0>(w.wrapping_add(AHEAD + line * 64).cast());
                    }
                }
                w
            },
            |j, sums| {
                let scales = job.weights.as_ptr().add(job.blocks * Q8_BYTES + j * Q8_SCALES);
                _mm_prefetch::<_MM_HINT_T0>(scales.wrapping_add(512).cast());
                let d = _mm512_cvtph_ps(_mm256_loadu_si256(scales.cast::<__m256i>()));
                let scale = job.acts.scale.as_ptr().add(j * job.acts.rows + job.first);
                each!(M, i, {
                    let f = _mm512_cvtepi32_ps(_mm512_load_si512(sums.add(i).cast()));
                    acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(*scale.add(i))), f, acc[i]);
                });
            }
        );
        each!(M, i, {
            _mm512_storeu_ps(out[i].as_mut_ptr(), acc[i]);
        });
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
