"""The DFlash drafter in PyTorch, as a function of many blocks of several sequences at once.

A block at anchor `p` holds the true token `x_p` and `B - 1` mask tokens at positions `p .. p + B - 1`. It sees target
features of positions strictly before `p` and its own block, nothing else: while decoding, the features of the newest
token do not exist yet, and those of any later one would give the answer away.
"""

import dataclasses
import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import fused
from target import rope_table, rotate


@dataclasses.dataclass
class Shape:
    """A drafter's configuration."""

    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    taps: list[int]
    target_layers: int
    mask_token: int
    block: int = 8
    causal: bool = True
    theta: float = 1e5
    eps: float = 1e-5

    @staticmethod
    def read(folder: pathlib.Path) -> "Shape":
        c = json.loads((folder / "config.json").read_text())
        d = c["dflash_config"]
        return Shape(
            c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"], c["num_attention_heads"],
            c["num_key_value_heads"], c["head_dim"], c["vocab_size"], d["target_layer_ids"], c["num_target_layers"],
            d["mask_token_id"], c.get("block_size", d.get("block_size", 16)), c.get("is_causal", False),
            c.get("rope_theta") or c["rope_parameters"]["rope_theta"], c["rms_norm_eps"],
        )  # fmt: skip

    def config(self, draft_vocab: int) -> dict:
        """`config.json` in the published layout."""
        out = {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "hidden_size": self.hidden,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "rms_norm_eps": self.eps,
            "rope_theta": self.theta,
            "max_position_embeddings": 8192,
            "attention_bias": False,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "layer_types": ["full_attention"] * self.layers,
            "sliding_window": None,
            "is_causal": self.causal,
            "block_size": self.block,
            "num_target_layers": self.target_layers,
            "dflash_config": {"mask_token_id": self.mask_token, "target_layer_ids": self.taps},
        }
        if draft_vocab != self.vocab:
            out["draft_vocab_size"] = draft_vocab
        return out


def parameters_of(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a checkpoint's tensors."""
    h, q, kv = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    out = {"fc.weight": (h, len(shape.taps) * h), "hidden_norm.weight": (h,), "norm.weight": (h,)}
    for i in range(shape.layers):
        for name, size in {
            "input_layernorm": (h,),
            "self_attn.q_proj": (q, h),
            "self_attn.k_proj": (kv, h),
            "self_attn.v_proj": (kv, h),
            "self_attn.o_proj": (h, q),
            "self_attn.q_norm": (shape.head_dim,),
            "self_attn.k_norm": (shape.head_dim,),
            "post_attention_layernorm": (h,),
            "mlp.gate_proj": (shape.ffn, h),
            "mlp.up_proj": (shape.ffn, h),
            "mlp.down_proj": (h, shape.ffn),
        }.items():
            out[f"layers.{i}.{name}.weight"] = size
    return out


def load(folder: str) -> tuple[Shape, dict[str, torch.Tensor], torch.Tensor | None]:
    """Shape, FP32 weights, and the draft vocabulary's target ids of a checkpoint folder."""
    path = pathlib.Path(folder)
    shape = Shape.read(path)
    tensors = load_file(path / "model.safetensors")
    ids = tensors.pop("draft_token_ids", None)
    for name, size in parameters_of(shape).items():
        if tuple(tensors[name].shape) != size:
            raise SystemExit(f"{folder}: {name} is {tuple(tensors[name].shape)}, expected {size}")
    return shape, {k: v.float() for k, v in tensors.items()}, None if ids is None else ids.long()


def save(folder: str, shape: Shape, weights: dict[str, torch.Tensor], ids: torch.Tensor | None) -> None:
    """Writes the published layout: BF16 weights, and `draft_token_ids` where the vocabulary is a reduced one."""
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    out = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in sorted(weights.items())}
    if ids is not None:
        out["draft_token_ids"] = ids.to("cpu", torch.int32)
    save_file(out, path / "model.safetensors", metadata={"format": "pt"})
    config = shape.config(shape.vocab if ids is None else len(ids))
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return fused.Rms.apply(x, weight, eps)


def context_visible(anchors: torch.Tensor, length: int) -> torch.Tensor:
    """`[S, A, length]`: which context positions the block at each anchor sees: those strictly before it."""
    return torch.arange(length, device=anchors.device) < anchors[..., None]


def block_visible(block: int, causal: bool, device=None) -> torch.Tensor:
    """`[B, B]`: which slots of its own block a slot sees."""
    seen = torch.ones(block, block, dtype=torch.bool, device=device)
    return seen.tril() if causal else seen


