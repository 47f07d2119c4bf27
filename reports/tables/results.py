"""The main table: nothing in it varies when the same runs give the same metrics."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lightning_bench.bench.study.class_metrics import CLASS_METRICS
from lightning_bench.common.messages import ranges
from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference, samples
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.statistics.samples import not_kept
from lightning_bench.reports.tables import published_rows, training_devices, tuning
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.text import seeds_vary
from lightning_bench.reports.text.numbers import heading

_FLOPS = Column(id="flops", title="FLOPs", unit="G", kind="count", scale=1e-9, decimals=3)
_LAYERS = Column(id="layers", title="Layers", kind="count", decimals=0)
_COUNTED = (
    "Counted from the modules, each with its head and input here, and never trained. FLOPs: of one"
    " example's forward pass, two a multiply-add. Layers: blocks of one kind, one after the other."
)


#: A column and its cells by entry.
Filled = tuple[Column, dict[str, Cell]]


def table(request: Request, collected: samples.Samples, rankings: Rankings) -> Table:
    """Every metric by entry and data set, and the parameter count."""
    notes = Notes()
    trained = not request.counted
    sizes: Filled
    filled = [
        *(_metric_columns(request, collected, rankings, notes) if trained else []),
        *(_average_columns(request, collected, notes) if trained else []),
        sizes := _parameter_column(request, collected, notes),
        *([] if trained else _count_columns(request)),
    ]
    columns = [column for column, _ in filled]
    ours = [
        Row(
            label=label,
            group=entry.group,
            cells=_remarked([cells[label] for _, cells in filled], entry.stands_for, notes),
        )
        for label, entry in request.grouped_entries().items()
    ]
    theirs = published_rows.rows(request, columns, notes)
    if audited := published_rows.audit(request, sizes[1], notes):
        column, ratios = audited
        columns.append(column)
        ours, theirs = _with_cells(ours, {}), _with_cells(theirs, ratios)
    caption = _caption(columns, collected.values(), bool(request.published))
    return Table(
        id="results",
        title="Results",
        caption=caption if trained else _COUNTED,
        columns=columns,
        rows=published_rows.grouped([*ours, *theirs]),
        notes=[
            *notes.all(),
            *training_devices.notes(collected),
            *_what_seeds_vary(request),
            *_class_metrics(columns),
        ],
    )


def _what_seeds_vary(request: Request) -> list[Note]:
    line = seeds_vary.line(request)
    return [Note(text=line)] if line else []


def _remarked(cells: list[Cell], stands_for: str, notes: Notes) -> list[Cell]:
    """The cells of a row that stands for another network, which the first one says."""
    if not stands_for:
        return cells
    mark = notes.mark(f"stands for {stands_for}, which is not trained at this scale")
    return [cells[0].model_copy(update={"notes": [*cells[0].notes, mark]}), *cells[1:]]


def _metric_columns(
    request: Request, collected: samples.Samples, rankings: Rankings, notes: Notes
) -> Iterator[Filled]:
    """Each metric of each data set; the primary ones with their top tie group."""
    waiting = tuning.waiting(request)
    remarks = training_devices.remarks(collected)
    for dataset, (primary, *others) in request.metrics.items():
        ranking = rankings.columns[dataset]
        for metric in (primary, *others):
            ranked = ranking.possible and metric == primary
            cells = {}
            for label in request.grouped_entries():
                sample = collected[label, dataset]
                absent = waiting.get((label, dataset), "not part of the plan")
                marks = [notes.mark(text) for text in _explain(sample, metric, absent)]
                if metric == primary and rankings.possible and label in ranking.unranked:
                    marks.append(notes.mark(f"not ranked: {ranking.unranked[label]}"))
                marks += [notes.mark(text) for text in remarks[label, dataset]]
                best = metric == primary and label in ranking.tied
                cells[label] = _estimate(sample, metric, best, marks)
                if sample.draws_nothing and cells[label].value is not None:
                    cells[label] = _over_examples(cells[label], sample, metric, notes)
            yield _metric_column(request, dataset, metric, cells.values(), ranked), cells


def _average_columns(
    request: Request, collected: samples.Samples, notes: Notes
) -> Iterator[Filled]:
    """The page's means over data sets."""
    for title, datasets in request.study.averages.items():
        cells = {
            label: _average(collected, label, request, datasets, notes)
            for label in request.grouped_entries()
        }
        metric = request.metrics[datasets[0]][0]
        column = _metric_column(request, title, metric, cells.values(), ranked=False, average=True)
        yield column, cells


