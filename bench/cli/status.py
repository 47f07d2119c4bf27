"""`bench status`: how far a study is, and what went wrong."""

from typing import Any

from bench.cli import searches
from bench.cli.options import (
    DEFAULT_STORE,
    Format,
    OutputFormat,
    Scale,
    Settings,
    StoreFolder,
    StudyName,
    default_jobs,
    echo_json,
    make_plan,
    open_study,
)


def status_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Show how many runs of each entry are done, and the cause and log of each failure."""
    study, opened = open_study(name, scale, settings, store)
    plan = make_plan(study, opened)
    rows: dict[str, dict[str, Any]] = {
        label: {"name": label, "runs": 0, **dict.fromkeys(plan.counts(), 0), "failures": []}
        for label in [*(planned.run.entry for planned in plan.before), *study.entries]
    }
    for planned in plan.all:
        row = rows[planned.run.entry]
        row["runs"] += 1
        row[planned.state] += 1
        record = planned.attempt.record if planned.attempt else None
        if planned.state == "failed" and record and record.failure:
            row["failures"].append(
                {
                    "data": planned.run.dataset,
                    "seed": planned.run.spec.seed,
                    "key": planned.key,
                    "class": record.failure.kind,
                    "message": record.failure.message,
                    "log": str(opened.root / record.failure.log),
                }
            )
    for found in searches.rows(plan):
        rows[found["entry"]].setdefault("searches", []).append(found)
    if output is Format.JSON:
        echo_json(rows.values())
        return
    from rich.console import Console
    from rich.table import Table

    from bench.cli.plan import STYLES, summary

    states = [state for state, count in plan.counts().items() if count]
    table = Table(box=None, pad_edge=False)
    table.add_column("entry")
    for state in states:
        table.add_column(state, justify="right", style=STYLES[state] or None)
    for label, row in rows.items():
        table.add_row(label, *(str(row[state] or "") for state in states))
    console = Console(highlight=False)
    searches.show(console, plan)
    searches.failures(console, plan)
    if plan.runs:
        console.print(table)
    for label, row in rows.items():
        for failure in row["failures"]:
            console.print(
                f"{label}, {failure['data']}, seed {failure['seed']}: {failure['class']}: "
                f"{failure['message']}\n  {failure['log']}",
                markup=False,
                soft_wrap=True,
            )
    console.print(f"\n{summary(plan, default_jobs(study))}")
