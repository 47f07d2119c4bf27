"""Learning curves that a page asks for: quantities of the validation split by epoch or step."""

from collections.abc import Iterator

import numpy as np

from lightning_bench.bench.store.record import Curve
from lightning_bench.bench.study.figures import PageFigure
from lightning_bench.reports.figures.asked.quantities import Quantities
from lightning_bench.reports.plot import PlotLine
from lightning_bench.reports.text.numbers import thinned

_POINTS = 100


def lines(figure: PageFigure, of: Quantities, dataset: str) -> list[PlotLine]:
    """A line for each entry, or for each entry and quantity where there are several."""
    found = []
    for label in of.entries(figure):
        records = of.samples[label, dataset].done.values()
        for name in figure.y:
            columns = [column for r in records if (column := _column(r.curve, figure.x, name))]
            if columns:
                shown = f"{label}, {name.replace('_', ' ')}" if len(figure.y) > 1 else label
                scale = 100.0 if of.percent(name) else 1.0
                found.append(_line(shown, label, columns, scale))
    return found


def _column(curve: Curve, x: str, name: str) -> dict[int, float]:
    """A quantity by epoch or step."""
    values = getattr(curve, name) if name in {"train_loss", "val_loss"} else curve.metrics.get(name)
    places = curve.epoch if x == "epoch" else curve.step
    return {
        place: value
        for place, value in zip(places, values or (), strict=False)
        if value is not None and np.isfinite(value)
    }


def _line(label: str, entry: str, columns: list[dict[int, float]], scale: float) -> PlotLine:
    places = thinned(sorted(set.intersection(*map(set, columns))), _POINTS)
    values = np.array([[scale * column[place] for place in places] for column in columns])
    several = len(columns) > 1

    def ends(of: Iterator[float]) -> list[float | None]:
        return list(of) if several else []

    return PlotLine(
        label=label,
        x=[float(place) for place in places],
        y=values.mean(axis=0).tolist(),
        low=ends(iter(values.min(axis=0).tolist())),
        high=ends(iter(values.max(axis=0).tolist())),
        names=[entry] * len(places),
    )
