"""The contract of a data set with this harness, which `bench check-data NAME` checks.

Each check is a function of a loaded data module that raises where the data fall short. Splits are
compared by what their examples hold, not by their names.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Literal

import torch

from lightning_bench.data.batch import Batch
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import contract
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.transforms.augment import Augmentation

#: No more examples of a split than this are compared with the others'.
MOST = 20_000
BATCH = 8


@dataclass(frozen=True)
class Checked:
    """What came of one check; `detail` says why it failed, or what was found."""

    name: str
    status: Literal["passed", "failed"]
    detail: str


def load(entry: DataSet, *, rank: int = 0, world_size: int = 1) -> DataModule:
    """The data module of one rank, without augmentation."""
    recipe = {**vars(Augmentation()), "whole_words": False}
    options = {"rank": rank, "world_size": world_size, "sample": True}
    data = contract.make(entry, recipe=recipe, batch_size=BATCH, seed=0, **options)
    data.setup()
    return data


def splits(data: DataModule) -> str:
    """No example of one split is in another."""
    names = [name for name in data.sizes if data.entry.made_of(name) == (name, 0)]
    found = {name: Counter(islice(_digests(data, name), MOST)) for name in names}
    shared = [
        f"{count:,} of {other}'s {data.sizes[other]:,} are in {one}, too"
        for i, one in enumerate(names)
        for other in names[i + 1 :]
        if (count := sum(n for key, n in found[other].items() if key in found[one]))
    ]
    if shared:
        raise DataError("; ".join(shared))
    sizes = ", ".join(f"{name} {data.sizes[name]:,}" for name in names)
    return f"no example is in two splits: {sizes}"


def labels(data: DataModule) -> str:
    """Every label is one that the data set has, and training has examples of each."""
    entry = data.entry
    for name in data.sizes:
        target = data._loader(name).target
        if len(target) != data.sizes[name]:
            raise DataError(f"{name} has {data.sizes[name]:,} examples and {len(target):,} labels")
        if target.is_floating_point() and not bool(target.isfinite().all()):
            raise DataError(f"a label of {name} is no finite number")
    target = data._loader("train").target
    if entry.task == "classify" and target.ndim == 1:
        counts = torch.bincount(target.long(), minlength=entry.classes)
        if len(counts) > entry.classes or int(target.min()) < 0:
            raise DataError(f"labels from {int(target.min())} to {int(target.max())}")
        lacking = [str(i) for i, count in enumerate(counts.tolist()) if not count]
        if lacking:
            named = [entry.labels[int(i)] if entry.labels else i for i in lacking[:5]]
            raise DataError(f"training has no example of {', '.join(named)}")
        return (
            f"{entry.classes} classes, {int(counts.min()):,} to {int(counts.max()):,} examples each"
        )
    low, high = target.min().item(), target.max().item()
    return f"{entry.task}, from {low:g} to {high:g}"


def order(data: DataModule) -> str:
    """The order of training is the seed's and the epoch's, whoever loads the data."""
    mine, again = data.train_dataloader(), load(data.entry).train_dataloader()
    orders = []
    for epoch in (0, 1):
        mine.sampler.set_epoch(epoch)
        again.sampler.set_epoch(epoch)
        orders.append(mine.permutation())
        if not torch.equal(orders[-1], again.permutation()):
            raise DataError(f"epoch {epoch} has another order when it is loaded again")
    if len(orders[0]) > BATCH and torch.equal(*orders):
        raise DataError("every epoch has the same order")
    return "the same when it is loaded again, another one each epoch"


def ranks(data: DataModule) -> str:
    """Two ranks have the batches of one, each example once."""
    shares = [load(data.entry, rank=rank, world_size=2) for rank in (0, 1)]
    for name in ("train", "val"):
        loaders = [
            one.train_dataloader() if name == "train" else one.val_dataloader()
            for one in (data, *shares)
        ]
        whole, *parts = ([batch.indices for batch in islice(one, 50)] for one in loaders)
        for number, batch in enumerate(whole):
            mine = [part[number] for part in parts if number < len(part)]
            if not torch.equal(torch.cat(mine).sort().values, batch.sort().values):
                raise DataError(f"batch {number} of {name} is another one on two ranks")
    return "two ranks have the batches of one, each example once"


CHECKS: dict[str, Callable[[DataModule], str]] = {
    "splits": splits,
    "labels": labels,
    "order": order,
    "ranks": ranks,
}


def check(entry: DataSet) -> tuple[list[Checked], str]:
    """Put a data set through every check; and a contact sheet of a few examples, as HTML."""
    try:
        data = load(entry)
    except DataError as error:
        return [Checked("loaded", "failed", str(error))], ""
    found = [Checked("loaded", "passed", f"{entry.kind}, fingerprint {data.fingerprint[:12]}")]
    for name, test in CHECKS.items():
        try:
            found.append(Checked(name, "passed", test(data)))
        except DataError as error:
            found.append(Checked(name, "failed", str(error)))
    return found, sheet(data)


def sheet(data: DataModule) -> str:
    """A few training examples with their labels, to look at."""
    rows = []
    for example in data.examples():
        seen = f'<img alt="" src="{example.picture}">' if example.picture else ""
        seen += "<br>".join(map(escape, example.texts))
        rows.append(f"<tr><th>{escape(example.label)}</th><td>{seen}</td></tr>")
    title = escape(data.entry.title)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:15px/1.4 system-ui;margin:2rem}th{text-align:left;padding-right:1rem;"
        "vertical-align:top}td{padding:.2rem 0}</style>"
        f"<h1>{title}</h1><table>{''.join(rows)}</table></html>\n"
    )


def _digests(data: DataModule, name: str) -> Iterator[bytes]:
    """What each example of a split holds, without its label."""
    for batch in data._loader(name):
        yield from _of_batch(batch, text=data.entry.kind == "text")


def _of_batch(batch: Batch, *, text: bool) -> Iterator[bytes]:
    for row in range(len(batch.target)):
        parts = [tensor[row] for tensor in batch.inputs]
        if text:  # without the pads, which are the batch's
            parts = [part[parts[1].bool()] for part in (parts[0], parts[2])]
        content = b"".join(part.contiguous().numpy().tobytes() for part in parts)
        yield hashlib.blake2b(content, digest_size=16).digest()
