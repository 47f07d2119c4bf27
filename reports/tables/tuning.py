"""Tables of a study's searches: the ledger, what was chosen, what mattered, and the front."""

import math
from collections.abc import Sequence

from lightning_bench.bench.store.trial import Ledger, with_fewer_trials
from lightning_bench.reports.report import Cell, Column, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import tuning_effort
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.tables.published_rows import grouped
from lightning_bench.reports.text.tuning_lines import chosen_value


def tables(request: Request) -> list[Table | None]:
    """All that there is to show of the searches; nothing in them is a result."""
    if not request.searches:
        return []
    # An entry's searches one below the other, where these are several.
    order = list(request.entries)
    searches = sorted(request.searches, key=lambda x: (order.index(x.entry), x.repeat or 0))
    if any(ledger.repeat for ledger in searches):
        request = request.model_copy(update={"searches": searches})
    return [_ledger(request), _chosen(request), _importances(request), _front(request)]


def waiting(request: Request) -> dict[tuple[str, str], str]:
    """Why an entry has no final runs on a data set yet, where its search is the reason."""
    found: dict[tuple[str, str], str] = {}
    for ledger in request.searches:
        if not ledger.closed:
            tried = f"{len(ledger.trials)} of {ledger.budget.trials} trials"
            which = "its search" if ledger.repeat is None else f"search {ledger.repeat}"
            waits = f"waits for {which} ({tried} are over)"
            found.setdefault((ledger.entry, ledger.dataset), waits)
        elif ledger.best is None:
            found[ledger.entry, ledger.dataset] = "no trial of its search has a value"
    return found


def _ledger(request: Request) -> Table:
    notes = Notes()
    rows = []
    for ledger in request.searches:
        again = [trial for trial in ledger.trials if trial.retries]
        counts = [len(ledger.trials), *(ledger.count(s) for s in ("done", "pruned", "failed"))]
        marks = []
        if ledger.exhausted and len(ledger.trials) < ledger.budget.trials:
            marks.append(notes.mark("its device-hours were spent before its trials"))
        elif not ledger.closed:
            marks.append(notes.mark(f"not over: {ledger.budget.trials} trials are planned"))
        failed = [trial.reason for trial in ledger.trials if trial.state == "failed"]
        why = [notes.mark(reason) for reason in dict.fromkeys(failed)]
        keys = [key for trial in ledger.trials for key in trial.keys]
        cells = [Cell(value=count, n=count, runs=keys[:1]) for count in [*counts, len(again)]]
        cells[0] = cells[0].model_copy(update={"notes": marks})
        cells[3] = cells[3].model_copy(update={"notes": why})
        cells.append(Cell(value=ledger.device_h, n=len(ledger.trials)))
        rows.append(_row(request, ledger, cells))
    most_h = max(ledger.device_h for ledger in request.searches)
    unit, scale = ("device-h", 1.0) if most_h >= 1 else ("device-min", 60.0)
    digits = 2 - math.floor(math.log10(most_h * scale)) if most_h > 0 else 2
    names = ("Trials", "Done", "Pruned", "Failed", "Begun again")
    columns = [_plain(name.lower().replace(" ", "-"), name) for name in names]
    unequal = with_fewer_trials(request.searches)
    budgets = "The budgets were not equal." if unequal else "Every entry had the same budget."
    spent = Column(
        id="device", title="Spent", unit=unit, kind="number", scale=scale,
        decimals=min(max(digits, 0), 2),
    )  # fmt: skip
    return Table(
        id="ledger",
        title="What tuning cost",
        caption=(
            "Trials of each search and the device time of all of them, pruned, failed and retried "
            f"ones too. {budgets}"
        ),
        columns=[*columns, spent],
        rows=grouped(rows),
        notes=notes.all(),
    )


