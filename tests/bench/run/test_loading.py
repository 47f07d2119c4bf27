"""Loading that takes long: each of its steps is a beat of the run's heart."""

from pathlib import Path

import pytest
from PIL import Image

from lightning_bench.bench.run.loading import load
from lightning_bench.common import heartbeat
from tests.factory import spec


def test_a_run_that_loads_gets_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(heartbeat, "_PAUSE_S", 0.0)
    for number in range(20):
        path = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    heartbeat.start(tmp_path / "heartbeat", tmp_path / "log.txt")
    try:
        load(spec("lenet", f"folder:{tmp_path}/images"))
        pulse, _ = heartbeat.read(tmp_path / "heartbeat") or pytest.fail("no heartbeat")
    finally:
        heartbeat.stop()
    assert pulse.beats > 0
    assert pulse.what.endswith(" images")
