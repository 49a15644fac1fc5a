#!/usr/bin/env python3
"""Runs the three prompts of the story in every mode against a running server and prints a Markdown table.

Usage: story-table.py [URL] [REPEATS]. Modes are interleaved prompt by prompt; medians over the repeats.
"""
import json
import statistics
import sys
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
REPEATS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
PROMPTS = [
    ("code", "Write a Python function fibonacci(n) using iteration"),
    ("explanation", "Explain the quicksort algorithm in 3 sentences"),
    ("one word", "What is 2+2? Answer with just the number."),
]
MODES = [
    ("off", {"mode": "off"}),
    ("dflash b8", {"mode": "dflash", "block_size": 8}),
    ("dflash b4", {"mode": "dflash", "block_size": 4}),
    ("ddtree r7", {"mode": "ddtree", "tree_budget": 7}),
    ("ddtree r16", {"mode": "ddtree", "tree_budget": 16}),
    ("shadow r16", {"mode": "shadow", "tree_budget": 16}),
]


def ask(prompt, mode):
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 256,
        "temperature": 0,
        "spectop": dict(mode, trace=True),
    }
    request = urllib.request.Request(
        URL + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main():
    for _, mode in MODES:  # warm-up, every shape once
        ask(PROMPTS[1][1], mode)
    print("| prompt | mode | tokens | decode tok/s | against off | τ | TTFT ms | output |")
    print("|---|---|---|---|---|---|---|---|")
    for name, prompt in PROMPTS:
        runs = {label: [] for label, _ in MODES}
        for _ in range(REPEATS):
            for label, mode in MODES:
                runs[label].append(ask(prompt, mode))
        text = runs["off"][0]["choices"][0]["message"]["content"]
        base = None
        for label, _ in MODES:
            metrics = [r["spectop"] for r in runs[label]]
            speed = statistics.median(m["decode_tok_s"] for m in metrics)
            base = base or speed
            ttft = statistics.median(m["ttft_ms"] for m in metrics)
            same = all(r["choices"][0]["message"]["content"] == text for r in runs[label])
            tau = metrics[0]["tau"]
            print(
                f"| {name} | {label} | {metrics[0]['tokens']} | {speed:.0f} | ×{speed / base:.2f} | {tau:.2f} "
                f"| {ttft:.0f} | {'identical' if same else 'DIFFERS'} |"
            )


main()
