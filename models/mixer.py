"""MLP-Mixer (Tolstikhin et al., 2021, https://arxiv.org/abs/2105.01601).

U = X + W₂ σ(W₁ norm(X))        along the tokens, the same for every channel
Y = U + σ(norm(U) W₃) W₄        along the channels, the same for every token
"""

from torch import Tensor, nn

from lightning_bench.models.layers.activation import Activation, activation
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.feedforward import FeedForward
from lightning_bench.models.layers.patch_embedding import Patches
from lightning_bench.models.layers.patch_model import PatchModel
from lightning_bench.models.layers.spatial_linear import SpatialLinear
from lightning_bench.models.registry.registry import size, variant


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
) -> PatchModel:
    """MLP-Mixer of any size: P `patch`, C `width`, D_S `token_width`, D_C `channel_width`."""
    patches = Patches(channels, image_size, patch, width)
    blocks = [
        Block(patches.count, width, token_width, channel_width, activation, drop)
        for drop in drop_paths(drop_path, depth)
    ]
    return PatchModel(patches, blocks, width, classes)


S = {"width": 512, "depth": 8, "token_width": 256, "channel_width": 2048}
B = {"width": 768, "depth": 12, "token_width": 384, "channel_width": 3072}
L = {"width": 1024, "depth": 24, "token_width": 512, "channel_width": 4096}
H = {"width": 1280, "depth": 32, "token_width": 640, "channel_width": 5120}


for _name, _title, _word, _patch, _size in (
    ("mixer-s32", "Mixer-S/32", "small", 32, S),
    ("mixer-s16", "Mixer-S/16", "small", 16, S),
    ("mixer-b32", "Mixer-B/32", "base", 32, B),
    ("mixer-b16", "Mixer-B/16", "base", 16, B),
    ("mixer-l32", "Mixer-L/32", "large", 32, L),
    ("mixer-l16", "Mixer-L/16", "large", 16, L),
    ("mixer-h14", "Mixer-H/14", "huge", 14, H),
):
    _summary = f"MLP-Mixer, {_word}, patches of {_patch}."
    size(mixer, _name, _title, _summary, {"patch": _patch, **_size})
# Of other widths than `mixer`, so that no line over depth may join the two.
size(
    mixer,
    "mixer-small",
    "Mixer for 32×32",
    "MLP-Mixer for small images: P=4, S=64 at 32×32, C=256, D_C=1024, D_S=256.",
    {"patch": 4, "width": 256, "token_width": 256, "channel_width": 1024},
    {"image_size": 32, "classes": 10},
    family="mixer-small",
)
