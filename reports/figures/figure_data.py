"""What a report's figures are drawn from, small enough to be sent to who draws."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from lightning_bench.reports.report import Figure, Report, SearchLines, Table


@dataclass(frozen=True)
class Sketch:
    """Results and, where there is one, the table across data sets; their cells without runs."""

    tables: list[Table]
    searches: Sequence[SearchLines]
    figures: Sequence[Figure]

    @classmethod
    def of(
        cls, tables: Iterable[Table], searches: Sequence[SearchLines], figures: Sequence[Figure]
    ) -> Self:
        """That of a report which may not be finished yet."""
        drawn = [_bare(table) for table in tables if table.id in ("results", "across")]
        return cls(drawn, searches, figures)


def of(report: Report) -> Sketch:
    """That of a report."""
    return Sketch.of(report.tables, report.searches, report.figures)


def _bare(table: Table) -> Table:
    rows = [
        row.model_copy(
            update={"cells": [cell.model_copy(update={"runs": []}) for cell in row.cells]}
        )
        for row in table.rows
    ]
    return table.model_copy(update={"rows": rows})
