"""How figures look: ink, palette, and what tells entries apart.

Entries differ in colour, line style and marker, for print in grey and for the colour-blind.
"""

import io
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from lightning_bench.reports import compat
from lightning_bench.reports.figures.captions import FEW
from lightning_bench.reports.figures.colours import INK, PAPER
from lightning_bench.reports.figures.figure_data import FigureData
from lightning_bench.reports.report import Column, Row
from lightning_bench.reports.text.numbers import shorten, spread

# Okabe and Ito's palette without yellow, which is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
LINES = ("-", "--", "-.", ":", (0, (8, 2, 2, 2, 2, 2)), (0, (3, 1, 1, 1, 1, 1)))
GREY = "#8c959f"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

#: Low, middle and high of where something stands.
Span = tuple[float, float, float]

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
    "grid.color": GREY,
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
}


# Neither dates nor versions: the same runs give the same bytes.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def look(number: int) -> dict[str, Any]:
    """Colour and marker of an entry: beyond the eighth the same shapes again, hollow."""
    colour = COLOURS[number % len(COLOURS)]
    hollow = number // len(MARKERS) % 2
    return {
        "color": colour,
        "marker": MARKERS[number % len(MARKERS)],
        "markerfacecolor": PAPER if hollow else colour,
    }


def looks(
    data: FigureData, column: Column
) -> tuple[list[tuple[Row, dict[str, Any], str]], list[Row]]:
    """The best few measured rows, or all, with look and label of their own; the others."""
    rows = data.tables[0].measured
    place = data.tables[0].columns.index(column)
    sign = -1 if column.higher_is_better else 1

    def rank(row: Row) -> float:
        value = row.cells[place].value
        return math.inf if value is None else sign * value

    best = {row.label for row in sorted(rows, key=rank)[:FEW]}
    own = [
        (row, {**look(n), "linestyle": LINES[n % len(LINES)], "zorder": 3}, shorten(row.label, 28))
        for n, row in enumerate(rows)
        if row.label in best
    ]
    return own, [row for row in rows if row.label not in best]


def draw_others(axes: Axes, lines: Sequence[np.ndarray]) -> None:
    """The lines of all others, each n×2, in grey and with one label; one artist, which is quick."""
    if lines:
        label = f"{len(lines)} others"
        axes.add_collection(
            LineCollection(lines, colors=GREY, linewidths=0.6, zorder=1, label=label)
        )
        axes.autoscale_view()


def draw_points(
    axes: Axes, data: FigureData, column: Column, place: Callable[[Row], Span | None]
) -> list[tuple[float, float]]:
    """Scatter each row's value, with error bars, over its place, which may be a span.

    The others are grey, with one label. Returns the points as (x, y).
    """
    number = data.tables[0].columns.index(column)
    points: list[tuple[float, float]] = []

    def scatter(rows: Sequence[Row], bar_width: float, **style: Any) -> None:
        upright, across, here = [], [], []
        for row in rows:
            span, cell = place(row), row.cells[number]
            if span is None or cell.value is None:
                continue
            low, x, high = span
            y, half = column.scale * cell.value, column.scale * (spread(cell, column) or 0.0)
            here.append((x, y))
            upright += [((x, y - half), (x, y + half))] if half > 0 else []
            across += [((low, y), (high, y))] if high > low else []
        if here:
            axes.plot(*zip(*here, strict=True), **style | {"linestyle": "none"})
            look_of_bars = {"colors": style["color"], "linewidths": bar_width}
            below = style["zorder"] - 0.5
            axes.add_collection(LineCollection([*upright, *across], zorder=below, **look_of_bars))
        points.extend(here)

    own, others = looks(data, column)
    for row, style, label in own:
        scatter([row], 1.2, label=label, markersize=7, **style)
    grey = {"color": GREY, "marker": ".", "markersize": 3, "zorder": 1}
    scatter(others, 0.6, label=f"{len(others)} others", **grey)
    axes.autoscale_view()
    return points


def drawn(canvas: Canvas, kinds: Collection[str]) -> dict[str, bytes]:
    """The drawing as a file of each kind."""
    # Laid out once here: an engine of the canvas's own would draw all of it twice for each file.
    ConstrainedLayoutEngine().execute(canvas)
    files = {}
    for kind in kinds:
        file = io.BytesIO()
        with compat.fonts_without_layout() if kind == "pdf" else nullcontext():
            canvas.savefig(file, format=kind, dpi=200, metadata=METADATA[kind], facecolor=PAPER)
        files[kind] = file.getvalue()
    return files


def plain_ticks(axes: Axes) -> None:
    """Plain numbers at the ticks of logarithmic axes."""
    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            low, high = axis.get_view_interval()
            # Less than two decades have few major ticks, and minor ones run into each other.
            if getattr(axis.get_transform(), "base", 10) == 10 and high < 100 * low:
                few = high < 4 * low
                axis.set_major_locator(MaxNLocator(4) if few else LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())


def legend(axes: Axes) -> None:
    """The legend, beside the axes."""
    # "outside" makes the layout keep room for it.
    if isinstance(axes.figure, Canvas):
        axes.figure.legend(loc="outside right center")


def metric_label(column: Column) -> str:
    """A column's metric and its unit, for an axis."""
    unit = f" [{column.unit}]" if column.unit else ""
    return f"{(column.metric or '').replace('_', ' ')}{unit}"
