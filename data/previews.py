"""Examples: a few of a training split, small enough to lie in a report and be looked at."""

import base64
import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from lightning_bench.data.dataset import DataSet

#: No more classes than this are shown, evenly spread over all of them.
CLASSES = 12
EACH = 3
TEXTS = 6
LETTERS = 240
_SIDE = 48
_GAP = 2


class Example(NamedTuple):
    """Pictures of a class side by side, as a data URI, or the columns of one text."""

    label: str
    texts: tuple[str, ...] = ()
    picture: str = ""


def by_class(labels: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the classes that there are, all or some, and their first few rows."""
    there = np.unique(labels)
    count = min(CLASSES, len(there))
    for label in there[np.arange(count) * len(there) // count]:
        yield int(label), np.flatnonzero(labels == label)[:EACH]


def picture(images: Sequence[np.ndarray]) -> str:
    """C×H×W images of uint8 in a row, as a data URI of a few kilobytes."""
    # Digits has 17 greys only; what is that dark is meant to be stretched.
    stretch = max(1, 255 // max(1, *(int(image.max()) for image in images)))
    tiles = [_tile(image * np.uint8(stretch)) for image in images]
    width, height = tiles[0].size
    row = Image.new(tiles[0].mode, (len(tiles) * (width + _GAP) - _GAP, height), color="grey")
    for place, tile in enumerate(tiles):
        row.paste(tile, (place * (width + _GAP), 0))
    stream = io.BytesIO()
    if row.mode == "L":
        row.save(stream, kind := "PNG", optimize=True)
    else:
        row.save(stream, kind := "JPEG", quality=85, subsampling=0)
    coded = base64.b64encode(stream.getvalue()).decode("ascii")
    return f"data:image/{kind.lower()};base64,{coded}"


def text(label: str, columns: Sequence[str]) -> Example:
    """One text or pair, cut to what can be read at a glance."""
    return Example(label, tuple(_cut(" ".join(column.split())) for column in columns))


def label_of(entry: DataSet, label: Any) -> str:
    """A label in words: its class, those of several labels that hold, or the numbers."""
    if entry.task == "multilabel":
        return ", ".join(n for n, on in zip(entry.labels, label, strict=True) if on) or "none"
    if np.ndim(label):
        return ", ".join(f"{value:g}" for value in label)
    return entry.labels[int(label)] if entry.labels else f"{label:g}"


def spread(labels: np.ndarray) -> list[int]:
    """Rows of a split of texts whose labels differ as far as there are as many."""
    if labels.ndim > 1:
        return list(range(min(TEXTS, len(labels))))
    kinds = np.unique(labels)
    chosen = kinds[np.arange(min(TEXTS, len(kinds))) * len(kinds) // min(TEXTS, len(kinds))]
    each = max(1, TEXTS // len(chosen))
    return [int(row) for kind in chosen for row in np.flatnonzero(labels == kind)[:each]]


def _tile(image: np.ndarray) -> Image.Image:
    tile = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
    if tile.height > _SIDE:
        return tile.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    times = _SIDE // tile.height
    return tile.resize((times * tile.width, times * tile.height), Image.Resampling.NEAREST)


def _cut(column: str) -> str:
    return column if len(column) <= LETTERS else f"{column[: LETTERS - 2].rstrip()} …"
