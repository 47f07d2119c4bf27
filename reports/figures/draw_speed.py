"""Figures of cost: throughput against accuracy, and cost against size."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from lightning_bench.bench.store.measurements import Session
from lightning_bench.reports.figures import style
from lightning_bench.reports.figures.colours import INK
from lightning_bench.reports.figures.figure_data import FigureData
from lightning_bench.reports.report import Column
from lightning_bench.reports.statistics import timing
from lightning_bench.reports.tables import scaling
from lightning_bench.reports.text.numbers import shorten, slug


def front(points: Collection[tuple[float, float]], sign: int = 1) -> list[tuple[float, float]]:
    """The points that none beats in both, from the fastest on; `sign` -1 where less is better."""
    found: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-point[0], -sign * point[1])):
        if not found or sign * y > sign * found[-1][1]:
            found.append((x, y))
    return found


def against_throughput(
    axes: Axes, data: FigureData, column: Column, speeds: dict[str, style.Span]
) -> None:
    """The test metric against throughput, the Pareto front marked."""
    points = style.draw_points(axes, data, column, lambda row: speeds.get(row.label))
    best = front(points, 1 if column.higher_is_better else -1)
    if best:
        x, y = zip(*best, strict=True)
        axes.plot(x, y, linestyle=":", color=INK, linewidth=1.2, zorder=0)
        axes.plot(
            x, y, linestyle="", marker="o", markersize=14, markerfacecolor="none",
            markeredgecolor=INK, markeredgewidth=0.9, label="Pareto front",
        )  # fmt: skip
    axes.set_xscale("log")
    style.plain_ticks(axes)


def scalings(
    session: Session, kinds: Collection[str] = tuple(style.METADATA)
) -> Iterator[tuple[str, bytes]]:
    """Name and content of one figure for each axis and mode that was varied."""
    groups: dict[tuple[str, str], list[scaling.Curve]] = {}
    for curve in scaling.curves(session):
        groups.setdefault((curve.name, curve.measurements[0].setting.mode), []).append(curve)
    for (name, mode), curves in groups.items():
        with rc_context(style.STYLE):
            canvas = Canvas()
            axes = canvas.add_subplot()
            for number, curve in enumerate(curves):
                _curve(axes, curve, number)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            style.plain_ticks(axes)
            axes.set_xlabel({"S": "length S of the sequence"}.get(name, name.replace("_", " ")))
            step = {"infer": "forward pass", "train": "training step"}[mode]
            axes.set_ylabel(f"ms an example, {step}")
            style.legend(axes)
            for kind, content in style.drawn(canvas, kinds).items():
                yield f"cost-{slug(name)}-{mode}.{kind}", content


def _curve(axes: Axes, curve: scaling.Curve, number: int) -> None:
    colour = style.COLOURS[number % len(style.COLOURS)]
    dashes: Any = style.LINES[number % len(style.LINES)]
    found = [timing.describe(list(timing.seconds(m).values())) for m in curve.measurements]
    middle = 1e3 * np.array([each.median for each in found])
    low, high = (1e3 * np.array([getattr(e, q) for e in found]) for q in ("p10", "p90"))
    fitted = timing.exponent(curve.x, curve.times_s)
    label = shorten(curve.label, 24)
    if fitted:
        label += f", k = {fitted.value:.2f} ({fitted.low:.2f} to {fitted.high:.2f})"
    axes.errorbar(
        curve.x,
        middle,
        yerr=[middle - low, high - middle],
        color=colour,
        linestyle=dashes,
        marker=style.MARKERS[number % len(style.MARKERS)],
        capsize=3,
        label=label,
    )
