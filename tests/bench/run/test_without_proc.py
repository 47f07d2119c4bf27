"""A whole run without `/proc`, a process's affinity, and forks of what has torch, as on macOS."""

from pathlib import Path

import pytest

from lightning_bench.bench.store.store import Store
from tests.bench.run.test_training import SMALL
from tests.commands import bench

# Python imports it in each process, before anything of ours.
SITE = """
import os, sys

del os.sched_getaffinity
stat = os.stat

def hidden(path):
    return isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc")

def refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and hidden(arguments[0]):
        raise FileNotFoundError(2, "hidden by the test", os.fspath(arguments[0]))

def seen(path, *arguments, **options):
    if hidden(path):
        raise FileNotFoundError(2, "hidden by the test", os.fspath(path))
    return stat(path, *arguments, **options)

def no_fork():
    raise OSError("a fork is not safe here")

os.stat, os.fork = seen, no_fork
sys.addaudithook(refuse)

from lightning_bench.common import machine

machine.fork_is_safe = lambda: False
"""

# A module that is not ours is counted in a process of its own.
OWN = """
from torch import nn


def one(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * image_size**2, classes))
"""


@pytest.mark.slow
def test_a_study_runs_and_is_measured(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE, encoding="utf-8")
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    hidden = {"PYTHONPATH": str(tmp_path / "site")}
    done = bench("run", "small.yaml", "--set", "seeds=1", cwd=tmp_path, env=hidden)
    assert done.returncode == 0, done.stdout + done.stderr
    attempts = list(Store(tmp_path / "bench-store").scan().values())
    assert len(attempts) == 2
    for attempt in attempts:
        assert attempt.record is not None
        assert attempt.record.status == "done"
        assert attempt.record.cost is not None
        assert attempt.record.cost.peak_memory_bytes > 10_000_000
        log = (attempt.folder / "log.txt").read_text(encoding="utf-8")
        assert "peak memory can't be reset here" in log
    words = ["--set", "seeds=1", "--devices", "2", "--store", "ranks"]
    done = bench("run", "small.yaml", *words, cwd=tmp_path, env=hidden)
    assert done.returncode == 0, done.stdout + done.stderr
    words = ["lenet", "--quick", "--batch-size", "2", "--mode", "infer", "--device", "cpu"]
    measured = bench("measure", *words, cwd=tmp_path, env=hidden)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    counted = bench("measure", "own.py:one", "--mode", "count", cwd=tmp_path, env=hidden)
    assert counted.returncode == 0, counted.stdout + counted.stderr
