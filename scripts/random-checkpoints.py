#!/usr/bin/env python3
"""Tiny checkpoints with random weights, and what Hugging Face transformers computes with them in F32.

Writes one folder an architecture under tests/fixtures/hf: the checkpoint as it would be published, and
expected.safetensors with `ids` (a prompt), `logits` (of every position), `features` (the residual stream after the
layers that `taps` names, of the last positions) and `greedy` (ids that follow under greedy decoding). tests/models.rs
compares with them. Drafters have no transformers model to compare with: what DFlash 2 gives is computed here, straight
from its formulas, for tests/dflash2.rs.

    pip install torch transformers safetensors
    python scripts/random-checkpoints.py [NAME ...]
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
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


DRAFT = {
    "model_type": "qwen3", "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0,
    "num_target_layers": 4, "hidden_act": "silu", "block_size": 8,
}


def draft_tensors(random, hidden, heads, kv, width, inner, layers, taps):
    """Random tensors of a drafter, whole BF16 numbers."""
    tensors = {}

    def matrix(name, rows, columns):
        tensors[name] = (torch.randn((rows, columns), generator=random) * 1.4 / columns**0.5).bfloat16()

    def vector(name, length):
        tensors[name] = (1 + torch.randn(length, generator=random) * 0.3).bfloat16()

    matrix("fc.weight", hidden, taps * hidden)
    vector("hidden_norm.weight", hidden)
    vector("norm.weight", hidden)
    for layer in range(layers):
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
    return tensors


def write_drafter(name, tensors, config, expected=None):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    if expected:
        save_file(expected, folder / "expected.safetensors")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1e3:.0f} kB")


def dflash():
    """A DFlash drafter for qwen35-tied: one full and one sliding layer, K and V of its own shape."""
    random = torch.Generator().manual_seed(11)
    config = DRAFT | {
        "architectures": ["DFlashDraftModel"], "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 24, "use_sliding_window": True,
        "dflash_config": {"mask_token_id": VOCAB - 1, "target_layer_ids": [0, 2]},
    }
    write_drafter("qwen35-tied-dflash", draft_tensors(random, 64, 2, 1, 16, 64, 2, 2), config)


def norm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotated(x, positions, theta=10_000.0):
    """Half-split rotation of [rows, heads, width] by position."""
    half = x.shape[-1] // 2
    angles = positions[:, None].float() * theta ** (-torch.arange(half) * 2.0 / x.shape[-1])
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def dflash2_pass(t, config, features, embedding, head, seed):
    """DFlash 2 by its formulas, one block behind `features`: logits of slots 1.., and what the selector picks."""
    context, size = features.shape[0], config["block_size"]
    heads, kv, width = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    two = config["dflash_config"]
    taps, group, window = two["conv_kernel_size"], two["conv_group_size"], config["sliding_window"]
    hidden = config["hidden_size"]
    c = norm(features @ t["fc.weight"].T, t["hidden_norm.weight"])
    x = embedding[torch.tensor([seed] + [two["mask_token_id"]] * (size - 1))]
    places = torch.arange(context + size)
    mine = places[context:]
    near = (mine[:, None] - places[None, :]).abs() < window

    def convolved(z, base, own):
        out = torch.zeros_like(z)
        for j in range(size):
            for back in range(min(taps, j + 1)):
                out[j] += (base[back] + own[j, back].repeat_interleave(group)) * z[j - back]
        return out

    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."

        def around(name, z, sublayer):
            base = t[at + name + ".base_kernel"]
            own = (z @ t[at + name + ".kernel_projection.weight"].T).view(size, 2, taps, hidden // group)
            return convolved(sublayer(convolved(z, base[0], own[:, 0])), base[1], own[:, 1])

        def attention(z):
            def split(y, count):
                return y.view(y.shape[0], count, width)

            q = norm(split(z @ t[at + "self_attn.q_proj.weight"].T, heads), t[at + "self_attn.q_norm.weight"])
            both = torch.cat([c, z])
            k = norm(split(both @ t[at + "self_attn.k_proj.weight"].T, kv), t[at + "self_attn.k_norm.weight"])
            v = split(both @ t[at + "self_attn.v_proj.weight"].T, kv)
            q, k = rotated(q, mine), rotated(k, places)
            k, v = (y.repeat_interleave(heads // kv, dim=1) for y in (k, v))
            scores = torch.einsum("qhd,khd->hqk", q, k) * width**-0.5
            weights = scores.masked_fill(~near, float("-inf")).softmax(-1)
            mixed = torch.einsum("hqk,khd->qhd", weights, v).reshape(size, heads * width)
            return mixed @ t[at + "self_attn.o_proj.weight"].T

        def mlp(z):
            gate = torch.nn.functional.silu(z @ t[at + "mlp.gate_proj.weight"].T)
            return (gate * (z @ t[at + "mlp.up_proj.weight"].T)) @ t[at + "mlp.down_proj.weight"].T

        x = x + around("attention_conv", norm(x, t[at + "input_layernorm.weight"]), attention)
        x = x + around("mlp_conv", norm(x, t[at + "post_attention_layernorm.weight"]), mlp)
    o = norm(x, t["norm.weight"])[1:]
    cap = config["final_logit_softcapping"]
    logits = cap * torch.tanh(o @ head.T * config["output_multiplier"] / cap)
    chain, scores, before = [], [], seed
    for slot in range(size - 1):
        values, tokens = logits[slot].topk(two["selector_top_k"])
        h = t["candidate_selector.hidden_projection.weight"] @ o[slot]
        asked = t["candidate_selector.predecessor_codebook"][before] * h
        score = values + t["candidate_selector.successor_codebook"][tokens] @ asked
        before = tokens[score.argmax()].item()
        chain.append(before)
        scores.append(score.max() - score.logsumexp(0))
    return logits, torch.tensor(chain), torch.stack(scores)


def dflash2():
    """A DFlash 2 drafter for qwen35-untied, and what the formulas give behind several contexts."""
    random = torch.Generator().manual_seed(13)
    tensors = draft_tensors(random, 64, 2, 1, 16, 64, 2, 2)
    taps, group, rank = 3, 16, 8

    def normal(shape, deviation):
        return (torch.randn(shape, generator=random) * deviation).bfloat16()

    for layer in range(2):
        for part in ["attention_conv", "mlp_conv"]:
            tensors[f"layers.{layer}.{part}.base_kernel"] = normal((2, taps, 64), 0.6)
            projection = normal((2 * taps * (64 // group), 64), 0.05)
            tensors[f"layers.{layer}.{part}.kernel_projection.weight"] = projection
    tensors["candidate_selector.hidden_projection.weight"] = normal((rank, 64), 0.12)
    tensors["candidate_selector.predecessor_codebook"] = normal((VOCAB, rank), 1.0)
    tensors["candidate_selector.successor_codebook"] = normal((VOCAB, rank), 1.0)
    config = DRAFT | {
        "architectures": ["DFlash2DraftModel"], "layer_types": ["sliding_attention"] * 2, "sliding_window": 12,
        "use_sliding_window": True, "is_causal": False, "output_multiplier": 0.5, "final_logit_softcapping": 6.0,
        "dflash_config": {
            "mask_token_id": VOCAB - 1, "target_layer_ids": [0, 2], "conv_kernel_size": taps,
            "conv_group_size": group, "selector_rank": rank, "selector_top_k": 6,
        },
    }
    target = hybrid(False)
    randomise(target, 9)
    target.eval()
    ids = load_file(OUT / "qwen35-untied" / "expected.safetensors")["ids"]
    exact = {n: v.float() for n, v in tensors.items()}
    expected = {"contexts": torch.tensor([5, 20, 44])}
    with torch.no_grad():
        states = target(ids[None], output_hidden_states=True).hidden_states
        features = torch.cat([states[tap + 1][0] for tap in [0, 2]], dim=-1)
        for context in expected["contexts"].tolist():
            found = dflash2_pass(
                exact, config, features[:context], target.model.embed_tokens.weight, target.lm_head.weight,
                ids[context].item(),
            )
            for name, value in zip(["logits", "chain", "scores"], found):
                expected[f"{name}.{context}"] = value.contiguous()
    write_drafter("qwen35-untied-dflash2", tensors, config, expected)


ALL = [qwen3_tied, qwen3_untied, llama_scaled, qwen35_tied, qwen35_untied, dflash, dflash2]

if __name__ == "__main__":
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for make in ALL:
        if not wanted or make.__name__.replace("_", "-") in wanted:
            make()
