"""Linear maps along the sequence, the same for every channel: f(X) = W X + b.

The matrix W is S×S or D×S, so that it belongs to one length S. A shorter sequence uses its top
left corner; a longer one is an error. The product is from the left, which needs no transposes.
"""

from typing import Literal, NoReturn

import torch
from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.linear import along_sequence

Matrix = Literal["dense", "toeplitz"]


class SpatialLinear(nn.Module):
    """f(X) = W X + b with a dense matrix W, one bias a row."""

    def __init__(self, length: int, rows: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, length))
        self.bias = nn.Parameter(torch.zeros(rows))
        nn.init.xavier_uniform_(self.weight)

    @property
    def length(self) -> int:
        """The length S of the sequences that it was made for."""
        return self.weight.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×rows×C."""
        return along_sequence(self.weight, self.bias, x)

    def fit_loaded(self, weight: Tensor) -> NoReturn:
        """Refuse weights of another length."""
        refuse_length(weight, self.weight)


class SquareLinear(SpatialLinear):
    """f(X) = W X + b with W of S×S, near zero at the start, and b one."""

    def __init__(self, length: int) -> None:
        super().__init__(length, length)
        nn.init.normal_(self.weight, std=1e-6)
        nn.init.ones_(self.bias)

    def start_as_identity(self) -> None:
        """Make W the identity matrix."""
        nn.init.eye_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×n×C to B×n×C, for any n up to S."""
        n = fitting_length(x, self.length)
        return along_sequence(self.weight[:n, :n], self.bias[:n], x)


class ToeplitzLinear(nn.Module):
    """f(X) = W X + b with W constant along its diagonals: 2S - 1 weights instead of S².

    Weight k stands on the diagonal i - j = k - (S - 1): what counts is the distance of words.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.diagonals = nn.Parameter(torch.empty(2 * length - 1))
        self.bias = nn.Parameter(torch.ones(length))
        nn.init.normal_(self.diagonals, std=1e-6)

    def start_as_identity(self) -> None:
        """Make W the identity matrix, whose main diagonal alone is one."""
        nn.init.zeros_(self.diagonals)
        with torch.no_grad():
            self.diagonals[self.length - 1] = 1.0

    def matrix(self) -> Tensor:
        """Return W, S×S."""
        # Row i of the unfolded vector is k = i ... i + S - 1; reversed, column j holds i - j.
        return self.diagonals.unfold(0, self.length, 1).flip(1)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×n×C to B×n×C, for any n up to S."""
        n = fitting_length(x, self.length)
        return along_sequence(self.matrix()[:n, :n], self.bias[:n], x)

    def fit_loaded(self, weight: Tensor) -> NoReturn:
        """Refuse weights of another length."""
        refuse_length(weight, self.diagonals)


def fitting_length(x: Tensor, length: int) -> int:
    """Return the length of the sequences in x, which must not exceed `length`."""
    n = x.shape[1]
    if n > length:
        raise ModelError(
            f"a sequence of {n} is too long: the spatial matrix was made for {length}; "
            "cut the texts, or make the model with a larger length"
        )
    return n


def refuse_length(loaded: Tensor, own: Tensor) -> NoReturn:
    """Raise a ModelError: the loaded weights belong to sequences of another length."""
    raise ModelError(
        f"these weights are for sequences of another length ({tuple(loaded.shape)} instead of "
        f"{tuple(own.shape)}): the spatial matrices of Mixer and gMLP depend on S, the number "
        "of patches or tokens, and can't be resized; use the image size and patch, or the "
        "length, that the weights were trained with"
    )
