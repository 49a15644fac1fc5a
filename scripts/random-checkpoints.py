#!/usr/bin/env python3
"""Tiny checkpoints with random weights, and what Hugging Face transformers computes with them in F32.

Writes one folder an architecture under tests/fixtures/hf: the checkpoint as it would be published, and
expected.safetensors with `ids` (a prompt), `logits` (of every position), `features` (the residual stream after the
layers that `taps` names, of the last positions) and `greedy` (ids that follow under greedy decoding). tests/models.rs compares with them.

    pip install torch transformers safetensors
    python scripts/random-checkpoints.py [NAME ...]
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

OUT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "hf"
VOCAB, PROMPT, MORE, FEATURES = 96, 45, 24, 10


def randomise(model, seed):
    """Weights of a size that makes every part of the model matter; all of them whole BF16 numbers."""
    random = torch.Generator().manual_seed(seed)

    def normal(shape, deviation):
        return torch.randn(shape, generator=random) * deviation

    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                value = torch.rand(p.shape, generator=random) * 4 - 3
            elif name.endswith("dt_bias"):
                value = normal(p.shape, 1.0) - 1
            elif name.endswith("conv1d.weight"):
                value = normal(p.shape, 0.6)
            elif p.dim() == 1:
                around_zero = "qwen3_5" in model.config.model_type and not name.endswith("linear_attn.norm.weight")
                value = normal(p.shape, 0.3) + (0 if around_zero else 1)
            elif "embed_tokens" in name:
                value = normal(p.shape, 1.0)
            else:
                value = normal(p.shape, 1.4 / p.shape[1] ** 0.5)
            p.copy_(value.bfloat16().float())


def expectations(model, seed):
    """What the model says about a prompt, in F32."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCAB, (1, PROMPT), generator=random)
    model.eval()
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
        # Not the last layer: its element has gone through the final norm.
        taps = [0, model.config.num_hidden_layers - 2]
        # Element 0 is the embedding, so layer i's output is element i + 1.
        features = torch.cat([out.hidden_states[tap + 1][0] for tap in taps], dim=-1)
        longer = ids
        for _ in range(MORE):
            following = model(longer).logits[0, -1].argmax()
            longer = torch.cat([longer, following.view(1, 1)], dim=1)
    return {
        "ids": ids[0],
        "logits": out.logits[0].float().contiguous(),
        "features": features[-FEATURES:].contiguous(),
        "taps": torch.tensor(taps),
        "greedy": longer[0, PROMPT:].contiguous(),
    }


