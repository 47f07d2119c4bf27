"""A check of this host's CPU, with networks of a test's own, and reports made up."""

from pathlib import Path
from typing import Any

from lightning_bench.bench.device_check.all_steps import run_step
from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import DeviceReport, StepResult
from lightning_bench.bench.device_check.networks import network
from lightning_bench.bench.spec import RunSpec
from tests.factory import ENVIRONMENT

FAULTY_MODELS = "tests.bench.device_check.faulty_models"


def check(folder: Path, **changes: Any) -> CheckContext:
    return CheckContext(folder, **({"device": "cpu", "devices": 2, "quick": True} | changes))


def step(number: int, folder: Path, **changes: Any) -> StepResult:
    """What comes of a step."""
    return run_step(number, check(folder, **changes))


def faulty(function: str, **recipe: Any) -> RunSpec:
    """The spec of a faulty model."""
    return network(f"{FAULTY_MODELS}:{function}", **recipe)


def report(*results: str) -> DeviceReport:
    """A report on steps of which this came."""
    steps = [
        StepResult(number=i, title="t", result=result, summary="s", seconds=1.0)
        for i, result in enumerate(results, 1)
    ]
    return DeviceReport(
        bench_version="0.2", git_revision=None, git_dirty=None, started="2026-01-02T00:00:00Z",
        ended="2026-01-02T00:01:00Z", command=["bench"], device="cpu", devices=2,
        launcher="local", quick=False, environment=ENVIRONMENT, steps=steps,
    )  # fmt: skip
