"""Position embeddings: learned, sinusoidal, or none."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.models.errors import ModelError

Positions = Literal["learned", "sinusoidal", "none"]


def sinusoids(length: int, width: int) -> Tensor:
    """Return p_t(2i) = sin(t / 10000^(2i/d)), p_t(2i + 1) = cos(the same), length×width.

    Vaswani et al., 2017. A shift of t by φ is a rotation of each pair (2i, 2i + 1) by w_i φ.
    """
    if width % 2:
        raise ModelError(f"sinusoidal positions come in pairs: the width {width} is odd")
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class LearnedPositions(nn.Module):
    """Add a learned vector a position; weights of another image size are resized.

    `extra` leading positions (the class token's) are not part of the square grid of patches.
    """

    def __init__(self, length: int, width: int, extra: int = 0) -> None:
        super().__init__()
        self.extra = extra
        self.weight = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Return B×n×C plus positions."""
        return x + self.weight[: x.shape[1]]

    def fit_loaded(self, weight: Tensor) -> Tensor:
        """Resize weights that were trained at another image size."""
        return resized(weight, self.weight.shape[0], self.extra)


class SinusoidalPositions(nn.Module):
    """Add the sinusoids of each position; nothing is learned."""

    table: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return B×n×C plus positions."""
        return x + self.table[: x.shape[1]]


def positions(name: Positions, length: int, width: int, extra: int = 0) -> nn.Module:
    """Make the position embedding of this name; without one the sequence is a set."""
    if name == "learned":
        return LearnedPositions(length, width, extra)
    return SinusoidalPositions(length, width) if name == "sinusoidal" else nn.Identity()


def resized(weight: Tensor, length: int, extra: int) -> Tensor:
    """Interpolate the positions of a square grid to another grid, bicubically.

    As Dosovitskiy et al., 2021, section 3.2, do for fine-tuning at a higher resolution.
    """
    old, new = (round((n - extra) ** 0.5) for n in (weight.shape[0], length))
    if old**2 + extra != weight.shape[0] or new**2 + extra != length:
        raise ModelError(f"{weight.shape[0]} positions can't be resized to {length}: no squares")
    grid = weight[extra:].view(1, old, old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=(new, new), mode="bicubic", antialias=True)
    return torch.cat([weight[:extra], grid.flatten(2)[0].T])
