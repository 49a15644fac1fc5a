"""The training loss: draft logits against what the target chose and how sure it was.

The head is frozen, so that only the gradient towards the hidden states is needed; it is worked out together with the
loss, and no logits are kept.
"""

import torch
import torch.nn.functional as F


def pace_weights(hit: torch.Tensor, known: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
    """D-PACE slot weights `[..., L]` from the probabilities `hit` of the true tokens.

    A slot counts as much as the expected accepted length depends on it. Slots that are not `known` count nothing.
    """
    r = torch.where(known, (1 - alpha) * hit + alpha, torch.ones_like(hit))
    g = r.cumprod(-1)
    w = g.flip(-1).cumsum(-1).flip(-1)
    return torch.where(known, w, torch.zeros_like(w))


class HeadLoss(torch.autograd.Function):
    """`(hidden [R, L, H], head [V, H], transposed head, teacher [T, H], row [R, L], label [R, L], hard share)` to the
    mean cross-entropy of the true tokens (its gradient is that of the mixed labels).

    `teacher[row]` is the target's normed hidden state whose logits are the distribution of a slot; `label` the index of
    the true token in the draft vocabulary, -1 where the slot has none. Also returns the hits `[R, L]` of the first
    choice. The transposed head is a copy in memory: products with a transposed view take twice as long on a CPU.
    """

    @staticmethod
    def forward(ctx, hidden, head, across, teacher, row, label, hard):
        rows, slots, width = hidden.shape
        # A slot after an unknown token can never be accepted.
        known = (label >= 0).long().cumprod(-1).bool()
        grad = torch.empty_like(hidden)
        loss, total = 0.0, 0.0
        hits = torch.zeros(rows, slots, dtype=torch.bool, device=hidden.device)
        # The gradient of the logits is softmax - labels; its product with the head is taken apart, so that the labels'
        # part is computed once for each position and not for each slot that asks about it.
        wanted = (teacher @ across).softmax(-1) @ head if hard < 1 else None
        step = max(1, 2048 // slots)
        for start in range(0, rows, step):
            part = slice(start, start + step)
            q = (hidden[part].reshape(-1, width) @ across).softmax(-1)
            at = label[part].clamp(min=0).reshape(-1)
            true = q.gather(1, at[:, None]).float()
            hits[part] = (true >= q.amax(-1, keepdim=True)).view(-1, slots) & known[part]
            w = pace_weights(true.view(-1, slots), known[part]).reshape(-1, 1)
            total += float(w.sum())
            loss -= float((w * true.clamp(min=1e-9).log()).sum())
            g = (q @ head).sub_(head[at], alpha=hard)
            if wanted is not None:
                g.sub_(wanted[row[part].reshape(-1)], alpha=1 - hard)
            grad[part] = g.mul_(w.to(g.dtype)).view(-1, slots, width)
        total = max(total, 1e-6)
        grad /= total
        ctx.save_for_backward(grad)
        ctx.mark_non_differentiable(hits)
        return hidden.new_tensor(loss / total, dtype=torch.float32), hits

    @staticmethod
    def backward(ctx, outer, _):
        (grad,) = ctx.saved_tensors
        return grad * outer.to(grad.dtype), None, None, None, None, None, None
