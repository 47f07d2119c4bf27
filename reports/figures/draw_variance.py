"""Draw the sources of variance: an SD with its interval for each source of each entry."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from lightning_bench.bench.study.randomness import TITLES
from lightning_bench.reports.figures.style import COLOURS, MARKERS, metric_label
from lightning_bench.reports.report import Column, Figure
from lightning_bench.reports.statistics.variance import ALL
from lightning_bench.reports.text.numbers import shorten


def draw(canvas: Canvas, axes: Axes, figure: Figure, column: Column) -> None:
    """One group of dots an entry, from the top down, with a colour and a marker a source."""
    found = {title for spans in figure.spreads.values() for title in spans}
    titles = [title for title in [*TITLES.values(), ALL] if title in found]
    step = 0.8 / max(1, len(titles))
    for number, title in enumerate(titles):
        places, spans = [], []
        for place, of_entry in enumerate(figure.spreads.values()):
            if title in of_entry:
                places.append(place - 0.4 + (number + 0.5) * step)
                spans.append([value * column.scale for value in of_entry[title]])
        low, middle, high = zip(*spans, strict=True)
        axes.errorbar(
            middle,
            places,
            xerr=[
                [m - x for m, x in zip(middle, low, strict=True)],
                [x - m for m, x in zip(middle, high, strict=True)],
            ],
            linestyle="",
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            linewidth=1.3,
            capsize=2,
            label=title,
        )
    entries = [shorten(entry, 28) for entry in figure.spreads]
    canvas.set_size_inches(6.0, 1.2 + len(entries) * (0.2 + 0.13 * len(titles)))
    axes.set_yticks(range(len(entries)), entries)
    axes.set_ylim(len(entries) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"SD of test {metric_label(column)}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize=9)
