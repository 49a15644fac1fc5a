#!/usr/bin/env python3
"""Lets the program generate and checks its rounds against a replay of the very tokens that it gave out.

    python train/agree.py --program target/release/spectop --target TARGET.gguf --drafter DIR --prompts SUITE.jsonl... \\
        --only train/held-out.txt --modes dflash ddtree:16 off auto [--dtype f32] [--json OUT]

In FP32 both sides do the same arithmetic, so that rounds agree one for one, off near ties of the drafter. With quantised
activations the program's drafts differ here and there, and only tau over many rounds can agree.
"""

import argparse
import json
import pathlib
import subprocess

import torch

import drafter as D
from replay import accepted_chain, accepted_tree, candidates, rounds
from target import Target, load_tokenizer, read_prompts


def generate(args, mode: str, prompt: str) -> dict:
    """One answer of the program, as its JSON."""
    name, _, budget = mode.partition(":")
    command = [args.program, "generate", prompt, "--json", "--target", args.target, "--draft", args.drafter]
    command += ["--max-tokens", str(args.limit), "--dtype", args.dtype, "--mode", name]
    command += ["--tree-budget", budget, "--chain-seed", "false"] if budget else []
    command += ["--block-size", str(args.block)] if args.block and name != "off" else []
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--drafter", required=True)
    parser.add_argument("--prompts", nargs="+", required=True)
    parser.add_argument("--only", required=True)
    parser.add_argument("--modes", nargs="+", default=["dflash"])
    parser.add_argument("--first", type=int, default=1000, help="prompts of each file")
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--block", type=int, default=0)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--no-replay", action="store_true", help="only the program's own figures")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = set(pathlib.Path(args.only).read_text().split())
    shape, weights, ids = D.load(args.drafter)
    target = Target(args.target, shape.taps, torch.float32)
    tokenizer = load_tokenizer(args.target)
    head = target.head if ids is None else target.head[ids].contiguous()
    result = {}
    for path in args.prompts:
        suite = pathlib.Path(path).stem
        prompts = [p for p in read_prompts(path) if p["id"] in names][: args.first]
        for mode in args.modes:
            made, replayed, speeds, same = [], [], [], 0
            for p in prompts:
                said = generate(args, mode, p["messages"][-1]["content"])
                made.append((said["tokens"] - 1, said["rounds"]))
                if said["decode_tok_s"]:
                    speeds.append((said["tokens"] - 1, said["decode_tok_s"]))
                if args.no_replay or mode in ("off", "auto"):
                    continue
                prompt = tokenizer.ids(p["messages"])
                tokens = torch.tensor(prompt + said["token_ids"])
                at = torch.arange(len(tokens))[None]
                _, features = target.forward(tokens[None], at, target.cache(1, len(tokens)))
                budget = int(mode.partition(":")[2] or 0)
                found, scores = candidates(
                    shape, weights, head, ids, target.embedding, tokens, features[0], len(prompt), max(budget, 1),
                    args.block or shape.block,
                )  # fmt: skip
                accepted = accepted_tree(budget) if budget else accepted_chain
                replayed.append(rounds(tokens.tolist(), len(prompt), found, scores, accepted))
                same += len(replayed[-1]) == said["rounds"]
            figures = {"tau": sum(t for t, _ in made) / max(1, sum(r for _, r in made)), "answers": len(made)}
            figures["tok/s"] = sum(t for t, _ in speeds) / sum(t / s for t, s in speeds)
            if replayed:
                flat = [c for r in replayed for c in r]
                figures |= {"replayed tau": sum(flat) / len(flat), "answers with as many rounds": same}
            result.setdefault(suite, {})[mode] = {k: round(v, 3) for k, v in figures.items()}
            print(suite, mode, json.dumps(result[suite][mode]), flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
