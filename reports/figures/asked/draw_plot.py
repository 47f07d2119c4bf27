"""Draw the figures that a page asks for: lines, points, bars, maps, functions and pictures."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from lightning_bench.reports.figures import style
from lightning_bench.reports.figures.asked.content import pixels
from lightning_bench.reports.figures.captions import FEW
from lightning_bench.reports.figures.colours import INK
from lightning_bench.reports.plot import Axis, Panel, Plot, PlotLine
from lightning_bench.reports.text.numbers import shorten

#: On coloured cells; not the ink, which a dark page replaces by its own.
_ON_DARK, _ON_LIGHT = "#fefefe", "#101010"
_EMPTY = "#d0d7de"
#: k, M, G with three digits.
_PREFIXED = FuncFormatter(lambda value, _: _with_prefix(value))
#: Curves with more points than this have no marker at each.
_MARKED = 20


def _with_prefix(value: float) -> str:
    size = next(
        (size for size in (1e24, 1e21, 1e18, 1e15, 1e12, 1e9, 1e6, 1e3) if value >= size), 1.0
    )
    prefix = dict(zip((1.0, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e24), " kMGTPEZY", strict=True))
    return f"{value / size:.3g} {prefix[size]}".rstrip()


def draw(canvas: Canvas, plot: Plot) -> None:
    """Draw a plot on an empty canvas."""
    _DRAWERS[plot.kind](canvas, plot)


def _lines(canvas: Canvas, plot: Plot) -> None:
    axes, joined = canvas.add_subplot(), plot.kind == "lines"
    lines = plot.panels[0].lines
    for line, (colour, dash) in zip(lines[:FEW], _looks(lines), strict=False):
        _line(axes, line, colour, dash, joined=joined)
    style.draw_others(axes, [np.column_stack([line.x, line.y]) for line in lines[FEW:]])
    _dress(axes, plot.x, plot.y, [x for line in lines for x in line.x])
    if plot.y.log:
        _log_or_plain(axes.yaxis, plot.y)
    elif plot.y.prefixed:
        axes.yaxis.set_major_formatter(_PREFIXED)
    _within_bounds(axes, plot.y)
    if len(lines) > 1 or lines[0].power:
        style.legend(axes)


def _looks(lines: Sequence[PlotLine]) -> list[tuple[int, int]]:
    """The number of each line's colour and of its dashes: several of one entry share its colour."""
    entries = [line.names[0] if len({*line.names}) == 1 else line.label for line in lines]
    numbers = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    if len(numbers) == len(lines):
        return [(number, number) for number in range(len(lines))]
    return [(numbers[e], entries[:place].count(e)) for place, e in enumerate(entries)]


