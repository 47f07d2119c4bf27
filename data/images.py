"""ImageData: the LightningDataModule of every image data set."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytorch_lightning as pl
import torch

from data import embedded
from data.catalogue import entries
from data.embedded import Images
from data.loader import BatchLoader, Order

_SOURCES: dict[str, Callable[[], dict[str, Images]]] = {"digits": embedded.digits}


class ImageData(pl.LightningDataModule):
    """Images in memory, normalised by the mean and spread of the training split.

    `batch_size` is that of one device. The order of training depends on `seed` and the epoch
    alone. After `setup`, `fingerprint` names what was really loaded.
    """

    def __init__(
        self, name: str, *, batch_size: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        super().__init__()
        self.entry = entries()[name]
        self.batch_size, self.seed = batch_size, seed
        self.rank, self.world_size = rank, world_size
        self.splits: dict[str, Images] = {}
        self.fingerprint = ""

    def setup(self, stage: str | None = None) -> None:
        """Load and check all splits, once."""
        if self.splits:
            return
        splits = _SOURCES[self.entry.name]()
        for split, expected in self.entry.splits.items():
            check(self.entry.name, split, splits[split], expected, self.entry.classes)
        self.fingerprint = fingerprint(splits)
        train = splits["train"].pixels.astype(np.float64) / 255
        self._mean = torch.tensor(train.mean(axis=(0, 2, 3)), dtype=torch.float32)
        self._std = torch.tensor(train.std(axis=(0, 2, 3)), dtype=torch.float32)
        self.splits = splits

    def train_dataloader(self) -> BatchLoader:
        """Shuffled by (seed, epoch), the incomplete batch dropped."""
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> BatchLoader:
        """Every example once, in order."""
        return self._loader("val", shuffle=False)

    def test_dataloader(self) -> BatchLoader:
        """Every example once, in order."""
        return self._loader("test", shuffle=False)

    def _loader(self, split: str, *, shuffle: bool) -> BatchLoader:
        images = self.splits[split]
        pixels = torch.from_numpy(images.pixels).float().div_(255)
        pixels = pixels.sub_(self._mean[:, None, None]).div_(self._std[:, None, None])
        order = Order(
            len(pixels),
            seed=self.seed,
            shuffle=shuffle,
            rank=self.rank,
            world_size=self.world_size,
        )
        labels = torch.from_numpy(images.labels)
        return BatchLoader((pixels,), labels, batch_size=self.batch_size, order=order)


def check(name: str, split: str, images: Images, expected: int, classes: int) -> None:
    """Raise ValueError, naming the row, where a split is not what the catalogue promises."""
    if len(images.pixels) != expected or len(images.labels) != expected:
        raise ValueError(f"{name}/{split}: {len(images.pixels)} examples, not {expected}")
    outside = np.flatnonzero((images.labels < 0) | (images.labels >= classes))
    if len(outside):
        row = outside[0]
        raise ValueError(f"{name}/{split}, row {row}: label {images.labels[row]} of {classes}")


def fingerprint(splits: dict[str, Images]) -> str:
    """SHA-256 over the contents of all splits, in the order of their names."""
    digest = hashlib.sha256()
    for name, images in sorted(splits.items()):
        digest.update(f"{name}:{images.pixels.shape}:{images.pixels.dtype}".encode())
        digest.update(np.ascontiguousarray(images.pixels).tobytes())
        digest.update(np.ascontiguousarray(images.labels, dtype=np.int64).tobytes())
    return digest.hexdigest()
