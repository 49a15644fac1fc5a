#!/usr/bin/env python3
"""Picks the draft vocabulary: tokens of stored answers, most frequent first, then a drafter's own, then low ids.

    python train/vocabulary.py --data DIR... --also DRAFTER --size 12288 --out ids.safetensors

The head over all of the target's tokens would cost more than the drafter itself. Low ids come from the first merges of
the tokenizer, which are its most frequent ones.
"""

import argparse
import pathlib

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import drafter as D


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--also", help="drafter whose vocabulary is preferred over low ids")
    parser.add_argument("--size", type=int, default=12288)
    parser.add_argument("--vocab", type=int, default=49152, help="the target's number of tokens")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    count = torch.zeros(args.vocab, dtype=torch.float64)
    for file in sorted(f for d in args.data for f in pathlib.Path(d).glob("part-*.safetensors")):
        with safe_open(file, "pt") as f:
            tokens, lengths, prompts = (f.get_tensor(k).long() for k in ("tokens", "lengths", "prompts"))
        position = torch.cat([torch.arange(n) for n in lengths.tolist()])
        count += torch.bincount(tokens[position >= prompts.repeat_interleave(lengths)], minlength=args.vocab)
    seen = int((count > 0).sum())
    # Below one occurrence: the other drafter's tokens, then by rising id.
    score = count - torch.arange(args.vocab) / args.vocab / 4
    if args.also:
        score[D.load(args.also)[2]] += 0.5
    ids = score.topk(args.size).indices.sort().values
    share = float(count[ids].sum() / count.sum())
    save_file({"draft_token_ids": ids.to(torch.int32)}, args.out)
    print(f"{args.size} tokens, {seen} tokens occur in {int(count.sum())}; share covered {share:.4f}")


if __name__ == "__main__":
    main()
