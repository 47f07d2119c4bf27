"""The activation functions that the documents plot, by name.

Names and equations are those of "Basics of convolutional neural networks", figure 2, and the
GELU of Hendrycks and Gimpel, 2016.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Activation = Literal[
    "identity",
    "step",
    "logistic",
    "tanh",
    "arctan",
    "relu",
    "prelu",
    "elu",
    "softplus",
    "gelu",
    "gelu-tanh",
]


class Step(nn.Module):
    """1 where x ≥ 0, else 0; its gradient is the identity's where |x| ≤ 1, else 0.

    The true derivative is zero, so that nothing would be learned. The straight-through estimator
    passes the gradient on where the input isn't saturated (Bengio et al., 2013; Hubara et al.,
    2016).
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the step; the gradient is that of the clipped identity."""
        through = x.clamp(-1, 1)
        return through + ((x >= 0).to(x.dtype) - through).detach()


class Arctan(nn.Module):
    """The inverse tangent, whose derivative is 1 / (x² + 1)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return tan⁻¹(x)."""
        return torch.atan(x)


_MAKERS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "step": Step,
    "logistic": nn.Sigmoid,
    "tanh": nn.Tanh,
    "arctan": Arctan,
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "gelu-tanh": lambda: nn.GELU(approximate="tanh"),
}


def activation(name: Activation) -> nn.Module:
    """Make the activation function of this name."""
    return _MAKERS[name]()
