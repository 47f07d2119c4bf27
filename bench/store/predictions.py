"""A run's per-example results, read back and held against the checksums in its record.

predictions.npz has `index`, `target` and `predicted` of each example of the test split, and perhaps
`loss`. probabilities.npz has, in the same order, `probabilities` (float16, a column a class),
`likeliest` (the five likeliest classes in the order of float32, of more than five) and
`reliability` (of 15 bins of confidence: examples, and the sums of confidence and of right ones).
Arrays of further test splits have the split's name in front, as `mismatched_index`. arrays.npz has
what probes keep of the trained model for figures, as `probe/title`.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from lightning_bench.bench.store.integrity import problem
from lightning_bench.bench.store.store import ARRAYS, PREDICTIONS, PROBABILITIES, Damaged
from lightning_bench.common.messages import first_line

#: Arrays by name.
Arrays = dict[str, Any]
#: How the names of arrays end that are of classes, and in the file of these.
OF_CLASSES = ("probabilities", "likeliest", "reliability")


def read(folder: Path, sha256: str) -> Arrays:
    """The arrays of an attempt's predictions; Damaged where the file is not the record's."""
    return _read(folder / PREDICTIONS, sha256)


def read_probabilities(
    folder: Path, sha256: str, only: Collection[str] | None = None, recorded_ns: int = 0
) -> Arrays:
    """The arrays of an attempt's class probabilities, or some of them; Damaged as in `read`.

    The file is held against its checksum unless it has not changed since the record was written.
    """
    return _read(folder / PROBABILITIES, sha256, only, recorded_ns)


def read_arrays(folder: Path, sha256: str) -> Arrays:
    """What the probes of an attempt kept, as `probe/title`; Damaged as in `read`."""
    return _read(folder / ARRAYS, sha256)


def recorded_ns(folder: Path) -> int:
    """When an attempt's record was put there; 0 where there is none."""
    try:
        return os.stat(f"{folder}/record.json").st_ctime_ns  # noqa: PTH116 - quicker, of many
    except OSError:
        return 0


def _read(
    path: Path, sha256: str, only: Collection[str] | None = None, recorded_ns: int = 0
) -> Arrays:
    import numpy as np

    if found := problem(str(path), sha256, recorded_ns):
        raise Damaged(f"{path} is {found}")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            wanted = [name for name in arrays.files if only is None or name in only]
            return {name: arrays[name] for name in wanted}
    except (BadZipFile, EOFError, MemoryError, OSError, TypeError, ValueError) as error:
        raise Damaged(f"{path} holds no arrays: {first_line(error)}") from None
