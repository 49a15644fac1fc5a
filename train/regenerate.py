#!/usr/bin/env python3
"""Lets the target answer prompts greedily and stores tokens and features, ready for training.

    python train/regenerate.py --target TARGET.gguf --prompts a.jsonl b.jsonl --out DIR [--shard 0/2]

Every part file (safetensors) holds some dozens of answers: `tokens` (all sequences one after the other), `lengths`,
`prompts` (prompt tokens of each), `features` `[tokens, taps · H]` and `hidden` `[tokens, H]` (normed last state: the
target's head on it gives the distribution of the next token). Parts that exist are left alone, so a run resumes.
"""

import argparse
import os
import pathlib
import random
import time

import torch
from safetensors.torch import save_file

from target import Target, load_tokenizer, read_prompts


def loops(tokens: list[int], span: int) -> bool:
    """Whether the last `span` tokens repeat with a period of at most a third of it."""
    tail = tokens[-span:]
    return len(tail) == span and any(tail[p:] == tail[:-p] for p in range(1, span // 3 + 1))


@torch.no_grad()
def answer(target: Target, prompts: list[list[int]], limit: int, stops: set[int], loop_span: int):
    """Greedy answers to a batch. Returns for each `(tokens, prompt length, features, hidden)`."""
    device = target.embedding.device
    lengths = torch.tensor([len(p) for p in prompts], device=device)
    longest = int(lengths.max())
    total = longest + limit
    batch = len(prompts)
    cache = target.cache(batch, total)
    hidden_size = target.hidden
    hidden = torch.zeros(batch, total, hidden_size, dtype=target.dtype, device=device)
    features = torch.zeros(batch, total, len(target.taps) * hidden_size, dtype=target.dtype, device=device)
    next_ids = torch.zeros(batch, dtype=torch.long, device=device)
    for start in range(0, batch, 16):
        part = slice(start, min(start + 16, batch))
        width = int(lengths[part].max())
        ids = torch.zeros(part.stop - start, width, dtype=torch.long, device=device)
        for i, p in enumerate(prompts[part]):
            ids[i, : len(p)] = torch.tensor(p)
        at = torch.arange(width, device=device).expand(len(ids), -1)
        h, f = target.forward(ids, at, [c[part] for c in cache])
        hidden[part, :width], features[part, :width] = h, f
        last = h[torch.arange(len(ids)), lengths[part] - 1]
        next_ids[part] = torch.nn.functional.linear(last, target.head).argmax(-1)
    out = [None] * batch
    owner = list(range(batch))
    tokens = [list(p) for p in prompts]
    live = torch.arange(batch, device=device)
    at = lengths.clone()
    for step in range(limit):
        chosen = next_ids.tolist()
        done = []
        for row, who in enumerate(owner):
            if who is None:
                continue
            tokens[who].append(chosen[row])
            looping = step % 16 == 15 and loops(tokens[who][len(prompts[who]) :], loop_span)
            if chosen[row] in stops or step + 1 == limit or looping:
                n = len(tokens[who])
                r = int(live[row])
                out[who] = (tokens[who], len(prompts[who]), features[r, : n - 1].clone(), hidden[r, : n - 1].clone())
                owner[row] = None
                done.append(row)
        alive = [r for r, who in enumerate(owner) if who is not None]
        if not alive:
            break
        # Finished rows are carried along until they are worth the copy of the cache.
        if len(alive) < 0.85 * len(owner):
            keep = torch.tensor(alive, device=device)
            used = int(at[keep].max()) + 1
            for c in cache:
                c[: len(keep), :, :, :used] = c[keep, :, :, :used]
            cache = [c[: len(keep)] for c in cache]
            owner = [owner[r] for r in alive]
            live, at, next_ids = live[keep], at[keep], next_ids[keep]
        width = min(total, -(-(int(at.max()) + 1) // 16) * 16)
        mask = torch.zeros(len(owner), 1, 1, width, dtype=target.dtype, device=device)
        mask.masked_fill_(torch.arange(width, device=device) > at[:, None, None, None], float("-inf"))
        h, f = target.forward(next_ids[:, None], at[:, None], cache, mask)
        hidden[live, at], features[live, at] = h[:, 0], f[:, 0]
        next_ids = torch.nn.functional.linear(h[:, 0], target.head).argmax(-1)
        at = (at + 1).clamp(max=total - 1)
    return out


def write_part(name: pathlib.Path, done: list, seconds: float) -> None:
    """Stores answers; a part is there in full or not at all."""
    tensors = {
        "tokens": torch.cat([torch.tensor(t, dtype=torch.int32) for t, *_ in done]),
        "lengths": torch.tensor([len(t) for t, *_ in done], dtype=torch.int32),
        "prompts": torch.tensor([p for _, p, *_ in done], dtype=torch.int32),
        # The newest token has no features; a zero row keeps all of a sequence's tensors in step.
        "features": torch.cat([torch.nn.functional.pad(f, (0, 0, 0, 1)) for *_, f, _ in done]).cpu(),
        "hidden": torch.cat([torch.nn.functional.pad(h, (0, 0, 0, 1)) for *_, h in done]).cpu(),
    }
    save_file(tensors, f"{name}.new")
    os.replace(f"{name}.new", name)
    new = int((tensors["lengths"] - tensors["prompts"]).sum())
    print(f"{name.name}: {len(done)} answers, {new} new tokens, {seconds:.1f} s, {new / seconds:.0f} tok/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--prompts", nargs="+", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--taps", type=int, nargs="+", default=[1, 8, 14, 20, 27])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--limit", type=int, default=256, help="new tokens per answer")
    parser.add_argument("--longest", type=int, default=384, help="prompts with more tokens are left out")
    parser.add_argument("--loop", type=int, default=96, help="answers end when this many tokens only repeat")
    parser.add_argument("--shard", default="0/1", help="i/n: this process answers every n-th batch")
    parser.add_argument("--parts", type=int, default=0, help="stop after this many parts (0: all)")
    parser.add_argument("--only", help="file with the ids of the prompts to answer")
    parser.add_argument("--in-order", action="store_true", help="keep the order of the prompts (for evaluation)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--f32", action="store_true", help="FP32 instead of BF16")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer = load_tokenizer(args.target)
    stops = tokenizer.stops
    target = Target(args.target, args.taps, torch.float32 if args.f32 else torch.bfloat16).to_device(args.device)
    prompts = [p for path in args.prompts for p in read_prompts(path)]
    if args.only:
        names = set(pathlib.Path(args.only).read_text().split())
        prompts = [p for p in prompts if p["id"] in names]
    if not args.in_order:
        random.Random(args.seed).shuffle(prompts)
    for p in prompts:
        p["ids"] = tokenizer.ids(p["messages"])
    prompts = [p for p in prompts if len(p["ids"]) <= args.longest]
    # Batches of similar prompts waste little padding; their order is random again, so that any prefix is a fair sample.
    group = 16 * args.batch
    batches = []
    for start in range(0, len(prompts), group):
        part = prompts[start : start + group]
        part = part if args.in_order else sorted(part, key=lambda p: len(p["ids"]))
        batches += [part[i : i + args.batch] for i in range(0, len(part), args.batch)]
    if not args.in_order:
        random.Random(args.seed).shuffle(batches)
    index, count = map(int, args.shard.split("/"))
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)

    def store(name: pathlib.Path, batch: list[dict]) -> list:
        began = time.time()
        done = answer(target, [p["ids"] for p in batch], args.limit, stops, args.loop)
        write_part(name, done, time.time() - began)
        return done

    made, second = 0, []
    numbers = iter(range(index, len(batches), count))
    while (number := next(numbers, None)) is not None or second:
        # Second questions wait until they fill a batch.
        if len(second) >= args.batch or number is None:
            store(out / f"part-{index}-{time.time_ns()}.safetensors", second[: args.batch])
            second = second[args.batch :]
        if number is None:
            continue
        name = out / f"part-{number:05}.safetensors"
        if name.exists():
            continue
        done = store(name, batches[number])
        for p, (tokens, prompt, *_) in zip(batches[number], done):
            if "then" in p and tokens[-1] in stops:
                said = [{"role": "assistant", "content": tokenizer.decode(tokens[prompt:-1])}]
                messages = p["messages"] + said + [{"role": "user", "content": p["then"]}]
                ids = tokenizer.ids(messages)
                if len(ids) <= args.longest:
                    second.append({"ids": ids, "messages": messages})
        made += 1
        if args.parts and made == args.parts:
            break


if __name__ == "__main__":
    main()
