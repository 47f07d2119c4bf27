"""Steps 3, 4 and 6 find a model that ranks, chance or autocast change."""

from pathlib import Path

import pytest

from lightning_bench.bench.device_check.networks import network
from tests.bench.device_check.cpu_check import faulty, step

pytestmark = pytest.mark.slow


def test_a_network_that_two_ranks_train_otherwise_is_named(tmp_path: Path) -> None:
    result = step(3, tmp_path, networks={"Lonely": faulty("lonely")})
    assert result.result == "failed"
    assert result.summary.startswith("Lonely, train loss of epoch 1, relative: ")
    assert "expected 0.0001 at most" in result.summary


def test_without_a_second_core_nothing_is_compared(tmp_path: Path) -> None:
    result = step(3, tmp_path, devices=1)
    assert result.result == "skipped"
    assert "no second core" in result.summary


def test_a_network_that_chance_decides_is_named(tmp_path: Path) -> None:
    result = step(4, tmp_path, networks={"Random": faulty("random")})
    assert result.result == "failed"
    assert result.summary == "Random: different, expected equal bit for bit"
    assert result.notes == ["Random: torch warned of no operation"]


def test_a_network_that_half_precision_changes_is_named(tmp_path: Path) -> None:
    result = step(6, tmp_path, networks={"Coarse": faulty("coarse")})
    assert result.result == "failed"
    assert "Coarse, bf16, train loss from fp32's" in result.summary


def test_a_network_that_fails_is_told_with_its_cause(tmp_path: Path) -> None:
    networks = {"Broken": network("tests.bench.misbehaving:raises")}
    result = step(4, tmp_path, networks=networks)
    assert result.result == "failed"
    assert "Broken failed: code: RuntimeError: " in result.summary
    assert "Traceback" in (tmp_path / "step-4.txt").read_text(encoding="utf-8")
