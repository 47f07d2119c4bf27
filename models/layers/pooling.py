"""From a sequence to one vector; pads are never read."""

from typing import Literal

import torch
from torch import Tensor, nn

TextPool = Literal["token", "mean", "last"]


class First(nn.Module):
    """The first token, [CLS] in BERT's protocol."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map B×S×C to B×C."""
        return x[:, 0]


class Mean(nn.Module):
    """The mean of the tokens."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map B×S×C to B×C."""
        if mask is None:
            return x.mean(1)
        weight = mask[..., None].to(x.dtype)
        return (x * weight).sum(1) / weight.sum(1)


class Last(nn.Module):
    """The last token that is no pad; pads follow the text."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map B×S×C to B×C."""
        if mask is None:
            return x[:, -1]
        return x[torch.arange(x.shape[0], device=x.device), mask.sum(1) - 1]


_MAKERS: dict[TextPool, type[nn.Module]] = {"token": First, "mean": Mean, "last": Last}


def pooling(name: TextPool) -> nn.Module:
    """Make the pooling of this name."""
    return _MAKERS[name]()
