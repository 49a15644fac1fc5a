"""Operations with hand-written gradients: fewer passes over memory than automatic ones, which is most of the time on a CPU."""

import torch


class Rms(torch.autograd.Function):
    """Root-mean-square norm over the last axis, times a weight."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        width = x.shape[-1]
        exact = torch.promote_types(x.dtype, torch.float32)
        scale = (torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=exact).square_() / width + eps).rsqrt_()
        normed = x * scale.to(x.dtype)
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight

    @staticmethod
    def backward(ctx, grad):
        normed, scale, weight = ctx.saved_tensors
        width = normed.shape[-1]
        flat = grad.reshape(-1, width) * normed.reshape(-1, width)
        ones = torch.ones(1, len(flat), dtype=flat.dtype, device=flat.device)
        grad_weight = (ones @ flat).view(-1)
        mean = (flat @ weight[:, None]).view(scale.shape) / width
        grad_x = (grad * weight).sub_(normed * mean).mul_(scale.to(grad.dtype))
        return grad_x, grad_weight, None


class Swish(torch.autograd.Function):
    """`silu(gate) * up` of rows that hold gate and up side by side."""

    @staticmethod
    def forward(ctx, both):
        ctx.save_for_backward(both)
        gate, up = both.chunk(2, -1)
        return torch.nn.functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx, grad):
        (both,) = ctx.saved_tensors
        gate, up = both.chunk(2, -1)
        out = torch.empty_like(both)
        left, right = out.chunk(2, -1)
        torch.mul(grad, torch.nn.functional.silu(gate), out=right)
        left.copy_(torch.ops.aten.silu_backward(grad * up, gate))
        return out


class Attend(torch.autograd.Function):
    """Attention of block queries to context and own block under one softmax; see `attend`."""

    @staticmethod
    def forward(ctx, q, k_ctx, v_ctx, k_blk, v_blk, bias_ctx, bias_blk):
        s, g, a, b, r, d = q.shape
        n, m = k_ctx.shape[2], k_blk.shape[3]
        q = (q * d**-0.5).contiguous()
        scores = q.new_empty(s, g, a, b * r, n + m)
        over_ctx = q.view(s, g, a * b * r, d) @ k_ctx.transpose(-1, -2).contiguous()
        torch.add(over_ctx.view(s, g, a, b * r, n), bias_ctx, out=scores[..., :n])
        over_blk = q.view(s, g, a, b * r, d) @ k_blk.transpose(-1, -2)
        scores[..., n:] = (over_blk.view(s, g, a, b, r, m) + bias_blk).view(s, g, a, b * r, m)
        weights = scores.softmax(-1)
        del scores
        w_ctx, w_blk = weights[..., :n].contiguous(), weights[..., n:].contiguous()
        mixed = (w_ctx.view(s, g, a * b * r, n) @ v_ctx).view(s, g, a, b * r, d) + w_blk @ v_blk
        ctx.save_for_backward(q, k_ctx, v_ctx, k_blk, v_blk, w_ctx, w_blk, mixed)
        return mixed.view(s, g, a, b, r, d)

    @staticmethod
    def backward(ctx, grad):
        q, k_ctx, v_ctx, k_blk, v_blk, w_ctx, w_blk, mixed = ctx.saved_tensors
        s, g, a, b, r, d = q.shape
        n = k_ctx.shape[2]
        rows, in_blocks = (s, g, a * b * r, d), (s, g, a, b * r, d)
        grad = grad.contiguous()
        # Each row of the softmax gradient is w (dw - sum w dw), and that sum is the output times its gradient.
        shift = (grad.view(in_blocks) * mixed).sum(-1, keepdim=True)
        d_ctx = (grad.view(rows) @ v_ctx.transpose(-1, -2).contiguous()).view(w_ctx.shape).sub_(shift).mul_(w_ctx)
        d_blk = (grad.view(in_blocks) @ v_blk.transpose(-1, -2)).sub_(shift).mul_(w_blk)
        flat = d_ctx.view(s, g, a * b * r, n)
        d_q = (flat @ k_ctx).view(in_blocks) + d_blk @ k_blk
        return (
            d_q.mul_(d**-0.5).view(q.shape),
            flat.transpose(-1, -2) @ q.view(rows),
            w_ctx.view(s, g, a * b * r, n).transpose(-1, -2) @ grad.view(rows),
            d_blk.transpose(-1, -2) @ q.view(in_blocks),
            w_blk.transpose(-1, -2) @ grad.view(in_blocks),
            None,
            None,
        )
