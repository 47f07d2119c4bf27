"""Per-example results on disk: those of the record, or an error."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from lightning_bench.bench.store.predictions import NAME, read
from lightning_bench.bench.store.store import Damaged


def test_what_was_written_is_read_and_nothing_else_passes(tmp_path: Path) -> None:
    path = tmp_path / NAME
    np.savez_compressed(path, index=np.arange(3), predicted=np.array([1, 0, 2]))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(tmp_path, sha256)["predicted"].tolist() == [1, 0, 2]
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(Damaged, match="is not what its record says"):
        read(tmp_path, sha256)
    path.unlink()
    with pytest.raises(Damaged, match="No such file"):
        read(tmp_path, sha256)