def _chosen(request: Request) -> Table | None:
    over = [ledger for ledger in request.searches if ledger.chosen is not None]
    if not over:
        return None
    notes, names = Notes(), list(dict.fromkeys(name for x in over for name in x.space))
    rows = []
    for ledger in over:
        assert ledger.chosen is not None
        assert ledger.best is not None
        cells = []
        for name in names:
            if name not in ledger.chosen:
                mark = (
                    "not tuned for this entry" if name not in ledger.space else "has no part here"
                )
                cells.append(Cell(notes=[notes.mark(mark)]))
                continue
            value = ledger.chosen[name]
            edge = ledger.space[name].edge(value)
            marks = [notes.mark(f"at the {edge} end of {ledger.space[name]}")] if edge else []
            cells.append(Cell(printed=chosen_value(value), notes=marks))
        which = "the recipe's own" if ledger.best.number == 0 else str(ledger.best.number)
        rows.append(_row(request, ledger, [Cell(printed=which), *cells]))
    return Table(
        id="chosen",
        title="What was chosen",
        caption=(
            f"The hyperparameters of each search's best trial, which {_have(request)}. "
            "The same stand in the chosen pages beside this report, which bench run takes."
        ),
        columns=[_plain("trial", "Trial"), *(_plain(name, name) for name in names)],
        rows=grouped(rows),
        notes=notes.all(),
    )


def _have(request: Request) -> str:
    """Which final runs have what a search chose."""
    if request.searches[0].repeat is None:
        return "all final runs have"
    return "the final run of one seed has"


def _importances(request: Request) -> Table | None:
    found = [(ledger, tuning_effort.importances(ledger)) for ledger in request.searches]
    names = list(dict.fromkeys(name for _, shares in found for name in shares))
    if not names:
        return None
    notes, rows = Notes(), []
    for ledger, shares in found:
        few = (
            notes.mark(f"fewer than {tuning_effort.LEAST_TRIALS} finished trials")
            if not shares
            else ""
        )
        cells = [
            Cell(value=shares[name], n=ledger.count("done"))
            if name in shares
            else Cell(notes=[few] if few and name in ledger.space else [])
            for name in names
        ]
        rows.append(_row(request, ledger, cells))
    column = [
        Column(id=name, title=name, unit="%", kind="number", scale=100.0, decimals=0)
        for name in names
    ]
    return Table(
        id="importance",
        title="What mattered",
        caption=(
            "Share of each hyperparameter in what sets the best tenth of a search's finished "
            "trials apart (PED-ANOVA), of those that every trial has. It tells of this space and "
            "these trials, not of the model as such."
        ),
        columns=column,
        rows=grouped(rows),
        notes=notes.all(),
    )


def _front(request: Request) -> Table | None:
    """With a cost: the trials that no other beats in both, cheapest first."""
    cost = request.searches[0].budget.cost
    if cost is None:
        return None
    rows = []
    for ledger in request.searches:
        percent = 100.0 if ledger.metric in request.percent else 1.0
        for trial in ledger.front():
            assert trial.value is not None
            assert trial.cost is not None
            frozen = " (chosen)" if ledger.best and trial.number == ledger.best.number else ""
            values = ", ".join(
                f"{name} {chosen_value(value)}" for name, value in trial.params.items()
            )
            row = _row(
                request,
                ledger,
                [
                    Cell(printed=f"{trial.number}{frozen}"),
                    Cell(printed=f"{trial.value * percent:.4g}"),
                    Cell(printed=f"{trial.cost:,.6g}"),
                    Cell(printed=values),
                ],
            )
            rows.append(row)
    unit = {"parameters": "", "train_us_per_example": "µs an example"}[cost]
    shown_cost = {"parameters": "Parameters", "train_us_per_example": "Training"}[cost]
    return Table(
        id="front",
        title="Validation against cost",
        caption="Trials that none beats in both; scores of the validation split, and no results.",
        columns=[
            _plain("trial", "Trial"),
            _plain("value", "Validation"),
            _plain("cost", shown_cost).model_copy(update={"unit": unit}),
            _plain("values", "Values"),
        ],
        rows=grouped(rows),
    )


def _row(request: Request, ledger: Ledger, cells: Sequence[Cell]) -> Row:
    several = len(request.metrics) > 1
    group = ledger.dataset if several else request.entries[ledger.entry].group
    return Row(label=ledger.name, group=group, cells=list(cells))


def _plain(name: str, title: str) -> Column:
    return Column(id=name, title=title, kind="number", decimals=0)
