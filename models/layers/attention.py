"""Multi-head self-attention (Vaswani et al., 2017): softmax(Q Kᵀ / √d) V.

On a CPU in bfloat16 torch's fused kernel is slow, backward above all; the plain products are 3 to 4
times as fast (measured on Zen 5, 64 to 576 positions; see `benchmarks/attention.py`). They hold all
weights at once, so that long sequences are left to the fused kernel.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.linear import Linear

SHORT = 1024  # positions; of so many the weights are still small beside all else that is kept


class Attention(nn.Module):
    """Self-attention with `heads` heads; `inner` channels in all (default: the width)."""

    def __init__(self, width: int, heads: int, inner: int = 0, out: int = 0) -> None:
        super().__init__()
        inner = inner or width
        if inner % heads:
            raise ModelError(f"{heads} heads don't divide a width of {inner}")
        self.heads = heads
        self.qkv = Linear(width, 3 * inner)
        self.project = Linear(inner, out or width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend B×S×C to itself; positions where the mask B×S is false are not looked at."""
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = None if mask is None else mask[:, None, None, :]
        a = attend(q, k, v, seen)
        return self.project(a.transpose(1, 2).reshape(batch, length, -1))


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
    """Return softmax(Q Kᵀ / √d) V of B×H×S×d each, by the fastest kernel at hand."""
    if not (q.device.type == "cpu" and q.dtype == torch.bfloat16 and q.shape[2] <= SHORT):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1) @ v
