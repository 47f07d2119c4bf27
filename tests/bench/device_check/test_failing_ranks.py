"""Step 8 finds failures that are told as something else, and processes that are left."""

import os
import signal
from pathlib import Path

import pytest

from lightning_bench.bench.device_check.networks import FAILING, NETWORKS
from tests.bench.device_check.cpu_check import faulty, step

pytestmark = pytest.mark.slow


def test_a_failure_that_is_told_as_something_else_is_found(tmp_path: Path) -> None:
    spec, _ = FAILING["raises"]
    result = step(8, tmp_path, failing={"raises": (spec, "infrastructure")})
    assert result.result == "failed"
    assert result.summary == "a rank raises, told as: code, expected infrastructure"
    assert "raised on purpose by bench check-device" in result.notes[0]


def test_a_run_that_does_not_fail_is_found(tmp_path: Path) -> None:
    result = step(8, tmp_path, failing={"raises": (NETWORKS["MLP"], "code")})
    assert "a rank raises, told as: done, expected code" in result.summary
    assert "moment of the failure: none, expected in its log" in result.summary


def test_a_process_that_is_left_is_found(tmp_path: Path) -> None:
    result = step(8, tmp_path, failing={"raises": (faulty("leaves_a_process"), "code")})
    left = next(f.measured for f in result.figures if "processes left" in f.name)
    assert isinstance(left, list)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 1
    assert result.result == "failed"
