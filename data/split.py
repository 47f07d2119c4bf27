"""Splits carved with a seed, the same on every machine.

PCG64 is fixed by name, because NumPy's default generator may change.
"""

import numpy as np

from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError


def carve_fraction(
    labels: np.ndarray, *, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted indices (kept, carved): `fraction` of each class is carved out, rounded."""
    generator = np.random.Generator(np.random.PCG64(seed))
    carved = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        carved.append(generator.permutation(members)[: round(fraction * len(members))])
    out = np.sort(np.concatenate(carved))
    return np.setdiff1d(np.arange(len(labels)), out), out


def carve_count(labels: np.ndarray, *, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted indices (kept, carved): exactly `size` are carved, each class its share.

    Shares are rounded by the largest remainder. Labels that are no integers have no classes.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    classes = labels if np.issubdtype(labels.dtype, np.integer) else np.zeros(len(labels), int)
    _, inverse, counts = np.unique(classes, return_inverse=True, return_counts=True)
    exact = counts * size / len(labels)
    quota = np.floor(exact).astype(int)
    most_short = np.argsort(quota - exact, kind="stable")
    quota[most_short[: size - quota.sum()]] += 1
    carved = [
        generator.permutation(np.flatnonzero(inverse == i))[:share] for i, share in enumerate(quota)
    ]
    out = np.sort(np.concatenate(carved)) if size else np.zeros(0, int)
    return np.setdiff1d(np.arange(len(labels)), out), out


def shots(entry: DataSet, labels: np.ndarray, *, seed: int) -> np.ndarray:
    """Sorted indices of as many examples of each class as the entry asks for, drawn by the seed.

    By the run's own seed: the draw is most of what differs between few-shot runs, so it belongs
    into their spread; entries of one seed still see the same examples.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = []
    for label in range(entry.classes):
        members = np.flatnonzero(labels == label)
        if len(members) < (entry.shots or 0):
            raise DataError(
                f"{entry.name}: class {label} has {len(members)} training examples, "
                f"too few for shots of {entry.shots}"
            )
        drawn.append(generator.permutation(members)[: entry.shots])
    return np.sort(np.concatenate(drawn))


def assign_rows(
    entry: DataSet, labels: dict[str, np.ndarray], *, sample: bool, seed: int = 0
) -> dict[str, tuple[str, np.ndarray]]:
    """Assign the source's rows to splits: of each split the source's own split, and its rows there.

    `labels` are those of the source's own splits. DataError where a count isn't what the catalogue
    promises; a `sample` may be smaller, and what is carved from it shrinks in proportion. `seed`
    is the run's, for those splits that the entry has it draw.
    """
    for split, values in labels.items():
        if not len(values):
            raise DataError(f"{entry.name}/{split} is empty")
    left = np.arange(len(labels["train"]))
    carved = {}
    wanted = _carved(entry, labels, sample=sample)
    for split, size in wanted.items():
        by = entry.carving_seed(split, seed)
        kept, out = carve_count(labels["train"][left], size=size, seed=by)
        carved[split], left = left[out], left[kept]
    if entry.drawn:
        by = entry.carving_seed("train", seed)
        _, out = carve_count(labels["train"][left], size=entry.splits["train"], seed=by)
        left = left[out]
    parts = {"train": ("train", left)}
    parts |= {split: ("train", rows) for split, rows in carved.items()}
    parts |= {s: (s, np.arange(len(values))) for s, values in labels.items() if s != "train"}
    for split, (_, rows) in parts.items():
        promised = entry.splits.get(split)
        wrong = promised is not None and len(rows) != promised
        if wrong and not (sample and len(rows) < (promised or 0)):
            raise DataError(
                f"{entry.name}/{split}: {len(rows):,} examples, not {promised:,} "
                "(if a part of the data set is what you want: data.sample)"
            )
    return parts


def drawn_by(entry: DataSet, seed: int) -> dict[str, int]:
    """What names the cached splits of a seed, where the run's seed draws any."""
    return {} if entry.split == "fixed" else {f"{entry.split} split drawn by": seed}


def _carved(entry: DataSet, labels: dict[str, np.ndarray], *, sample: bool) -> dict[str, int]:
    missing = [split for split in ("test", "val") if split not in labels]
    there = len(labels["train"])
    if not entry.splits:  # nobody's promise: a tenth each
        return dict.fromkeys(missing, there // 10)
    promised = sum(entry.splits[split] for split in ("train", *missing))
    scale = min(1.0, there / promised) if sample else 1.0
    sizes = {split: max(1, round(entry.splits[split] * scale)) for split in missing}
    if sum(sizes.values()) >= there:
        raise DataError(f"{entry.name}/train: {there:,} examples, not {promised:,}")
    return sizes
