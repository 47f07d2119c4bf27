"""Step 10 reads the meter that a machine has, and finds one that tells nonsense."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from lightning_bench.bench.device_check import all_steps
from lightning_bench.bench.device_check.power import power
from tests.bench.device_check.cpu_check import step

pytestmark = pytest.mark.slow


@contextmanager
def processor(folder: Path, watts: Callable[[float], float]) -> Iterator[None]:
    """A processor's meter; its watts are a function of the seconds since it was read first."""
    zone = folder / "intel-rapl:0"
    zone.mkdir()
    (zone / "max_energy_range_uj").write_text(str(2**40), encoding="ascii")
    (zone / "energy_uj").write_text("0", encoding="ascii")
    over = threading.Event()

    def count() -> None:
        joules, before = 0.0, time.monotonic()
        while not over.wait(0.01):
            now = time.monotonic()
            joules += watts(now) * (now - before)
            before = now
            beside = zone / "beside"
            beside.write_text(str(round(1e6 * joules)), encoding="ascii")
            beside.replace(zone / "energy_uj")

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that step 10 takes for the kernel's powercap."""
    folder = tmp_path / "powercap"
    folder.mkdir()
    patched = all_steps.STEPS[10]._replace(run=partial(power, powercap=folder))
    monkeypatch.setitem(all_steps.STEPS, 10, patched)
    return folder


def test_a_meter_that_stands_still_when_busy_is_found(tmp_path: Path, meter: Path) -> None:
    began = time.monotonic()
    # Idling comes first; whatever it takes to start, the second half of all is busy.
    with processor(meter, lambda now: 50 / (1 + now - began)):
        result = step(10, tmp_path)
    assert result.result == "failed"
    assert "busy: " in result.summary
    assert "of idling" in result.summary


def test_a_meter_that_runs_faster_when_busy_is_not(tmp_path: Path, meter: Path) -> None:
    began = time.monotonic()
    with processor(meter, lambda now: 5 * (1 + now - began)):
        result = step(10, tmp_path)
    assert result.result == "ok", result.summary
    assert "by RAPL" in result.summary


def test_without_a_meter_nothing_is_told(tmp_path: Path, meter: Path) -> None:
    result = step(10, tmp_path)
    assert result.result == "skipped"
    assert "no meter" in result.summary
