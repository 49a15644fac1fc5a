#!/usr/bin/env python3
"""A GGUF file with the shape of Qwen3-0.6B and random Q8_0 weights, for measuring kernels on a model that does not fit
into a processor's caches. Usage: random-model.py OUT.gguf (needs the packages gguf and numpy; 640 MB)."""

import sys

import gguf
import numpy as np

LAYERS, HIDDEN, HEADS, KV_HEADS, DIM, INNER, VOCAB = 28, 1024, 16, 8, 128, 3072, 151_936


def main():
    random = np.random.default_rng(1)
    out = gguf.GGUFWriter(sys.argv[1], "qwen3")
    out.add_name("random-qwen3-0.6b")
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


if __name__ == "__main__":
    main()
