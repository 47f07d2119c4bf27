"""Stochastic depth (Huang et al., 2016): leave a residual branch out for some examples."""

import torch
from torch import Tensor, nn


class DropPath(nn.Module):
    """Zero the whole branch of an example with probability `rate`, and scale up the others."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the branch, in training with some examples left out."""
        if not self.training:
            return x
        kept = torch.rand(x.shape[0], *[1] * (x.ndim - 1), device=x.device) >= self.rate
        return x * kept / (1 - self.rate)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"rate={self.rate:.3f}"


def drop_paths(rate: float, depth: int) -> list[nn.Module]:
    """Return one module a block, with rates that rise linearly from 0 to `rate`."""
    rates = [rate * block / max(depth - 1, 1) for block in range(depth)]
    return [DropPath(each) if each else nn.Identity() for each in rates]
