"""The steps of the device check in their order, and how one is run."""

import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import lightning_bench
from lightning_bench.bench.device_check import forked_child
from lightning_bench.bench.device_check.against_cpu import against_cpu, half_precision, twice
from lightning_bench.bench.device_check.all_devices import all_devices
from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import (
    DeviceReport,
    Findings,
    Result,
    Skipped,
    StepResult,
)
from lightning_bench.bench.device_check.failing_ranks import failing_ranks
from lightning_bench.bench.device_check.interrupted import interrupted
from lightning_bench.bench.device_check.machine_facts import facts, in_a_forked_child
from lightning_bench.bench.device_check.on_slurm import on_slurm
from lightning_bench.bench.device_check.power import power
from lightning_bench.bench.device_check.speeds import speeds
from lightning_bench.bench.execute import devices
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Environment
from lightning_bench.common.messages import first_line


class CheckStep(NamedTuple):
    """A step: its title, and the function that records figures and sums them up in a line."""

    title: str
    run: Callable[[CheckContext, Findings], str]


STEPS = {
    1: CheckStep("facts", facts),
    2: CheckStep("forked child", in_a_forked_child),
    3: CheckStep("against the CPU", against_cpu),
    4: CheckStep("twice", twice),
    5: CheckStep("interrupted", interrupted),
    6: CheckStep("half precision", half_precision),
    7: CheckStep("all devices", all_devices),
    8: CheckStep("failing ranks", failing_ranks),
    9: CheckStep("speed", speeds),
    10: CheckStep("energy", power),
    11: CheckStep("SLURM", on_slurm),
}


def check_steps(
    check: CheckContext,
    numbers: Iterable[int],
    started: Callable[[int, str], None] = lambda number, title: None,
    ended: Callable[[StepResult], None] = lambda result: None,
) -> DeviceReport:
    """Run these steps, and report on all of them; the callbacks hear of each."""
    if check.device == "cuda":
        devices.prepare_environment()
    began, results = provenance.now(), []
    for number in numbers:
        started(number, STEPS[number].title)
        results.append(run_step(number, check))
        ended(results[-1])
    commit, dirty = provenance.revision()
    return DeviceReport(
        bench_version=lightning_bench.__version__,
        git_revision=commit,
        git_dirty=dirty,
        started=began,
        ended=provenance.now(),
        command=provenance.command_line(),
        device=check.device,
        devices=check.devices,
        launcher="local" if check.slurm is None else "slurm",
        quick=check.quick,
        environment=_environment(),
        steps=results,
    )


def _environment() -> Environment:
    with suppress(forked_child.ChildFailed):  # step 1 has told
        environment: Environment = forked_child.call("environment")
        return environment
    return provenance.environment([])


def run_step(number: int, check: CheckContext) -> StepResult:
    """Run a step; whatever it raises is its failure, with the traceback in the check's folder."""
    step, found, started = STEPS[number], Findings(), time.monotonic()
    result: Result
    try:
        summary = step.run(check, found)
        result = "failed" if found.unmet else "ok"
        summary = found.failures() or summary
    except Skipped as reason:
        result, summary = "skipped", str(reason)
    except Exception as error:  # noqa: BLE001 - it is what the check is to find
        raised = f"{type(error).__name__}: {first_line(error)}"
        result, summary = "failed", "; ".join(filter(None, [found.failures(), raised]))
        (check.folder / f"step-{number}.txt").write_text(traceback.format_exc(), encoding="utf-8")
    return StepResult(
        number=number,
        title=step.title,
        result=result,
        summary=summary,
        seconds=round(time.monotonic() - started, 1),
        figures=found.figures,
        notes=found.notes,
    )
