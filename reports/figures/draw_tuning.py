"""Draw what a study's searches did: best so far, expected best, and score against cost."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator

from lightning_bench.reports.figures.figure_data import FigureData
from lightning_bench.reports.figures.style import COLOURS, LINES, MARKERS, metric_label, plain_ticks
from lightning_bench.reports.report import Column, Figure, SearchLines
from lightning_bench.reports.text.numbers import shorten


def draw(axes: Axes, figure: Figure, data: FigureData, column: Column) -> None:
    """One of the three kinds, for the searches on the figure's data set."""
    entries = [row.label for row in data.tables[0].measured]
    for search in data.searches:
        if search.dataset == figure.dataset:
            place = entries.index(search.entry)
            if figure.kind == "front":
                _points(axes, search, place, column)
            else:
                _line(axes, figure.kind, search, place, column)
    axes.set_ylabel(f"validation {metric_label(column)}")
    if figure.kind == "front":
        axes.set_xlabel({"parameters": "parameters"}.get(_cost(data), "training µs an example"))
        axes.set_xscale("log")
        plain_ticks(axes)
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    else:
        axes.set_xlabel("trials" if figure.kind == "best" else "random trials, the recipe's aside")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _line(axes: Axes, kind: str, search: SearchLines, place: int, column: Column) -> None:
    values = search.best if kind == "best" else search.expected
    known = [(i + 1, v * column.scale) for i, v in enumerate(values) if v is not None]
    if not known:
        return
    x, y = zip(*known, strict=True)
    dashes: Any = LINES[place % len(LINES)]
    axes.plot(
        x,
        y,
        label=shorten(search.entry, 28),
        color=COLOURS[place % len(COLOURS)],
        linestyle=dashes,
        linewidth=1.8,
        marker=MARKERS[place % len(MARKERS)],
        markersize=5,
        markevery=(place % 3 if len(x) > 6 else 0, max(1, len(x) // 6)),
        # The best so far holds from its trial on; an expectation is a point for each n.
        drawstyle="steps-post" if kind == "best" else "default",
    )


def _points(axes: Axes, search: SearchLines, place: int, column: Column) -> None:
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    for points, alpha in ((search.trials, 0.35), (search.front, 1.0)):
        if points:
            x, y = zip(*points, strict=True)
            scores = [value * column.scale for value in y]
            axes.scatter(x, scores, color=colour, marker=marker, alpha=alpha, linewidths=0)
    if search.front:
        x, y = zip(*search.front, strict=True)
        scores = [value * column.scale for value in y]
        label = shorten(search.entry, 28)
        axes.step(x, scores, where="post", color=colour, linewidth=1.2, label=label)


def _cost(data: FigureData) -> str:
    return next((search.cost for search in data.searches if search.cost), "")
