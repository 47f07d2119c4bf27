"""Whole batches out of arrays in memory, in an order that (seed, epoch) alone decides."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_bench.data.batch import Batch
from lightning_bench.data.feed import Feed


def generator(*numbers: int) -> torch.Generator:
    """A generator whose stream depends on these numbers, and on nothing else."""
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


class EpochOrder:
    """The order of a split's examples in an epoch, and the share of one rank of several.

    All ranks draw the same permutation and take turns in it, so that a global batch holds the
    same examples on any number of devices. Lightning calls `set_epoch` before each epoch.
    """

    def __init__(
        self,
        size: int,
        *,
        seed: int,
        shuffle: bool,
        rank: int = 0,
        world_size: int = 1,
        augmentation_seed: int | None = None,
    ) -> None:
        self.size, self.seed, self.shuffle = size, seed, shuffle
        #: Of what is drawn for the batches: augmentation, masks.
        self.augmentation_seed = seed if augmentation_seed is None else augmentation_seed
        self.rank, self.world_size = rank, world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order is drawn next."""
        self.epoch = epoch

    def permutation(self) -> Tensor:
        """All ranks' examples in this epoch."""
        if self.shuffle:
            seeded = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
            return torch.randperm(self.size, generator=seeded)
        return torch.arange(self.size)

    def indices(self) -> Tensor:
        """This rank's examples in this epoch."""
        return self.permutation()[self.rank :: self.world_size]


class SampleOrder(EpochOrder):
    """The order of a fixed sample of a split's examples, the same for every seed and epoch."""

    def __init__(self, of: EpochOrder, size: int) -> None:
        super().__init__(
            min(size, of.size), seed=0, shuffle=False, rank=of.rank, world_size=of.world_size
        )
        self.drawn_from = of.size

    def permutation(self) -> Tensor:
        """The examples of the sample, in the order of the split."""
        drawn = torch.randperm(self.drawn_from, generator=torch.Generator().manual_seed(0))
        return drawn[: self.size].sort().values


class Loader(ABC):
    """Batches without workers or collation; `batch_size` is that of all ranks together.

    In training the last incomplete batch is dropped (another one each epoch); in evaluation
    nothing is dropped and nothing padded, and a rank without a share of the last batch skips it.
    """

    batch_sampler = None  # Lightning asks for it before it takes `sampler`.

    def __init__(self, target: Tensor, *, batch_size: int, order: EpochOrder) -> None:
        self.target, self.batch_size = target, batch_size
        # Lightning looks for `sampler.set_epoch`.
        self.sampler = order
        #: Where the batches go; a data module has its loaders share its own.
        self.feed = Feed()

    def __len__(self) -> int:
        """The number of batches of this rank; in training the same for all."""
        order = self.sampler
        full, rest = divmod(order.size, self.batch_size)
        if order.shuffle:
            return max(1, full)
        return full + (rest > order.rank)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the epoch's batches."""
        return self.batches()

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The epoch's batches from that number on, each this rank's share of a global one."""
        return self.feed.batches(self.host_batches(start), self.finish)

    def host_batches(self, start: int) -> Generator[Any, None, None]:
        """Yield what the host makes of these batches."""
        members = self.global_batches()
        for number in range(start, len(self)):
            yield self.host_batch(number, members[number])

    def global_batches(self) -> Sequence[Tensor]:
        """The examples of each of the epoch's global batches."""
        return torch.split(self.permutation(), self.batch_size)

    def permutation(self) -> Tensor:
        """All ranks' examples in the order of this epoch."""
        return self.sampler.permutation()

    def share_of(self, global_batch: Tensor) -> Tensor:
        """This rank's share of a global batch."""
        return global_batch[self.sampler.rank :: self.sampler.world_size]

    @abstractmethod
    def host_batch(self, number: int, global_batch: Tensor) -> Any:
        """What the host makes of this rank's share of a global batch, the epoch's of this number.

        A named tuple of tensors in the host's memory, whatever the device.
        """

    def finish(self, made: Any) -> Batch:
        """Make the batch on the device that has the tensors now, without a look at their values."""
        batch: Batch = made
        return batch
