"""TableData: the LightningDataModule of tables of numbers, a row an example."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lightning_bench.data import cache, previews, split
from lightning_bench.data.batch import Batch
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.loader import EpochOrder, Loader
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.previews import Example
from lightning_bench.data.sources.source_splits import source_splits
from lightning_bench.data.sources.table import TableReader


class Rows(NamedTuple):
    """A split in memory: features in their own units, and labels."""

    features: np.ndarray
    labels: np.ndarray


class TableData(DataModule):
    """Numbers with the mean and spread of the training split taken out, as B×F."""

    def __init__(self, entry: str | DataSet, **options: Any) -> None:
        super().__init__(entry, **options)
        self.splits: dict[str, Rows] = {}

    def setup(self, stage: str | None = None) -> None:
        """Read and check all splits, once; for "fit" no test split is left."""
        if self.splits:
            return
        entry, readers = self.entry, source_splits(self.entry)
        read: dict[str, Rows] = {}
        for name, reader in readers.items():
            assert isinstance(reader, TableReader)
            labels = reader.labels(entry.label)
            of_classes = np.issubdtype(labels.dtype, np.integer)
            labels = labels if of_classes else labels.astype(np.float32)
            read[name] = Rows(reader.features(), labels)
        labels_of = {name: rows.labels for name, rows in read.items()}
        parts = split.assign_rows(entry, labels_of, sample=self.sample, seed=self.seed_of("split"))
        found = {
            name: Rows(read[source].features[members], read[source].labels[members])
            for name, (source, members) in parts.items()
        }
        self.fingerprint = cache.fingerprint(
            (f"{name}-{part}", getattr(rows, part))
            for name, rows in sorted(found.items())
            for part in Rows._fields
        )
        if entry.shots:
            members = split.shots(entry, found["train"].labels, seed=self.seed_of("shots"))
            found["train"] = Rows(*(part[members] for part in found["train"]))
            self.fingerprint = cache.fingerprint_of_part(self.fingerprint, members)
        train = found["train"].features.astype(np.float64)
        spread = train.std(0)
        self.mean = torch.tensor(train.mean(0), dtype=torch.float32)
        # A column that is the same in all rows has no spread to divide by.
        self.std = torch.tensor(np.where(spread > 0, spread, 1.0), dtype=torch.float32)
        self.splits = {name: rows for name, rows in found.items() if entry.serves(name, stage)}

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return {name: len(rows.labels) for name, rows in self.splits.items()}

    @property
    def preprocessing(self) -> str:
        """How the numbers were scaled, in words."""
        return "each column less its mean in training, divided by its standard deviation there"

    def examples(self) -> list[Example]:
        """A few training rows."""
        rows, entry = self.splits["train"], self.entry
        shown = []
        for row in previews.spread(rows.labels):
            pairs = zip(entry.features, rows.features[row], strict=True)
            text = ", ".join(f"{name} {value:.4g}" for name, value in pairs)
            shown.append(previews.text(previews.label_of(entry, rows.labels[row]), [text]))
        return shown

    def _loader(self, name: str, *, shuffle: bool = False) -> "RowLoader":
        rows = self.splits[name]
        features = (torch.from_numpy(rows.features) - self.mean) / self.std
        return RowLoader(
            features,
            torch.from_numpy(rows.labels),
            batch_size=self.batch_size,
            order=self._order(len(rows.labels), shuffle=shuffle),
        )


class RowLoader(Loader):
    """Batches of rows."""

    def __init__(
        self, features: Tensor, target: Tensor, *, batch_size: int, order: EpochOrder
    ) -> None:
        super().__init__(target, batch_size=batch_size, order=order)
        self.features = features

    def host_batch(self, number: int, global_batch: Tensor) -> Batch:
        """Gather this rank's share."""
        del number
        index = self.share_of(global_batch)
        return Batch((self.features[index],), self.target[index], index, len(global_batch))


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> TableData:
    """Make the data module; a recipe has nothing for it."""
    del recipe
    return TableData(entry, **options)