def write(name, model, config, seed, rename=lambda n: n, shards=1, exact=()):
    """Writes a checkpoint and what is expected of it. Tensors named in `exact` are stored in F32, the others in BF16."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    randomise(model, seed)
    tied = model.config.tie_word_embeddings
    tensors = {
        rename(n): (p.detach().clone() if n.endswith(tuple(exact)) and exact else p.detach().bfloat16())
        for n, p in model.state_dict().items()
        if not (tied and n == "lm_head.weight") and "inv_freq" not in n
    }
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
    else:
        names = sorted(tensors)
        files = {}
        for s in range(shards):
            file = f"model-{s + 1:05}-of-{shards:05}.safetensors"
            part = names[s::shards]
            save_file({n: tensors[n] for n in part}, folder / file)
            files.update({n: file for n in part})
        size = sum(t.numel() * t.element_size() for t in tensors.values())
        index = {"metadata": {"total_size": size}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    save_file(expectations(model, seed + 1), folder / "expected.safetensors")
    total = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: {total / 1e3:.0f} kB")


def published(config):
    """The parts of a configuration that published files have."""
    drop = {
        "transformers_version", "dtype", "torch_dtype", "_name_or_path", "use_cache", "initializer_range", "id2label",
        "label2id", "chunk_size_feed_forward", "is_encoder_decoder", "output_attentions", "output_hidden_states",
        "return_dict", "pretraining_tp",
    }
    return {k: v for k, v in config.to_dict().items() if v is not None and k not in drop}


def dense(kind, tied):
    shape = {
        "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "tie_word_embeddings": tied, "eos_token_id": [1, 2], "bos_token_id": 0, "pad_token_id": None,
        "attn_implementation": "eager",
    }
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(head_dim=16, rope_theta=10_000.0, **shape))
    scaling = {
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    return LlamaForCausalLM(LlamaConfig(rms_norm_eps=1e-5, rope_parameters=scaling, **shape))


def hybrid(tied):
    config = Qwen3_5TextConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, max_position_embeddings=512, tie_word_embeddings=tied, eos_token_id=[1, 2],
        linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=16, linear_num_key_heads=2,
        linear_num_value_heads=4,
        rope_parameters={
            "rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25, "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
        },
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
    )
    config._attn_implementation = "eager"
    return Qwen3_5ForCausalLM(config)


def qwen3_tied():
    model = dense("qwen3", True)
    write("qwen3-tied", model, published(model.config), 1)


def qwen3_untied():
    model = dense("qwen3", False)
    write("qwen3-untied", model, published(model.config), 3)


def llama_scaled():
    model = dense("llama", False)
    write("llama3-scaled", model, published(model.config), 5, shards=3)


def qwen35_tied():
    model = hybrid(True)
    config = published(model.config)
    config["model_type"] = "qwen3_5_text"
    write("qwen35-tied", model, config, 7, exact=("A_log", "linear_attn.norm.weight"))


def qwen35_untied():
    """As published: the text model inside the one that sees pictures."""
    model = hybrid(False)
    text = published(model.config)
    text["model_type"] = "qwen3_5_text"
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "tie_word_embeddings": False,
        "text_config": text, "vision_config": {"model_type": "qwen3_5", "depth": 1, "hidden_size": 16},
    }

    def rename(name):
        return name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name

    write("qwen35-untied", model, config, 9, rename=rename, shards=2)


def drafter():
    """A DFlash drafter for qwen35-tied: one full and one sliding layer, K and V of its own shape."""
    folder = OUT / "qwen35-tied-dflash"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = torch.Generator().manual_seed(11)
    hidden, heads, kv, width, inner = 64, 2, 1, 16, 64
    tensors = {}

    def matrix(name, rows, columns):
        tensors[name] = (torch.randn((rows, columns), generator=random) * 1.4 / columns**0.5).bfloat16()

    def vector(name, length):
        tensors[name] = (1 + torch.randn(length, generator=random) * 0.3).bfloat16()

    matrix("fc.weight", hidden, 2 * hidden)
    vector("hidden_norm.weight", hidden)
    vector("norm.weight", hidden)
    for layer in range(2):
        at = f"layers.{layer}."
        vector(at + "input_layernorm.weight", hidden)
        vector(at + "post_attention_layernorm.weight", hidden)
        matrix(at + "self_attn.q_proj.weight", heads * width, hidden)
        matrix(at + "self_attn.k_proj.weight", kv * width, hidden)
        matrix(at + "self_attn.v_proj.weight", kv * width, hidden)
        matrix(at + "self_attn.o_proj.weight", hidden, heads * width)
        vector(at + "self_attn.q_norm.weight", width)
        vector(at + "self_attn.k_norm.weight", width)
        matrix(at + "mlp.gate_proj.weight", inner, hidden)
        matrix(at + "mlp.up_proj.weight", inner, hidden)
        matrix(at + "mlp.down_proj.weight", hidden, inner)
    save_file(tensors, folder / "model.safetensors")
    config = {
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "vocab_size": VOCAB, "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": heads, "num_key_value_heads": kv,
        "head_dim": width, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "num_target_layers": 4, "hidden_act": "silu",
        "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 24, "use_sliding_window": True,
        "block_size": 8, "dflash_config": {"mask_token_id": VOCAB - 1, "target_layer_ids": [0, 2]},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    print(f"qwen35-tied-dflash: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} kB")


ALL = [qwen3_tied, qwen3_untied, llama_scaled, qwen35_tied, qwen35_untied, drafter]

if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for make in ALL:
        if not wanted or make.__name__.replace("_", "-") in wanted:
            make()
