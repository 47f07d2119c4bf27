"""Heartbeats: what others see of a process, and the watchdog that ends it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lightning_bench.bench.store import stalls
from lightning_bench.bench.store.stalls import StallWatch
from lightning_bench.common import heartbeat
from lightning_bench.common.messages import seconds

HOLDS_THE_GIL = """
import ctypes, sys
from pathlib import Path
from lightning_bench.common import heartbeat
heartbeat.start(Path("heartbeat"), Path("log.txt"), 0.5)
heartbeat.beat("step 1")
ctypes.PyDLL(None).sleep(60)
"""


def test_the_watchdog_ends_a_process_that_holds_pythons_lock(tmp_path: Path) -> None:
    began = time.monotonic()
    code = subprocess.run([sys.executable, "-c", HOLDS_THE_GIL], cwd=tmp_path).returncode
    assert code == 1
    assert time.monotonic() - began < 30
    assert heartbeat.bitten(tmp_path / "log.txt")
    failure = stalls.watchdog_failure(tmp_path, tmp_path)
    assert failure
    assert failure.kind == "stalled"
    assert failure.message == (
        "no step for 0.5 s (after starting); the stacks of its threads are in its log"
    )


def write(folder: Path, rank: int, mark: str, pid: int = 1, host: str = "elsewhere") -> None:
    name = f"heartbeat-{rank}" if rank else "heartbeat"
    (folder / name).write_text(f"{mark} {pid} {host} 7 0.2 step 7\n", encoding="utf-8")


def test_the_rank_is_named_that_the_others_wait_for(tmp_path: Path) -> None:
    for rank, mark in enumerate("wcw"):
        write(tmp_path, rank, mark)
    failure = stalls.failure(tmp_path, tmp_path)
    assert failure.message == "no step for 0.2 s in rank 1 (after step 7)"
    assert (failure.kind, failure.log) == ("infrastructure", "log-1.txt")
    write(tmp_path, 1, "w")
    assert "in ranks 0, 1, 2 (after" in stalls.failure(tmp_path, tmp_path).message


def test_a_stopped_process_is_seen_as_such(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        write(tmp_path, 0, "w", process.pid, os.uname().nodename)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.1)
        assert "stopped by a signal" in stalls.failure(tmp_path, tmp_path).message
    finally:
        process.kill()
        process.wait()


def test_a_run_is_stalled_by_the_watchers_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    watch = StallWatch()
    assert not watch.stalled(tmp_path)  # nothing is there yet
    write(tmp_path, 0, "c")
    assert not watch.stalled(tmp_path)
    os.utime(tmp_path / "heartbeat", (1, 1))  # the wall clock may jump
    clock += 100
    assert not watch.stalled(tmp_path)
    clock += 100
    assert watch.stalled(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("15m", 900), ("2.5h", 9000), ("1 min", 60), ("1d", 86400)]
)
def test_lengths_of_time(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "0s", "-1m", "5", "soon", "1e9999h"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="no length of time"):
        seconds(text)
