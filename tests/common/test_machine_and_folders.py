"""What differs between machines: cores without affinities, and where caches lie."""

import os
from pathlib import Path

import pytest

from lightning_bench.common.folders import cache_folder
from lightning_bench.common.machine import usable_cores
from lightning_bench.data import cache
from lightning_bench.models.registry import catalogue


def test_cores_are_counted_where_there_are_no_affinities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5}, raising=False)
    assert usable_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()


def test_both_caches_lie_where_the_user_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("BENCH_CACHE", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "lightning-bench"
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "mine"))
    monkeypatch.setattr(catalogue, "COMMITTED", tmp_path / "none.json")
    catalogue._read_or_count.__wrapped__("0" * 64)  # counts, since no file has this digest
    assert [path.name for path in (tmp_path / "mine").glob("catalogue-*.json")]
    assert not (tmp_path / "xdg").exists()
    assert cache.cache_folder() == tmp_path / "mine"
