"""How far the searches of a study are: what `bench plan` and `bench status` show of them."""

from typing import TYPE_CHECKING, Any

from lightning_bench.common.messages import duration

if TYPE_CHECKING:
    from rich.console import Console

    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.trial import Ledger


def show(console: "Console", plan: "Plan") -> None:
    """A table with one line a search, in the page's order."""
    from rich.table import Table

    if not plan.searches:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("search", overflow="fold")
    table.add_column("data", no_wrap=True)
    for column in ("trials", "done", "pruned", "failed", "device time"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for ledger in plan.searches:
        counts = [str(ledger.count(state) or "") for state in ("done", "pruned", "failed")]
        trials = f"{len(ledger.trials)} of {ledger.budget.trials}"
        spent = duration(3600 * ledger.device_h) if ledger.device_h else ""
        table.add_row(ledger.name, ledger.dataset, trials, *counts, spent, state(ledger))
    console.print(table)
    console.print()


def state(ledger: "Ledger") -> str:
    """Where a search stands, in words."""
    return "; ".join(filter(None, [_reached(ledger), ledger.outdated_summary]))


def _reached(ledger: "Ledger") -> str:
    if ledger.closed:
        if ledger.best is None:
            return "finished without a result: no trial has a value, so there are no final runs"
        why = " (its device-hours are spent)" if ledger.exhausted else ""
        seed = ledger.final_seed
        runs = "the final runs take" if seed is None else f"seed {seed} takes"
        return f"finished{why}: {runs} the values of trial {ledger.best.number}"
    parts = []
    if ledger.running:
        parts.append(f"{ledger.running} running")
    if ledger.interrupted:
        parts.append(f"{ledger.interrupted} interrupted")
    return ", ".join(parts) or ("started" if ledger.trials else "not started")


def rows(plan: "Plan") -> list[dict[str, Any]]:
    """The same as data."""
    return [
        {
            "name": f"{ledger.entry}/{ledger.dataset}/search"
            + ("" if ledger.repeat is None else f"/{ledger.repeat}"),
            "entry": ledger.entry,
            "data": ledger.dataset,
            "state": state(ledger),
            "budget": {"trials": ledger.budget.trials, "device_h": ledger.budget.device_h},
            "trials": len(ledger.trials),
            **{state: ledger.count(state) for state in ("done", "pruned", "failed")},
            "retried": sum(trial.retries > 0 for trial in ledger.trials),
            "running": ledger.running,
            "interrupted": ledger.interrupted,
            "outdated": ledger.outdated,
            "device_h": ledger.device_h,
            "chosen": ledger.chosen,
        }
        for ledger in plan.searches
    ]


def failures(console: "Console", plan: "Plan") -> None:
    """One line for each trial without a value, and where to read on."""
    for ledger in plan.searches:
        for trial in ledger.trials:
            if trial.state == "failed":
                log = f"\n  runs/{trial.runs[-1]}/log.txt" if trial.runs else ""
                console.print(
                    f"{ledger.name}, {ledger.dataset}, trial {trial.number}: {trial.reason}{log}",
                    markup=False,
                    soft_wrap=True,
                )
