#!/usr/bin/env python3
"""Records what a pair does, for `spectop conformance` and the program's tests: greedy ids and the rounds of chain and trees.

    python train/record.py --target TARGET.gguf --drafter DRAFTER --like FIXTURE/expected.json --out FIXTURE/expected.json

Prompts, number of tokens and budgets are taken from an existing recording. Everything is computed in FP32.
"""

import argparse
import json
import pathlib

import torch

import drafter as D
from regenerate import answer
from replay import accepted_chain, accepted_tree, candidates
from target import Target, load_tokenizer


def uncut_rounds(tokens: list[int], prompt: int, limit: int, stops: set[int], ids, scores, accepted) -> list[int]:
    """Rounds while the seed lies within the limit and is no stop token; the last may reach beyond."""
    out, seed = [], prompt
    while seed < prompt + limit and not stops & set(tokens[prompt : seed + 1]):
        at = seed - prompt
        count = accepted(ids[at], scores[at], tokens[seed + 1 :]) + 1
        out.append(count)
        seed += count
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--drafter", required=True)
    parser.add_argument("--like", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--limit", type=int, default=96)
    args = parser.parse_args()
    torch.set_num_threads(1)
    like = json.loads(pathlib.Path(args.like).read_text())
    shape, weights, ids = D.load(args.drafter)
    target = Target(args.target, shape.taps, torch.float32)
    tokenizer = load_tokenizer(args.target)
    stops = tokenizer.stops
    head = target.head if ids is None else target.head[ids].contiguous()
    cases = []
    for case in like["cases"]:
        prompt = tokenizer.ids([{"role": "user", "content": case["prompt"]}])
        budgets = [int(b) for b in case["ddtree"]]
        # Rounds may reach beyond the limit or a stop token, so the target goes on for a block.
        ((tokens, _, features, _),) = answer(target, [prompt], args.limit + 2 * shape.block, set(), 0)
        said = tokens[len(prompt) :][: args.limit]
        end = next((i + 1 for i, t in enumerate(said) if t in stops), args.limit)
        found, scores = candidates(
            shape, weights, head, ids, target.embedding, torch.tensor(tokens), features, len(prompt), max(budgets), shape.block
        )
        found, scores = found.tolist(), scores.tolist()
        run = lambda accepted: {
            "output_ids": said[:end],
            "acceptance_lengths": uncut_rounds(tokens, len(prompt), args.limit, stops, found, scores, accepted),
        }
        cases.append(
            {
                "prompt": case["prompt"],
                "prompt_ids": prompt,
                "greedy_ids": said[:end],
                "dflash": run(accepted_chain),
                "ddtree": {str(b): run(accepted_tree(b)) for b in budgets},
            }
        )
    record = {**{k: v for k, v in like.items() if k != "cases"}, "cases": cases}
    record["drafter"] = f"models/{pathlib.Path(args.drafter).name}, float32, logits restricted to draft_token_ids; recorded by train/record.py"
    pathlib.Path(args.out).write_text(json.dumps(record) + "\n")
    print(f"{len(cases)} cases, tau of the chain {[round(sum(r) / len(r), 2) for r in (c['dflash']['acceptance_lengths'] for c in cases)]}")


if __name__ == "__main__":
    main()
