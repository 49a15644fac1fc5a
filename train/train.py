#!/usr/bin/env python3
"""Trains a DFlash drafter on stored answers of the target.

    python train/train.py --target TARGET.gguf --data DIR... --start DRAFTER --out RUN --minutes 60

Starts from a drafter in the published format, or without one from the target's own layers. RUN/state.pt is written every
few minutes, and on an interruption, and picked up again; RUN/drafter is the drafter in the published format.
"""

import argparse
import json
import math
import os
import pathlib
import random
import signal
import time

import torch
from safetensors.torch import load_file

import drafter as D
from corpus import Part, draw_anchors, labels_of, order_parts
from loss import HeadLoss
from optimiser import make_optimiser
from target import head_of, open_target


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", required=True)
    p.add_argument("--data", nargs="+", required=True, help="folders with part-*.safetensors")
    p.add_argument("--valid", help="a part file that is only measured on")
    p.add_argument("--start", help="drafter to start from; without one a new drafter is made from the target's last layers")
    p.add_argument("--layers", type=int, default=3, help="of a new drafter")
    p.add_argument("--taps", type=int, nargs="+", default=[1, 8, 14, 20, 27], help="of a new drafter; as in the answers")
    p.add_argument("--mask-token", type=int, default=4, help="of a new drafter: a token that never occurs in text")
    p.add_argument("--out", required=True)
    p.add_argument("--draft-ids", help="safetensors file with draft_token_ids to use instead of the drafter's own")
    p.add_argument("--minutes", type=float, default=60, help="training time; the learning rate falls to 0 over it")
    p.add_argument("--lr", type=float, default=6e-4)
    p.add_argument("--optimiser", choices=["adamw", "muon"], default="muon")
    p.add_argument("--muon-lr", type=float, default=1e-2)
    p.add_argument("--warm-up", type=float, default=0.04)
    p.add_argument("--hard", type=float, default=0.5, help="share of the true token in the labels; the rest is the target's distribution")
    p.add_argument("--block", type=int, default=8)
    p.add_argument("--short-block", type=int, default=5, help="most batches use this smaller block (causal drafters only)")
    p.add_argument("--short-share", type=float, default=0.75)
    p.add_argument("--bidirectional", action="store_true", help="slots see their whole block, not only what precedes them")
    p.add_argument("--sequences", type=int, default=8, help="sequences in a batch")
    p.add_argument("--accumulate", type=int, default=1, help="batches in a step")
    p.add_argument("--anchors", type=int, default=96, help="blocks of each sequence")
    p.add_argument("--noise", type=float, default=0.0, help="standard deviation of noise on features, relative")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--save-every", type=float, default=4, help="minutes")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return p.parse_args()


def fresh(args) -> tuple[D.Shape, dict[str, torch.Tensor]]:
    """A new drafter: the target's last layers, and the last tap passed on as it is."""
    target = open_target(args.target)
    c = target.config
    shape = D.Shape(
        c["hidden_size"], c["intermediate_size"], args.layers, c["num_attention_heads"], c["num_key_value_heads"],
        c["head_dim"], c["vocab_size"], args.taps, c["num_hidden_layers"], args.mask_token, theta=c["rope_theta"],
        eps=c["rms_norm_eps"],
    )  # fmt: skip
    weights = {}
    for name, size in D.parameters_of(shape).items():
        found = None
        if name.startswith("layers."):
            _, layer, part = name.split(".", 2)
            found = target.tensor(f"model.layers.{shape.target_layers - shape.layers + int(layer)}.{part}")
        elif name == "norm.weight":
            found = target.tensor("model.norm.weight")
        weights[name] = torch.ones(size) if found is None else found
    eye = torch.eye(shape.hidden)
    weights["fc.weight"] = torch.cat([eye * (tap == args.taps[-1]) for tap in args.taps], 1)
    return shape, weights


