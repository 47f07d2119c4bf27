"""Trackers whose process dies or stands still: the study's end does not wait for them."""

import os
import signal
import time
from pathlib import Path

import pytest

from lightning_bench.bench.store.record import Epoch
from lightning_bench.bench.study.load import load
from lightning_bench.bench.tracking.events import Progressed
from lightning_bench.bench.tracking.mirror import Mirror
from tests.commands import start, wait_for
from tests.factory import study_page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (signal.SIGKILL, "have ended: their process was killed by SIGKILL"),
        (signal.SIGSTOP, "are stopped by a signal"),
    ],
)
def test_the_end_does_not_wait_for_trackers_that_are_gone(
    how: signal.Signals, says: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.yaml"
    page.write_text(study_page(), encoding="utf-8")
    mirror = Mirror(["csv"], tmp_path, load(str(page)))
    os.kill(mirror._process.pid, how)
    # More than a pipe holds, which nobody reads.
    for epoch in range(5000):
        metrics = {"loss": 1.0, "accuracy": 0.5}
        event = Epoch(epoch=epoch, step=1, metrics=metrics, train_loss=1.0)
        mirror._events.put(Progressed("f" * 20, event))
    began = time.monotonic()
    lines = mirror.close()
    assert time.monotonic() - began < 9
    assert len(lines) == 1
    assert says in lines[0]
    assert "bench sync page sends them all of it" in lines[0]


def test_an_interruption_does_not_wait_for_trackers_that_stand_still(tmp_path: Path) -> None:
    page = study_page(recipe={"epochs": 20_000}, entries={"A": {"model": "mlp"}})
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    process = start("run", "page.yaml", "--track", "csv", cwd=tmp_path)
    runs = tmp_path / "bench-store" / "runs"
    wait_for(lambda: [*runs.glob("*/curve.jsonl")], "a run's first epoch")
    os.kill(wait_for(lambda: _spawned(process.pid), "the trackers' process"), signal.SIGSTOP)
    time.sleep(3)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert time.monotonic() - began < 15
    assert "Traceback" not in out + err
    assert "bench sync page sends them all of it" in out


def _spawned(parent: int) -> int:
    """The child that a spawn has made, which is the trackers'."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    command_lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return next((pid for pid, line in command_lines.items() if b"spawn_main" in line), 0)
