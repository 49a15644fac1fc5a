#!/usr/bin/env python3
"""Measures drafters on recorded greedy answers: mean tokens per round (tau) of chain and trees, recall by slot.

    python train/evaluate.py --target TARGET.gguf --answers humaneval=DIR gsm8k=DIR --drafters A B [--json OUT]

Answers come from `regenerate.py --in-order --f32 --loop 0`. Pooled tau is tokens by rounds over everything, macro the
mean over answers.
"""

import argparse
import json
import pathlib

import torch

import drafter as D
from corpus import Part
from replay import accepted_chain, accepted_tree, candidates, rounds
from target import head_of, open_target


def measure(args, folder: str, suites: dict[str, Part]) -> dict:
    """All figures of one drafter."""
    shape, weights, ids = D.load(folder)
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    weights = {k: v.to(dtype) for k, v in weights.items()}
    target = open_target(args.target)
    embedding, head = target.tensor("model.embed_tokens.weight").to(dtype), head_of(target)
    head = head if ids is None else head[ids].contiguous()
    block = args.block or shape.block
    modes = {"chain": accepted_chain} | {f"tree {b}": accepted_tree(b) for b in args.budgets}
    deepest = max([1, *args.budgets])
    out, everything = {}, {"rounds": {m: [] for m in modes}, "hits": []}
    for name, part in suites.items():
        counted, hits = {m: [] for m in modes}, []
        for i in range(len(part.lengths)):
            at = slice(part.starts[i], part.starts[i] + part.lengths[i])
            tokens, prompt = part.tokens[at], part.prompts[i]
            if part.lengths[i] - prompt < 2:
                continue
            features = part.features[at].to(dtype)
            found, scores = candidates(
                shape, weights, head, ids, embedding, tokens, features, prompt, min(deepest, len(head)), block
            )
            listed = tokens.tolist()
            for mode, accepted in modes.items():
                counted[mode].append(rounds(listed, prompt, found, scores, accepted))
            full = len(found) - (block - 2)
            if full > 0:
                truth = tokens[prompt + 1 :].unfold(0, block - 1, 1)
                hits.append(found[:full, :, 0] == truth[:full])
        hits = torch.cat(hits)
        out[name] = figures(counted, hits)
        for mode in modes:
            everything["rounds"][mode] += counted[mode]
        everything["hits"].append(hits)
    out["all"] = figures(everything["rounds"], torch.cat(everything["hits"]))
    return out


def figures(counted: dict[str, list[list[int]]], hits: torch.Tensor) -> dict:
    """Summary of rounds by mode, and recall of each slot over all positions of the answers."""
    out = {"answers": len(counted["chain"]), "recall": [round(v, 3) for v in hits.float().mean(0).tolist()]}
    for mode, answers in counted.items():
        flat = [c for rounds_of in answers for c in rounds_of]
        out[mode] = {
            "rounds": len(flat),
            "tau": round(sum(flat) / len(flat), 3),
            "macro": round(sum(sum(r) / len(r) for r in answers) / len(answers), 3),
        }
    flat = torch.tensor([c - 1 for rounds_of in counted["chain"] for c in rounds_of])
    reached = [float((flat >= k).float().mean()) for k in range(1, hits.shape[1] + 1)]
    out["chain"]["accepted at slot"] = [round(v, 3) for v in reached]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--answers", nargs="+", required=True, help="suite=folder of part files")
    parser.add_argument("--drafters", nargs="+", required=True)
    parser.add_argument("--budgets", type=int, nargs="*", default=[16, 32])
    parser.add_argument("--block", type=int, default=0, help="another block size than the drafter's")
    parser.add_argument("--first", type=int, help="only so many answers of each suite")
    parser.add_argument("--bf16", action="store_true", help="faster; a few drafts differ")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    suites = {}
    for given in args.answers:
        name, folder = given.split("=", 1)
        (file,) = sorted(pathlib.Path(folder).glob("part-*.safetensors"))
        suites[name] = Part(file, args.first)
    result = {}
    for folder in args.drafters:
        result[folder] = measure(args, folder, suites)
        print(folder)
        for suite, f in result[folder].items():
            taus = "  ".join(f"{m} {f[m]['tau']:.3f} (macro {f[m]['macro']:.3f})" for m in f if isinstance(f[m], dict))
            print(f"  {suite:10} {taus}  recall {' '.join(f'{v:.3f}' for v in f['recall'])}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