def _line(axes: Axes, line: PlotLine, number: int, dash: int, *, joined: bool) -> None:
    look = style.look(number)
    dashes: Any = style.LINES[dash % len(style.LINES)] if joined and not line.power else "none"
    label = shorten(line.label, 30)
    if line.power:
        c, k, low, high = line.power
        label += f",\nk = {k:.2f} ({low:.2f} to {high:.2f})"
        x = np.geomspace(min(line.x), max(line.x), 50)
        axes.plot(x, c * x**k, color=look["color"], linestyle="--", linewidth=1.1, zorder=2)
    bars = _bars_of(line)
    if len(line.x) > _MARKED:
        below, above = bars
        axes.fill_between(
            line.x,
            np.array(line.y) - below,
            np.array(line.y) + above,
            alpha=0.15,
            color=look["color"],
            linewidth=0,
        )
        axes.plot(line.x, line.y, label=label, linestyle=dashes, linewidth=1.6, markersize=5,
                  markevery=(number % 3, max(1, len(line.x) // 6)), **look)  # fmt: skip
        return
    axes.errorbar(
        line.x, line.y, yerr=bars if bars.any() else None,
        label=label, linestyle=dashes, linewidth=1.5, markersize=6, capsize=3, **look,
    )  # fmt: skip


def _within_bounds(axes: Axes, of: Axis) -> None:
    """Leave out of sight what no share can be: intervals of few seeds reach beyond 0 and 100 %."""
    if of.label.endswith("[%]"):
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -3.0), min(high, 103.0))


def _bars_of(line: PlotLine) -> Any:
    """How far error bars reach below and above each point, 2 × points."""
    ends = [np.array(line.y, float) for _ in range(2)]
    for end, known in zip(ends, (line.low, line.high), strict=True):
        for place, value in enumerate(known):
            if value is not None:
                end[place] = value
    return np.stack([line.y - ends[0], ends[1] - line.y])


def _dress(axes: Axes, x: Axis, y: Axis, places: Sequence[float]) -> None:
    """Labels and ticks of both axes."""
    axes.set_xlabel(x.label)
    axes.set_ylabel(y.label)
    if x.names:
        _categories(axes, x.names)
    elif x.log:
        _log_or_plain(axes.xaxis, x, few=sorted({*places}))
    else:
        few = sorted({*places})
        apart = 0.06 * (few[-1] - few[0])
        if len(few) <= 8 and all(b - a > apart for a, b in pairwise(few)):
            axes.set_xticks(few)
        elif all(float(place).is_integer() for place in places):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if x.prefixed:
            axes.xaxis.set_major_formatter(_PREFIXED)
        elif len(few) <= 8:
            axes.xaxis.set_major_formatter("{x:.4g}")


def _log_or_plain(axis: Any, of: Axis, few: Sequence[float] = ()) -> None:
    """A logarithmic axis: ticks at the few places themselves, or where there is room."""
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    formatter = _PREFIXED if of.prefixed else "{x:g}"
    low, high = axis.axes.get_xlim() if axis.axis_name == "x" else axis.axes.get_ylim()
    apart = [b / a > (high / low) ** 0.09 for a, b in pairwise(few)]
    if 1 < len(few) <= 8 and all(apart):
        axis.set_ticks(few)
    elif high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        axis.set_major_locator(LogLocator(numticks=8))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(NullFormatter())


def _categories(axes: Axes, names: Sequence[str]) -> None:
    """Names at the ticks, slanted where they would run into each other."""
    long = sum(map(len, names)) > 48
    turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if long else {}
    axes.set_xticks(range(len(names)), [shorten(name, 22) for name in names], **turned)
    axes.set_xlim(-0.5, len(names) - 0.5)


def _bars(canvas: Canvas, plot: Plot) -> None:
    axes, lines = canvas.add_subplot(), plot.panels[0].lines
    width = 0.8 / len(lines)
    for number, line in enumerate(lines):
        places = np.array(line.x) - 0.4 + (number + 0.5) * width
        bars = _bars_of(line)
        axes.bar(
            places, line.y, 0.92 * width, label=shorten(line.label, 30),
            color=style.COLOURS[number % len(style.COLOURS)], linewidth=0,
            hatch=("", "///", "...", "xxx")[number // len(style.COLOURS) % 4],
            yerr=bars if bars.any() else None,
            error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2},
        )  # fmt: skip
    _categories(axes, plot.x.names)
    axes.set_ylabel(plot.y.label)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(bottom=0 if min(y for line in lines for y in line.y) >= 0 else None)
    _within_bounds(axes, plot.y)
    style.legend(axes)


def _map(canvas: Canvas, plot: Plot) -> None:
    known = [cell.value for panel in plot.panels for cell in panel.cells if cell.value is not None]
    low, high = min(known), max(known)
    columns = min(len(plot.panels), 2 if len(plot.x.names) > 4 else 3)
    rows = math.ceil(len(plot.panels) / columns)
    wide, tall = len(plot.x.names) * 0.62 + 0.9, len(plot.y.names) * 0.36 + 0.75
    canvas.set_size_inches(max(4.4, columns * wide + 1.2), max(2.6, rows * tall + 0.3))
    mesh: Any = None
    all_axes = []
    for number, panel in enumerate(plot.panels):
        axes = canvas.add_subplot(rows, columns, number + 1)
        all_axes.append(axes)
        mesh = _cells(axes, plot, panel, low, high)
        axes.set_xlabel(plot.x.label if number + columns >= len(plot.panels) else "")
        axes.set_ylabel(plot.y.label if number % columns == 0 else "")
        axes.set_title(shorten(panel.title, 30), fontsize=10)
    bar = canvas.colorbar(mesh, ax=all_axes, shrink=0.9, pad=0.02)
    bar.set_label(plot.colour)
    bar.outline.set_visible(False)


def _cells(axes: Axes, plot: Plot, panel: Panel, low: float, high: float) -> Any:
    """Coloured cells with their values, grey ones with what came instead."""
    values = np.full((len(plot.y.names), len(plot.x.names)), np.nan)
    digits = 0 if high >= 100 else 1 if high >= 10 else 2
    for cell in panel.cells:
        if cell.value is not None:
            values[cell.y, cell.x] = cell.value
    top = high if high > low else low + 1
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(values), cmap="viridis", vmin=low, vmax=top, edgecolors="none"
    )
    for cell in panel.cells:
        middle = (cell.x + 0.5, cell.y + 0.5)
        if cell.value is None:
            axes.add_patch(_box(cell.x, cell.y))
            axes.text(*middle, "×" if cell.state == "diverged" else "–", color=_ON_LIGHT,
                      ha="center", va="center", fontsize=9)  # fmt: skip
            continue
        bright = (cell.value - low) / (top - low) > 0.6
        axes.text(*middle, f"{cell.value:.{digits}f}", ha="center", va="center", fontsize=8,
                  color=_ON_LIGHT if bright else _ON_DARK)  # fmt: skip
    axes.set_xticks(np.arange(len(plot.x.names)) + 0.5, plot.x.names, fontsize=9)
    axes.set_yticks(np.arange(len(plot.y.names)) + 0.5, plot.y.names, fontsize=9)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return mesh


