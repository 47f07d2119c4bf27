"""Per-example results on disk: those of the record, or an error."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from lightning_bench.bench.store.predictions import read
from lightning_bench.bench.store.store import PREDICTIONS, Damaged


def test_what_was_written_is_read_and_nothing_else_passes(tmp_path: Path) -> None:
    path = tmp_path / PREDICTIONS
    np.savez_compressed(path, index=np.arange(3), predicted=np.array([1, 0, 2]))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(tmp_path, sha256)["predicted"].tolist() == [1, 0, 2]
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(Damaged, match="is damaged"):
        read(tmp_path, sha256)
    path.unlink()
    with pytest.raises(Damaged, match="is gone"):
        read(tmp_path, sha256)


@pytest.mark.parametrize(
    "content", [b"", b"PK no zip", b"\x93NUMPY half of an array", b"\x80\x04N."]
)
def test_what_holds_no_arrays_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PREDICTIONS).write_bytes(content)
    with pytest.raises(Damaged, match="holds no arrays"):
        read(tmp_path, hashlib.sha256(content).hexdigest())


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / PREDICTIONS)
    with pytest.raises(Damaged, match="is damaged"):
        read(tmp_path, "0" * 64)
