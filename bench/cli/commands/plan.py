"""`bench plan`: what a run of the study would do, why, and how long it would take."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lightning_bench.bench.cli import options, tuning_status
from lightning_bench.bench.cli.options import (
    default_jobs,
    echo_json,
    make_plan,
    open_study,
)
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study import claims, looks
from lightning_bench.common.messages import duration, ranges

if TYPE_CHECKING:
    from lightning_bench.bench.execute.job import DeviceType
    from lightning_bench.bench.plan.plan import Plan, PlannedRun

STYLES = {"done": "green", "failed": "red", "stale": "yellow", "running": "cyan", "missing": ""}


def plan_command(
    name: options.StudyName,
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
    jobs: options.Jobs = None,
    devices: options.Devices = None,
    device: options.PlannedDevice = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="MACHINE", help="Estimate for cpu, a100:8, h100:64, …; else this host."
        ),
    ] = None,
    mfu: Annotated[
        float | None, typer.Option(help="The share of the machine's peak that training reaches.")
    ] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Of a device-hour.")] = None,
    output: options.OutputFormat = "table",
    data_root: options.DataRoot = None,
    detect: Annotated[
        float | None,
        typer.Option(
            metavar="DIFFERENCE",
            help="Seeds and hours to show a true difference of so many points (or of the metric).",
        ),
    ] = None,
) -> None:
    """Show each run of a study, where it stands and why, and what the rest will cost.

    Time is what earlier runs took, or else counted: the FLOPs of the model, three times in a
    training step, over the measured rate of this host or the data sheet of another machine. And
    what difference the study can show, by the runs that are done or the page's guess.
    """
    from lightning_bench.bench.cli.plan_costs import Costs

    if detect is not None and not detect > 0:
        raise UserError(f"--detect {detect:g}: a difference is greater than 0")
    options.use_data_root(data_root)
    study, opened = open_study(name, scale, settings, store)
    where: DeviceType | None = None
    if device or devices:
        from lightning_bench.bench.execute.devices import resolve

        # One that is named need not be here: the plan may be for another host.
        where = device if device in {"cpu", "cuda"} else resolve("auto")
    costs = Costs(study, on, mfu, price, where, devices)
    # What earlier runs took here says nothing of another machine.
    plan = make_plan(
        study, opened, costs.estimates, elsewhere=on is not None, on_devices=costs.asked_for
    )
    from lightning_bench.bench.cli import power

    if output == "json":
        shown = power.facts(plan, jobs or default_jobs(study), detect)
        at_look = looks.by_seed(study)
        of_mean = {"power_of_mean": shown.get(power.name_of_mean(study))}
        of_runs = [
            _row(planned)
            | {"look": at_look.get(planned.run.spec.seed)}
            | {"power": shown.get(planned.run.dataset)}
            | of_mean
            for planned in plan.all
        ]
        echo_json([*tuning_status.rows(plan), *of_runs])
        return
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from lightning_bench.bench.cli.console import Console, styled

    table = Table(box=None, pad_edge=False)
    for column in ("entry", "data", "seeds", "state"):
        table.add_column(column, no_wrap=column != "entry")
    table.add_column("reason", overflow="fold")

    def alike(planned: "PlannedRun") -> tuple[str, str, str, str]:
        return planned.run.title, planned.run.dataset, planned.state, planned.reason

    # Entries in the page's order, not in the alphabet's.
    place = {planned.run.entry: i for i, planned in enumerate(plan.before)}
    place |= {label: len(place) + i for i, label in enumerate(study.entries)}
    ordered = sorted(plan.all, key=lambda p: (place[p.run.entry], p.run.varied, *alike(p)))
    for (entry, data, state, reason), group in groupby(ordered, alike):
        seeds = ranges([planned.run.spec.seed for planned in group])
        table.add_row(entry, data, seeds, styled(state, STYLES[state]), reason)
    console = Console()
    tuning_status.show(console, plan)
    if plan.runs:
        console.print(table)
        console.print()
    console.print(summary(plan))
    slots = jobs or default_jobs(study, where, devices)
    for line in costs.lines(plan, slots):
        console.print(line)
    if study.claims:
        console.print(f"claims: {', '.join(claims.describe(study))}")
    if study.looks:
        console.print(looks.planned(study))
    for told in power.lines(plan, jobs or default_jobs(study), detect):
        indent = 4 if told.startswith("  ") else 0
        console.print(Padding(Text(told.strip()), (0, 0, 0, indent), expand=False))
    if old := plan.of_version_0_1():
        runs = "1 run was" if old == 1 else f"{old} runs were"
        console.print(
            f"{runs} made by version 0.1, before the code was rearranged; bench run does them again"
        )


def summary(plan: "Plan", jobs: int | None = None) -> str:
    """One line: how many runs are where; with `jobs` the time left, as earlier runs tell it."""
    if plan.searching:
        over = sum(len(ledger.trials) for ledger in plan.searches)
        trials = sum(ledger.budget.trials for ledger in plan.searches)
        return (
            f"{plan.study.name} ({plan.study.scale}): {over} of {trials} trials are finished, "
            "final runs follow"
        )
    counts = ", ".join(f"{n} {state}" for state, n in plan.counts().items() if n)
    line = f"{plan.study.name} ({plan.study.scale}): {len(plan.all)} runs: {counts}"
    to_run = plan.to_run()
    if jobs is None or not to_run or not all(planned.expected_s for planned in to_run):
        return line
    seconds = sum(planned.expected_s for planned in to_run) / min(jobs, len(to_run))
    return f"{line}; about {duration(seconds)} for {len(to_run)} of them, {jobs} at a time"


def _row(planned: "PlannedRun") -> dict[str, Any]:
    from lightning_bench.bench.plan.estimate import Estimate

    run, estimated = planned.run, planned.expected.estimate
    return {
        "name": f"{run.title}/{run.dataset}/{run.spec.seed}",
        "key": planned.key,
        "entry": run.entry,
        "data": run.dataset,
        "seed": run.spec.seed,
        "state": planned.state,
        "reason": planned.reason,
        "expected_s": planned.expected_s or None,
        "basis": planned.expected.basis,
        "flops": estimated.flops if isinstance(estimated, Estimate) else None,
        "memory_bytes": estimated.memory_bytes if isinstance(estimated, Estimate) else None,
    }
