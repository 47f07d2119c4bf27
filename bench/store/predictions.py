"""A run's per-example results, read back and held against the checksum in its record."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from lightning_bench.bench.store.integrity import problem
from lightning_bench.bench.store.store import PREDICTIONS, Damaged
from lightning_bench.common.messages import first_line


def read(folder: Path, sha256: str) -> dict[str, Any]:
    """The arrays of an attempt's predictions; Damaged where the file is not the record's."""
    import numpy as np

    path = folder / PREDICTIONS
    if found := problem(str(path), sha256):
        raise Damaged(f"{path} is {found}")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (BadZipFile, EOFError, MemoryError, OSError, TypeError, ValueError) as error:
        raise Damaged(f"{path} holds no arrays: {first_line(error)}") from None
