"""One hidden layer, three ways to connect it: fully, locally, or with shared weights.

The lecture's example: an image of 200×200 and 400,000 hidden neurons, 10 a pixel. Fully
connected these take 16 billion weights; with fields of 10×10, 40 million; shared, 1,000. (The
head, on the mean of each of the 10 maps, adds 110 in this example. No biases, as in the lecture.)
"""

import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.locally_connected import LocallyConnected
from lightning_bench.models.layers.patch_embedding import check_shape
from lightning_bench.models.registry.registry import variant


class OneHiddenLayer(nn.Module):
    """ReLU of the hidden layer, the mean of each map over pool × pool regions, a linear head."""

    def __init__(
        self, shape: tuple[int, int, int], hidden: nn.Module, units: int, classes: int, pool: int
    ) -> None:
        super().__init__()
        if shape[1] % pool:
            raise ModelError(f"images of {shape[1]} pixels can't be cut into {pool}×{pool} regions")
        self.shape = shape
        self.hidden = hidden
        self.units = units
        self.pool = pool
        self.head = nn.Linear(units * pool**2, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W."""
        check_shape(x, self.shape)
        maps = F.relu(self.hidden(x)).reshape(x.shape[0], self.units, *self.shape[1:])
        if self.pool == 1:
            return self.head(maps.mean((2, 3)))
        return self.head(F.avg_pool2d(maps, self.shape[1] // self.pool).flatten(1))


@variant("Fully connected layer")
def fully_connected(
    *, channels: int = 1, image_size: int = 200, classes: int = 10, units: int = 10, pool: int = 1
) -> OneHiddenLayer:
    """Every hidden neuron sees the whole image: 16 billion weights at 200×200."""
    pixels = image_size**2
    hidden = nn.Sequential(nn.Flatten(), nn.Linear(channels * pixels, units * pixels, bias=False))
    return OneHiddenLayer((channels, image_size, image_size), hidden, units, classes, pool)


@variant("Locally connected layer")
def locally_connected(
    *,
    channels: int = 1,
    image_size: int = 200,
    classes: int = 10,
    units: int = 10,
    field: int = 10,
    pool: int = 1,
) -> OneHiddenLayer:
    """Every hidden neuron sees a field of its own: 40 million weights at 200×200."""
    hidden = LocallyConnected(channels, image_size, units, field)
    return OneHiddenLayer((channels, image_size, image_size), hidden, units, classes, pool)


@variant("Convolution layer")
def weight_sharing(
    *,
    channels: int = 1,
    image_size: int = 200,
    classes: int = 10,
    units: int = 10,
    field: int = 10,
    pool: int = 1,
) -> OneHiddenLayer:
    """The neurons of a map share their weights: a convolution, 1,000 weights at any size."""
    before = (field - 1) // 2
    after = field - 1 - before
    hidden = nn.Sequential(
        nn.ZeroPad2d((before, after, before, after)),
        nn.Conv2d(channels, units, field, bias=False),
    )
    return OneHiddenLayer((channels, image_size, image_size), hidden, units, classes, pool)
