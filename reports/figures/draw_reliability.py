"""Reliability diagrams: a panel an entry, with how many examples each bin has below."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from lightning_bench.reports.figures.colours import INK
from lightning_bench.reports.figures.style import COLOURS, GREY
from lightning_bench.reports.report import Figure
from lightning_bench.reports.text.numbers import shorten

#: Panels side by side, at most.
ACROSS = 3


def draw(canvas: Canvas, figure: Figure) -> None:
    """Share of right examples over mean confidence, and the bins' examples."""
    across = min(ACROSS, len(figure.bins))
    down = -(-len(figure.bins) // across)
    canvas.set_size_inches(6.0, 2.5 * down + 0.3)
    panels = canvas.subplots(
        2 * down, across, squeeze=False, sharex=True, height_ratios=[4, 1] * down
    )
    for place in range(across * down):
        row, column = divmod(place, across)
        upper, lower = panels[2 * row, column], panels[2 * row + 1, column]
        if place >= len(figure.bins):
            upper.set_visible(False)
            lower.set_visible(False)
            continue
        entry = list(figure.bins)[place]
        _panel(upper, lower, figure.bins[entry])
        upper.set_title(shorten(entry, 24), fontsize=10)
        last = place + across >= len(figure.bins)
        lower.tick_params(labelbottom=last)
        upper.tick_params(labelbottom=False)
        if last:
            lower.set_xlabel("confidence", fontsize=10)
        if column == 0:
            upper.set_ylabel("share right", fontsize=10)
        else:
            upper.tick_params(labelleft=False)


def _panel(upper: Axes, lower: Axes, bins: list[tuple[int, float, float]]) -> None:
    examples, confidence, right = np.array(bins).T
    upper.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle="--")
    some = examples > 0
    colour = COLOURS[0]
    upper.plot(confidence[some], right[some], color=colour, linewidth=1.4, marker="o", ms=3.5)
    upper.set_xlim(0, 1)
    upper.set_ylim(0, 1.03)
    edges = np.linspace(0, 1, len(bins) + 1)
    lower.bar(edges[:-1], examples, np.diff(edges), align="edge", color=GREY, linewidth=0)
    most = int(examples.max())
    lower.set_yticks([most], [f"{most:,}"])
    lower.set_ylim(0, 1.15 * most)
    for axes in (upper, lower):
        axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        axes.tick_params(labelsize=9)
    upper.set_yticks([0, 0.5, 1], ["0", "½", "1"])
