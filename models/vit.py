"""Vision Transformer (Dosovitskiy et al., 2021, https://arxiv.org/abs/2010.11929).

z₀ = [x_class; x_p¹E; ...; x_pᴺE] + E_pos
z'_l = MSA(LN(z_{l-1})) + z_{l-1}
z_l = MLP(LN(z'_l)) + z'_l
y = LN(z_L⁰)
"""

from typing import Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from lightning_bench.models.layers.attention import Attention
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.feedforward import FeedForward
from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.patch_embedding import Patches
from lightning_bench.models.layers.position_embedding import Positions, positions
from lightning_bench.models.layers.resnet_patches import ResNetPatches
from lightning_bench.models.registry.arguments import ImageOptions
from lightning_bench.models.registry.registry import variant

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


class FirstToken(nn.Module):
    """Read the sequence at its class token."""

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×C."""
        return x[:, 0]


class MeanToken(nn.Module):
    """Read the sequence as the mean of its tokens."""

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×C."""
        return x.mean(1)


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
        self.pool = FirstToken() if self.extra else MeanToken()
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        z = self.dropout(self.positions(self.token(self.patches(x))))
        return self.head(self.pool(self.norm(self.blocks(z))))


class ViTOptions(ImageOptions, total=False):
    """What the named sizes leave open."""

    pool: Pool
    positions: Positions
    dropout: float
    drop_path: float


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


@variant("DeiT-B/16", family="deit")
def deit_b16(
    *,
    channels: int = 3,
    image_size: int = 224,
    classes: int = 1000,
    drop_path: float = 0.1,
) -> VisionTransformer:
    """DeiT-B (Touvron et al., 2021): ViT-B/16 with stochastic depth; the rest is its recipe."""
    return vit(
        channels=channels,
        image_size=image_size,
        classes=classes,
        patch=16,
        **B,
        drop_path=drop_path,
    )


class Size(TypedDict):
    """Of an encoder: the channels, the layers, the heads, and the hidden channels of each MLP."""

    width: int
    depth: int
    heads: int
    hidden: int


TI: Size = {"width": 192, "depth": 12, "heads": 3, "hidden": 768}
S: Size = {"width": 384, "depth": 12, "heads": 6, "hidden": 1536}
B: Size = {"width": 768, "depth": 12, "heads": 12, "hidden": 3072}
L: Size = {"width": 1024, "depth": 24, "heads": 16, "hidden": 4096}
H: Size = {"width": 1280, "depth": 32, "heads": 16, "hidden": 5120}


@variant("ViT-Ti/32", of=vit)
def vit_ti32(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, tiny, patches of 32."""
    return vit(patch=32, **TI, **options)


@variant("ViT-Ti/16", of=vit)
def vit_ti16(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, tiny, patches of 16."""
    return vit(patch=16, **TI, **options)


@variant("ViT-Ti/14", of=vit)
def vit_ti14(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, tiny, patches of 14."""
    return vit(patch=14, **TI, **options)


@variant("ViT-S/32", of=vit)
def vit_s32(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, small, patches of 32."""
    return vit(patch=32, **S, **options)


@variant("ViT-S/16", of=vit)
def vit_s16(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, small, patches of 16."""
    return vit(patch=16, **S, **options)


@variant("ViT-S/14", of=vit)
def vit_s14(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, small, patches of 14."""
    return vit(patch=14, **S, **options)


@variant("ViT-B/32", of=vit)
def vit_b32(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, base, patches of 32."""
    return vit(patch=32, **B, **options)


@variant("ViT-B/16", of=vit)
def vit_b16(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, base, patches of 16."""
    return vit(patch=16, **B, **options)


@variant("ViT-B/14", of=vit)
def vit_b14(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, base, patches of 14."""
    return vit(patch=14, **B, **options)


@variant("ViT-L/32", of=vit)
def vit_l32(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, large, patches of 32."""
    return vit(patch=32, **L, **options)


@variant("ViT-L/16", of=vit)
def vit_l16(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, large, patches of 16."""
    return vit(patch=16, **L, **options)


@variant("ViT-L/14", of=vit)
def vit_l14(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, large, patches of 14."""
    return vit(patch=14, **L, **options)


@variant("ViT-H/32", of=vit)
def vit_h32(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, huge, patches of 32."""
    return vit(patch=32, **H, **options)


@variant("ViT-H/16", of=vit)
def vit_h16(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, huge, patches of 16."""
    return vit(patch=16, **H, **options)


@variant("ViT-H/14", of=vit)
def vit_h14(**options: Unpack[ViTOptions]) -> VisionTransformer:
    """Vision Transformer, huge, patches of 14."""
    return vit(patch=14, **H, **options)
