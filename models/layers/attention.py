"""Multi-head self-attention (Vaswani et al., 2017): softmax(Q Kᵀ / √d) V."""

import torch.nn.functional as F
from torch import Tensor, nn

from models.errors import ModelError
from models.layers.linear import Linear


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
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.project(a.transpose(1, 2).reshape(batch, length, -1))
