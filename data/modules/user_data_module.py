"""UserDataModule: the LightningDataModule of data that the user's own code gives.

Its datasets are fed here: in the order of the run's seed, in batches of the recipe's size, on any
number of ranks. What they draw from torch's, numpy's or Python's generators follows the seed, the
epoch and the example.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_bench.data import cache, previews
from lightning_bench.data.batch import Batch
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.loader import EpochOrder, Loader
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.modules.user_splits import (
    FILLED,
    Read,
    Split,
    given,
    mixed,
    read,
    shape_text,
)
from lightning_bench.data.previews import Example


class UserDataModule(DataModule):
    """Batches of the user's own datasets."""

    def __init__(self, entry: str | DataSet, **options: Any) -> None:
        super().__init__(entry, **options)
        self.splits: dict[str, tuple[Split, Read]] = {}

    def setup(self, stage: str | None = None) -> None:
        """Read all splits that the stage sees, once."""
        if self.splits:
            return
        entry = self.entry
        found = given(entry.source, entry.user_arguments, self.batch_size, stage)
        for name in entry.splits:
            if entry.serves(name, stage):
                self.splits[name] = found[name], read(found[name])
        for name, (split, of) in self.splits.items():
            if len(of.target) != entry.splits[name]:
                raise DataError(
                    f"{split.where}: {len(of.target):,} examples, but {entry.splits[name]:,} when "
                    "it was looked at; touch its module to have it looked at again"
                )
            if entry.task == "classify" and not 0 <= int(of.target.max()) < entry.classes:
                raise DataError(f"{split.where}: a label is {int(of.target.max())}")
        prints = [(n, np.frombuffer(bytes.fromhex(r.fingerprint), np.uint8))
                  for n, (_, r) in sorted(self.splits.items())]  # fmt: skip
        self.fingerprint = cache.fingerprint(prints)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return {name: len(of.target) for name, (_, of) in self.splits.items()}

    @property
    def preprocessing(self) -> str:
        """In words."""
        return f"that of {self.entry.source}"

    def examples(self) -> list[Example]:
        """A few training examples, images stretched to what can be seen."""
        split, of = self.splits["train"]
        shown = []
        for row in previews.spread(of.target.numpy()):
            label = previews.label_of(self.entry, of.target[row].numpy())
            first = split.batch([row], [row])[0][0][0]
            if self.entry.kind == "image" and len(first) in {1, 3}:
                low, high = first.min(), first.max()
                pixels = (first - low) / (high - low).clamp_min(1e-9) * 255
                shown.append(Example(label, (), previews.picture([pixels.byte().numpy()])))
            else:
                values = ", ".join(f"{value:.4g}" for value in first.flatten()[:12].tolist())
                shown.append(previews.text(label, [values]))
        return shown

    def _loader(self, name: str, *, shuffle: bool = False) -> "UserLoader":
        split, of = self.splits[name]
        order = self._order(len(of.target), shuffle=shuffle)
        return UserLoader(split, of, batch_size=self.batch_size, order=order)


class UserLoader(Loader):
    """Batches of a split: rows of what is kept of it, or examples as they are read."""

    def __init__(self, split: Split, of: Read, *, batch_size: int, order: EpochOrder) -> None:
        super().__init__(of.target, batch_size=batch_size, order=order)
        self.split, self.inputs = split, of.inputs

    def host_batch(self, number: int, global_batch: Tensor) -> Batch:
        """This rank's share."""
        del number
        index = self.share_of(global_batch)
        if self.inputs is not None:
            inputs = tuple(part[index] for part in self.inputs)
            return Batch(inputs, self.target[index], index, len(global_batch))
        order = self.sampler
        epoch = order.epoch + 1 if order.shuffle else 0
        seeds = [mixed(order.augmentation_seed, epoch, i) for i in index.tolist()]
        inputs, target = self.split.batch(index.tolist(), seeds)
        return Batch(inputs, target, index, len(global_batch))


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> UserDataModule:
    """Make the data module; what a recipe does to images is up to the user's code."""
    del recipe
    return UserDataModule(entry, **options)


def facts(name: str, arguments: str) -> dict[str, Any]:
    """The fields of a DataSet that the data of a callable have, as plain data."""
    found = given(name, arguments, FILLED["batch_size"], None)
    of = {split: read(each) for split, each in found.items()}
    train = of["train"]
    shapes = {shape for each in of.values() for shape in each.shapes}
    sizes = {split: len(each.target) for split, each in of.items()}
    return {
        **_inputs_facts(name, found["train"], of, shapes),
        **_target_facts(name, found["train"], train.target, of),
        "splits": sizes,
        "user_code": True,
        "user_draws": train.draws,
    }


def _inputs_facts(
    name: str, train: Split, of: Mapping[str, Read], shapes: set[tuple[int, ...]]
) -> dict[str, Any]:
    shape, *others = sorted(shapes)
    floats = of["train"].dtype.is_floating_point
    if not floats and len(shape) == 1:
        largest = max(each.largest for each in of.values())
        words = getattr(train.dataset, "vocab_size", None) or 1 + largest
        length = max(tokens for (tokens,) in shapes)
        return {"kind": "text", "vocab_size": int(words), "length": length}
    if others:
        raise DataError(
            f"{name}: examples of {shape_text(shape)} and of {shape_text(others[0])}: give one size"
        )
    if not floats:
        raise DataError(f"{name}: inputs are {of['train'].dtype}; give floating-point numbers")
    if len(shape) == 1:
        return {"kind": "table", "channels": shape[0], "image_size": 1}
    if len(shape) == 3 and shape[1] == shape[2]:
        return {"kind": "image", "channels": shape[0], "image_size": shape[1]}
    raise DataError(
        f"{name}: an input is {shape_text(shape)}; models read square C×H×W images, rows of "
        "numbers, or tokens"
    )


def _target_facts(
    name: str, train: Split, target: Tensor, of: Mapping[str, Read]
) -> dict[str, Any]:
    if target.is_floating_point():
        outputs = target.shape[1] if target.ndim > 1 else 1
        told = torch.cat([each.target for each in of.values()])
        if target.ndim > 1 and bool(((told == 0) | (told == 1)).all()):
            metrics = ["AveragePrecision", "F1Score(average=macro)"]
            labels = [f"label {i}" for i in range(outputs)]
            return {"task": "multilabel", "classes": outputs, "labels": labels, "metrics": metrics}
        return {"task": "regress", "classes": outputs, "metrics": ["R2Score", "MeanAbsoluteError"]}
    if target.ndim > 1:
        shape = shape_text(tuple(target.shape[1:]))
        raise DataError(f"{name}: a target is {shape} whole numbers; a class is one of them")
    low = min(int(each.target.min()) for each in of.values())
    high = max(int(each.target.max()) for each in of.values())
    if low < 0:
        raise DataError(f"{name}: a label is {low}; classes count from 0")
    if high < 1:
        raise DataError(f"{name}: every label is 0, and one class is none to tell")
    named = getattr(train.dataset, "classes", None)
    names = [str(each) for each in named] if isinstance(named, list | tuple) else []
    labels = names if len(names) > high else []
    return {
        "classes": len(labels) or high + 1,
        "labels": labels,
        "metrics": ["accuracy"],
    }
