"""Small convolutional networks: a few layers of one width, and LeNet, with 3×3 kernels."""

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.patch_embedding import check_channels, check_shape
from lightning_bench.models.layers.recurrent_conv import RecurrentConv
from lightning_bench.models.registry.registry import variant


class ConvNet(nn.Module):
    """Layers F_n = act(Σ_c k_nc * I_c + b_n) of 3×3 kernels, averaged over the image.

    With `steps` all layers but the first are recurrent, of so many steps.
    """

    def __init__(
        self, channels: int, classes: int, width: int, depth: int, steps: int, batch_norm: bool
    ) -> None:
        super().__init__()
        self.channels = channels
        self.layers = nn.Sequential(
            self._layer(channels, width, batch_norm),
            *(
                RecurrentConv(width, steps) if steps else self._layer(width, width, batch_norm)
                for _ in range(depth - 1)
            ),
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W of any size."""
        check_channels(x, self.channels)
        return self.head(self.layers(x).mean((2, 3)))

    @staticmethod
    def _layer(channels: int, width: int, batch_norm: bool) -> nn.Sequential:
        norm = nn.BatchNorm2d(width) if batch_norm else nn.Identity()
        # Batch norm subtracts the mean, and with it any bias of the convolution.
        conv = nn.Conv2d(channels, width, 3, padding=1, bias=not batch_norm)
        return nn.Sequential(conv, norm, nn.ReLU())


class LeNet(nn.Module):
    """Convolutions of 6 and 16 kernels of 3×3, a pool after each, and three linear layers.

    The network of the lecture slides: at 32×32 the first linear layer reads 16·6·6. Images of
    less than 10 pixels are padded to keep their size, so that the second pool finds something.
    """

    def __init__(self, channels: int, image_size: int, classes: int) -> None:
        super().__init__()
        padding = 0 if image_size >= 10 else 1
        side = ((image_size - 2 + 2 * padding) // 2 - 2 + 2 * padding) // 2
        if side < 1:
            raise ModelError(f"lenet pools twice: images of {image_size} are too small, 4 is least")
        self.shape = (channels, image_size, image_size)
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, 3, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 3, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.hidden = nn.Sequential(
            nn.Linear(16 * side * side, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()
        )
        self.head = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        check_shape(x, self.shape)
        return self.head(self.hidden(self.features(x).flatten(1)))


@variant("Two-layer ConvNet")
def convnet(
    *,
    channels: int = 3,
    image_size: int = 32,
    classes: int = 10,
    width: int = 32,
    depth: int = 2,
    steps: int = 0,
    batch_norm: bool = True,
) -> ConvNet:
    """Two 3×3 convolutions (or `depth`, or recurrent), batch norm on or off, average pool."""
    return ConvNet(channels, classes, width, depth, steps, batch_norm)


@variant("LeNet (3×3)")
def lenet(*, channels: int = 1, image_size: int = 32, classes: int = 10) -> LeNet:
    """LeNet with 3×3 kernels: convolutions of 6 and 16, linear layers of 120 and 84."""
    return LeNet(channels, image_size, classes)
