"""Whole batches out of tensors in memory, in an order that (seed, epoch) alone decides."""

from collections.abc import Iterator

import torch
from torch import Tensor

from data.batch import Batch


class Order:
    """The order of a split's examples in an epoch, and the share of one rank of several.

    All ranks draw the same permutation and take turns in it, so that a global batch holds the
    same examples on any number of devices. Lightning calls `set_epoch` before each epoch.
    """

    def __init__(
        self, size: int, *, seed: int, shuffle: bool, rank: int = 0, world_size: int = 1
    ) -> None:
        self.size, self.seed, self.shuffle = size, seed, shuffle
        self.rank, self.world_size = rank, world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order is drawn next."""
        self.epoch = epoch

    def indices(self) -> Tensor:
        """This rank's examples in this epoch."""
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
            order = torch.randperm(self.size, generator=generator)
        else:
            order = torch.arange(self.size)
        return order[self.rank :: self.world_size]


class BatchLoader:
    """Batches sliced from tensors: no worker, no collation, one indexing operation a batch.

    In training the last incomplete batch is dropped (another one each epoch); in evaluation
    nothing is dropped and nothing padded.
    """

    batch_sampler = None  # Lightning asks for it before it takes `sampler`.

    def __init__(
        self, inputs: tuple[Tensor, ...], target: Tensor, *, batch_size: int, order: Order
    ) -> None:
        self.inputs, self.target, self.batch_size = inputs, target, batch_size
        # Lightning looks for `sampler.set_epoch`.
        self.sampler = order

    def __len__(self) -> int:
        """The number of batches of this rank."""
        order = self.sampler
        if order.shuffle:
            return max(1, order.size // order.world_size // self.batch_size)
        return -(-len(range(order.rank, order.size, order.world_size)) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the epoch's batches."""
        indices = self.sampler.indices()
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            index = indices[start : start + self.batch_size]
            yield Batch(tuple(part[index] for part in self.inputs), self.target[index], index)
