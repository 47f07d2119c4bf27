"""Step 5 finds a run that does not go on as if nobody had ended it."""

from pathlib import Path

import pytest

from lightning_bench.bench.device_check.networks import PACED, network
from tests.bench.device_check.cpu_check import faulty, step

pytestmark = pytest.mark.slow


def test_a_model_that_forgets_at_an_interruption_is_named(tmp_path: Path) -> None:
    result = step(5, tmp_path, paced={"Forgetful": faulty("forgetful", epochs=4)})
    assert result.result == "failed"
    assert result.summary == "Forgetful: different, expected equal bit for bit"


def test_a_run_that_nobody_could_interrupt_is_a_failure(tmp_path: Path) -> None:
    """Too short to be ended in the middle, it shows nothing."""
    result = step(5, tmp_path, paced={"Quick": network("mlp", args={"width": 8}, epochs=1)})
    assert result.result == "failed"
    assert "Quick, resumed from attempts: []" in result.summary
    assert PACED["ResNet"].recipe.epochs > 1
