"""What a report's figures are drawn from, small enough to be sent to the drawing process."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from lightning_bench.bench.store.record import Curve
from lightning_bench.reports.report import Column, Figure, Report, SearchLines, Table
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.text.numbers import thinned

CURVE_POINTS = 100  # of a line; more would only make the files large


@dataclass(frozen=True)
class FigureData:
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


def of_report(report: Report) -> FigureData:
    """What the figures of a finished report are drawn from."""
    return FigureData.of(report.tables, report.searches, report.figures)


def _bare(table: Table) -> Table:
    rows = [
        row.model_copy(
            update={"cells": [cell.model_copy(update={"runs": []}) for cell in row.cells]}
        )
        for row in table.rows
    ]
    return table.model_copy(update={"rows": rows})


@dataclass(frozen=True)
class Series:
    """By entry, in the column's printed unit; small enough to be sent to the drawing process."""

    #: Epochs that all of an entry's runs have, and the validation metric there, a row a run.
    curves: dict[str, tuple[list[int], Floats]] = field(default_factory=dict)
    #: The test metric of each run, on whatever data set.
    scores: dict[str, Floats] = field(default_factory=dict)


def series_of(data: FigureData, runs: Sequence[ReportedRun], figure: Figure) -> Series:
    """What a figure needs."""
    column = column_of(data, figure)
    if figure.kind == "curves":
        return Series(curves=_curves(runs, column))
    if figure.kind == "profile":
        return Series(scores=_scores(runs, column))
    return Series()


def column_of(data: FigureData, figure: Figure) -> Column:
    """The column of the main table that a figure is about."""
    table = data.tables[0]
    primary = {column.dataset: column for column in reversed(table.columns)}
    return primary[figure.dataset] if figure.dataset else table.columns[0]


def _curves(runs: Sequence[ReportedRun], column: Column) -> dict[str, tuple[list[int], Floats]]:
    by_entry: dict[str, list[Curve]] = defaultdict(list)
    here = [
        run
        for run in runs
        if run.dataset == column.dataset and run.state == "done" and not run.varied
    ]
    for run in sorted(here, key=lambda run: (run.seed, run.key)):
        if run.record and run.record.curve.metrics.get(column.metric or ""):
            by_entry[run.entry].append(run.record.curve)
    lines = {entry: _by_epoch(curves, column.metric or "") for entry, curves in by_entry.items()}
    return {entry: (epochs, column.scale * values) for entry, (epochs, values) in lines.items()}


def _by_epoch(curves: Sequence[Curve], metric: str) -> tuple[list[int], Floats]:
    """Epochs that all of these curves have, thinned, and the values of each one there."""
    epochs, columns = curves[0].epoch, [curve.metrics[metric] for curve in curves]
    if any(curve.epoch != epochs for curve in curves) or any(None in values for values in columns):
        known = [
            {e: value for e, value in zip(curve.epoch, values, strict=True) if value is not None}
            for curve, values in zip(curves, columns, strict=True)
        ]
        epochs = sorted(set.intersection(*map(set, known)))
        columns = [[curve[epoch] for epoch in epochs] for curve in known]
    kept = thinned(range(len(epochs)), CURVE_POINTS)
    return [epochs[place] for place in kept], np.array(columns, dtype=np.float64)[:, kept]


def _scores(runs: Sequence[ReportedRun], column: Column) -> dict[str, Floats]:
    scores: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.state == "done" and run.record and not run.varied:
            value = run.record.metrics.get(column.metric or "", math.nan)
            if math.isfinite(value):
                scores[run.entry].append(value * column.scale)
    return {entry: np.sort(values) for entry, values in scores.items()}
