"""Draw a report's figures: the same runs give the same bytes.

Made with Figure objects, without pyplot, so there is no global state and no display.
"""

import warnings
from collections.abc import Collection, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from lightning_bench.reports.figures import (
    draw_differences,
    draw_reliability,
    draw_speed,
    draw_tuning,
    draw_variance,
)
from lightning_bench.reports.figures.asked import draw_plot
from lightning_bench.reports.figures.colours import INK
from lightning_bench.reports.figures.figure_data import FigureData, Series, column_of
from lightning_bench.reports.figures.style import (
    COLOURS,
    LINES,
    STYLE,
    Span,
    draw_others,
    draw_points,
    drawn,
    legend,
    look,
    looks,
    metric_label,
)
from lightning_bench.reports.report import Column, Figure, Row
from lightning_bench.reports.statistics.inference import Floats, share_of_examples
from lightning_bench.reports.text.numbers import shorten, spread

#: Entries up to which a profile has bands: those of more would hide each other.
BANDS = 5


def draw(
    data: FigureData, figure: Figure, series: Series, kinds: Collection[str]
) -> dict[str, bytes]:
    """A figure as a file of each kind."""
    column = column_of(data, figure)
    with rc_context(STYLE), warnings.catch_warnings():
        # A glyph that the font lacks is drawn as a box: in a label that is enough.
        warnings.filterwarnings("ignore", "Glyph")
        canvas = Canvas()
        if figure.kind == "reliability":
            draw_reliability.draw(canvas, figure)
            return drawn(canvas, kinds)
        if figure.plot is not None:
            draw_plot.draw(canvas, figure.plot)
            return drawn(canvas, kinds)
        axes = canvas.add_subplot()
        if figure.kind == "differences":
            draw_differences.draw(canvas, axes, data.pairs(figure), series, column)
        elif figure.kind == "curves":
            _curves(axes, data, series, column)
        elif figure.kind == "size":
            _size(axes, data, column)
        elif figure.kind == "growth":
            _growth(axes, data, column, figure)
        elif figure.kind == "profile":
            _profile(axes, data, series, column)
        elif figure.kind == "throughput":
            draw_speed.against_throughput(axes, data, column, figure.speeds)
            axes.set_xlabel(figure.x)
            axes.set_ylabel(f"test {metric_label(column)}")
            legend(axes)
        elif figure.kind == "variance":
            draw_variance.draw(canvas, axes, figure, column)
        elif figure.kind in {"best", "expected", "front"}:
            draw_tuning.draw(axes, figure, data, column)
            legend(axes)
        else:
            _ranks(canvas, axes, data, figure)
        return drawn(canvas, kinds)


def get_ready(kinds: Collection[str]) -> None:
    """Load what every figure needs, fonts above all, by drawing one for nobody."""
    with rc_context(STYLE):
        canvas = Canvas()
        axes = canvas.add_subplot()
        axes.errorbar([0, 1], [0, 1], yerr=[1, 1], label="a")
        legend(axes)
        drawn(canvas, kinds)


def _parameters(data: FigureData) -> int:
    """Where the main table has its parameter counts."""
    return [column.id for column in data.tables[0].columns].index("parameters")


