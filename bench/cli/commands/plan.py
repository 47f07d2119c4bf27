"""`bench plan`: what a run of the study would do, why, and how long it would take."""

from itertools import groupby
from typing import TYPE_CHECKING, Any

from lightning_bench.bench.cli import options, tuning_status
from lightning_bench.bench.cli.options import (
    default_jobs,
    duration,
    echo_json,
    make_plan,
    open_study,
)
from lightning_bench.common.messages import ranges

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan, PlannedRun

STYLES = {"done": "green", "failed": "red", "stale": "yellow", "running": "cyan", "missing": ""}


def plan_command(
    name: options.StudyName,
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
    jobs: options.Jobs = None,
    output: options.OutputFormat = "table",
    data_root: options.DataRoot = None,
) -> None:
    """Show each run of a study, where it stands and why, and the time that the rest will take."""
    options.use_data_root(data_root)
    study, opened = open_study(name, scale, settings, store)
    plan = make_plan(study, opened)
    if output == "json":
        echo_json([*tuning_status.rows(plan), *(_row(planned) for planned in plan.all)])
        return
    from rich.table import Table

    from lightning_bench.bench.cli.console import Console

    table = Table(box=None, pad_edge=False)
    for column in ("entry", "data", "seeds", "state"):
        table.add_column(column, no_wrap=column != "entry")
    table.add_column("reason", overflow="fold")

    def alike(planned: "PlannedRun") -> tuple[str, str, str, str]:
        return planned.run.entry, planned.run.dataset, planned.state, planned.reason

    # Entries in the page's order, not in the alphabet's.
    place = {planned.run.entry: i for i, planned in enumerate(plan.before)}
    place |= {label: len(place) + i for i, label in enumerate(study.entries)}
    ordered = sorted(plan.all, key=lambda p: (place[p.run.entry], *alike(p)[1:]))
    for (entry, data, state, reason), group in groupby(ordered, alike):
        seeds = ranges([planned.run.spec.seed for planned in group])
        table.add_row(
            entry, data, seeds, f"[{STYLES[state]}]{state}[/]" if STYLES[state] else state, reason
        )
    console = Console(highlight=False)
    tuning_status.show(console, plan)
    if plan.runs:
        console.print(table)
        console.print()
    console.print(f"{summary(plan, jobs or default_jobs(study))}")
    if old := plan.of_version_0_1():
        runs = "1 run was" if old == 1 else f"{old} runs were"
        console.print(
            f"{runs} made by version 0.1, before the code was rearranged; bench run does them again"
        )


def summary(plan: "Plan", jobs: int) -> str:
    """One line: how many runs are where, and how long the rest will take."""
    if plan.searching:
        over = sum(len(ledger.trials) for ledger in plan.searches)
        trials = sum(ledger.budget.trials for ledger in plan.searches)
        left_s = plan.study.run_s * (trials - over) / jobs
        return (
            f"{plan.study.name} ({plan.study.scale}): {over} of {trials} trials are finished, "
            f"final runs follow; at most about {duration(left_s)} for the rest, {jobs} at a time"
        )
    counts = ", ".join(f"{n} {state}" for state, n in plan.counts().items() if n)
    line = f"{plan.study.name} ({plan.study.scale}): {len(plan.all)} runs: {counts}"
    to_run = plan.to_run()
    if not to_run:
        return line
    seconds = sum(planned.expected_s for planned in to_run) / min(jobs, len(to_run))
    return f"{line}; about {duration(seconds)} for {len(to_run)} of them, {jobs} at a time"


def _row(planned: "PlannedRun") -> dict[str, Any]:
    run = planned.run
    return {
        "name": f"{run.entry}/{run.dataset}/{run.spec.seed}",
        "key": planned.key,
        "entry": run.entry,
        "data": run.dataset,
        "seed": run.spec.seed,
        "state": planned.state,
        "reason": planned.reason,
        "expected_s": planned.expected_s,
    }
