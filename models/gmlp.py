"""gMLP (Liu et al., 2021, "Pay Attention to MLPs", https://arxiv.org/abs/2105.08050).

Z = GELU(norm(X) U),   Y = s(Z) V + X,   where s is the spatial gating unit
"""

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.linear import Linear
from lightning_bench.models.layers.patch_embedding import Patches
from lightning_bench.models.layers.spatial_gating_unit import Gate, spatial_gate
from lightning_bench.models.layers.spatial_linear import Matrix
from lightning_bench.models.registry.arguments import ImageOptions
from lightning_bench.models.registry.registry import variant


class Block(nn.Module):
    """One block of gMLP; with `attention` channels in a tiny head it is aMLP's."""

    def __init__(
        self,
        width: int,
        hidden: int,
        length: int,
        gate: Gate,
        matrix: Matrix,
        attention: int,
        drop_path: nn.Module,
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.u = Linear(width, hidden)
        self.gate, gated = spatial_gate(gate, width, hidden, length, matrix, attention)
        self.v = Linear(gated, width)
        self.drop_path = drop_path

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map B×S×C to B×S×C; where the mask B×S is false there is nothing to see."""
        n = self.norm(x)
        z = F.gelu(self.u(n))
        return x + self.drop_path(self.v(self.gate(z, n, mask)))


class GMLP(nn.Module):
    """Patches, blocks, the mean over the tokens, and a linear head."""

    def __init__(
        self,
        patches: Patches,
        classes: int,
        width: int,
        depth: int,
        hidden: int,
        gate: Gate,
        matrix: Matrix,
        attention: int,
        drop_path: float,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.blocks = nn.Sequential(
            *(
                Block(width, hidden, patches.count, gate, matrix, attention, drop)
                for drop in drop_paths(drop_path, depth)
            )
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        return self.head(self.norm(self.blocks(self.patches(x))).mean(1))


class GMLPOptions(ImageOptions, total=False):
    """What the named sizes leave open."""

    gate: Gate
    matrix: Matrix
    attention: int
    drop_path: float


@variant("gMLP")
def gmlp(
    *,
    channels: int = 3,
    image_size: int = 224,
    classes: int = 1000,
    patch: int = 16,
    width: int = 256,
    depth: int = 30,
    hidden: int = 1536,
    gate: Gate = "split",
    matrix: Matrix = "dense",
    attention: int = 0,
    drop_path: float = 0.0,
) -> GMLP:
    """gMLP for images of any size: C `width`, D_C `hidden`; `attention` channels make it aMLP."""
    return GMLP(
        Patches(channels, image_size, patch, width),
        classes,
        width,
        depth,
        hidden,
        gate,
        matrix,
        attention,
        drop_path,
    )


@variant("gMLP-Ti/16", of=gmlp)
def gmlp_ti16(**options: Unpack[GMLPOptions]) -> GMLP:
    """gMLP for images, tiny."""
    return gmlp(width=128, hidden=768, **options)


@variant("gMLP-S/16", of=gmlp)
def gmlp_s16(**options: Unpack[GMLPOptions]) -> GMLP:
    """gMLP for images, small."""
    return gmlp(width=256, hidden=1536, **options)


@variant("gMLP-B/16", of=gmlp)
def gmlp_b16(**options: Unpack[GMLPOptions]) -> GMLP:
    """gMLP for images, base."""
    return gmlp(width=512, hidden=3072, **options)
