"""How far the spatial matrices that a model has learnt are Toeplitz: constant along diagonals.

Liu et al., 2021, figure 3, find that those of gMLP become so for text. Here it is the share of a
matrix's squares that its best Toeplitz approximation (the mean of each diagonal) explains.

Two parts of a matrix are taken out first, since they are Toeplitz and say nothing of distances:
the main diagonal, which passes each token on, and the mean, which averages over all of them. What
is left has n = S(S - 1) entries on k = 2S - 2 diagonals; of a matrix of independent normal numbers
a share of (k - 1) / (n - 1) is explained on average, exactly, since the share follows a beta
distribution. In a grid of patches the distance has two parts, rows and columns.
"""

import torch
from torch import Tensor, nn

from lightning_bench.models.layers.spatial_linear import SquareLinear, ToeplitzLinear
from lightning_bench.models.mixer import TokenMixing

#: So many layers' matrices are kept for figures.
_DRAWN = 3


def measure(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, float]:
    """The mean share over the layers, and that of random matrices of the same sizes.

    Of Mixer's token mixing it is the product of its two matrices: what it does without the
    activation between them. Of matrices that are Toeplitz by construction it is one, random or not.
    """
    del inputs
    grid = hasattr(model, "patches")
    matrices = _matrices(model)
    built = sum(isinstance(module, ToeplitzLinear) for module in model.modules())
    count = len(matrices) + built
    if not count:
        return {}
    return {
        "toeplitz": (built + sum(share(m, grid=grid) for m in matrices)) / count,
        "toeplitz_random": (built + sum(random_share(len(m), grid=grid) for m in matrices)) / count,
    }


def arrays(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """The spatial matrices of a few layers, evenly from the first to the last, by their numbers.

    Those that are Toeplitz by construction are spelled out. Of a matrix over a grid of patches the
    rows and columns are the patches, row by row.
    """
    del inputs
    found = _matrices(model, built=True)
    places = {round(i * (len(found) - 1) / (_DRAWN - 1)) for i in range(_DRAWN)} if found else ()
    # Copies: what FSDP has gathered is freed when the probe is over.
    return {f"layer {place + 1}": found[place].detach().cpu().clone() for place in sorted(places)}


def share(matrix: Tensor, *, grid: bool = False) -> float:
    """The part of a matrix's squares, without diagonal and mean, that distances explain."""
    group, count = _distances(len(matrix), grid)
    kept = group > 0
    values = matrix.detach().double().cpu()[kept]
    values = values - values.mean()
    group = group[kept] - 1
    sums = torch.zeros(count, dtype=values.dtype).index_add_(0, group, values)
    sizes = torch.bincount(group, minlength=count)
    total = values.square().sum()
    return ((sums.square() / sizes).sum() / total).item() if total > 0 else 0.0


def random_share(length: int, *, grid: bool = False) -> float:
    """What is explained on average of a matrix of independent normal numbers."""
    _, count = _distances(length, grid)
    return (count - 1) / (length * (length - 1) - 1)


def _distances(length: int, grid: bool) -> tuple[Tensor, int]:
    """For each entry the number of its distance, 0 on the diagonal; and how many others there are.

    A grid has no diagonal but the main one: (0, 0) is the only distance of a patch to itself.
    """
    place = torch.arange(length)
    side = round(length**0.5)
    if grid and side**2 == length:
        rows, columns = place // side, place % side
        distance = (rows[:, None] - rows) * 2 * side + (columns[:, None] - columns)
    else:
        distance = place[:, None] - place
    # The distance 0 first, whatever the others are called.
    values = torch.cat([torch.zeros(1, dtype=torch.long), distance[distance != 0].unique()])
    numbered = torch.searchsorted(values[1:], distance) + 1
    return numbered * (distance != 0), len(values) - 1


def _matrices(model: nn.Module, *, built: bool = False) -> list[Tensor]:
    """The matrices that a model has learnt; with `built`, those that can't but be Toeplitz, too."""
    matrices: list[Tensor] = []
    for module in model.modules():
        if built and isinstance(module, ToeplitzLinear):
            matrices.append(module.matrix())
        if isinstance(module, SquareLinear):
            matrices.append(module.weight)
        elif isinstance(module, TokenMixing):
            matrices.append(module.contract.weight @ module.expand.weight)
    return matrices
