"""Files beside a record: every damage is noticed, and what nobody touched is not read."""

import hashlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_bench.bench.store import integrity
from lightning_bench.bench.store.store import PREDICTIONS, WEIGHTS, Attempt, Store
from tests.factory import record, spec

CONTENT = bytes(range(256)) * 4
#: The kernel's clock of inodes ticks more often than this.
TICK_S = 0.02


def finish(root: Path, seed: int) -> Path:
    """A finished run with predictions and weights of its own; its folder."""
    store, run = Store(root), spec(seed=seed)
    own = bytes([seed]) + CONTENT[1:]
    digest = hashlib.sha256(own).hexdigest()
    with store.claim(run, 1) as folder:
        for name in (PREDICTIONS, WEIGHTS):
            (folder / name).write_bytes(own)
        time.sleep(TICK_S)
        store.write_record(folder, record(run, predictions=digest, weights=digest))
    return folder


def read(folder: Path) -> Attempt:
    return Store(folder.parents[1]).read(*folder.name.split(".")[:1], 1)


def replaced_by_another_runs(path: Path) -> None:
    """A rename keeps the time of writing, and the sizes are the same."""
    other = finish(path.parents[2] / f"other-{path.stem}", 1)
    (other / path.name).replace(path)


def linked(to: str) -> Callable[[Path], None]:
    def link(path: Path) -> None:
        path.unlink()
        path.symlink_to(to)

    return link


def turned_into(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def turn(path: Path) -> None:
        path.unlink()
        make(path)

    return turn


DAMAGES = {
    "a bit": lambda path: path.write_bytes(CONTENT[:-1] + b"\0"),
    "cut": lambda path: path.write_bytes(CONTENT[:100]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(len(CONTENT))),
    "grown": lambda path: path.write_bytes(CONTENT + b"x"),
    "another run's": replaced_by_another_runs,
    "a folder": turned_into(Path.mkdir),
    "a pipe": turned_into(os.mkfifo),
    "a loop": linked(PREDICTIONS),
    "a device": linked("/dev/zero"),
    "a link to nowhere": linked("nowhere"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_every_damage_is_noticed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = finish(tmp_path, 0)
    assert (read(folder).predictions, read(folder).weights()) == ("", "")
    signal.alarm(20)  # nothing waits for a pipe, or for the end of a device
    damage(folder / PREDICTIONS)
    assert (read(folder).predictions, read(folder).weights()) == ("damaged", "")
    damaged = linked(WEIGHTS) if damage is DAMAGES["a loop"] else damage
    damaged(folder / WEIGHTS)
    assert read(folder).weights() == "damaged"
    signal.alarm(0)


def test_what_is_gone_is_gone(tmp_path: Path) -> None:
    folder = finish(tmp_path, 0)
    (folder / PREDICTIONS).unlink()
    (folder / WEIGHTS).unlink()
    assert (read(folder).predictions, read(folder).weights()) == ("gone", "gone")
    # The record itself is as good as ever.
    assert read(folder).state == "recorded"


def test_files_that_nobody_touched_are_not_read_and_a_copied_store_is_right(tmp_path: Path) -> None:
    folder = finish(tmp_path / "store", 0)
    before = integrity._digest.cache_info().misses
    assert not read(folder).predictions
    assert not read(folder).weights()
    assert integrity._digest.cache_info().misses == before
    copied = shutil.copytree(tmp_path / "store", tmp_path / "copied") / "runs" / folder.name
    # Its times tell nothing, and its content all.
    (copied / "record.json").rename(copied / "r")
    (copied / "r").rename(copied / "record.json")
    os.utime(copied / PREDICTIONS)
    assert not read(copied).predictions
    assert integrity._digest.cache_info().misses == before + 1


def test_a_record_without_predictions_names_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.claim(spec(), 1) as folder:
        store.write_record(folder, record())
    assert (read(folder).predictions, read(folder).weights()) == ("", "gone")
