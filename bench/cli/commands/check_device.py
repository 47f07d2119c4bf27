"""`bench check-device`: do training and measuring on this machine's devices do what they claim?"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lightning_bench.bench.cli.options import ClusterSettings, DeviceOption
from lightning_bench.bench.cli.runner import Engine
from lightning_bench.bench.errors import UserError
from lightning_bench.common.machine import usable_cores

if TYPE_CHECKING:
    from rich.console import Console

    from lightning_bench.bench.device_check.context import CheckContext
    from lightning_bench.bench.device_check.device_report import DeviceReport, StepResult

Format = Literal["table", "json", "markdown"]
FAILED = 3
_LAST = 11
_STYLES = {"ok": "green", "failed": "red", "skipped": "yellow"}


def check_device_command(
    device: DeviceOption = "auto",
    devices: Annotated[
        int | None, typer.Option(min=1, help="So many at once; by default all GPUs, or two cores.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="1,3-5", help="These of the eleven steps alone.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller products, less time.")] = False,
    launcher: Annotated[
        Engine, typer.Option(help="slurm: steps 7 and 8 as jobs of SLURM, which is step 11.")
    ] = "local",
    cluster: ClusterSettings = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Work below it, not in a temporary folder; nodes of SLURM share it."),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="How to print it; markdown: as a row of README's.")
    ] = "table",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report there, too, for an issue.")
    ] = None,
) -> int:
    """Check this machine's devices, in five minutes: without network, on bundled data.

    1 facts, 2 a forked child, 3 training against the CPU, 4 twice, 5 interrupted and resumed,
    6 half precision, 7 all devices together, 8 failing ranks, 9 speed against the data sheet,
    10 energy, 11 SLURM. Logs are kept where a step fails.
    """
    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.device_check.context import CheckContext
    from lightning_bench.bench.study.load import read_cluster

    slurm = read_cluster(cluster or ()) if launcher == "slurm" else None
    numbers = _numbers(steps) if steps else [_LAST] if slurm else list(range(1, _LAST + 1))
    for place in filter(None, (folder, json_file and json_file.absolute().parent)):
        if not place.is_dir():
            raise UserError(f"{place} is not a folder")
    from lightning_bench.bench.execute.devices import demand, gpus, resolve

    kind = resolve(device)
    count = devices or (len(gpus()) if kind == "cuda" else min(2, usable_cores()))
    demand(kind, count, 1)
    # The report alone goes to the output where a program reads it.
    console = Console(stderr=output != "table")
    place = Path(tempfile.mkdtemp(prefix="bench-check-device-", dir=folder))
    report = None
    try:
        report = _check(
            console, CheckContext(place, kind, count, quick=quick, slurm=slurm), numbers
        )
    finally:
        if report is None or not report.failed:
            shutil.rmtree(place, ignore_errors=True)
    if json_file is not None:
        json_file.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if output != "table":
        typer.echo(report.model_dump_json(indent=1) if output == "json" else report.markdown_row())
    return FAILED if report.failed else 0


def _check(console: "Console", check: "CheckContext", numbers: list[int]) -> "DeviceReport":
    """Run the steps, each of which is a line as soon as it is over."""
    from lightning_bench.bench.device_check.all_steps import check_steps

    what = "CPU cores" if check.device == "cpu" else "GPUs"
    console.print(f"checking {check.devices} {what}")
    with console.status("starting") as status:
        report = check_steps(
            check,
            numbers,
            lambda number, title: status.update(f"{number} {title}"),
            lambda result: _show(console, result),
        )
    failed = [step for step in report.steps if step.result == "failed"]
    if failed:
        words = f"{len(failed)} of {len(report.steps)} steps failed; logs: {check.folder}"
        console.print(words, soft_wrap=True)
    return report


def _show(console: "Console", result: "StepResult") -> None:
    """A line for the step, and one for each note."""
    from lightning_bench.bench.cli.console import styled

    style = _STYLES[result.result]
    title = f"{result.number:2} {result.title}"
    console.print(f"{title:19} ", end="")
    console.print(styled(f"{result.result:7}", style, " "), end="")
    console.print(f"{result.summary} ({result.seconds:.1f} s)", soft_wrap=True)
    for note in result.notes:
        console.print(f"{'':28}{note}", soft_wrap=True, style="dim")


def _numbers(text: str) -> list[int]:
    """The steps that are named, as in 1,3-5."""
    numbers: set[int] = set()
    for part in text.split(","):
        bounds = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (0, 0)
        if not 1 <= first <= last <= _LAST:
            raise UserError(f"--steps {text}: expected steps of 1 to {_LAST}, as in 1,3-5")
        numbers |= set(range(first, last + 1))
    return sorted(numbers)
