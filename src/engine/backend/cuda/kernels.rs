//! The kernels' sources. They are compiled at first use, for the device that is there.

/// What all sources begin with.
pub const PRELUDE: &str = include_str!("kernels/prelude.cu");

/// One source: the kernels of one subject.
#[derive(Debug)]
pub struct Source {
    /// File name, for messages.
    pub name: &'static str,
    /// CUDA C, without the prelude.
    pub text: &'static str,
    /// Kernels in it.
    pub kernels: &'static [&'static str],
}

/// All sources.
pub const SOURCES: &[Source] = &[
    Source {
        name: "rows.cu",
        text: include_str!("kernels/rows.cu"),
        kernels: &["embed", "prepare", "rms_norm", "cap", "gather", "place", "convolve", "add"],
    },
    Source {
        name: "linear.cu",
        text: include_str!("kernels/linear.cu"),
        kernels: &[
            "linear_f32_1",
            "linear_f32_8",
            "linear_f16_1",
            "linear_f16_4",
            "linear_bf16_1",
            "linear_bf16_2",
            "linear_bf16_4",
            "linear_q8_1",
            "linear_q8_2",
            "linear_q8_4",
            "linear_q4_1",
            "linear_q4_2",
            "linear_q4_4",
        ],
    },
    Source {
        name: "attention.cu",
        text: include_str!("kernels/attention.cu"),
        kernels: &["rotate_store", "attend_piece", "attend_merge", "keep"],
    },
    Source {
        name: "delta.cu",
        text: include_str!("kernels/delta.cu"),
        kernels: &["delta_take", "delta_mix", "delta_rule", "delta_finish", "delta_keep", "gate"],
    },
    Source { name: "choose.cu", text: include_str!("kernels/choose.cu"), kernels: &["best", "top"] },
];

/// A source as the compiler gets it.
pub fn program(source: &Source) -> String {
    format!("{PRELUDE}\n{}", source.text)
}
