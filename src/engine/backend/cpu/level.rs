//! Which instructions this processor has, and how one loop is compiled for each of them.

use std::fmt;
use std::sync::OnceLock;

/// Instruction set in use. Chosen once at start; results differ in the last bits between levels, never within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the target's baseline is.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F/BW/VL with VNNI.
    Vnni,
    /// The same, and AMX tiles in 8 bits.
    Amx,
}

impl Level {
    /// The best level of this processor. `SPECTOP_KERNELS=vnni`, `avx2` or `portable` asks for less.
    pub fn detect() -> Self {
        // Asking the processor costs microseconds in a virtual machine.
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let best = Self::of_processor();
            let wish = match std::env::var("SPECTOP_KERNELS").as_deref() {
                Ok("portable") => Level::Portable,
                Ok("avx2") => Level::Avx2,
                Ok("vnni") => Level::Vnni,
                _ => Level::Amx,
            };
            best.min(wish)
        })
    }

    /// Every level that this processor has.
    #[cfg(test)]
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::of_processor();
        [Level::Portable, Level::Avx2, Level::Vnni, Level::Amx].into_iter().filter(move |&level| level <= best)
    }

    /// Whether AVX-512 kernels run.
    pub fn avx512(self) -> bool {
        self >= Level::Vnni
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Self {
        let avx2 =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        let vnni = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        match (avx2, vnni) {
            (true, true) if super::amx::usable() => Level::Amx,
            (true, true) => Level::Vnni,
            (true, false) => Level::Avx2,
            _ => Level::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_processor() -> Self {
        Level::Portable
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Vnni => "avx512-vnni",
            Level::Amx => "amx-int8",
        })
    }
}

/// `a · b + c`. With `FMA` it is one instruction; without, calling the library's fused form would cost more than the
/// rounding is worth.
#[inline(always)]
#[allow(clippy::inline_always)]
pub fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Declares a function compiled once a level from one body. The body is `#[inline(always)]` and generic over
/// `const FMA: bool`, so that the compiler vectorises it with each level's registers.
macro_rules! multiversion {
    ($(#[$doc:meta])* $vis:vis fn $name:ident $(<$g:ident : $bound:ident>)? = $body:ident
        ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?) => {
        $(#[$doc])*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name $(<$g: $bound>)? (level: $crate::engine::backend::cpu::level::Level, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::engine::backend::cpu::level::Level;
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
                fn vnni $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)? { $body::<true $(, $g)?>($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)? { $body::<true $(, $g)?>($($arg),*) }
                match level {
                    // SAFETY: `Level::detect` found these instructions on this processor.
                    Level::Amx | Level::Vnni => return unsafe { vnni($($arg),*) },
                    // SAFETY: as above.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Portable => {}
                }
            }
            let _ = level;
            $body::<false $(, $g)?>($($arg),*)
        }
    };
}
pub(super) use multiversion;

/// Runs the body for `$i` in `0..$n`, written out, so that arrays indexed by it are registers: a loop of some
/// rounds is not unrolled by itself, and then every step goes through the stack (measured: 1.6 times slower at eight
/// rows).
#[cfg(target_arch = "x86_64")]
macro_rules! each {
    ($rows:ident, $i:ident, $body:block) => {
        $crate::engine::backend::cpu::level::each!(@ $rows, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $rows:ident, $i:ident, $body:block, $($n:literal)*) => {
        $(if $n < $rows {
            let $i = $n;
            $body
        })*
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use each;
