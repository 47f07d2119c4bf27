"""Throughput and core-days beside those in print, which are of other machines."""

import math

from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import PublishedRow, Request
from lightning_bench.reports.statistics.samples import Samples
from lightning_bench.reports.tables import failed_attempts, speed
from lightning_bench.reports.tables.footnotes import Notes

#: What a page calls them in `published:`, as it calls `parameters`.
THROUGHPUT, CORE_DAYS = "throughput", "core_days"


def table(request: Request, samples: Samples) -> Table | None:
    """Ours and the printed, each with its unit; None where the page maps no printed cost."""
    printed = [row for row in request.published if {THROUGHPUT, CORE_DAYS} & row.cells.keys()]
    if not printed:
        return None
    notes = Notes()
    kinds = [kind for kind in (THROUGHPUT, CORE_DAYS) if any(kind in row.cells for row in printed)]
    by_label = {row.label: row for row in printed}
    rows = [
        Row(
            label=label,
            group=entry.group,
            cells=[
                cell
                for kind in kinds
                for cell in (
                    _ours(kind, label, request, samples, notes),
                    _printed(kind, by_label.get(entry.published)),
                )
            ],
        )
        for label, entry in request.grouped_entries().items()
    ]
    reproduced = {entry.published for entry in request.entries.values()}
    rows += [
        Row(
            label=row.label,
            group=row.group,
            source="published",
            cite=row.cite,
            cells=[cell for kind in kinds for cell in (Cell(), _printed(kind, row))],
        )
        for row in printed
        if row.label not in reproduced
    ]
    columns = [column for kind in kinds for column in _columns(kind, request, rows, kinds)]
    groups = list(dict.fromkeys(row.group for row in rows))
    return Table(
        id="printed-costs",
        title="Throughput and core-days beside the print",
        caption=(
            "Measured here and as printed, of TPUv3 cores; the machines differ, so that neither is"
            " divided by the other. Core-days here are of all runs of an entry, with pre-training"
            " where it was done here; those in print are of pre-training alone."
        ),
        columns=columns,
        rows=sorted(rows, key=lambda row: groups.index(row.group)),
        notes=notes.all() + [Note(text=f"Printed: {row.cite}.") for row in printed[:1]],
    )


def _ours(kind: str, label: str, request: Request, samples: Samples, notes: Notes) -> Cell:
    if kind == THROUGHPUT:
        for dataset in request.metrics:
            if span := speed.inference(request, dataset).get(label):
                return Cell(value=span[1], low=span[0], high=span[2])
        return Cell(state="not measured")
    runs = [run for place, sample in samples.items() if place[0] == label for run in sample.runs]
    days = failed_attempts.core_days([*request.before.get(label, []), *runs])
    marks = []
    if request.entries[label].weights and days is not None:
        marks = [notes.mark("starts from published weights, whose pre-training is not in it")]
    return Cell(value=days, notes=marks)


def _printed(kind: str, row: PublishedRow | None) -> Cell:
    value = row.cells.get(kind) if row else None
    return Cell(value=value.value, printed=value.text) if value else Cell()


def _columns(kind: str, request: Request, rows: list[Row], kinds: list[str]) -> list[Column]:
    place = 2 * kinds.index(kind)
    known = [row.cells[place].value for row in rows if row.cells[place].value]
    digits = 2 - math.floor(math.log10(min(filter(None, known)))) if known else 2
    decimals = min(max(digits, 0), 6)
    if kind == THROUGHPUT:
        unit = speed.unit(request).partition("[")[2].removesuffix("]")
        ours, titles, printed = unit or "examples/s", "Throughput", "images/s/core"
    else:
        ours, titles, printed = "core-days", "All of it", "TPUv3 days"
    return [
        Column(id=kind, title=titles, unit=ours, kind="number", decimals=decimals),
        Column(id=f"{kind}-printed", title="Printed", unit=printed, kind="number", decimals=0),
    ]
