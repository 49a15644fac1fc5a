"""The target as a PyTorch model, its tokenizer and its chat template: a Llama GGUF file, or a folder with a byte-level
Llama or Qwen3 model.

Weights are dequantised to exactly the numbers that the file stands for and kept in BF16 (FP32 with `--f32`).
"""

import json
import pathlib

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
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
    """Settings and tensors of a GGUF file of the Llama architecture, under their published names."""

    def __init__(self, path: str):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        arch = self.get("general.architecture")
        if arch != "llama":
            raise SystemExit(f"{path}: architecture {arch}; GGUF files of llama (SmolLM2) are known")
        get = lambda key: self.get(f"{arch}.{key}")
        heads = get("attention.head_count")
        self.config = {
            "num_hidden_layers": get("block_count"),
            "hidden_size": get("embedding_length"),
            "intermediate_size": get("feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": get("attention.head_count_kv"),
            "head_dim": get("embedding_length") // heads,
            "vocab_size": len(self.get("tokenizer.ggml.tokens")),
            "rope_theta": float(get("rope.freq_base")),
            "rms_norm_eps": float(get("attention.layer_norm_rms_epsilon")),
        }

    def get(self, key: str, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def tensor(self, name: str) -> torch.Tensor | None:
        """FP32 weights, or `None` where the file has no such tensor."""
        t = self.tensors.get(gguf_name(name))
        if t is None:
            return None
        weight = torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).astype(np.float32))
        if name.endswith("q_proj.weight"):
            return unpermute(weight, self.config["num_attention_heads"])
        return unpermute(weight, self.config["num_key_value_heads"]) if name.endswith("k_proj.weight") else weight


class Folder:
    """Settings and tensors of a folder with `config.json` and `model.safetensors`, Llama or Qwen3."""

    def __init__(self, path: str):
        folder = pathlib.Path(path)
        self.config = json.loads((folder / "config.json").read_text())
        if (kind := self.config["model_type"]) not in ("llama", "qwen3"):
            raise SystemExit(f"{path}: model type {kind}; llama and qwen3 are known")
        self.config.setdefault("rope_theta", self.config.get("rope_parameters", {}).get("rope_theta"))
        self.tensors = load_file(folder / "model.safetensors")

    def tensor(self, name: str) -> torch.Tensor | None:
        t = self.tensors.get(name)
        return None if t is None else t.float()


def open_target(path: str) -> Gguf | Folder:
    return Folder(path) if pathlib.Path(path).is_dir() else Gguf(path)


def head_of(source: Gguf | Folder) -> torch.Tensor:
    """The LM head, FP32; the embedding where they are tied."""
    head = source.tensor("lm_head.weight")
    return source.tensor("model.embed_tokens.weight") if head is None else head


def gguf_name(name: str) -> str:
    """A tensor's name in GGUF files."""
    fixed = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    }  # fmt: skip
    stem = name.removesuffix(".weight")
    if stem in fixed:
        return f"{fixed[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{parts[part]}.weight"


class Target(torch.nn.Module):
    """Forward passes with taps: hidden state after each layer of `taps`, before the next norm."""

    def __init__(self, path: str, taps: list[int], dtype=torch.bfloat16, max_len: int = 4096):
        super().__init__()
        source = open_target(path)
        c = source.config
        self.layers_n, self.hidden = c["num_hidden_layers"], c["hidden_size"]
        self.heads, self.kv_heads, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.theta, self.eps = c["rope_theta"], c["rms_norm_eps"]
        self.taps, self.dtype = taps, dtype
        self.embedding = source.tensor("model.embed_tokens.weight").to(dtype)
        self.head = head_of(source).to(dtype)
        self.norm = source.tensor("model.norm.weight").to(dtype)
        self.blocks = []
        for i in range(self.layers_n):
            part = lambda name: source.tensor(f"model.layers.{i}.{name}.weight")
            block = {
                "attn_norm": part("input_layernorm"),
                "qkv": torch.cat([part("self_attn.q_proj"), part("self_attn.k_proj"), part("self_attn.v_proj")]),
                "o": part("self_attn.o_proj"),
                "ffn_norm": part("post_attention_layernorm"),
                "gate_up": torch.cat([part("mlp.gate_proj"), part("mlp.up_proj")]),
                "down": part("mlp.down_proj"),
            }
            # Qwen3 norms queries and keys head by head, Llama does not.
            block |= {k: w for k, n in (("q_norm", "self_attn.q_norm"), ("k_norm", "self_attn.k_norm")) if (w := part(n)) is not None}
            self.blocks.append({k: w.to(dtype) for k, w in block.items()})
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
            if "q_norm" in w:
                q, k = rms_norm(q, w["q_norm"], self.eps), rms_norm(k, w["k_norm"], self.eps)
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


class Bytes:
    """Token ids are bytes; prompts are taken as they are."""

    def __init__(self, config: dict):
        self.stops = {config["eos_token_id"]}

    def ids(self, messages: list[dict]) -> list[int]:
        return list(messages[-1]["content"].encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")


class Pieces:
    """Byte-level BPE of SmolLM2, digits one by one, with its chat template."""

    def __init__(self, file: Gguf):
        if (kind := file.get("tokenizer.ggml.pre")) != "smollm":
            raise SystemExit(f"pre-tokenizer {kind}; this recipe knows smollm")
        tokens = file.get("tokenizer.ggml.tokens")
        merges = [tuple(m.split(" ", 1)) for m in file.get("tokenizer.ggml.merges")]
        self.tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self.tokenizer.decoder = decoders.ByteLevel()
        control = [t for t, k in zip(tokens, file.get("tokenizer.ggml.token_type")) if k == 3]
        self.tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in control])
        self.stops = {self.tokenizer.token_to_id(t) for t in ("<|im_end|>", "<|endoftext|>")}

    def ids(self, messages: list[dict]) -> list[int]:
        return self.tokenizer.encode(chat_prompt(messages)).ids

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False)


def load_tokenizer(path: str) -> Bytes | Pieces:
    """The tokenizer of a target: `ids` of a conversation, `decode`, and the `stops` that end an answer."""
    source = open_target(path)
    return Bytes(source.config) if isinstance(source, Folder) else Pieces(source)


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
