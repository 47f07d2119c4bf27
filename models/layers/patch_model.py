"""What Mixer and gMLP for images share: patches, blocks, a mean over the tokens, and a head."""

from collections.abc import Iterable

from torch import Tensor, nn

from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.patch_embedding import Patches


class PatchModel(nn.Module):
    """Blocks that map B×S×C to B×S×C on the patches of an image, and a linear head."""

    def __init__(
        self, patches: Patches, blocks: Iterable[nn.Module], width: int, classes: int
    ) -> None:
        super().__init__()
        self.patches = patches
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        return self.head(self.norm(self.blocks(self.patches(x))).mean(1))
