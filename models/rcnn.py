"""Recurrent convolutional networks (Liang and Hu, 2015): RCNN-96, RCNN-128, RCNN-160.

A 5×5 convolution and a pool, two recurrent layers, a pool, two recurrent layers, the maximum
over the image, a linear head. The paper counts 0.67, 1.19 and 1.86 million parameters.
"""

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.patch_embedding import check_channels
from lightning_bench.models.layers.recurrent_conv import RecurrentConv
from lightning_bench.models.registry.registry import size, variant


class RCNN(nn.Module):
    """Four recurrent convolution layers of `width` maps with `steps` steps each."""

    def __init__(self, channels: int, classes: int, width: int, steps: int, dropout: float) -> None:
        super().__init__()
        self.channels = channels

        def pool() -> nn.Module:
            return nn.MaxPool2d(3, stride=2, padding=1)

        def drop() -> nn.Module:
            return nn.Dropout(dropout) if dropout else nn.Identity()

        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 5, padding=2),
            nn.ReLU(),
            pool(),
            drop(),
            RecurrentConv(width, steps),
            drop(),
            RecurrentConv(width, steps),
            pool(),
            drop(),
            RecurrentConv(width, steps),
            drop(),
            RecurrentConv(width, steps),
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W of any size."""
        check_channels(x, self.channels)
        return self.head(self.features(x).amax((2, 3)))


@variant("RCNN")
def rcnn(
    *,
    channels: int = 3,
    image_size: int = 32,
    classes: int = 10,
    width: int = 96,
    steps: int = 3,
    dropout: float = 0.0,
) -> RCNN:
    """Recurrent convolutional network with K `width` maps and t `steps`."""
    if steps < 0:
        raise ModelError(f"rcnn takes 0 or more steps, not {steps}")
    return RCNN(channels, classes, width, steps, dropout)


for _width in (96, 128, 160):
    size(rcnn, f"rcnn-{_width}", f"RCNN-{_width}", f"RCNN with {_width} maps.", {"width": _width})
