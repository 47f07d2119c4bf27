"""Table of the sources of variance: how much of the spread over seeds each one makes."""

from lightning_bench.bench.study.randomness import TITLES
from lightning_bench.reports.report import Cell, Column, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import variance
from lightning_bench.reports.statistics.variance import ALL, Spread, Spreads
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.tables.published_rows import grouped
from lightning_bench.reports.text.numbers import joined, number

TOGETHER = "parts together"


def table(request: Request, spreads: Spreads) -> Table | None:
    """SDs with their intervals, an entry a row; None where nothing was varied alone."""
    if not spreads:
        return None
    notes = Notes()
    titles = titles_of(spreads)
    columns = [_column(title) for title in [*titles, TOGETHER]]
    rows = []
    for dataset, of_entries in spreads.items():
        percent = request.metrics[dataset][0] in request.percent
        shown = columns[0].model_copy(update={"scale": 100.0 if percent else 1.0})
        for entry, parts in of_entries.items():
            cells = [_cell(parts.get(title), shown, notes) for title in titles]
            if (whole := variance.together(parts)) is not None:
                cells.append(Cell(value=whole, printed=number(whole, shown)))
            group = dataset if len(spreads) > 1 else request.entries[entry].group
            rows.append(Row(label=entry, group=group, cells=cells))
    return Table(
        id="variance",
        title="What the spread over seeds is made of",
        caption=(
            f"{_metrics(request, spreads)}: SD over seeds where one source of randomness goes by"
            " the seed and the others stay at the first seed's, with its 95 % interval (chi-square,"
            f" which takes the noise to be near normal); {ALL}: the runs of the main table;"
            f" {TOGETHER}: the root of the sum of squares, equal to {ALL} where the sources don't"
            " interact."
        ),
        columns=columns,
        rows=grouped(rows),
        notes=notes.all(),
    )


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


def _metrics(request: Request, spreads: Spreads) -> str:
    names = {request.metrics[dataset][0].replace("_", " "): None for dataset in spreads}
    units = {request.metrics[dataset][0] in request.percent for dataset in spreads}
    unit = " in points" if units == {True} else ""
    return f"Test {joined(list(names))}{unit}"


def _column(title: str) -> Column:
    heading = title[:1].upper() + title[1:]
    return Column(id=title.replace(" ", "-"), title=heading, kind="number", decimals=2)


def _cell(found: Spread | None, column: Column, notes: Notes) -> Cell:
    if found is None:
        return Cell(notes=[notes.mark("nothing of it to vary here, or runs are missing")])
    text = number(found.sd, column)
    if found.low is None or found.high is None:
        same = notes.mark(f"all {found.n} runs gave the same result")
        return Cell(value=found.sd, n=found.n, printed=text, notes=[same])
    text += f" ({number(found.low, column)} to {number(found.high, column)})"
    return Cell(value=found.sd, low=found.low, high=found.high, n=found.n, printed=text)
