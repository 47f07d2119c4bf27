"""The catalogue of named data sets: plain facts, read without torch.

Besides the names here, `folder:PATH` is any folder of images (`PATH/CLASS/…` or
`PATH/SPLIT/CLASS/…`), and `text:PATH` any .txt file, folder of them, or parquet with a column
`text`; a relative PATH starts at the data mirror, so that a run's key holds no machine's path.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from lightning_bench.common.messages import nearest
from lightning_bench.data.catalogue import known_images, known_text, known_vtab
from lightning_bench.data.dataset import HIGHER_IS_BETTER, DataSet
from lightning_bench.data.errors import DataError

__all__ = ["HIGHER_IS_BETTER", "DataSet", "entries", "find"]


@cache
def entries() -> Mapping[str, DataSet]:
    """Every data set by its name, in alphabetical order."""
    known = (*known_images.DATA_SETS, *known_text.DATA_SETS, *known_vtab.DATA_SETS)
    return {entry.name: entry for entry in sorted(known, key=lambda entry: entry.name)}


def find(
    name: str,
    *,
    image_size: int | None = None,
    length: int | None = None,
    tokenizer: str | None = None,
    shots: int | None = None,
    shifts: int = 0,
) -> DataSet:
    """Return the entry of a name with these settings; DataError names the nearest known name."""
    prefix, colon, path = name.partition(":")
    if colon and prefix == "folder":
        from lightning_bench.data.sources.folder import describe  # looks at the disk

        entry = describe(path)
    elif colon and prefix == "text":
        entry = known_text.own_text(path)
    elif name in entries():
        entry = entries()[name]
    else:
        raise DataError(f"unknown data set {name!r}{nearest(name, entries())}")
    settings = {"image_size": image_size, "length": length, "tokenizer": tokenizer}
    settings |= {"shots": shots, "shifts": shifts or None}
    return _with(entry, {key: value for key, value in settings.items() if value is not None})


def _with(entry: DataSet, settings: dict[str, Any]) -> DataSet:
    """The entry with other settings; those that mean nothing for it are a DataError."""
    for key in settings.keys() - {"shots"}:
        if (key in {"image_size", "shifts"}) != (entry.kind == "image"):
            raise DataError(f"{entry.name} is a data set of {entry.kind}s and has no {key}")
    if settings.keys() & {"shots", "shifts"} and entry.task != "classify":
        raise DataError(f"{entry.name} has no classes: no shots of each, no shifts")
    changed = replace(entry, **settings)
    if changed.shifts >= changed.image_size > 0:
        raise DataError(
            f"{entry.name} is {changed.image_size} pixels wide: "
            f"nothing is left of it after shifts of {changed.shifts}"
        )
    if "tokenizer" in settings:
        from lightning_bench.data.tokenisers import vocab_size

        changed = replace(changed, vocab_size=vocab_size(changed.tokenizer))
    return changed
