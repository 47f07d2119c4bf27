"""The contract of data modules: the base class, and `make`, which a module of this package has.

    def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> DataModule

`DataSet.module` names the module, `recipe` holds every field of a study's recipe, and `options` are
the keyword arguments of `DataModule`.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pytorch_lightning as pl

from lightning_bench.common.machine import usable_cores
from lightning_bench.data.cache import Bundle
from lightning_bench.data.catalogue import find
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.feed import Feed
from lightning_bench.data.loader import EpochOrder, Loader, SampleOrder
from lightning_bench.data.previews import Example

L = TypeVar("L", bound=Loader)


class DataModule(pl.LightningDataModule, ABC):
    """A data set as batches for training, validation and tests.

    `batch_size` is that of all ranks together. The order of training, and every random number of
    augmentation and masking, depends on `seed`, the epoch and the place in the global batch or the
    split alone; `source_seeds` are those of the sources of randomness that have one of their own:
    order, augmentation, shots, split. `cores` are those that this rank may use, by default all. A
    `sample` is content with a part of the data set.
    """

    def __init__(
        self,
        entry: str | DataSet,
        *,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        cores: int | None = None,
        sample: bool = False,
        source_seeds: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.entry = find(entry) if isinstance(entry, str) else entry
        self.batch_size, self.seed, self.sample = batch_size, seed, sample
        self.source_seeds = dict(source_seeds or {})
        self.rank, self.world_size = rank, world_size
        self.cores = usable_cores() if cores is None else cores
        #: A SHA-256 of what `setup` really loaded.
        self.fingerprint = ""
        #: Where that is kept on disk; None for what is embedded or streamed.
        self.bundle: Bundle | None = None
        #: Where the batches go: attach it to the device before they are asked for.
        self.feed = Feed()

    @abstractmethod
    def setup(self, stage: str | None = None) -> None:
        """Load and check the splits that a stage sees (`DataSet.serves`), once."""

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""

    @abstractmethod
    def examples(self) -> list[Example]:
        """A few training examples, for people to look at."""

    @abstractmethod
    def _loader(self, name: str, *, shuffle: bool = False) -> Loader:
        """This rank's batches of a split."""

    def seed_of(self, source: str) -> int:
        """The seed of a source of randomness: its own where it has one, else the run's."""
        return self.source_seeds.get(source, self.seed)

    @property
    def preprocessing(self) -> str:
        """How images were resized and normalised, in words; empty for texts."""
        return ""

    def facts(self) -> dict[str, int]:
        """The model arguments that the data decides."""
        return self.entry.facts()

    def train_dataloader(self) -> Loader:
        """Shuffled by (seed, epoch), the incomplete batch dropped."""
        return self._fed(self._loader("train", shuffle=True))

    def val_dataloader(self) -> Loader:
        """Every example once."""
        return self._fed(self._loader("val"))

    def test_dataloader(self) -> Sequence[Loader]:
        """Every example of each test split once."""
        return [self._fed(self._loader(name)) for name in self.entry.tests]

    def training_sample(self, size: int) -> Loader:
        """A fixed sample of so many training examples, as evaluation sees them."""
        loader = self._fed(self._loader("train"))
        loader.sampler = SampleOrder(loader.sampler, size)
        return loader

    def _fed(self, loader: L) -> L:
        """A loader whose batches go where all of this module's do."""
        loader.feed = self.feed
        return loader

    def _order(self, size: int, *, shuffle: bool) -> EpochOrder:
        return EpochOrder(
            size,
            seed=self.seed_of("order"),
            augmentation_seed=self.seed_of("augmentation"),
            shuffle=shuffle,
            rank=self.rank,
            world_size=self.world_size,
        )


def _module(entry: DataSet, recipe: Mapping[str, Any]) -> str:
    """The module of a data set; what is cropped and resized at random is decoded as it is read."""
    embedded = entry.kind == "image" and not entry.columns
    if entry.kind == "image" and entry.label_columns:
        return "lightning_bench.data.modules.image_data"
    if entry.kind == "image" and recipe.get("resized_crop") and not embedded:
        return "lightning_bench.data.modules.streamed_images"
    return entry.module


def make(
    entry: DataSet, *, recipe: Mapping[str, Any], batch_size: int, seed: int, **options: Any
) -> DataModule:
    """Make the data module of a data set."""
    module = importlib.import_module(_module(entry, recipe))
    data: DataModule = module.make(
        entry, recipe=recipe, batch_size=batch_size, seed=seed, **options
    )
    return data
