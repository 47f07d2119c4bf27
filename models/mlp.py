"""The multilayer perceptron: a_i = act(Σ_j w_ij x_j + b_i), layer by layer."""

from itertools import pairwise

from torch import Tensor, nn

from lightning_bench.models.layers.activation import Activation, activation
from lightning_bench.models.layers.patch_embedding import check_shape
from lightning_bench.models.registry.registry import variant


class MLP(nn.Module):
    """`depth` hidden layers of `width` neurons on the flattened image, then a linear head."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        depth: int,
        width: int,
        bias: bool,
        activation_name: Activation,
        batch_norm: bool = False,
        shortcut: bool = False,
    ) -> None:
        super().__init__()
        self.shape = shape
        channels, height, side = shape
        widths = [channels * height * side] + depth * [width]
        self.hidden = nn.Sequential(
            *(
                _layer(fan_in, fan_out, bias, activation_name, batch_norm, shortcut)
                for fan_in, fan_out in pairwise(widths)
            )
        )
        self.head = nn.Linear(widths[-1], classes, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W, or rows of numbers B×F."""
        check_shape(x[:, :, None, None] if x.ndim == 2 else x, self.shape)
        return self.head(self.hidden(x.flatten(1)))


def _layer(
    fan_in: int, fan_out: int, bias: bool, name: Activation, batch_norm: bool, shortcut: bool
) -> nn.Module:
    linear = nn.Linear(fan_in, fan_out, bias=bias)
    norm = [nn.BatchNorm1d(fan_out)] if batch_norm else []
    layer = nn.Sequential(linear, *norm, activation(name))
    return Residual(layer) if shortcut and fan_in == fan_out else layer


class Residual(nn.Module):
    """y = x + layer(x)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Add what the layer makes of it."""
        return x + self.layer(x)


@variant("MLP")
def mlp(
    *,
    channels: int = 3,
    image_size: int = 32,
    classes: int = 10,
    depth: int = 2,
    width: int = 512,
    bias: bool = True,
    activation: Activation = "relu",
    batch_norm: bool = False,
    shortcut: bool = False,
) -> MLP:
    """Multilayer perceptron with `depth` hidden layers, any activation, perhaps residual."""
    shape = (channels, image_size, image_size)
    return MLP(shape, classes, depth, width, bias, activation, batch_norm, shortcut)
