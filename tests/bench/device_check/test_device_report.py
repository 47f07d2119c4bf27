"""A figure is met or not, NaN never; a report is JSON, a row, and a verdict."""

import json
import math

import pytest

from lightning_bench.bench.device_check.device_report import (
    TFLOPS,
    TRAIN_LOSS,
    UNTIL_RECORD,
    Findings,
    StepResult,
    relative,
)
from tests.bench.device_check.cpu_check import report


@pytest.mark.parametrize("measured", [0.31, math.nan, math.inf])
def test_a_figure_beyond_its_bounds_is_not_met(measured: float) -> None:
    found = Findings()
    found.between("one", measured, 0.1, 0.3)
    found.at_most("two", measured, 0.3, "s")
    assert [figure.met for figure in found.figures] == [False, False]
    assert found.failures().endswith("expected 0.3 s at most")


def test_figures_within_their_bounds_are_met() -> None:
    found = Findings()
    found.between("one", 0.3, 0.1, 0.3)
    found.at_most("two", 0.3, 0.3)
    found.equal("three", "a", "a")
    found.tell("four", None)
    assert not found.unmet
    assert found.failures() == ""
    assert found.largest("o") == 0.3


def test_many_failures_are_a_short_line() -> None:
    found = Findings()
    for number in range(5):
        found.equal(f"figure {number}", number, -1)
    assert found.failures().count("expected") == 3
    assert found.failures().endswith("; and 2 more")


def test_nothing_is_far_from_zero() -> None:
    assert relative(1.0, 2.0) == 0.5
    assert relative(0.0, 0.0) == math.inf


def test_a_report_is_failed_where_a_step_is() -> None:
    assert report("ok", "failed", "skipped").failed
    assert not report("ok", "skipped").failed


def test_a_row_has_the_steps_and_the_worst_figures() -> None:
    found = Findings()
    found.at_most(f"MLP, {TRAIN_LOSS}, relative", 2e-7, 1e-4)
    found.at_most(f"ViT, {TRAIN_LOSS}, relative", 3e-7, 1e-4)
    found.at_most(f"a rank raises, {UNTIL_RECORD}", 0.31, 30)
    found.tell(f"bf16, {TFLOPS}", 0.4912)
    made = report("ok", "ok", "skipped", "ok")
    with_figures = made.steps[0].model_copy(update={"figures": found.figures})
    made = made.model_copy(update={"steps": [with_figures, *made.steps[1:]]})
    row = "| A CPU, 2 cores | 1–2, 4 | 3 | none | 3e-07 | 0.3 s | bf16 0.491 | 0.2, torch 2.15.0 |"
    assert made.markdown_row() == f"{row} 2026-01-02 |"


def test_nan_is_kept_in_json() -> None:
    found = Findings()
    found.at_most("loss", math.nan, 1.0)
    step = StepResult(
        number=3, title="t", result="failed", summary="s", seconds=1.0, figures=found.figures
    )
    assert json.loads(step.model_dump_json())["figures"][0]["measured"] == "NaN"
