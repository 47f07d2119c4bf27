"""From the hub, as `bench prepare` fetches: progress in bytes, pins, and then no network."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from lightning_bench.data.catalogue import find
from tests.commands import bench
from tests.data import tiny
from tests.data.hub import COMMIT, serving

PAGE = """
title: Flowers and pets
question: Can it be fetched?
data:
  - {name: vtab-dtd, image_size: 16, sample: true}
  - {name: cifar10, image_size: 16, sample: true}
entries: {LeNet: {model: lenet}}
recipe: {epochs: 1, batch_size: 8}
seeds: 1
scales: {smoke: {}}
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str | None]:
    """An environment with empty caches and no mirror."""
    (tmp_path / "page.yaml").write_text(PAGE, encoding="utf-8")
    foreign = [
        name for name in os.environ
        if name.startswith(("HF_", "BENCH_")) or "proxy" in name.lower()
    ]  # fmt: skip
    return dict.fromkeys(foreign) | {
        "HF_HOME": str(tmp_path / "hf"),
        "BENCH_CACHE": str(tmp_path / "cache"),
        "COLUMNS": "80",
    }


@pytest.mark.slow
def test_prepare_fetches_pins_and_then_needs_no_network(
    tmp_path: Path, machine: dict[str, str]
) -> None:
    for name in ("vtab-dtd", "cifar10"):
        tiny.write(find(name), tmp_path / "hub")
    with serving(tmp_path / "hub") as (address, asked):
        online = {**machine, "HF_ENDPOINT": address}
        done = bench("prepare", "page.yaml", cwd=tmp_path, env=online)
        assert done.returncode == 0, done.stdout + done.stderr
        assert asked
        # What is pinned is asked for by its commit, the other by its newest.
        pinned = find("cifar10").revision
        assert any(f"revision/{pinned}" in line or f"tree/{pinned}" in line for line in asked)
        assert any("wds_vtab-dtd" in line for line in asked)
    assert re.search(r"wds_vtab-dtd: fetching 2 files, [\d.]+ [kM]B", done.stdout)
    assert "vtab-dtd: complete" in done.stdout or "ready  vtab-dtd" in done.stdout
    assert f"commit {COMMIT[:12]}" in done.stdout
    assert "can run without a network" in done.stdout
    (pin,) = (tmp_path / "cache/revisions").iterdir()
    assert pin.name == "datasets--clip-benchmark--wds_vtab-dtd"
    assert pin.read_text(encoding="ascii") == COMMIT
    offline = {**machine, "HF_ENDPOINT": "http://192.0.2.1"}
    done = bench("run", "page.yaml", cwd=tmp_path, env=offline)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [
        json.loads(path.read_text())["record"] for path in tmp_path.rglob("runs/*/record.json")
    ]
    assert {record["data"]["revision"] for record in records} == {COMMIT, pinned}


@pytest.mark.slow
def test_what_is_nowhere_is_one_line_within_five_seconds(
    tmp_path: Path, machine: dict[str, str]
) -> None:
    offline = {**machine, "HF_ENDPOINT": "http://192.0.2.1"}
    started = time.monotonic()
    done = bench("run", "page.yaml", cwd=tmp_path, env=offline)
    took = time.monotonic() - started
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "bench prepare" in done.stderr
    assert "BENCH_DATA" in done.stderr
    assert took < 5 + 3  # the interpreter's own start, on a loaded machine
