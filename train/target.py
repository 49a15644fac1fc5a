"""The target: a Llama-style GGUF file as a PyTorch model, its tokenizer, and its chat template.

Weights are dequantised to exactly the numbers that the file stands for and kept in BF16 (FP32 with `--f32`).
"""

import json

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rope_table(length: int, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, `[length, head_dim]`, both halves of a row the same."""
    freq = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * freq
    angle = torch.cat([angle, angle], -1)
    return angle.cos().float(), angle.sin().float()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Half-split rotation of the last axis; `cos` and `sin` broadcast against `x`."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


class Gguf:
    """Tensors and settings of a GGUF file."""

    def __init__(self, path: str):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}

    def get(self, key: str, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def tensor(self, name: str) -> torch.Tensor:
        t = self.tensors[name]
        return torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).astype(np.float32))


class Target(torch.nn.Module):
    """Forward passes with taps: hidden state after each layer of `taps`, before the next norm."""

    def __init__(self, path: str, taps: list[int], dtype=torch.bfloat16, max_len: int = 4096):
        super().__init__()
        file = Gguf(path)
        arch = file.get("general.architecture")
        if arch != "llama":
            raise SystemExit(f"{path}: architecture {arch}; this recipe knows llama (SmolLM2)")
        get = lambda key: file.get(f"{arch}.{key}")
        self.layers_n = get("block_count")
        self.hidden = get("embedding_length")
        self.ffn = get("feed_forward_length")
        self.heads, self.kv_heads = get("attention.head_count"), get("attention.head_count_kv")
        self.head_dim = self.hidden // self.heads
        self.theta, self.eps = float(get("rope.freq_base")), float(get("attention.layer_norm_rms_epsilon"))
        self.taps, self.dtype = taps, dtype
        self.embedding = file.tensor("token_embd.weight").to(dtype)
        self.head = file.tensor("output.weight").to(dtype) if "output.weight" in file.tensors else self.embedding
        self.norm = file.tensor("output_norm.weight").to(dtype)
        self.blocks = []
        for i in range(self.layers_n):
            part = lambda name: file.tensor(f"blk.{i}.{name}.weight")
            q = unpermute(part("attn_q"), self.heads)
            k = unpermute(part("attn_k"), self.kv_heads)
            self.blocks.append(
                {
                    "attn_norm": part("attn_norm").to(dtype),
                    "qkv": torch.cat([q, k, part("attn_v")]).to(dtype),
                    "o": part("attn_output").to(dtype),
                    "ffn_norm": part("ffn_norm").to(dtype),
                    "gate_up": torch.cat([part("ffn_gate"), part("ffn_up")]).to(dtype),
                    "down": part("ffn_down").to(dtype),
                }
            )
        cos, sin = rope_table(max_len, self.head_dim, self.theta)
        self.cos, self.sin = cos.to(dtype), sin.to(dtype)

    def to_device(self, device: str) -> "Target":
        for name in ("embedding", "head", "norm", "cos", "sin"):
            setattr(self, name, getattr(self, name).to(device))
        self.blocks = [{k: v.to(device) for k, v in b.items()} for b in self.blocks]
        return self

    def cache(self, batch: int, length: int) -> list[torch.Tensor]:
        """K and V of every layer, `[batch, 2, kv heads, length, head width]`."""
        shape = (batch, 2, self.kv_heads, length, self.head_dim)
        return [torch.zeros(shape, dtype=self.dtype, device=self.embedding.device) for _ in range(self.layers_n)]

    def attention(self, q, k, v, mask, causal):
        if mask is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        # One query per sequence: the query heads of a group stand as rows, so that K and V are read once.
        b, h, n, d = q.shape
        group = self.heads // self.kv_heads
        q = q.reshape(b, self.kv_heads, group, d)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).reshape(b, h, n, d)

    @torch.no_grad()
    def forward(self, ids, positions, cache, mask=None):
        """One pass over `ids` `[b, n]` at `positions` `[b, n]` (n = 1 with `mask`, or a prefill from position 0).

        Returns the normed last hidden state `[b, n, H]` and the tapped ones `[b, n, taps · H]`.
        """
        b, n = ids.shape
        x = F.embedding(ids, self.embedding)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        rows = torch.arange(b, device=ids.device)
        taken = []
        for i, w in enumerate(self.blocks):
            qkv = F.linear(rms_norm(x, w["attn_norm"], self.eps), w["qkv"])
            q, k, v = qkv.view(b, n, -1, self.head_dim).transpose(1, 2).split(
                [self.heads, self.kv_heads, self.kv_heads], 1
            )
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            if mask is None:
                cache[i][:, 0, :, :n], cache[i][:, 1, :, :n] = k, v
                mixed = self.attention(q, k, v, None, True)
            else:
                at = positions[:, 0]
                cache[i][rows, 0, :, at] = k[:, :, 0]
                cache[i][rows, 1, :, at] = v[:, :, 0]
                length = mask.shape[-1]
                mixed = self.attention(q, cache[i][:, 0, :, :length], cache[i][:, 1, :, :length], mask, False)
            x = x + F.linear(mixed.transpose(1, 2).reshape(b, n, -1), w["o"])
            gate, up = F.linear(rms_norm(x, w["ffn_norm"], self.eps), w["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
            if i in self.taps:
                taken.append(x)
        return rms_norm(x, self.norm, self.eps), torch.cat(taken, -1)


def unpermute(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF files of this architecture interleave the rotary pairs of Q and K; this gives back half-split rows."""
    rows, width = weight.shape
    return weight.view(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


def load_tokenizer(path: str) -> Tokenizer:
    """The tokenizer of a GGUF file: byte-level BPE, digits one by one."""
    file = Gguf(path)
    if (kind := file.get("tokenizer.ggml.pre")) != "smollm":
        raise SystemExit(f"{path}: pre-tokenizer {kind}; this recipe knows smollm")
    tokens = file.get("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ", 1)) for m in file.get("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = file.get("tokenizer.ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    return tokenizer


def chat_prompt(turns: list[dict]) -> str:
    """Messages as the target's template writes them, with the start of the answer."""
    if turns[0]["role"] != "system":
        turns = [{"role": "system", "content": DEFAULT_SYSTEM}, *turns]
    text = "".join(f"<|im_start|>{t['role']}\n{t['content']}<|im_end|>\n" for t in turns)
    return text + "<|im_start|>assistant\n"


def read_prompts(path: str) -> list[dict]:
    """JSON lines: `id`, either `messages` or `turns` (of which the first is asked), and perhaps a second question `then`."""
    out = []
    for line in open(path, encoding="utf-8"):
        item = json.loads(line)
        messages = item.get("messages") or [{"role": "user", "content": item["turns"][0]}]
        out.append({"id": item["id"], "messages": messages} | ({"then": item["then"]} if "then" in item else {}))
    return out
