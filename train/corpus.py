"""Reads what `regenerate.py` wrote, as batches of sequences of similar length."""

import pathlib
import random

import torch
from safetensors import safe_open


class Part:
    """One file of answers in memory."""

    def __init__(self, path: pathlib.Path, first: int | None = None):
        with safe_open(path, "pt") as f:
            self.lengths = f.get_tensor("lengths").tolist()[:first]
            self.prompts = f.get_tensor("prompts").tolist()[:first]
            total = sum(self.lengths)
            self.tokens = f.get_slice("tokens")[:total].long()
            self.features = f.get_slice("features")[:total]
            self.hidden = f.get_slice("hidden")[:total]
        ends = torch.tensor(self.lengths).cumsum(0).tolist()
        self.starts = [e - n for e, n in zip(ends, self.lengths)]

    def answers(self, shortest: int) -> list[int]:
        """Sequences whose answer has at least so many tokens, by rising length."""
        found = [i for i, (n, p) in enumerate(zip(self.lengths, self.prompts)) if n - p >= shortest]
        return sorted(found, key=lambda i: self.lengths[i])

    def batch(self, which: list[int], round_to: int = 32):
        """`tokens` `[S, n]`, `features` `[S, n, ·]`, `hidden` `[S, n, H]`, zero-padded on the right."""
        width = max(self.lengths[i] for i in which)
        width = -(-width // round_to) * round_to
        tokens = torch.zeros(len(which), width, dtype=torch.long)
        features = torch.zeros(len(which), width, self.features.shape[-1], dtype=self.features.dtype)
        hidden = torch.zeros(len(which), width, self.hidden.shape[-1], dtype=self.hidden.dtype)
        for row, i in enumerate(which):
            at, n = slice(self.starts[i], self.starts[i] + self.lengths[i]), self.lengths[i]
            tokens[row, :n], features[row, :n], hidden[row, :n] = self.tokens[at], self.features[at], self.hidden[at]
        return tokens, features, hidden


def draw_anchors(prompt: int, length: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Rising positions in the answer that have a successor; a first anchor at `prompt` is what decoding starts with."""
    eligible = length - 1 - prompt
    order = torch.randperm(eligible, generator=generator)
    if eligible < count:
        order = order.repeat(-(-count // eligible))
    return (prompt + order[:count]).sort().values


def labels_of(tokens, lengths, anchors, block: int):
    """Rows and labels of the slots of blocks at `anchors` `[S, A]`.

    Returns `row` `[S, A, block - 1]`: flat index into `[S · n]` of the position whose next token the slot predicts, and
    `label`: that token, -1 beyond the end of the sequence.
    """
    s, n = tokens.shape
    at = anchors[..., None] + torch.arange(block - 1)
    ends = torch.tensor(lengths)[:, None, None]
    inside = at + 1 < ends
    at = torch.where(inside, at, torch.zeros_like(at))
    flat = at + (torch.arange(s) * n)[:, None, None]
    label = tokens.view(-1)[flat + inside.long()]
    return flat, torch.where(inside, label, torch.full_like(label, -1))


def order_parts(files: list[pathlib.Path], uses: dict[str, int], rng: random.Random) -> pathlib.Path:
    """One of the files that were used least. Parts that are still being made come in as they appear, and start with
    the fewest uses of the others: catching up on them at once would be several passes over the same answers in a row.
    """
    known = [uses[str(f)] for f in files if str(f) in uses]
    for f in files:
        uses.setdefault(str(f), min(known, default=0))
    least = min(uses[str(f)] for f in files)
    return rng.choice([f for f in files if uses[str(f)] == least])