def attend(q, k_ctx, v_ctx, k_blk, v_blk, bias_ctx, bias_blk):
    """Attention of block queries to context and own block under one softmax.

    `q` `[S, G, A, Q, R, d]` (G KV heads, R query heads of each), `k_ctx`, `v_ctx` `[S, G, n, d]`, `k_blk`, `v_blk`
    `[S, G, A, B, d]`, `bias_ctx` `[S, 1, A, 1, n]`, `bias_blk` `[Q, 1, B]`.
    """
    return fused.Attend.apply(q, k_ctx, v_ctx, k_blk, v_blk, bias_ctx, bias_blk)


def forward(shape: Shape, w: dict, features, anchors, seeds, embedding, cos, sin, block: int):
    """Normed hidden states of slots 1.. of every block, `[S, A, block - 1, H]`.

    `features` `[S, n, taps · H]`; `anchors` `[S, A]` positions; `seeds` `[S, A]` token ids at the anchors; `embedding`
    the target's raw one; `cos`, `sin` `[positions, head width]`. `w` is in the type to compute in.
    """
    s, n, _ = features.shape
    a = anchors.shape[1]
    g, d = shape.kv_heads, shape.head_dim
    r = shape.heads // g
    dtype = features.dtype
    context = rms(F.linear(features, w["fc.weight"]), w["hidden_norm.weight"], shape.eps)
    bias_ctx = torch.zeros(s, 1, a, 1, n, dtype=dtype, device=features.device)
    bias_ctx = bias_ctx.masked_fill(~context_visible(anchors, n)[:, None, :, None], float("-inf"))
    seen = block_visible(block, shape.causal, features.device)
    bias_blk = torch.zeros(block, 1, block, dtype=dtype, device=features.device)
    bias_blk = bias_blk.masked_fill(~seen[:, None], float("-inf"))
    at = anchors[..., None] + torch.arange(block, device=anchors.device)
    cos_b, sin_b = cos[at][:, :, :, None], sin[at][:, :, :, None]
    cos_c, sin_c = cos[:n, None], sin[:n, None]
    mask_row = embedding[shape.mask_token].to(dtype).expand(s, a, block - 1, -1)
    x = torch.cat([F.embedding(seeds, embedding).to(dtype)[:, :, None], mask_row], 2)
    for i in range(shape.layers):
        p = lambda name: w[f"layers.{i}.{name}.weight"]
        k_w, v_w = p("self_attn.k_proj"), p("self_attn.v_proj")
        kv_w = torch.cat([k_w, v_w])
        k_ctx, v_ctx = F.linear(context, kv_w).view(s, n, 2 * g, d).split(g, 2)
        k_ctx = rotate(rms(k_ctx, p("self_attn.k_norm"), shape.eps), cos_c, sin_c).transpose(1, 2)
        v_ctx = v_ctx.transpose(1, 2)
        y = rms(x, p("input_layernorm"), shape.eps)
        k, v = F.linear(y, kv_w).view(s, a, block, 2 * g, d).split(g, 3)
        k = rotate(rms(k, p("self_attn.k_norm"), shape.eps), cos_b, sin_b)
        k, v = k.permute(0, 3, 1, 2, 4), v.permute(0, 3, 1, 2, 4)
        # Nothing is predicted from the seed's slot: in the last layer others only look at it.
        skip = int(i + 1 == shape.layers)
        x, y = x[:, :, skip:], y[:, :, skip:]
        q = F.linear(y, p("self_attn.q_proj")).view(s, a, block - skip, shape.heads, d)
        q = rotate(rms(q, p("self_attn.q_norm"), shape.eps), cos_b[:, :, skip:], sin_b[:, :, skip:])
        q = q.view(s, a, block - skip, g, r, d).permute(0, 3, 1, 2, 4, 5)
        mixed = attend(q, k_ctx, v_ctx, k, v, bias_ctx, bias_blk[skip:])
        mixed = mixed.permute(0, 2, 3, 1, 4, 5).reshape(s, a, block - skip, shape.heads * d)
        x = x + F.linear(mixed, p("self_attn.o_proj"))
        y = rms(x, p("post_attention_layernorm"), shape.eps)
        both = F.linear(y, torch.cat([p("mlp.gate_proj"), p("mlp.up_proj")]))
        x = x + F.linear(fused.Swish.apply(both), p("mlp.down_proj"))
    return rms(x, w["norm.weight"], shape.eps)


def tables(shape: Shape, length: int, dtype, device="cpu"):
    """Rotation tables for `forward`."""
    cos, sin = rope_table(length, shape.head_dim, shape.theta)
    return cos.to(device, dtype), sin.to(device, dtype)
