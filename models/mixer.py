"""MLP-Mixer (Tolstikhin et al., 2021, https://arxiv.org/abs/2105.01601).

U = X + W₂ σ(W₁ norm(X))        along the tokens, the same for every channel
Y = U + σ(norm(U) W₃) W₄        along the channels, the same for every token
"""

from typing import Unpack

from torch import Tensor, nn

from lightning_bench.models.layers.activation import Activation, activation
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.feedforward import FeedForward
from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.patch_embedding import Patches
from lightning_bench.models.layers.spatial_linear import SpatialLinear
from lightning_bench.models.registry.arguments import ImageOptions
from lightning_bench.models.registry.registry import variant


class TokenMixing(nn.Module):
    """W₂ σ(W₁ X + b₁) + b₂: an MLP along the tokens."""

    def __init__(self, length: int, hidden: int, activation_name: Activation) -> None:
        super().__init__()
        self.expand = SpatialLinear(length, hidden)
        self.activation = activation(activation_name)
        self.contract = SpatialLinear(hidden, length)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×S×C."""
        return self.contract(self.activation(self.expand(x)))


class Block(nn.Module):
    """One layer of Mixer: mix the tokens, then the channels."""

    def __init__(
        self,
        length: int,
        width: int,
        token_width: int,
        channel_width: int,
        activation_name: Activation,
        drop_path: nn.Module,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.tokens = TokenMixing(length, token_width, activation_name)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.channels = FeedForward(width, channel_width, activation_name)
        self.drop_path = drop_path

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×S×C."""
        u = x + self.drop_path(self.tokens(self.norm1(x)))
        return u + self.drop_path(self.channels(self.norm2(u)))


class Mixer(nn.Module):
    """Patches, blocks, the mean over the tokens, and a linear head."""

    def __init__(
        self,
        patches: Patches,
        classes: int,
        width: int,
        depth: int,
        token_width: int,
        channel_width: int,
        activation_name: Activation,
        drop_path: float,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.blocks = nn.Sequential(
            *(
                Block(patches.count, width, token_width, channel_width, activation_name, drop)
                for drop in drop_paths(drop_path, depth)
            )
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        return self.head(self.norm(self.blocks(self.patches(x))).mean(1))


class MixerOptions(ImageOptions, total=False):
    """What the named sizes leave open."""

    activation: Activation
    drop_path: float


@variant("MLP-Mixer")
def mixer(
    *,
    channels: int = 3,
    image_size: int = 224,
    classes: int = 1000,
    patch: int = 16,
    width: int = 512,
    depth: int = 8,
    token_width: int = 256,
    channel_width: int = 2048,
    activation: Activation = "gelu",
    drop_path: float = 0.0,
) -> Mixer:
    """MLP-Mixer of any size: P `patch`, C `width`, D_S `token_width`, D_C `channel_width`."""
    return Mixer(
        Patches(channels, image_size, patch, width),
        classes,
        width,
        depth,
        token_width,
        channel_width,
        activation,
        drop_path,
    )


S = {"width": 512, "depth": 8, "token_width": 256, "channel_width": 2048}
B = {"width": 768, "depth": 12, "token_width": 384, "channel_width": 3072}
L = {"width": 1024, "depth": 24, "token_width": 512, "channel_width": 4096}
H = {"width": 1280, "depth": 32, "token_width": 640, "channel_width": 5120}


@variant("Mixer-S/32", of=mixer)
def mixer_s32(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, small, patches of 32."""
    return mixer(patch=32, **S, **options)


@variant("Mixer-S/16", of=mixer)
def mixer_s16(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, small, patches of 16."""
    return mixer(patch=16, **S, **options)


@variant("Mixer-B/32", of=mixer)
def mixer_b32(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, base, patches of 32."""
    return mixer(patch=32, **B, **options)


@variant("Mixer-B/16", of=mixer)
def mixer_b16(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, base, patches of 16."""
    return mixer(patch=16, **B, **options)


@variant("Mixer-L/32", of=mixer)
def mixer_l32(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, large, patches of 32."""
    return mixer(patch=32, **L, **options)


@variant("Mixer-L/16", of=mixer)
def mixer_l16(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, large, patches of 16."""
    return mixer(patch=16, **L, **options)


@variant("Mixer-H/14", of=mixer)
def mixer_h14(**options: Unpack[MixerOptions]) -> Mixer:
    """MLP-Mixer, huge, patches of 14."""
    return mixer(patch=14, **H, **options)


# Of other widths than `mixer`, so that no line over depth may join the two.
@variant("Mixer for 32×32", of=mixer, family="mixer-small")
def mixer_small(
    *,
    channels: int = 3,
    image_size: int = 32,
    classes: int = 10,
    depth: int = 8,
    activation: Activation = "gelu",
    drop_path: float = 0.0,
) -> Mixer:
    """MLP-Mixer for small images: P=4, S=64 at 32×32, C=256, D_C=1024, D_S=256."""
    return mixer(
        channels=channels,
        image_size=image_size,
        classes=classes,
        patch=4,
        width=256,
        depth=depth,
        token_width=256,
        channel_width=1024,
        activation=activation,
        drop_path=drop_path,
    )
