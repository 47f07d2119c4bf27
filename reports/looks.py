"""How figures look: ink, palette, and what tells entries apart.

Entries differ in colour, line style and marker, for print in grey and for the colour-blind.
"""

import io
import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from reports.captions import FEW
from reports.table import Column, Report, Row
from reports.text import shorten

# Text and axes are drawn in this ink, which a page may replace by its own colour.
INK = "#1f2328"
# A file stands on paper of its own, for readers with a dark page.
PAPER = "#ffffff"
# Okabe and Ito's palette without yellow, which is too pale for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
LINES = ("-", "--", "-.", ":", (0, (8, 2, 2, 2, 2, 2)), (0, (3, 1, 1, 1, 1, 1)))
GREY = "#8c959f"
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
    "figure.constrained_layout.use": True,
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


def measured(report: Report) -> list[Row]:
    """The rows of our own runs."""
    return [row for row in report.tables[0].rows if row.source == "measured"]


def looks(report: Report, column: Column) -> list[tuple[Row, dict[str, Any], str | None]]:
    """The measured rows with the look and the label of each: the best few, or all, have their own.

    The others are grey and share one label.
    """
    rows = measured(report)
    place = report.tables[0].columns.index(column)
    sign = -1 if column.higher_is_better else 1

    def rank(row: Row) -> float:
        value = row.cells[place].value
        return math.inf if value is None else sign * value

    best = {row.label for row in sorted(rows, key=rank)[:FEW]}
    own: list[tuple[Row, dict[str, Any], str | None]] = []
    others: list[tuple[Row, dict[str, Any], str | None]] = []
    for number, row in enumerate(rows):
        if row.label in best:
            style = {**look(number), "linestyle": LINES[number % len(LINES)], "zorder": 3}
            own.append((row, style, shorten(row.label, 28)))
        else:
            grey = {"color": GREY, "marker": None, "linestyle": "-", "zorder": 1}
            others.append((row, grey, None if others else f"{len(rows) - FEW} others"))
    return own + others


def save(canvas: Canvas, kind: str) -> bytes:
    """The drawing as a file of this kind."""
    file = io.BytesIO()
    canvas.savefig(file, format=kind, dpi=200, metadata=METADATA[kind], facecolor=PAPER)
    # Laid out once, by the first file; that takes as long as drawing.
    canvas.set_layout_engine("none")
    return file.getvalue()


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
    # "outside" makes constrained layout keep room for it.
    if isinstance(axes.figure, Canvas):
        axes.figure.legend(loc="outside right center")
