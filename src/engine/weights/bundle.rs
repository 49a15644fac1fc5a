//! Models that are compiled into the program, so that an installed binary works anywhere.

use crate::engine::api::Embedded;

macro_rules! model_file {
    ($folder:literal, $name:literal) => {
        ($name, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/", $folder, "/", $name)).as_slice())
    };
}

/// A byte-level Qwen3 target, trained for minutes: for tests, and where no other model can be had.
pub static TINY_TARGET: Embedded = Embedded {
    name: "tiny-byte-qwen3",
    files: &[
        model_file!("tiny/target", "config.json"),
        model_file!("tiny/target", "generation_config.json"),
        model_file!("tiny/target", "tokenizer_config.json"),
        model_file!("tiny/target", "model.safetensors"),
    ],
};

/// The drafter of [`TINY_TARGET`].
pub static TINY_DRAFT: Embedded = Embedded {
    name: "tiny-byte-dflash",
    files: &[model_file!("tiny/drafter", "config.json"), model_file!("tiny/drafter", "model.safetensors")],
};

/// The drafter of the default target, SmolLM2-135M-Instruct.
pub static SMOLLM2_DRAFT: Embedded = Embedded {
    name: "smollm2-135m-dflash",
    files: &[
        model_file!("smollm2-135m-dflash", "config.json"),
        model_file!("smollm2-135m-dflash", "model.safetensors"),
    ],
};