def _parameter_column(request: Request, collected: samples.Samples, notes: Notes) -> Filled:
    """The parameter counts; its unit suits the printed ones too."""
    cells = {
        label: _parameters(label, request, collected, notes) for label in request.grouped_entries()
    }
    printed = [
        row.cells["parameters"].value for row in request.published if "parameters" in row.cells
    ]
    return _count_column([*cells.values(), *(Cell(value=value) for value in printed)]), cells


def _count_columns(request: Request) -> list[Filled]:
    """What else is counted of models that nobody trains."""
    counts = {label: request.counted.get(label) for label in request.entries}
    return [
        (_FLOPS, {label: Cell(value=c.flops if c else None) for label, c in counts.items()}),
        (_LAYERS, {label: Cell(value=c.layers if c else None) for label, c in counts.items()}),
    ]


def _with_cells(rows: Iterable[Row], cells: Mapping[str, Cell]) -> list[Row]:
    """The rows with a cell more each, by label."""
    return [
        row.model_copy(update={"cells": [*row.cells, cells.get(row.label, Cell())]}) for row in rows
    ]


def _estimate(sample: samples.Sample, metric: str, best: bool, marks: list[str]) -> Cell:
    keys = [run.key for run in sample.runs]
    values = list(sample.values(metric).values())
    if not values:
        return Cell(state=sample.state(metric), notes=marks, runs=keys)
    return _summary(values, best, marks, keys)


def _over_examples(cell: Cell, sample: samples.Sample, metric: str, notes: Notes) -> Cell:
    """A result that no seed varies: its interval is over the test examples, where it has one."""
    examples = next(iter(sample.done.values())).scored
    text = "one result for all seeds, as nothing is trained"
    update: dict[str, object] = {}
    if metric == "accuracy" and cell.value is not None and examples:
        text += f"; ± is half the 95 % interval (Wilson) over its {examples:,} test examples"
        update["low"], update["high"] = inference.share_of_examples(cell.value, examples)
    return cell.model_copy(update={**update, "notes": [*cell.notes, notes.mark(text)]})


def _summary(values: Sequence[float], best: bool, marks: list[str], keys: list[str]) -> Cell:
    found = inference.summarise(values)
    return Cell(
        value=found.mean,
        sd=found.sd,
        low=found.low,
        high=found.high,
        n=found.n,
        best=best,
        notes=marks,
        runs=keys,
    )


def _average(
    collected: samples.Samples, entry: str, request: Request, datasets: Sequence[str], notes: Notes
) -> Cell:
    """The mean over data sets, taken for each seed; the interval is over seeds."""
    metric = request.metrics[datasets[0]][0]
    here = [collected[entry, dataset] for dataset in datasets]
    keys = [run.key for sample in here for run in sample.runs]
    values = [sample.values(metric) for sample in here]
    seeds = sorted(set.intersection(*map(set, values)))
    planned = {run.seed for sample in here for run in sample.runs}
    marks = []
    if len(seeds) < len(planned):
        which = f"{ranges(seeds)} only" if seeds else "none"
        marks.append(notes.mark(f"seeds with a result on all {len(datasets)} data sets: {which}"))
    if not seeds:
        return Cell(state="incomplete", notes=marks, runs=keys)
    means = [math.fsum(found[seed] for found in values) / len(values) for seed in seeds]
    return _summary(means, False, marks, keys)


def _explain(sample: samples.Sample, metric: str, absent: str) -> list[str]:
    """Why a cell rests on fewer runs than were planned; the seeds it has are part of the note."""
    if not sample.runs:
        return [absent]
    reasons: dict[str, list[int]] = {}
    values = sample.values(metric)
    for run in sample.runs:
        if run.state == "done" and (run.seed in values or sample.draws_nothing):
            continue
        if run.state == "done" and not_kept(run.record, metric):
            reason = not_kept(run.record, metric)
        elif run.state == "done":
            reason = f"has no finite {metric}"
        elif run.record and run.record.failure and run.state == "failed":
            failure = run.record.failure
            reason = f"failed ({failure.kind}: {failure.message})"
        else:
            reason = f"{run.state} ({run.reason})" if run.reason else run.state
        reasons.setdefault(reason, []).append(run.seed)
    if not reasons:
        return []
    what = "; ".join(
        f"seed{'s' * (len(seeds) > 1)} {ranges(seeds)} {reason}"
        for reason, seeds in reasons.items()
    )
    return [f"{len(values)} of {len(sample.runs)} runs: {what}"]


