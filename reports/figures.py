"""Draw a report's figures: the same runs give the same bytes.

Made with Figure objects, without pyplot, so there is no global state and no display. Entries
differ in colour, line style and marker, for print in grey and for the colour-blind.
"""

import io
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter

from bench.record import Epoch
from reports.table import Column, Report, Run
from reports.text import shorten, spread

# Text and axes are drawn in this ink, which a page may replace by its own colour.
INK = "#1f2328"
# Okabe and Ito's palette without yellow, which is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a label may hold dollars
    "pdf.fonttype": 42,  # journals refuse matplotlib's Type 3
    "svg.hashsalt": "lightning-bench",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#8c959f",
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "axes.facecolor": "none",
    "figure.figsize": (6.0, 3.7),
    "figure.constrained_layout.use": True,
}


# Neither dates nor versions: the same runs give the same bytes.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}

Curves = dict[tuple[str, str], list[list[Epoch]]]


def files(
    report: Report, runs: Sequence[Run], kinds: Collection[str] = tuple(METADATA)
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each figure's files."""
    primary = {column.dataset: column for column in reversed(report.tables[0].columns)}
    curves: Curves = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.seed, run.key)):
        if run.state == "done" and run.record:
            curves[run.dataset, run.entry].append(run.record.curve)
    for figure in report.figures:
        with rc_context(STYLE), warnings.catch_warnings():
            # A glyph that the font lacks is drawn as a box: in a label that is enough.
            warnings.filterwarnings("ignore", "Glyph")
            canvas = Canvas()
            axes = canvas.add_subplot()
            if figure.kind == "curves":
                _curves(axes, report, curves, primary[figure.dataset])
            else:
                _size(axes, report, primary[figure.dataset])
            found = {f"{figure.name}.{kind}": _save(canvas, kind) for kind in kinds}
        yield from found.items()


def _save(canvas: Canvas, kind: str) -> bytes:
    file = io.BytesIO()
    paper = "none" if kind == "svg" else "white"
    canvas.savefig(file, format=kind, dpi=200, metadata=METADATA[kind], facecolor=paper)
    return file.getvalue()


def _curves(axes: Axes, report: Report, curves: Curves, column: Column) -> None:
    """The validation metric by epoch: mean over seeds, and a band over all of them."""
    metric = column.metric or ""
    for place, row in enumerate(report.tables[0].rows):
        by_epoch = [
            {point.epoch: point.metrics[metric] for point in curve if metric in point.metrics}
            for curve in curves[column.dataset or "", row.label]
        ]
        epochs = sorted(set.intersection(*map(set, by_epoch))) if by_epoch else []
        if not epochs:
            continue
        values = column.scale * np.array([[curve[epoch] for epoch in epochs] for curve in by_epoch])
        colour = COLOURS[place % len(COLOURS)]
        dashes: Any = LINES[place % len(LINES)]
        axes.plot(
            epochs,
            values.mean(axis=0),
            label=shorten(row.label, 28),
            color=colour,
            linestyle=dashes,
            linewidth=1.8,
            marker=MARKERS[place % len(MARKERS)],
            markersize=5,
            # Few markers, and not at the same epochs, so that they don't hide each other.
            markevery=(place % 3 if len(epochs) > 6 else 0, max(1, len(epochs) // 6)),
        )
        axes.fill_between(
            epochs, values.min(axis=0), values.max(axis=0), alpha=0.15, color=colour, linewidth=0
        )
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"validation {_label(column)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes)


def _size(axes: Axes, report: Report, column: Column) -> None:
    """The test metric against the parameter count, with intervals."""
    table = report.tables[0]
    place = table.columns.index(column)
    sizes = len(table.columns) - 1
    for number, row in enumerate(table.rows):
        cell, size = row.cells[place], row.cells[sizes]
        if cell.value is None or size.value is None:
            continue
        half = spread(cell, column)
        axes.errorbar(
            size.value,
            cell.value * column.scale,
            yerr=None if half is None else half * column.scale,
            fmt=MARKERS[number % len(MARKERS)],
            color=COLOURS[number % len(COLOURS)],
            capsize=3,
            markersize=7,
            linewidth=1.2,
            label=shorten(row.label, 28),
        )
    _front(axes, report, column)
    _size_axis(axes, [row.cells[sizes].value for row in table.rows])
    axes.set_ylabel(f"test {_label(column)}")
    _legend(axes)


def _front(axes: Axes, report: Report, column: Column) -> None:
    """A step line through the entries that no smaller one beats on average."""
    table = report.tables[0]
    place, sizes = table.columns.index(column), len(table.columns) - 1
    cells = [(row.cells[sizes].value, row.cells[place].value) for row in table.rows]
    known = [(size, value) for size, value in cells if size is not None and value is not None]
    sign = 1 if column.higher_is_better else -1
    front: list[tuple[float, float]] = []
    for size, value in sorted(known, key=lambda point: (point[0], -sign * point[1])):
        if not front or sign * value > sign * front[-1][1]:
            front.append((size, value))
    if len(front) > 1:
        x, y = zip(*front, strict=True)
        axes.step(
            x,
            [value * column.scale for value in y],
            where="post",
            color=INK,
            linewidth=1,
            linestyle=":",
            label="Pareto front",
            zorder=1,
        )


def _size_axis(axes: Axes, sizes: Sequence[float | None]) -> None:
    """Parameters with k or M at the ticks, on a log scale where they differ by much."""
    known = [size for size in sizes if size]
    if max(known) > 4 * min(known):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif max(known) == min(known):
        axes.set_xlim(0.5 * min(known), 1.5 * max(known))
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlabel("parameters")


def _legend(axes: Axes) -> None:
    # "outside" makes constrained layout keep room for it.
    if isinstance(axes.figure, Canvas):
        axes.figure.legend(loc="outside right center")


def _label(column: Column) -> str:
    unit = f" [{column.unit}]" if column.unit else ""
    return f"{(column.metric or '').replace('_', ' ')}{unit}"
