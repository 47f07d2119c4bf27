"""Vision Transformer (Dosovitskiy et al., 2021, https://arxiv.org/abs/2010.11929).

z₀ = [x_class; x_p¹E; ...; x_pᴺE] + E_pos
z'_l = MSA(LN(z_{l-1})) + z_{l-1}
z_l = MLP(LN(z'_l)) + z'_l
y = LN(z_L⁰)
"""

from typing import Literal

import torch
from torch import Tensor, nn

from lightning_bench.models.layers.attention import Attention
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.feedforward import FeedForward
from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.patch_embedding import Patches
from lightning_bench.models.layers.pooling import pooling
from lightning_bench.models.layers.position_embedding import Positions, positions
from lightning_bench.models.layers.resnet_patches import ResNetPatches
from lightning_bench.models.registry.registry import size, variant

Pool = Literal["token", "mean"]


class Block(nn.Module):
    """One layer of a pre-norm Transformer encoder."""

    def __init__(
        self, width: int, heads: int, hidden: int, dropout: float, drop_path: nn.Module
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = FeedForward(width, hidden, dropout=dropout)
        self.drop_path = drop_path

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map B×S×C to B×S×C; where the mask B×S is false there is nothing to see."""
        z = z + self.drop_path(self.dropout(self.attention(self.norm1(z), mask)))
        return z + self.drop_path(self.mlp(self.norm2(z)))


class ClassToken(nn.Module):
    """Put a learned token before the sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×(1 + S)×C."""
        return torch.cat([self.weight.expand(x.shape[0], 1, -1), x], dim=1)


class VisionTransformer(nn.Module):
    """Patches, positions, a Transformer encoder, and a linear head."""

    def __init__(
        self,
        patches: Patches | ResNetPatches,
        classes: int,
        width: int,
        depth: int,
        heads: int,
        hidden: int,
        pool: Pool,
        position_name: Positions,
        dropout: float,
        drop_path: float,
    ) -> None:
        super().__init__()
        self.extra = 1 if pool == "token" else 0
        self.patches = patches
        self.token = ClassToken(width) if self.extra else nn.Identity()
        self.positions = positions(position_name, patches.count + self.extra, width, self.extra)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.blocks = nn.Sequential(
            *(Block(width, heads, hidden, dropout, drop) for drop in drop_paths(drop_path, depth))
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pool = pooling(pool)
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        z = self.dropout(self.positions(self.token(self.patches(x))))
        return self.head(self.pool(self.norm(self.blocks(z))))


@variant("ViT")
def vit(
    *,
    channels: int = 3,
    image_size: int = 224,
    classes: int = 1000,
    patch: int = 16,
    width: int = 384,
    depth: int = 12,
    heads: int = 6,
    hidden: int = 1536,
    pool: Pool = "token",
    positions: Positions = "learned",
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> VisionTransformer:
    """Vision Transformer of any size; class token or mean; any or no position embedding."""
    return VisionTransformer(
        Patches(channels, image_size, patch, width),
        classes,
        width,
        depth,
        heads,
        hidden,
        pool,
        positions,
        dropout,
        drop_path,
    )


#: Of an encoder: the channels, the layers, the heads, and the hidden channels of each MLP.
TI = {"width": 192, "depth": 12, "heads": 3, "hidden": 768}
S = {"width": 384, "depth": 12, "heads": 6, "hidden": 1536}
B = {"width": 768, "depth": 12, "heads": 12, "hidden": 3072}
L = {"width": 1024, "depth": 24, "heads": 16, "hidden": 4096}
H = {"width": 1280, "depth": 32, "heads": 16, "hidden": 5120}


for _name, _title, _word, _patch, _size in (
    ("vit-ti32", "ViT-Ti/32", "tiny", 32, TI),
    ("vit-ti16", "ViT-Ti/16", "tiny", 16, TI),
    ("vit-ti14", "ViT-Ti/14", "tiny", 14, TI),
    ("vit-s32", "ViT-S/32", "small", 32, S),
    ("vit-s16", "ViT-S/16", "small", 16, S),
    ("vit-s14", "ViT-S/14", "small", 14, S),
    ("vit-b32", "ViT-B/32", "base", 32, B),
    ("vit-b16", "ViT-B/16", "base", 16, B),
    ("vit-b14", "ViT-B/14", "base", 14, B),
    ("vit-l32", "ViT-L/32", "large", 32, L),
    ("vit-l16", "ViT-L/16", "large", 16, L),
    ("vit-l14", "ViT-L/14", "large", 14, L),
    ("vit-h32", "ViT-H/32", "huge", 32, H),
    ("vit-h16", "ViT-H/16", "huge", 16, H),
    ("vit-h14", "ViT-H/14", "huge", 14, H),
):
    _summary = f"Vision Transformer, {_word}, patches of {_patch}."
    size(vit, _name, _title, _summary, {"patch": _patch, **_size})
size(
    vit,
    "deit-b16",
    "DeiT-B/16",
    "DeiT-B (Touvron et al., 2021): ViT-B/16 with stochastic depth; the rest is its recipe.",
    {"patch": 16, **B, "pool": "token", "positions": "learned", "dropout": 0.0},
    {"drop_path": 0.1},
    family="deit",
)


@variant("ViT-B/16 on a ResNet stem", family="vit-hybrid")
def vit_hybrid_b16(
    *,
    channels: int = 3,
    image_size: int = 224,
    classes: int = 1000,
    pool: Pool = "token",
    positions: Positions = "learned",
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> VisionTransformer:
    """The hybrid R50+ViT-B/16: the sequence is the third stage of a ResNet-50."""
    patches = ResNetPatches(channels, image_size, B["width"])
    return VisionTransformer(
        patches,
        classes,
        **B,
        pool=pool,
        position_name=positions,
        dropout=dropout,
        drop_path=drop_path,
    )
