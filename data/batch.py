"""Batch: what every data module yields and every task reads."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """One rank's share of a global batch: `model(*inputs)` is to predict `target`."""

    inputs: tuple[Tensor, ...]
    target: Tensor
    indices: Tensor  # each example's place in its split
    global_size: int  # examples of all ranks' shares; 0 where this one is not to be counted