def _curves(axes: Axes, data: FigureData, series: Series, column: Column) -> None:
    """The validation metric by epoch: mean over seeds, and a band over all of them."""
    own, others = looks(data, column)
    bands: list[Floats] = []

    def found(row: Row) -> tuple[list[int], Floats]:
        epochs, values = series.curves.get(row.label, ([], np.empty((0, 0))))
        if epochs:
            bands.append(values[:, len(epochs) // 4 :])
        return epochs, values

    for place, (row, style, label) in enumerate(own):
        epochs, values = found(row)
        if not epochs:
            continue
        axes.plot(
            epochs,
            values.mean(axis=0),
            label=label,
            linewidth=1.8,
            markersize=5,
            **style,
            # Few markers, and not at the same epochs, so that they don't hide each other.
            markevery=(place % 3 if len(epochs) > 6 else 0, max(1, len(epochs) // 6)),
        )
        axes.fill_between(
            epochs,
            values.min(axis=0),
            values.max(axis=0),
            alpha=0.15,
            color=style["color"],
            linewidth=0,
        )
    means = [(epochs, values.mean(axis=0)) for epochs, values in map(found, others) if epochs]
    draw_others(axes, [np.column_stack(line) for line in means])
    _leave_out_start(axes, bands)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"validation {metric_label(column)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)


def _leave_out_start(axes: Axes, bands: Sequence[Floats]) -> None:
    """Show what the curves do after the first quarter, where the start would dwarf it."""
    if not bands:
        return
    low, high = min(map(np.nanmin, bands)), max(map(np.nanmax, bands))
    bottom, top = axes.get_ylim()
    if 0 < high - low < 0.5 * (top - bottom):
        margin = 0.05 * (high - low)
        axes.set_ylim(low - margin, high + margin)


def _size(axes: Axes, data: FigureData, column: Column) -> None:
    """The test metric against the parameter count, with intervals."""
    sizes = _parameters(data)

    def place(row: Row) -> Span | None:
        size = row.cells[sizes].value
        return None if size is None else (size, size, size)

    _front(axes, draw_points(axes, data, column, place), column)
    _size_axis(axes, [row.cells[sizes].value for row in data.tables[0].measured])
    axes.set_ylabel(f"test {metric_label(column)}")
    legend(axes)


def _growth(axes: Axes, data: FigureData, column: Column, figure: Figure) -> None:
    """The test metric of each family over depth or size."""
    place = data.tables[0].columns.index(column)
    cells = {row.label: row.cells[place] for row in data.tables[0].measured}
    for number, (family, points) in enumerate(figure.lines.items()):
        found = [(x, cells[label]) for label, x in points.items()]
        known = [(x, cell, cell.value) for x, cell in found if cell.value is not None]
        axes.errorbar(
            [x for x, _, _ in known],
            [value * column.scale for _, _, value in known],
            yerr=[(spread(cell, column) or 0.0) * column.scale for _, cell, _ in known],
            linestyle=LINES[number % len(LINES)],
            capsize=3,
            linewidth=1.6,
            label=shorten(family, 28),
            **look(number),
        )
    places = sorted({x for points in figure.lines.values() for x in points.values()})
    if figure.x == "parameters":
        _size_axis(axes, places)
    else:
        if places[-1] >= 4 * places[0]:
            axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{x:.0f}" for x in places])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(figure.x)
    axes.set_ylabel(f"test {metric_label(column)}")
    legend(axes)


def _front(axes: Axes, points: Sequence[tuple[float, float]], column: Column) -> None:
    """A step line through the entries that no smaller one beats on average."""
    sign = 1 if column.higher_is_better else -1
    # Small is to sizes what fast is to speeds.
    front = draw_speed.front([(-size, value) for size, value in points], sign)
    if len(front) > 1:
        axes.step(
            [-size for size, _ in front],
            [value for _, value in front],
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
        if max(known) < 100 * min(known):
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif max(known) == min(known):
        axes.set_xlim(0.5 * min(known), 1.5 * max(known))
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlabel("parameters")


def _profile(axes: Axes, data: FigureData, series: Series, column: Column) -> None:
    """Share of an entry's runs that are at least as good as a value, for every value."""

    def corners(row: Row) -> Floats:
        """Of the steps: two of each value, where the share changes."""
        values = series.scores.get(row.label, np.empty(0))
        share = np.arange(len(values) + 1) / max(1, len(values))
        if column.higher_is_better:
            share = 1 - share
        return np.column_stack([np.repeat(values, 2), np.repeat(share, 2)[1:-1]])

    own, others = looks(data, column)
    for place, (row, style, label) in enumerate(own):
        x, y = corners(row).T
        if len(own) <= BANDS:
            runs = len(series.scores.get(row.label, ()))
            band = np.array([share_of_examples(share, max(1, runs)) for share in y.tolist()])
            axes.fill_between(x, *band.T, alpha=0.08, color=style["color"], linewidth=0)
        every = (place % 4, max(1, len(x) // 8 * 2))
        axes.plot(x, y, label=label, linewidth=1.5, markersize=5, markevery=every, **style)
    draw_others(axes, [line for line in map(corners, others) if len(line)])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"test {metric_label(column)}")
    axes.set_ylabel("share of runs")
    legend(axes)


def _ranks(canvas: Canvas, axes: Axes, data: FigureData, figure: Figure) -> None:
    """Demšar's diagram: mean ranks on a line, bars join what data sets can't tell apart."""
    table = next(table for table in data.tables if table.id == "across")
    place = [column.id for column in table.columns].index("across/rank")
    ranks = sorted(
        (cell.value, row.label)
        for row in table.rows
        if (cell := row.cells[place]).value is not None
    )
    by_label = {label: rank for rank, label in ranks}
    bars = [sorted(by_label[label] for label in group) for group in figure.groups]
    # A line for each bar, then one for each entry.
    room = 0.45 * (len(bars) + 1)
    canvas.set_size_inches(6.0, 0.9 + 0.24 * (len(ranks) + room))
    for line, (rank, label) in enumerate(ranks):
        y = -room - 0.5 - line
        axes.plot([rank, rank, len(ranks) + 0.2], [0, y, y], color=INK, linewidth=0.9)
        text = f"{shorten(label, 28)}  {rank:.2f}"
        axes.text(len(ranks) + 0.25, y, text, va="center", fontsize=9)
    for height, bar in enumerate(bars):
        y = -0.45 * (height + 1)
        axes.plot([bar[0] - 0.04, bar[-1] + 0.04], [y, y], color=COLOURS[1], linewidth=4)
    axes.set_xlim(0.9, len(ranks) + 0.2)
    axes.set_ylim(-room - 0.5 - len(ranks), 0)
    axes.xaxis.tick_top()
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_visible(False)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
