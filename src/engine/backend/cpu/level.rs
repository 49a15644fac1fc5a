//! Which instructions this processor has, and how one loop is compiled for each of them.

use std::fmt;

/// Instruction set in use. Chosen once at start; results differ in the last bits between levels, never within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Whatever the target's baseline is.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F/BW/VL with VNNI.
    Vnni,
}

impl Level {
    /// The best level of this processor. `SPECTOP_KERNELS=avx2` or `portable` asks for less.
    pub fn detect() -> Self {
        let best = Self::of_processor();
        let wish = match std::env::var("SPECTOP_KERNELS").as_deref() {
            Ok("portable") => Level::Portable,
            Ok("avx2") => Level::Avx2,
            _ => Level::Vnni,
        };
        best.min(wish)
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Self {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let vnni = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("f16c");
        match (avx2, vnni) {
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
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $body:ident ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?) => {
        $(#[$doc])*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name(level: $crate::engine::backend::cpu::level::Level, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::engine::backend::cpu::level::Level;
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
                fn vnni($($arg: $ty),*) $(-> $ret)? { $body::<true>($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? { $body::<true>($($arg),*) }
                match level {
                    // SAFETY: `Level::detect` found these instructions on this processor.
                    Level::Vnni => return unsafe { vnni($($arg),*) },
                    // SAFETY: as above.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Portable => {}
                }
            }
            let _ = level;
            $body::<false>($($arg),*)
        }
    };
}
pub(super) use multiversion;