class Run:
    def __init__(self, args):
        self.args = args
        if args.start:
            self.shape, weights, ids = D.load(args.start)
        else:
            self.shape, weights, ids = *fresh(args), None
        self.shape.causal, self.shape.block = not args.bidirectional, args.block
        if args.draft_ids:
            ids = load_file(args.draft_ids)["draft_token_ids"].long()
        self.ids = ids
        self.weights = {k: v.to(args.device).requires_grad_() for k, v in weights.items()}
        self.optimiser = make_optimiser(self.weights, args.optimiser, args.lr, args.muon_lr)
        target = open_target(args.target)
        self.embedding = target.tensor("model.embed_tokens.weight").to(args.device, torch.bfloat16)
        head = head_of(target).to(args.device, torch.bfloat16)
        self.head = head if ids is None else head[ids.to(args.device)].contiguous()
        self.across = self.head.T.contiguous()
        self.index = torch.full((self.shape.vocab,), -1, dtype=torch.long)
        self.index[torch.arange(self.shape.vocab) if ids is None else ids] = torch.arange(len(self.head))
        self.index = torch.cat([self.index, torch.tensor([-1])])
        self.cos, self.sin = D.tables(self.shape, 2048, torch.bfloat16, args.device)
        self.uses, self.step, self.blocks, self.seconds = {}, 0, 0, 0.0
        self.state = pathlib.Path(args.out) / "state.pt"
        self.state.parent.mkdir(parents=True, exist_ok=True)
        if self.state.exists():
            kept = torch.load(self.state, weights_only=False)
            for k, v in kept["weights"].items():
                self.weights[k].data.copy_(v)
            self.optimiser.load_state_dict(kept["optimiser"])
            self.uses, self.step, self.blocks, self.seconds = kept["counts"]
            print(f"resumed at step {self.step}, {self.seconds / 60:.1f} min", flush=True)

    def save(self):
        kept = {
            "weights": {k: v.detach() for k, v in self.weights.items()},
            "optimiser": self.optimiser.state_dict(),
            "counts": (self.uses, self.step, self.blocks, self.seconds),
        }
        torch.save(kept, f"{self.state}.new")
        os.replace(f"{self.state}.new", self.state)
        D.save(self.state.parent / "drafter", self.shape, self.weights, self.ids)

    def losses(self, part: Part, which: list[int], anchors, block: int, noise: float = 0.0):
        """Loss and hits `[S · A, block - 1]` of the blocks at `anchors` of some sequences."""
        device = self.args.device
        tokens, features, hidden = part.batch(which)
        if noise:
            features = features + torch.randn_like(features) * (noise * features.std((0, 1)))
        row, label = labels_of(tokens, [part.lengths[i] for i in which], anchors, block)
        label = self.index[label]
        seeds = tokens.gather(1, anchors).to(device)
        w = {k: v.to(torch.bfloat16) for k, v in self.weights.items()}
        out = D.forward(
            self.shape, w, features.to(device), anchors.to(device), seeds, self.embedding, self.cos, self.sin, block
        )
        flat = lambda t: t.reshape(-1, block - 1).to(device)
        used, row = row.unique(return_inverse=True)
        teacher = hidden.view(-1, hidden.shape[-1])[used].to(device)
        label = flat(label)
        pair = HeadLoss.apply(out.flatten(0, 1), self.head, self.across, teacher, flat(row), label, self.args.hard)
        return pair, label

    @torch.no_grad()
    def validate(self, part: Part) -> str:
        """Loss, recall of each slot and mean accepted length over evenly spaced anchors."""
        hits, losses, known = [], [], []
        which = part.answers(32)
        for start in range(0, len(which), 8):
            some = which[start : start + 8]
            anchors = torch.stack(
                [torch.linspace(part.prompts[i], part.lengths[i] - 9, 24).long() for i in some]
            )
            (loss, hit), label = self.losses(part, some, anchors, self.shape.block)
            losses.append(loss.item())
            hits.append(hit)
            known.append(label)
        hits = torch.cat(hits).float()
        length = hits.cumprod(-1).sum(-1).mean()
        slots = " ".join(f"{v:.3f}" for v in hits.mean(0).tolist())
        return f"valid loss {sum(losses) / len(losses):.4f} tau {1 + length:.3f} recall {slots}"

    def rate(self) -> float:
        """Share of the peak learning rate: a short rise, then a cosine."""
        done = self.seconds / 60 / self.args.minutes
        if done < self.args.warm_up:
            return max(done / self.args.warm_up, 0.02)
        return max(0.5 * (1 + math.cos(math.pi * min(1, done))), 0.005)

    def train(self):
        args = self.args
        valid = Part(pathlib.Path(args.valid)) if args.valid else None
        rng = random.Random(args.seed + self.step)
        generator = torch.Generator().manual_seed(args.seed + self.step)
        log = (self.state.parent / "log.jsonl").open("a")
        if valid:
            print(self.validate(valid), flush=True)
        saved = began = time.time()
        before, shown = self.seconds, 0
        recent = []
        stop = []
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.append(True))
        while self.seconds < args.minutes * 60 and not stop:
            files = [f for d in args.data for f in sorted(pathlib.Path(d).glob("part-*.safetensors"))]
            if not files:
                raise SystemExit("no part files in " + ", ".join(args.data))
            file = order_parts(files, self.uses, rng)
            part = Part(file)
            which = part.answers(2 * args.short_block)
            batches = [which[i : i + args.sequences] for i in range(0, len(which) - args.sequences + 1, args.sequences)]
            rng.shuffle(batches)
            for number, some in enumerate(batches):
                short = not args.bidirectional and rng.random() < args.short_share
                block = args.short_block if short else args.block
                anchors = torch.stack(
                    [draw_anchors(part.prompts[i], part.lengths[i], args.anchors, generator) for i in some]
                )
                (loss, hit), _ = self.losses(part, some, anchors, block, args.noise)
                (loss / args.accumulate).backward()
                self.blocks += anchors.numel()
                recent.append((loss.item(), float(hit[:, 0].float().mean())))
                if (number + 1) % args.accumulate == 0:
                    self.optimiser.step(self.rate())
                    self.step += 1
                self.seconds = before + time.time() - began
                if self.seconds - shown > 30:
                    shown = self.seconds
                    mean = [sum(v) / len(recent) for v in zip(*recent)]
                    recent.clear()
                    line = {"step": self.step, "min": self.seconds / 60, "blocks": self.blocks, "loss": mean[0], "slot1": mean[1]}
                    print(json.dumps({k: round(v, 4) for k, v in line.items()}), file=log, flush=True)
                    print(f"step {self.step} {self.seconds / 60:.1f} min {self.blocks} blocks loss {mean[0]:.4f} slot 1 {mean[1]:.3f}", flush=True)
                if time.time() - saved > args.save_every * 60:
                    saved = time.time()
                    self.save()
                    if valid:
                        print(self.validate(valid), flush=True)
                if self.seconds > args.minutes * 60 or stop:
                    break
            self.uses[str(file)] = self.uses.get(str(file), 0) + 1
        self.save()
        if valid:
            print(self.validate(valid), flush=True)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    Run(args).train()


if __name__ == "__main__":
    main()
