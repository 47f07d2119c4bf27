"""Batch: what every data module yields and every task reads."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """`model(*inputs)` is to predict `target`; `index` is each example's place in its split.

    `together` counts the examples of the global batch that this is one rank's share of.
    """

    inputs: tuple[Tensor, ...]
    target: Tensor
    index: Tensor
    together: int
