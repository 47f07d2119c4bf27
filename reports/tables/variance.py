"""Table of the sources of variance: how much of the spread over seeds each one makes."""

from collections.abc import Sequence

from lightning_bench.bench.study.randomness import TITLES
from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import variance
from lightning_bench.reports.statistics.variance import ALL, SourceSpread, Spreads
from lightning_bench.reports.tables import failed_attempts
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.text.numbers import device_time, joined, number

TOGETHER = "parts together"


def table(request: Request, spreads: Spreads, runs: Sequence[ReportedRun]) -> Table | None:
    """SDs with their intervals, a row a source, for each entry; None where none varied alone."""
    if not spreads:
        return None
    notes = Notes()
    columns = [_column(request, dataset) for dataset in spreads]
    rows = []
    for entry in request.grouped_entries():
        of_entry = [spreads[dataset].get(entry, {}) for dataset in spreads]
        found = {title for parts in of_entry for title in parts}
        for title in [title for title in titles_of(spreads) if title in found]:
            pairs = zip(of_entry, columns, strict=True)
            cells = [_cell(parts.get(title), column, notes) for parts, column in pairs]
            rows.append(Row(label=title, group=entry, cells=cells))
        if found:
            wholes = [variance.together(parts) for parts in of_entry]
            rows.append(Row(label=TOGETHER, group=entry, cells=[Cell(value=w) for w in wholes]))
    return Table(
        id="variance",
        title="What the spread over seeds is made of",
        caption=(
            "SD of the test metric over seeds where one source of randomness goes by the seed and"
            " the others stay at the first seed's, with its 95 % interval (chi-square, which takes"
            f" the noise to be near normal); {ALL}: the runs of the main table; {TOGETHER}: the"
            f" root of the sum of squares, equal to {ALL} where the sources don't interact."
        ),
        columns=columns,
        rows=rows,
        notes=[*notes.all(), _cost([run for run in runs if run.varied])],
    )


def _cost(runs: Sequence[ReportedRun]) -> Note:
    """What the further runs took, which is in no other table."""
    took = device_time(failed_attempts.total(runs)[0])
    return Note(text=f"{len(runs)} runs beside those of the main table; device time: {took}.")


def titles_of(spreads: Spreads) -> list[str]:
    """The sources that were varied of any entry, and all at once, in the order of columns."""
    found = {title for of in spreads.values() for parts in of.values() for title in parts}
    return [title for title in [*TITLES.values(), ALL] if title in found]


def findings(request: Request, spreads: Spreads) -> list[str]:
    """The sources in a line for each data set, pooled over entries, the largest first."""
    sentences = []
    for dataset, of_entries in spreads.items():
        metric = request.metrics[dataset][0]
        scale, unit = (100, " points") if metric in request.percent else (1, "")
        sds = {title: variance.pooled(of_entries, title) or 0.0 for title in titles_of(spreads)}
        whole = sds.pop(ALL, None)
        ordered = sorted(sds, key=lambda title: -sds[title])
        listed = joined([f"{title} {sds[title] * scale:.2f}" for title in ordered])
        sentence = f"On {dataset} the SD of {metric.replace('_', ' ')} over seeds is {listed}{unit}"
        sentence += " where one source varies alone"
        sentence += f", {whole * scale:.2f} where all do" if whole is not None else ""
        sentences.append(f"{sentence} (root mean square over entries).")
    return sentences


def _column(request: Request, dataset: str) -> Column:
    metric = request.metrics[dataset][0]
    percent = metric in request.percent
    return Column(
        id=dataset,
        title=dataset,
        unit="points" if percent else "",
        kind="number",
        metric=metric,
        scale=100.0 if percent else 1.0,
        decimals=2,
    )


def _cell(found: SourceSpread | None, column: Column, notes: Notes) -> Cell:
    if found is None:
        return Cell(notes=[notes.mark("nothing of it to vary, or runs are missing")])
    text = number(found.sd, column)
    if found.low is None or found.high is None:
        same = notes.mark(f"all {found.n} runs gave the same result")
        return Cell(value=found.sd, n=found.n, printed=text, notes=[same])
    text += f" ({number(found.low, column)}–{number(found.high, column)})"
    return Cell(value=found.sd, low=found.low, high=found.high, n=found.n, printed=text)
