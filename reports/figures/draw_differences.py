"""Draw differences between entries: a forest plot with both kinds of interval and the seeds."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from lightning_bench.reports.figures.colours import INK, PAPER
from lightning_bench.reports.figures.figure_data import Series
from lightning_bench.reports.figures.style import COLOURS, GREY
from lightning_bench.reports.report import Column, Comparison
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.text.numbers import number, shorten

_WIDTH, _ROW, _FRAME = 4.4, 0.4, 0.75  # inches; narrow, so that a telephone shows it readably
_FONT = 8.5
_BLUE, _ORANGE, _GREEN = COLOURS[0], COLOURS[1], COLOURS[2]

#: Marker, colour and fill of what is said of the first of a pair, with its words in the legend.
_MARKS: dict[str, tuple[str, str, bool]] = {
    "better": ("D", _BLUE, True),
    "worse": ("s", _ORANGE, True),
    "equal within the margin": ("^", _GREEN, True),
    "better by Welch's t, no claim": ("D", _BLUE, False),
    "worse by Welch's t, no claim": ("s", _ORANGE, False),
    "undecided": ("o", INK, False),
}


def draw(
    canvas: Canvas, axes: Axes, pairs: Sequence[Comparison], series: Series, column: Column
) -> None:
    """One row for each pair, from the top."""
    canvas.set_size_inches(_WIDTH, _FRAME + _ROW * (len(pairs) + 1))
    scale = column.scale
    dots = [scale * series.differences.get((pair.a, pair.b), np.empty(0)) for pair in pairs]
    low, high = _reach(pairs, dots, scale)
    axes.set_xlim(low, high)
    axes.set_ylim(len(pairs) - 0.45, -0.85)
    for row in range(len(pairs)):  # it leaves the labels room
        axes.plot([0, 0], [row - 0.24, row + 0.36], color=INK, linewidth=1.0, zorder=1)
    margins = {pair.margin for pair in pairs} - {None}
    for margin in margins:
        axes.axvspan(-(margin or 0), margin or 0, color=_GREEN, alpha=0.12, linewidth=0, zorder=0)
    for row, pair in enumerate(pairs):
        _draw_row(axes, row, pair, column, (low, high))
    _draw_dots(axes, dots)
    axes.yaxis.set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=_FONT)
    unit = "points" if column.unit == "%" else column.unit
    label = f"difference in {(column.metric or '').replace('_', ' ')}"
    better = {True: ", > 0: the first is better", False: ", < 0: the first is better", None: ""}[
        column.higher_is_better
    ]
    axes.set_xlabel(f"{label}{f' [{unit}]' if unit else ''}{better}", fontsize=_FONT)
    _legend(canvas, pairs)


def _reach(
    pairs: Sequence[Comparison], dots: Sequence[Floats], scale: float
) -> tuple[float, float]:
    """The axis: all dots and intervals of single pairs; those for all pairs as far as they fit."""
    inner = [0.0, *(scale * pair.difference for pair in pairs), *(x for xs in dots for x in xs)]
    inner += [scale * end for pair in pairs for end in (pair.low, pair.high) if end is not None]
    low, high = min(inner), max(inner)
    room = 0.5 * (high - low)
    for pair in pairs:
        if pair.low_of_all is not None and pair.high_of_all is not None:
            low = max(min(low, scale * pair.low_of_all), min(inner) - room)
            high = min(max(high, scale * pair.high_of_all), max(inner) + room)
    edge = 0.04 * (high - low) or 1.0
    return low - edge, high + edge


def _draw_row(
    axes: Axes, row: int, pair: Comparison, column: Column, ends: tuple[float, float]
) -> None:
    scale, (left, right) = column.scale, ends
    marker, colour, filled = _MARKS[said_of(pair)]
    if pair.low_of_all is not None and pair.high_of_all is not None:
        low, high = scale * pair.low_of_all, scale * pair.high_of_all
        axes.plot([max(low, left), min(high, right)], [row, row], color=colour, linewidth=1.1)
        for end, inside, arrow in ((low, low >= left, "<"), (high, high <= right, ">")):
            at = min(max(end, left), right)
            shape: dict[str, Any] = {"marker": "|" if inside else arrow, "markersize": 6}
            axes.plot([at], [row], color=colour, linestyle="none", clip_on=False, **shape)
    if pair.low is not None and pair.high is not None:
        axes.plot(
            [scale * pair.low, scale * pair.high], [row, row],
            color=colour, linewidth=3.6, solid_capstyle="butt", alpha=0.75,
        )  # fmt: skip
    face = colour if filled else PAPER
    axes.plot(
        [scale * pair.difference], [row],
        marker=marker, markersize=6.5, color=colour, markerfacecolor=face, linestyle="none",
        zorder=4,
    )  # fmt: skip
    signed = column.model_copy(update={"signed": True})
    text = number(pair.difference, signed)
    if pair.low is not None and pair.high is not None:
        text += f" ({number(pair.low, signed)} to {number(pair.high, signed)})"
    weight = "bold" if pair.verdict != "undecided" else "normal"
    above: dict[str, Any] = {
        "transform": axes.get_yaxis_transform(), "fontsize": _FONT, "va": "center", "zorder": 5,
    }  # fmt: skip
    y = row - 0.45
    name = f"{shorten(pair.a, 18)} − {shorten(pair.b, 18)}"
    axes.text(0.0, y, name, ha="left", weight=weight, **above)
    axes.text(1.0, y, text, ha="right", **above)


def said_of(pair: Comparison) -> str:
    """What the mark of a pair stands for: the verdict, or else what another tier says."""
    if pair.verdict != "undecided":
        return pair.verdict
    if pair.equal:
        return "equal within the margin"
    if pair.by_welch in {"better", "worse"}:
        return f"{pair.by_welch} by Welch's t, no claim"
    return "undecided"


def _draw_dots(axes: Axes, dots: Sequence[Floats]) -> None:
    """The seeds, as one line of round points, which keeps the file small."""
    x, y = [], []
    nudge = 1e-3 * float(np.ptp(axes.get_xlim()))
    for row, values in enumerate(dots):
        for value in values.tolist():
            x += [value - nudge, value + nudge, math.nan]
            y += [row + 0.25] * 3
    if x:
        axes.plot(
            x, y, color=GREY, linewidth=3, solid_capstyle="round", zorder=2,
        )  # fmt: skip


def _legend(canvas: Canvas, pairs: Sequence[Comparison]) -> None:
    """The marks that are there, under the axes."""
    present = {said_of(pair) for pair in pairs}
    marks = [
        Line2D(
            [], [], marker=marker, color=colour, linestyle="none", markersize=6.5,
            markerfacecolor=colour if filled else PAPER, label=said,
        )
        for said, (marker, colour, filled) in _MARKS.items()
        if said in present
    ]  # fmt: skip
    canvas.legend(
        handles=marks, loc="outside lower center", ncols=2, fontsize=_FONT, handletextpad=0.3
    )