def _box(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 1, 1, facecolor=_EMPTY, edgecolor=_ON_DARK, linewidth=0.5)


def _functions(canvas: Canvas, plot: Plot) -> None:
    columns = min(4, len(plot.panels))
    rows = math.ceil(len(plot.panels) / columns)
    canvas.set_size_inches(max(4.0, 1.75 * columns), max(2.2, 1.45 * rows + 0.35))
    for number, panel in enumerate(plot.panels):
        axes = canvas.add_subplot(rows, columns, number + 1)
        for place, line in enumerate(panel.lines):
            axes.plot(line.x, line.y, color=style.COLOURS[place], linewidth=1.5,
                      linestyle=style.LINES[place], label=line.label)  # fmt: skip
        axes.set_title(panel.title, fontsize=10)
        axes.set_xticks([-4, -2, 0, 2, 4])
        axes.tick_params(labelsize=8, labelbottom=number + columns >= len(plot.panels))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        if number + columns >= len(plot.panels):
            axes.set_xlabel(plot.x.label, fontsize=9)
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=len(labels))


def _positions(canvas: Canvas, plot: Plot) -> None:
    canvas.set_size_inches(7.0, 3.1)
    left, right = canvas.subplots(1, 2)
    shown, panel = plot.panels
    image = _image(left, shown, "RdBu_r")
    left.set_xlabel(plot.x.label)
    left.set_ylabel(plot.y.label)
    left.set_aspect("auto")
    # The layout makes room for bars that are no part of a grid.
    bar = canvas.colorbar(image, ax=left, ticks=[-1, 0, 1], pad=0.02, use_gridspec=False)
    bar.set_label(plot.colour)
    for number, line in enumerate(panel.lines):
        width = 4.5 - 1.6 * number  # they lie on each other, which is to be seen
        right.plot(line.x, line.y, color=style.COLOURS[number], linewidth=width,
                   linestyle=("-", "-", "--")[number % 3], label=line.label)  # fmt: skip
    right.set_xlabel("distance φ of two positions")
    right.set_ylabel("dot product pₜ · pₜ₊ᵩ")
    right.legend(fontsize=8, loc="upper right")


def _heatmaps(canvas: Canvas, plot: Plot) -> None:
    columns = min(3 if len(plot.panels) != 4 else 4, len(plot.panels))
    rows = math.ceil(len(plot.panels) / columns)
    signed = plot.panels[0].picture is not None and plot.panels[0].picture.low < 0
    canvas.set_size_inches(max(3.6, 1.85 * columns + 1.2), 1.85 * rows + 0.5)
    all_axes = []
    image: Any = None
    for number, panel in enumerate(plot.panels):
        axes = canvas.add_subplot(rows, columns, number + 1)
        all_axes.append(axes)
        image = _image(axes, panel, "RdBu_r" if signed else "magma")
        axes.set_title(shorten(panel.title, 26), fontsize=9)
        if number + columns >= len(plot.panels):
            axes.set_xlabel(plot.x.label, fontsize=9)
        if number % columns == 0:
            axes.set_ylabel(plot.y.label, fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.tick_params(labelsize=8)
    bar = canvas.colorbar(image, ax=all_axes, shrink=0.9, pad=0.02)
    bar.set_ticks([-1, 0, 1] if signed else [0, 0.5, 1])
    bar.set_label(f"{plot.colour} ÷ largest of the panel", fontsize=9)


def _image(axes: Axes, panel: Panel, colours: str) -> Any:
    assert panel.picture is not None
    axes.grid(visible=False)
    low = panel.picture.low
    return axes.imshow(pixels(panel.picture), cmap=colours, vmin=low, vmax=1, interpolation="none")


_DRAWERS: Mapping[str, Callable[[Canvas, Plot], None]] = {
    "lines": _lines,
    "points": _lines,
    "bars": _bars,
    "map": _map,
    "functions": _functions,
    "positions": _positions,
    "heatmaps": _heatmaps,
}
