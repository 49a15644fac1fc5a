#!/usr/bin/env python3
"""Trains a drafter for the embedded tiny pair from scratch and measures it beside the one that is embedded.

    python train/tiny.py --out DIR [--minutes 5]

All stages in one: prompts (pieces of the standard library's source), the target's answers, training, figures. Under ten
minutes on two cores; another folder with a byte-level target can be given with `--target`.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE.parent / "models/tiny"


def pieces(count: int, seed: int) -> list[str]:
    """Starts of source text, 64 to 160 bytes, cut at line ends."""
    files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    rng, out = random.Random(seed), []
    while len(out) < count:
        lines = rng.choice(files).read_text(errors="ignore").splitlines(keepends=True)
        start, text = rng.randrange(len(lines) or 1), ""
        for line in lines[start:]:
            if len(text) > 64 or len(text + line) > 160:
                break
            text += line
        if len(text) > 64 and text.isascii():
            out.append(text)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=str(TINY / "target"))
    parser.add_argument("--beside", default=str(TINY / "drafter"), help="drafter to compare with")
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=5, help="of training")
    parser.add_argument("--answers", type=int, default=3072)
    parser.add_argument("--threads", default="2")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    beside = json.loads((pathlib.Path(args.beside) / "config.json").read_text())
    taps = [str(t) for t in beside["dflash_config"]["target_layer_ids"]]
    text = pieces(args.answers + 48, 0)
    for name, part in (("held-out", text[:48]), ("train", text[48:])):
        lines = (json.dumps({"id": f"{name}/{i}", "turns": [t]}) + "\n" for i, t in enumerate(part))
        (out / f"{name}.jsonl").write_text("".join(lines))

    def run(script: str, *more: str) -> None:
        print(f"# {script}", flush=True)
        subprocess.run([sys.executable, HERE / script, "--target", args.target, "--threads", args.threads, *more], check=True)

    answers = ["--taps", *taps, "--longest", "200"]
    run("regenerate.py", "--prompts", f"{out}/held-out.jsonl", "--out", f"{out}/held-out", "--f32", "--loop", "0", *answers)
    run("regenerate.py", "--prompts", f"{out}/train.jsonl", "--out", f"{out}/answers", "--batch", "512", *answers)
    run(
        "train.py", "--data", f"{out}/answers", "--out", f"{out}/run", "--minutes", str(args.minutes), "--taps", *taps,
        "--layers", str(beside["num_hidden_layers"]), "--mask-token", str(beside["dflash_config"]["mask_token_id"]),
        "--block", str(beside["block_size"]), "--short-share", "0.5", "--sequences", "16",
    )  # fmt: skip
    run("evaluate.py", "--answers", f"source={out}/held-out", "--drafters", args.beside, f"{out}/run/drafter")


if __name__ == "__main__":
    main()
