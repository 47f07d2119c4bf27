"""Steps 1 and 2 find sources that disagree, and devices that a forked child can't use."""

from pathlib import Path

import pytest

from tests.bench.device_check.cpu_check import step

pytestmark = pytest.mark.slow


def test_gpus_that_are_named_but_not_there_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork server of the tests, and with it torch, has begun without."""
    assert step(1, tmp_path).result == "ok"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    result = step(1, tmp_path)
    assert result.result == "failed"
    assert "GPUs, by CUDA_VISIBLE_DEVICES: 2, expected 0" in result.summary


def test_a_device_that_holds_nothing_is_found(tmp_path: Path) -> None:
    assert step(2, tmp_path).result == "ok"
    result = step(2, tmp_path, device="cuda")
    assert result.result == "failed"
    assert "devices that hold a megabyte: 0, expected all 0, and one at least" in result.summary
    assert "what auto means: cpu, expected cuda" in result.summary
