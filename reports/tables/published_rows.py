"""Printed figures beside ours: side by side, marked as published, and never mixed.

A published cell carries no n and no runs, takes no part in any test, and is shown as printed.
"""

import math
import re
from collections.abc import Mapping, Sequence

from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import PrintedValue, Request
from lightning_bench.reports.tables.footnotes import Notes

SOUND = 1.05  # a printed count is rounded, and heads differ


def rows(request: Request, columns: Sequence[Column], notes: Notes) -> list[Row]:
    """The request's published rows, in the report's columns."""
    printed_rows = []
    for published in request.published:
        cells = []
        for column in columns:
            printed = published.cells.get(column.id)
            remark = published.remarks.get(column.id)
            marks = [notes.mark(f"{published.cite}: {remark}")] if remark else []
            cells.append(_cell(printed, column, marks) if printed else Cell())
        printed_rows.append(
            Row(
                label=published.label,
                group=published.group,
                cells=cells,
                source="published",
                cite=published.cite,
            )
        )
    return printed_rows


def grouped(rows: Sequence[Row]) -> list[Row]:
    """Rows of one group together, in the order of first appearance."""
    groups = list(dict.fromkeys(row.group for row in rows))
    return sorted(rows, key=lambda row: groups.index(row.group))


def _cell(printed: PrintedValue, column: Column, marks: list[str]) -> Cell:
    if printed.value is None:
        return Cell(printed=printed.text, notes=marks)
    value = _in_units(printed.value, column)
    # As printed, digits and all, unless our column has another unit.
    number = re.match(r"[\d.]+", printed.text)
    same = number and abs(value * column.scale - float(number[0])) < 1e-9
    return Cell(value=value, printed=printed.text if same else "", notes=marks)


def _in_units(value: float, column: Column) -> float:
    """A printed value in the record's units; a count is one already."""
    return value if column.kind == "count" else value / column.scale


def audit(
    request: Request, counted: Mapping[str, Cell], notes: Notes
) -> tuple[Column, dict[str, Cell]] | None:
    """Printed parameter counts over those of our modules, by printed row; None without a doubt.

    A row that no entry of ours reproduces has no ratio; where its own page says why its count
    can't be right, the cell says so.
    """
    column = Column(id="audit", title="Audit", unit="printed ÷ counted", kind="number")
    ours = {e.published: counted[label] for label, e in request.entries.items() if e.published}
    ratios = {}
    for row in request.published:
        printed, known = row.cells.get("parameters"), ours.get(row.label)
        if printed and printed.value and known and known.value:
            least, most = known.low or known.value, known.high or known.value
            ratio = printed.value / min(max(printed.value, least), most)
            sound = abs(math.log(ratio)) <= math.log(SOUND)
            claim = f"{row.cite} prints {printed.value:,.0f} parameters"
            marks = [] if sound else [notes.mark(f"{claim}; our module has {least:,.0f}")]
            ratios[row.label] = Cell(value=ratio, notes=marks)
        elif "parameters" in row.remarks:
            ratios[row.label] = Cell(state="doubtful")
    doubted = any(cell.notes or cell.state for cell in ratios.values())
    return (column, ratios) if doubted else None


def table(request: Request, main: Table) -> Table | None:
    """Ours less the printed value, for every entry that reproduces a printed row."""
    published = {row.label: row for row in reversed(request.published)}
    pairs = [
        (label, entry, published[entry.published])
        for label, entry in request.entries.items()
        if entry.published in published
    ]
    if not pairs:
        return None
    ids = {name for *_, theirs in pairs for name in theirs.cells}
    places = [
        place
        for place, column in enumerate(main.columns)
        if column.kind == "interval" and column.id in ids
    ]
    if not places:
        return None
    measured = {row.label: row for row in main.measured}
    differences = [
        Row(
            label=label,
            group=entry.group,
            cells=[
                _difference(measured[label].cells[place], theirs.cells, main.columns[place])
                for place in places
            ],
        )
        for label, entry, theirs in pairs
    ]
    sources = [f"{label}: {theirs.label} in {theirs.cite}" for label, _, theirs in pairs]
    return Table(
        id="against",
        title="Against the printed figures",
        caption=(
            "Ours less the printed value, ± half-width of the 95 % t-interval over our seeds alone:"
            " what is printed has a spread of its own, mostly untold."
        ),
        columns=[
            main.columns[place].model_copy(
                update={"signed": True, "higher_is_better": None, "ranked": False}
            )
            for place in places
        ],
        rows=differences,
        notes=[Note(text=f"Printed rows: {'; '.join(sources)}.")],
    )


def _difference(ours: Cell, theirs: dict[str, PrintedValue], column: Column) -> Cell:
    printed = theirs.get(column.id)
    if ours.value is None or printed is None or printed.value is None:
        return Cell()
    value = _in_units(printed.value, column)
    return Cell(
        value=ours.value - value,
        low=None if ours.low is None else ours.low - value,
        high=None if ours.high is None else ours.high - value,
        n=ours.n,
        runs=ours.runs,
    )
