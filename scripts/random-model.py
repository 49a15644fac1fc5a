#!/usr/bin/env python3
"""A GGUF file with the shape of Qwen3-0.6B (640 MB) or Qwen3-8B (8.7 GB) and random Q8_0 weights, for measuring kernels
on a model that does not fit into caches; for the latter also a drafter of the published shape, in BF16 (2.1 GB).
Usage: random-model.py OUT.gguf [0.6b|8b [DRAFTER]] (needs the packages gguf and numpy)."""

import json
import os
import sys

import gguf
import numpy as np

SHAPES = {"0.6b": (28, 1024, 16, 8, 128, 3072, 151_936), "8b": (36, 4096, 32, 8, 128, 12_288, 151_936)}
SIZE = sys.argv[2] if len(sys.argv) > 2 else "0.6b"
LAYERS, HIDDEN, HEADS, KV_HEADS, DIM, INNER, VOCAB = SHAPES[SIZE]


def main():
    random = np.random.default_rng(1)
    out = gguf.GGUFWriter(sys.argv[1], "qwen3")
    out.add_name(f"random-qwen3-{SIZE}")
    out.add_context_length(8192)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_key_length(DIM)
    out.add_value_length(DIM)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(1e6)
    out.add_vocab_size(VOCAB)
    out.add_tokenizer_model("none")

    def matrix(name, rows, columns):
        blocks = np.empty((rows, columns // 32, 34), np.uint8)
        blocks[:, :, 2:] = random.integers(-127, 128, (rows, columns // 32, 32), np.int8).view(np.uint8)
        scale = np.float16(1 / np.sqrt(columns) / 73)
        blocks[:, :, :2] = np.frombuffer(scale.tobytes(), np.uint8)
        data = blocks.reshape(rows, -1)
        out.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.Q8_0)

    def ones(name, size):
        out.add_tensor(name, np.ones(size, np.float32))

    matrix("token_embd.weight", VOCAB, HIDDEN)
    ones("output_norm.weight", HIDDEN)
    for i in range(LAYERS):
        layer = f"blk.{i}"
        for name, rows, columns in [
            ("attn_q", HEADS * DIM, HIDDEN),
            ("attn_k", KV_HEADS * DIM, HIDDEN),
            ("attn_v", KV_HEADS * DIM, HIDDEN),
            ("attn_output", HIDDEN, HEADS * DIM),
            ("ffn_gate", INNER, HIDDEN),
            ("ffn_up", INNER, HIDDEN),
            ("ffn_down", HIDDEN, INNER),
        ]:
            matrix(f"{layer}.{name}.weight", rows, columns)
        for name, size in [("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), ("attn_q_norm", DIM), ("attn_k_norm", DIM)]:
            ones(f"{layer}.{name}.weight", size)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def drafter(folder):
    """Safetensors by hand: a length, a JSON header, the data."""
    layers, taps, block = 5, [1, 9, 17, 25, 33], 16
    shapes = {"fc.weight": (HIDDEN, len(taps) * HIDDEN), "hidden_norm.weight": (HIDDEN,), "norm.weight": (HIDDEN,)}
    for i in range(layers):
        for name, shape in [
            ("self_attn.q_proj", (HEADS * DIM, HIDDEN)),
            ("self_attn.k_proj", (KV_HEADS * DIM, HIDDEN)),
            ("self_attn.v_proj", (KV_HEADS * DIM, HIDDEN)),
            ("self_attn.o_proj", (HIDDEN, HEADS * DIM)),
            ("self_attn.q_norm", (DIM,)),
            ("self_attn.k_norm", (DIM,)),
            ("mlp.gate_proj", (INNER, HIDDEN)),
            ("mlp.up_proj", (INNER, HIDDEN)),
            ("mlp.down_proj", (HIDDEN, INNER)),
            ("input_layernorm", (HIDDEN,)),
            ("post_attention_layernorm", (HIDDEN,)),
        ]:
            shapes[f"layers.{i}.{name}.weight"] = shape
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    os.makedirs(folder, exist_ok=True)
    random = np.random.default_rng(2)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            values = np.ones(shape, np.float32)
            if len(shape) == 2:
                values = random.standard_normal(shape, np.float32) / np.sqrt(shape[1], dtype=np.float32)
            file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    config = {
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": HIDDEN,
        "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM,
        "num_hidden_layers": layers, "num_target_layers": LAYERS, "vocab_size": VOCAB, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "block_size": block, "dflash_config": {"mask_token_id": 151_669, "target_layer_ids": taps},
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


if __name__ == "__main__":
    main()
    if len(sys.argv) > 3:
        drafter(sys.argv[3])
