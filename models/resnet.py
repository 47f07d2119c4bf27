"""ResNets for small images (He et al., 2016, "Deep residual learning", section 4.2).

The larger ones, for 224×224, come from timm (`models.timm_convnets`), which has none of these.
"""

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.patch_embedding import check_channels
from lightning_bench.models.registry.registry import size, variant


class Block(nn.Module):
    """y = relu(x + BN(conv(relu(BN(conv(x)))))), where x is the shortcut without parameters.

    Where the block halves the image, the shortcut takes every second pixel and pads the channels
    with zeros (option A of the paper, which its parameter counts are of). Without it this is two
    layers of the paper's plain networks.
    """

    def __init__(
        self, channels: int, width: int, shortcut: bool = True, batch_norm: bool = True
    ) -> None:
        super().__init__()
        self.shortcut = shortcut
        self.padding = width - channels
        self.stride = 1 if width == channels else 2
        self.conv1 = nn.Conv2d(channels, width, 3, self.stride, padding=1, bias=False)
        self.norm1 = _norm(width, batch_norm)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = _norm(width, batch_norm)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×C×H×W to B×width×H/stride×W/stride."""
        z = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        if not self.shortcut:
            return F.relu(z)
        shortcut = x[:, :, :: self.stride, :: self.stride]
        return F.relu(z + F.pad(shortcut, (0, 0, 0, 0, 0, self.padding)))


def _norm(width: int, batch_norm: bool) -> nn.Module:
    return nn.BatchNorm2d(width) if batch_norm else nn.Identity()


class SmallResNet(nn.Module):
    """6n + 2 layers: three stages of n blocks, of `width`, 2 `width` and 4 `width` channels."""

    def __init__(
        self,
        channels: int,
        classes: int,
        layers: int,
        width: int,
        shortcut: bool = True,
        batch_norm: bool = True,
    ) -> None:
        super().__init__()
        if layers < 8 or (layers - 2) % 6:
            raise ModelError(f"a small ResNet has 6n + 2 layers (8, 14, 20, ...), not {layers}")
        self.channels = channels
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            _norm(width, batch_norm),
            nn.ReLU(),
        )
        n = (layers - 2) // 6
        widths = [width] * (n + 1) + [2 * width] * n + [4 * width] * n
        self.blocks = nn.Sequential(
            *(Block(a, b, shortcut, batch_norm) for a, b in pairwise(widths))
        )
        self.head = nn.Linear(4 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al., 2015: keep the variance through relu
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W of any size."""
        check_channels(x, self.channels)
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


@variant("Small ResNet", family="resnet")
def resnet_small(
    *,
    channels: int = 3,
    image_size: int = 32,
    classes: int = 10,
    width: int = 16,
    layers: int = 20,
    shortcut: bool = True,
    batch_norm: bool = True,
) -> SmallResNet:
    """ResNet for small images with 6n + 2 layers of any width; without shortcuts a plain one."""
    return SmallResNet(channels, classes, layers, width, shortcut, batch_norm)


for _n in (20, 32, 44, 56, 110):
    _summary = f"CIFAR ResNet with {_n} layers."
    size(resnet_small, f"resnet-{_n}", f"ResNet-{_n}", _summary, {"layers": _n}, depth=_n)
