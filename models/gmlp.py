"""gMLP (Liu et al., 2021, "Pay Attention to MLPs", https://arxiv.org/abs/2105.08050).

Z = GELU(norm(X) U),   Y = s(Z) V + X,   where s is the spatial gating unit
"""

from torch import Tensor, nn

from lightning_bench.models.layers.activation import Activation, activation
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.linear import Linear
from lightning_bench.models.layers.patch_embedding import Patches
from lightning_bench.models.layers.patch_model import PatchModel
from lightning_bench.models.layers.spatial_gating_unit import Gate, spatial_gate
from lightning_bench.models.layers.spatial_linear import Matrix
from lightning_bench.models.registry.registry import size, variant


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
        activation_name: Activation = "gelu",
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.u = Linear(width, hidden)
        self.gate, gated = spatial_gate(gate, width, hidden, length, matrix, attention)
        self.v = Linear(gated, width)
        self.drop_path = drop_path
        self.activation = activation(activation_name)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map B×S×C to B×S×C; where the mask B×S is false there is nothing to see."""
        n = self.norm(x)
        z = self.activation(self.u(n))
        return x + self.drop_path(self.v(self.gate(z, n, mask)))


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
    activation: Activation = "gelu",
) -> PatchModel:
    """gMLP for images of any size: C `width`, D_C `hidden`; `attention` channels make it aMLP."""
    patches = Patches(channels, image_size, patch, width)
    blocks = [
        Block(width, hidden, patches.count, gate, matrix, attention, drop, activation)
        for drop in drop_paths(drop_path, depth)
    ]
    return PatchModel(patches, blocks, width, classes)


for _name, _title, _word, _width in (
    ("gmlp-ti16", "gMLP-Ti/16", "tiny", 128),
    ("gmlp-s16", "gMLP-S/16", "small", 256),
    ("gmlp-b16", "gMLP-B/16", "base", 512),
):
    _fixed = {"patch": 16, "width": _width, "depth": 30, "hidden": 6 * _width}
    size(gmlp, _name, _title, f"gMLP for images, {_word}.", _fixed)
