"""What changed between two reports, and what changed behind them."""

from dataclasses import dataclass

from lightning_bench.reports.report import Cell, Column, Report, Table
from lightning_bench.reports.text import numbers


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was; an absent one is an empty text."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Difference:
    """Results that moved, and whatever could have moved them."""

    results: list[Change]
    causes: list[Change]


def difference(before: Report, after: Report) -> Difference:
    """Compare two reports of the same study, or of two studies that share entries."""
    return Difference(_results(before, after), _causes(before, after))


def _results(before: Report, after: Report) -> list[Change]:
    """Cells of the main table by (entry, column), where what is printed or its runs differ."""
    old, new = _printed(before.tables[0]), _printed(after.tables[0])
    names = dict.fromkeys([*old, *new])
    return [
        Change(name, old.get(name, ""), new.get(name, ""))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _printed(table: Table) -> dict[str, str]:
    return {
        f"{row.label}, {_name(column)}": _exactly(cell, column)
        for row in table.measured
        for column, cell in zip(table.columns, row.cells, strict=True)
    }


def _name(column: Column) -> str:
    return " ".join(part for part in (column.title, column.metric) if part)


def _exactly(cell: Cell, column: Column) -> str:
    """As printed, with as many digits as it takes to see any change."""
    value, half = numbers.parts(cell, column)
    digits = "" if cell.value is None else f" [{cell.value!r}, n = {cell.n}]"
    return f"{value} ± {half}{digits}" if half else f"{value}{digits}"


def _causes(before: Report, after: Report) -> list[Change]:
    """Lines of provenance that differ: recipe, seeds, data, code, hardware, software."""
    old = {fact.label: fact.text for fact in before.facts}
    new = {fact.label: fact.text for fact in after.facts}
    changes = []
    for label in dict.fromkeys([*old, *new]):
        if old.get(label) != new.get(label):
            shorter = _only_what_differs(old.get(label, ""), new.get(label, ""))
            changes.append(Change(label, *shorter))
    return changes


def _only_what_differs(before: str, after: str) -> tuple[str, str]:
    """Of two lists `a 1, b 2` the parts that the other lacks."""
    old, new = before.split(", "), after.split(", ")
    return (
        ", ".join(part for part in old if part not in new),
        ", ".join(part for part in new if part not in old),
    )