def _metric_column(
    request: Request,
    title: str,
    metric: str,
    cells: Iterable[Cell],
    ranked: bool,
    average: bool = False,
) -> Column:
    percent = metric in request.percent
    scale = 100.0 if percent else 1.0
    halves = [
        (cell.high - cell.low) / 2 * scale
        for cell in cells
        if cell.high is not None and cell.low is not None and cell.high > cell.low
    ]
    # Two digits of the smallest uncertainty, within what papers print.
    least = 1 if percent else 2
    digits = 1 - math.floor(math.log10(min(halves))) if halves else 2
    return Column(
        id=f"average/{title}" if average else f"{title}/{metric}",
        title=title,
        unit="%" if percent else "",
        kind="interval",
        dataset=None if average else title,
        metric=metric,
        higher_is_better=None if metric in request.neutral else request.higher_better(metric),
        ranked=ranked,
        scale=scale,
        decimals=min(max(digits, least), 2 if percent else 4),
    )


def _parameters(entry: str, request: Request, collected: samples.Samples, notes: Notes) -> Cell:
    """The exact count; a range where data sets need different heads."""
    if entry in request.counted:
        return Cell(value=request.counted[entry].parameters, n=1)
    counts: dict[str, set[int]] = {}
    for dataset in request.metrics:
        done = collected[entry, dataset].done.values()
        counts[dataset] = {record.cost.parameters for record in done if record.cost}
    every = set().union(*counts.values())
    if not every:
        return Cell(state="unknown")
    marks = []
    if len(every) > 1:
        by_dataset = [
            f"{' or '.join(f'{count:,}' for count in sorted(found))} on {dataset}"
            for dataset, found in counts.items()
            if found
        ]
        marks.append(notes.mark(f"parameters: {', '.join(by_dataset)}"))
    low, high = (min(every), max(every)) if len(every) > 1 else (None, None)
    keys = [run.key for dataset in request.metrics for run in collected[entry, dataset].runs]
    return Cell(value=min(every), low=low, high=high, n=len(keys), notes=marks, runs=keys)


def _count_column(cells: Sequence[Cell]) -> Column:
    """Parameters in thousands or millions, three digits for the smallest."""
    values = [cell.value for cell in cells if cell.value is not None]
    largest = max((cell.high or cell.value for cell in cells if cell.value is not None), default=0)
    unit, scale = ("M", 1e-6) if largest >= 1e6 else ("k", 1e-3)
    smallest = min((value * scale for value in values if value > 0), default=1.0)
    return Column(
        id="parameters",
        title="Parameters",
        unit=unit,
        kind="count",
        scale=scale,
        decimals=min(max(2 - math.floor(math.log10(smallest)), 0), 3),
    )


def _class_metrics(columns: Iterable[Column]) -> list[Note]:
    """What the metrics of classes mean that stand in the table."""
    shown = dict.fromkeys(c.metric for c in columns if c.metric in CLASS_METRICS)
    texts = [f"{name.replace('_', ' ')}: {CLASS_METRICS[name].title}" for name in shown if name]
    return [Note(text=f"{'; '.join(texts)}.")] if texts else []


def _caption(
    columns: Sequence[Column], collected: Iterable[samples.Sample], beside_printed: bool
) -> str:
    counts = {len(sample.done) for sample in collected} - {0}
    how_many = ranges(sorted(counts)) or "no"
    shown = ", ".join(dict.fromkeys(heading(column) for column in columns if column.metric))
    text = f"Test {shown}: mean ± half-width of the 95 % t-interval over {how_many} seeds."
    if any(column.ranked for column in columns):
        text += " Bold: the top tie group, which holds every entry that is not shown to be worse."
    if beside_printed:
        text += " Published rows are as printed, and were never tested against ours."
    return text
