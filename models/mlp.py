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
    ) -> None:
        super().__init__()
        self.shape = shape
        channels, height, side = shape
        widths = [channels * height * side] + depth * [width]
        self.hidden = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(fan_in, fan_out, bias=bias), activation(activation_name))
                for fan_in, fan_out in pairwise(widths)
            )
        )
        self.head = nn.Linear(widths[-1], classes, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images B×C×H×W, or rows of numbers B×F."""
        check_shape(x[:, :, None, None] if x.ndim == 2 else x, self.shape)
        return self.head(self.hidden(x.flatten(1)))


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
) -> MLP:
    """Multilayer perceptron with `depth` hidden layers, bias on or off, any activation."""
    return MLP((channels, image_size, image_size), classes, depth, width, bias, activation)
