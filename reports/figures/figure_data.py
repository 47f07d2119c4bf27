"""What a report's figures are drawn from, small enough to be sent to the drawing process."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from lightning_bench.bench.store.record import Curve
from lightning_bench.reports.report import Column, Comparison, Figure, Report, SearchLines, Table
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
    comparisons: Sequence[Comparison] = ()  # of the pairs that figures show

    @classmethod
    def of(
        cls,
        tables: Iterable[Table],
        searches: Sequence[SearchLines],
        figures: Sequence[Figure],
        comparisons: Iterable[Comparison] = (),
    ) -> Self:
        """That of a report which may not be finished yet."""
        drawn = [_bare(table) for table in tables if table.id in ("results", "across")]
        shown = {(where, *sorted((a, b))) for figure in figures for where, a, b in figure.pairs}
        wanted = (p for p in comparisons if (p.dataset, *sorted((p.a, p.b))) in shown)
        return cls(drawn, searches, figures, tuple(wanted))

    def pairs(self, figure: Figure) -> list[Comparison]:
        """The comparisons that a figure shows, each turned as it shows it."""
        found = {}
        for pair in self.comparisons:
            for one in (pair, pair.turned()):
                found[one.dataset, one.a, one.b] = one
        return [found[pair] for pair in figure.pairs]


def of_report(report: Report) -> FigureData:
    """What the figures of a finished report are drawn from."""
    return FigureData.of(report.tables, report.searches, report.figures, report.comparisons)


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
    #: The seeds' differences of each pair in the metric's own unit; where a figure is of the mean
    #: over data sets, those of the means.
    differences: dict[tuple[str, str], Floats] = field(default_factory=dict)


def series_of(data: FigureData, runs: Sequence[ReportedRun], figure: Figure) -> Series:
    """What a figure needs."""
    column = column_of(data, figure)
    if figure.kind == "curves":
        return Series(curves=_curves(runs, column))
    if figure.kind == "differences":
        return Series(differences=_differences(data, runs, figure, column))
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


def _differences(
    data: FigureData, runs: Sequence[ReportedRun], figure: Figure, column: Column
) -> dict[tuple[str, str], Floats]:
    """Of each pair by seed: on the figure's data set, or of the means over all."""
    metric = column.metric or ""
    datasets = {
        one.dataset for one in data.tables[0].columns if one.dataset and one.metric == metric
    }
    wanted = {figure.dataset} if figure.dataset else datasets
    shown = {entry for _, a, b in figure.pairs for entry in (a, b)}
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.dataset in wanted and run.entry in shown and run.state == "done" and run.record:
            value = run.record.metrics.get(metric, math.nan)
            if math.isfinite(value):
                found[run.entry][run.seed].append(value)
    means = {
        entry: {
            seed: math.fsum(values) / len(values)
            for seed, values in by_seed.items()
            if len(values) == len(wanted)
        }
        for entry, by_seed in found.items()
    }
    return {
        (a, b): np.array(
            [means[a][seed] - means[b][seed] for seed in sorted(means[a].keys() & means[b].keys())]
        )
        for _, a, b in figure.pairs
        if a in means and b in means
    }


def _scores(runs: Sequence[ReportedRun], column: Column) -> dict[str, Floats]:
    scores: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.state == "done" and run.record and not run.varied:
            value = run.record.metrics.get(column.metric or "", math.nan)
            if math.isfinite(value):
                scores[run.entry].append(value * column.scale)
    return {entry: np.sort(values) for entry, values in scores.items()}
