"""How soon: the first epoch in whose validation a metric reaches a goal."""

from collections.abc import Iterable

from lightning_bench.bench.store.record import Epoch
from lightning_bench.reports.report import Cell, Column, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference, samples
from lightning_bench.reports.tables.footnotes import Notes


def first_epoch(
    curve: Iterable[Epoch], metric: str, goal: float, *, higher: bool = True
) -> int | None:
    """The first epoch of a learning curve that is as good as the goal; None if none is."""
    for point in curve:
        value = point.metrics.get(metric)
        if value is not None and (value >= goal if higher else value <= goal):
            return point.epoch
    return None


def table(request: Request, collected: samples.Samples) -> Table | None:
    """The epochs that each entry took, over its seeds.

    Where a run never got there, there is no mean: the cell says how many of them did.
    """
    wanted = [
        (dataset, metric, goal)
        for dataset, metrics in request.metrics.items()
        for metric, goal in request.study.epochs_to.items()
        if metric in metrics
    ]
    if not wanted:
        return None
    notes = Notes()
    rows = []
    for label, entry in request.grouped_entries().items():
        cells = [
            _cell(collected[label, dataset], metric, goal, request, notes)
            for dataset, metric, goal in wanted
        ]
        rows.append(Row(label=label, group=entry.group, cells=cells))
    return Table(
        id="epochs-to",
        title="Epochs to a goal",
        caption=(
            "The first epoch whose validation reaches the goal: mean ± half-width of the 95 %"
            " t-interval over seeds. Where not every run reached it there is no mean."
        ),
        columns=[_column(request, *each) for each in wanted],
        rows=rows,
        notes=notes.all(),
    )


def _cell(sample: samples.Sample, metric: str, goal: float, request: Request, notes: Notes) -> Cell:
    keys = [run.key for run in sample.runs]
    higher = request.higher_better(metric)
    curves = [record.curve for record in sample.done.values()]
    epochs = [first_epoch(curve, metric, goal, higher=higher) for curve in curves]
    reached = [epoch for epoch in epochs if epoch is not None]
    if not curves:
        return Cell(state=sample.state(metric), runs=keys)
    if len(reached) < len(curves):
        best = (max if higher else min)(
            (p.metrics[metric] for c in curves for p in c if metric in p.metrics), default=None
        )
        best_epoch = "no curve"
        if best is not None:
            best_epoch = f"the best of any run and epoch: {_shown(request, metric, best, 3)}"
        marks = [notes.mark(best_epoch)]
        state = f"{len(reached)} of {len(curves)}" if reached else "never"
        return Cell(state=state, notes=marks, runs=keys)
    found = inference.summarise(reached)
    return Cell(value=found.mean, sd=found.sd, low=found.low, high=found.high, n=found.n, runs=keys)


def _column(request: Request, dataset: str, metric: str, goal: float) -> Column:
    sign = "≥" if request.higher_better(metric) else "≤"
    shown = _shown(request, metric, goal)
    return Column(
        id=f"{dataset}/epochs-to/{metric}",
        title=f"{dataset}, {metric.replace('_', ' ')} {sign} {shown}",
        unit="epochs",
        kind="interval",
        dataset=dataset,
        higher_is_better=False,
        decimals=1,
    )


def _shown(request: Request, metric: str, value: float, digits: int = 6) -> str:
    """A value of a metric as tables print it."""
    percent = metric in request.percent
    return f"{value * 100:.{digits}g} %" if percent else f"{value:.{digits}g}"
