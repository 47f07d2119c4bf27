"""Recurrent convolutional networks (Liang and Hu, 2015): RCNN-96, RCNN-128, RCNN-160.

A 5×5 convolution and a pool, two recurrent layers, a pool, two recurrent layers, the maximum
over the image, a linear head. The paper counts 0.67, 1.19 and 1.86 million parameters.
"""

from typing import Unpack

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.patch_embedding import check_channels
from lightning_bench.models.layers.recurrent_conv import RecurrentConv
from lightning_bench.models.registry.arguments import ImageOptions
from lightning_bench.models.registry.registry import variant


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


class RCNNOptions(ImageOptions, total=False):
    """What the named sizes leave open."""

    steps: int
    dropout: float


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


@variant("RCNN-96", of=rcnn)
def rcnn_96(**options: Unpack[RCNNOptions]) -> RCNN:
    """RCNN with 96 maps."""
    return rcnn(width=96, **options)


@variant("RCNN-128", of=rcnn)
def rcnn_128(**options: Unpack[RCNNOptions]) -> RCNN:
    """RCNN with 128 maps."""
    return rcnn(width=128, **options)


@variant("RCNN-160", of=rcnn)
def rcnn_160(**options: Unpack[RCNNOptions]) -> RCNN:
    """RCNN with 160 maps."""
    return rcnn(width=160, **options)
