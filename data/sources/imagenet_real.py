"""ReaL: the reassessed labels of ImageNet's validation split (Beyer et al., 2020)."""

import json
import re
from collections.abc import Sequence

import numpy as np

from lightning_bench.common.targets import NO_LABEL
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import repository

_NUMBER = re.compile(r"val_0*(\d+)")


def labels(place: str, names: Sequence[str]) -> np.ndarray:
    """Return each image's labels in a row, short ones filled up with their own first.

    `place` is a repository and a file in it; an image's name holds its number, counted from 1.
    """
    owner, name, file = place.split("/")
    (path,) = repository.files(f"{owner}/{name}", [file])
    try:
        real: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{place} is damaged ({error}); fetch it again") from None
    by_image = [real[_number(row, name, len(real)) - 1] for row, name in enumerate(names)]
    width = max(1, *map(len, by_image))
    filled = [[*own, *[own[0] if own else NO_LABEL] * (width - len(own))] for own in by_image]
    return np.array(filled, dtype=np.int64)


def _number(row: int, name: str, count: int) -> int:
    match = _NUMBER.search(name)
    number = int(match[1]) if match else 0
    if not 1 <= number <= count:
        raise DataError(f"row {row}: {name!r} holds no number from 1 to {count} for its ReaL label")
    return number
