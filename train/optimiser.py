"""AdamW, alone or with Muon for the matrices."""

import torch


@torch.no_grad()
def orthogonal(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """A matrix near to the orthogonal factor of `g`, by a quintic Newton-Schulz iteration in BF16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.to(torch.bfloat16)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        m = x @ x.T
        x = a * x + (b * m + c * (m @ m)) @ x
    return (x.T if tall else x).float()


class Muon:
    """Muon for matrices, AdamW for the rest; gradients are clipped to norm 1 together."""

    def __init__(self, matrices, others, lr: float, muon_lr: float, decay: float = 0.01):
        self.matrices = matrices
        self.momentum = [torch.zeros_like(p) for p in matrices]
        self.muon_lr, self.decay = muon_lr, decay
        self.others, self.lr = others, lr
        self.adam = torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.95), weight_decay=decay) if others else None
        self.clipped = list(matrices) + list(others)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.clipped, 1.0)
        for p, m in zip(self.matrices, self.momentum):
            m.lerp_(p.grad, 0.05)
            update = orthogonal(p.grad.lerp(m, 0.95))
            scale = max(1, p.shape[0] / p.shape[1]) ** 0.5
            p.mul_(1 - self.muon_lr * rate * self.decay)
            p.add_(update, alpha=-self.muon_lr * rate * scale)
            p.grad = None
        if self.adam:
            for group in self.adam.param_groups:
                group["lr"] = self.lr * rate
            self.adam.step()
            self.adam.zero_grad(set_to_none=True)

    def state_dict(self) -> dict:
        return {"momentum": self.momentum, "adam": self.adam.state_dict() if self.adam else None}

    def load_state_dict(self, state: dict) -> None:
        for m, kept in zip(self.momentum, state["momentum"]):
            m.copy_(kept)
        if self.adam:
            self.adam.load_state_dict(state["adam"])


def make_optimiser(weights: dict[str, torch.Tensor], kind: str, lr: float, muon_lr: float) -> Muon:
    """`muon`, or `adamw` for everything."""
    matrices = [w for w in weights.values() if w.ndim == 2] if kind == "muon" else []
    others = [w for w in weights.values() if w.ndim != 2 or kind != "muon"]
    return Muon(matrices, others, lr, muon_lr)
