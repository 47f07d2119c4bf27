"""Data as their users have them: LightningDataModules and mappings of datasets, and broken ones."""

import random

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


def made(count=120, size=8, classes=3, seed=0):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    patterns = torch.randn(classes, 1, size, size, generator=torch.Generator().manual_seed(9))
    images = torch.randn(count, 1, size, size, generator=draw) * 0.3 + patterns[labels]
    return TensorDataset(images, labels)


class Noisy(Dataset):
    """It draws from all three generators that people draw from."""

    def __init__(self, of):
        self.of = of

    def __len__(self):
        return len(self.of)

    def __getitem__(self, i):
        image, label = self.of[i]
        return image + torch.randn(()) + np.random.rand() + random.random(), int(label)


class Blobs(pl.LightningDataModule):
    """Sizes, batches and order of its own, as in everybody's tutorial."""

    def __init__(self, data_dir=".", noisy=False, scale: float = 1.0, batch_size=7):
        super().__init__()
        self.save_hyperparameters()
        self.prepared = False

    def prepare_data(self):
        self.prepared = True

    def setup(self, stage=None):
        assert self.prepared, "prepare_data comes first"
        images, labels = made().tensors
        whole = TensorDataset(images * self.hparams.scale, labels)
        draw = torch.Generator().manual_seed(1)
        parts = random_split(whole, [80, 20, 20], generator=draw)
        if stage in ("fit", None):
            self.train, self.val = parts[:2]
        if stage in ("test", None):
            self.test = parts[2]

    def train_dataloader(self):
        train = Noisy(self.train) if self.hparams.noisy else self.train
        return DataLoader(train, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return [DataLoader(self.val, batch_size=3)]

    def test_dataloader(self):
        return DataLoader(self.test, batch_size=3)


class Weighted(Blobs):
    def train_dataloader(self):
        sampler = WeightedRandomSampler(torch.ones(80), 80)
        return DataLoader(self.train, batch_size=4, sampler=sampler)


class NoTest(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(made())

    def val_dataloader(self):
        return DataLoader(made(seed=1))


class Stream(IterableDataset):
    def __iter__(self):
        yield from made()


class OwnGenerator(Noisy):
    draw = torch.Generator().manual_seed(0)

    def __getitem__(self, i):
        image, label = self.of[i]
        return image + torch.randn((), generator=self.draw), label


def splits(train=None, **others):
    return {"train": train or made(), "val": made(20, seed=1), "test": made(30, seed=2), **others}


def mapping(**_):
    """Rows of numbers with a number to be told, and a further test."""
    draw = torch.Generator().manual_seed(0)

    def rows(count):
        numbers = torch.randn(count, 5, generator=draw)
        return TensorDataset(numbers, numbers @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]))

    return {"train": rows(200), "val": rows(30), "test": rows(40), "shifted": rows(20)}


def streamed():
    return splits(train=Stream())


def own_generator():
    return splits(train=OwnGenerator(made()))


def three_parts():
    return splits(train=TensorDataset(*made().tensors, torch.arange(120)))


def oblong():
    part = TensorDataset(torch.zeros(9, 1, 8, 6), torch.arange(9) % 3)
    return {"train": part, "val": part, "test": part}


def negative():
    return splits(train=TensorDataset(torch.zeros(9, 1, 8, 8), torch.arange(9) - 1))


def a_list():
    return [made()]


def needs(place):
    return splits()


def fails():
    raise RuntimeError("no such server")
