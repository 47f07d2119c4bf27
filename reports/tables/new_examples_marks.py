"""Marks of the main table: whose claims hold on test examples drawn anew, too."""

from collections.abc import Iterable

from lightning_bench.reports.report import Comparison, Row, Table
from lightning_bench.reports.tables.footnotes import Notes

_TEXT = (
    "worse than the best mean also on test examples drawn anew (seeds' and examples' variances"
    " added); other claims are of these test examples"
)


def marked(main: Table, comparisons: Iterable[Comparison]) -> Table:
    """The table with a mark where an entry is worse than the best mean beyond these examples."""
    ahead = [
        pair if pair.verdict == "better" else pair.turned()
        for pair in comparisons
        if pair.on_new_examples
    ]
    beaten = {(pair.dataset, pair.metric, pair.a, pair.b) for pair in ahead}
    if not beaten:
        return main
    notes = Notes()
    notes.marks = {note.text: note.mark for note in main.notes if note.mark}
    places: dict[str, set[int]] = {}
    for place, column in enumerate(main.columns):
        cells = [(row.cells[place], row.label) for row in main.measured]
        leaders = [
            (cell.value if column.higher_is_better else -cell.value, label)
            for cell, label in cells
            if cell.best and cell.value is not None
        ]
        for _, label in cells if leaders else ():
            if (column.dataset, column.metric, max(leaders)[1], label) in beaten:
                places.setdefault(label, set()).add(place)
    if not places:
        return main
    mark = notes.mark(_TEXT)
    rows = [_with_mark(row, places.get(row.label, set()), mark) for row in main.rows]
    plain = [note for note in main.notes if not note.mark]
    return main.model_copy(update={"rows": rows, "notes": [*notes.all(), *plain]})


def _with_mark(row: Row, places: set[int], mark: str) -> Row:
    if not places or row.source != "measured":
        return row
    cells = [
        cell.model_copy(update={"notes": [*cell.notes, mark]}) if i in places else cell
        for i, cell in enumerate(row.cells)
    ]
    return row.model_copy(update={"cells": cells})
