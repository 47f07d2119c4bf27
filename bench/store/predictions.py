"""A run's per-example results, read back and held against the checksum in its record."""

import hashlib
import io
from pathlib import Path
from typing import Any

from lightning_bench.bench.store.store import Damaged

NAME = "predictions.npz"


def read(folder: Path, sha256: str) -> dict[str, Any]:
    """The arrays of an attempt's predictions; Damaged where the file is not the record's."""
    import numpy as np

    try:
        content = (folder / NAME).read_bytes()
    except OSError as error:
        raise Damaged(f"{folder / NAME}: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Damaged(f"{folder / NAME} is not what its record says")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
