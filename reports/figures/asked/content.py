"""The content of the figures that a page asks for, from finished runs; nothing is drawn here."""

import base64
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightning_bench.bench.study.figures import PageFigure
from lightning_bench.reports.figures.asked import curves, formulas
from lightning_bench.reports.figures.asked.quantities import Estimated, Quantities, Value, spread
from lightning_bench.reports.plot import Axis, MapCell, Panel, Picture, Plot, PlotLine
from lightning_bench.reports.statistics import timing
from lightning_bench.reports.statistics.inference import Floats

#: Arrays that runs' probes kept, by the runs' keys.
Arrays = Mapping[str, Mapping[str, Any]]
#: A picture has no more rows than this, and a figure no more pictures.
_MOST_ROWS, _MOST_PICTURES = 128, 12
_LEVELS = 254
_SIDES = (-4.0, 4.0)  # of activation functions


class NotDrawn(Exception):
    """Why a figure is not drawn."""


@dataclass(frozen=True)
class _Located:
    """A point of a line: its entry and where it is."""

    entry: str
    x: Value
    y: Estimated


def plots(
    figure: PageFigure, quantities: Quantities, arrays: Arrays
) -> Iterator[tuple[str, Plot | NotDrawn]]:
    """Each plot of a figure with its data set (none where it is of all), or why there is none."""
    for dataset in _datasets(figure, quantities):
        try:
            yield dataset, _MAKERS[figure.kind](figure, quantities, dataset, arrays)
        except NotDrawn as why:
            yield dataset, why


def _datasets(figure: PageFigure, quantities: Quantities) -> list[str]:
    """The data sets of which there is a plot each; one without a name where it is of none."""
    names = [name for name in figure.axes if quantities.of_data(name)]
    everywhere = figure.kind in {"functions", "positions"} or not (
        names or figure.kind == "heatmaps" or figure.of_curve
    )
    if everywhere or figure.kind == "bars" or "dataset" in {figure.by, figure.x}:
        return [""]
    numbered = [] if figure.of_curve else [n for n in names if not n.endswith("*")]
    free = {figure.x} if any(name.endswith("*") for name in figure.y) else set()
    return quantities.datasets(figure, *(n for n in numbered if n not in free))


def _lines(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """Lines or points of entries, each with its interval."""
    del arrays
    name = figure.y[0]
    found: dict[str, list[_Located]] = defaultdict(list)
    numbered = name.endswith("*")
    by = figure.by or ("entry" if numbered else "group")
    for each in [dataset] if dataset else of.datasets(figure, name) or [""]:
        for label in of.entries(figure):
            line = of.series(by, label, each)
            if numbered:
                points = of.numbered(name, label, each)
                found[line] += [_Located(label, Estimated(x), y) for x, y in points]
                continue
            x, y = of.value(figure.x, label, each), of.value(name, label, each)
            if x is not None and isinstance(y, Estimated):
                found[line].append(_Located(label, x, y))
    lines = {line: points for line, points in found.items() if points}
    if not lines:
        raise NotDrawn("nothing is known of it yet")
    x_axis = _axis(figure, of, dataset, [p.x for points in lines.values() for p in points])
    y_label = of.label(name, dataset or next(iter(of.request.metrics)))
    y_axis = Axis(label=y_label, log="y" in figure.log, prefixed=of.large(name))
    ordered = {line: _ordered(points, x_axis) for line, points in lines.items()}
    drawn = [_line(line, points, x_axis, figure) for line, points in ordered.items()]
    _demand_spread([x for line in drawn for x in line.x], x_axis.label)
    _demand_spread([y for line in drawn for y in line.y], y_label, least=0.0)
    return Plot(kind=figure.kind, x=x_axis, y=y_axis, panels=[Panel(lines=drawn)])


def _axis(figure: PageFigure, of: Quantities, dataset: str, values: list[Value]) -> Axis:
    """The x axis: of numbers, or of categories where one of the values is a name."""
    numbered = any(name.endswith("*") for name in figure.y)
    label = figure.x.replace("_", " ") if numbered else of.label(figure.x, dataset)
    names = [_name(value) for value in values]
    categories = any(isinstance(value, str) for value in values)
    return Axis(
        label=label,
        log="x" in figure.log and not categories,
        names=list(dict.fromkeys(names)) if categories else [],
        prefixed=of.large(figure.x) and not categories,
    )


def _name(value: Value) -> str:
    return f"{value.value:g}" if isinstance(value, Estimated) else value or "none"


def _place(value: Value, axis: Axis) -> float:
    if axis.names:
        return float(axis.names.index(_name(value)))
    assert isinstance(value, Estimated)
    return value.value


def _ordered(points: list[_Located], axis: Axis) -> list[_Located]:
    return sorted(points, key=lambda point: _place(point.x, axis))


def _line(label: str, points: list[_Located], axis: Axis, figure: PageFigure) -> PlotLine:
    x, y = [_place(point.x, axis) for point in points], [point.y.value for point in points]
    power = None
    if figure.fit and min(*x, *y) > 0 and (found := timing.exponent(x, y)):
        c = float(np.exp(np.mean(np.log(y)) - found.value * np.mean(np.log(x))))
        power = (c, found.value, found.low, found.high)
    return PlotLine(
        label=label, x=x, y=y, power=power,
        low=[point.y.low for point in points], high=[point.y.high for point in points],
        names=[point.entry for point in points],
    )  # fmt: skip


def _demand_spread(values: list[float], axis: str, least: float = 0.01) -> None:
    if not spread(values, least):
        raise NotDrawn(f"all have the same {axis}")


def _curves(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """Lines of the learning curve: means over seeds, and the span of all of them."""
    del arrays
    lines = curves.lines(figure, of, dataset)
    if not lines:
        raise NotDrawn("no run has such a curve yet")
    _demand_spread([x for line in lines for x in line.x], figure.x)
    label = " or ".join(name.replace("_", " ") for name in figure.y)
    shares = of.percent(figure.y[0])
    if any(of.percent(name) != shares for name in figure.y):
        raise NotDrawn("some of it is in per cent and some is not: make it two figures")
    return Plot(
        kind="lines",
        x=Axis(label=figure.x, log="x" in figure.log),
        y=Axis(label=f"{label}{' [%]' * shares}", log="y" in figure.log),
        panels=[Panel(lines=lines)],
    )


def _bars(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """A group of bars for each quantity, or of one for each data set; a colour for each entry."""
    del dataset, arrays
    groups: list[tuple[str, str, str]] = []  # its name, the quantity and the data set
    for name in figure.y:
        if of.of_data(name):
            groups += [(each, name, each) for each in of.datasets(figure, name)]
        else:
            groups.append((name.partition("/")[2] or of.label(name), name, ""))
    if len(figure.y) > 1 and any(of.of_data(name) for name in figure.y):
        groups = [(of.label(name, each), name, each) for _, name, each in groups]
    lines = []
    for label in of.entries(figure):
        found = [
            (place, of.value(name, label, each)) for place, (_, name, each) in enumerate(groups)
        ]
        known = [(place, value) for place, value in found if isinstance(value, Estimated)]
        if known:
            lines.append(
                PlotLine(
                    label=label,
                    x=[float(place) for place, _ in known],
                    y=[value.value for _, value in known],
                    low=[value.low for _, value in known],
                    high=[value.high for _, value in known],
                    names=[label] * len(known),
                )
            )
    if not lines:
        raise NotDrawn("nothing is known of it yet")
    names = {_untitled(of.label(name, each)) for _, name, each in groups}
    return Plot(
        kind="bars",
        x=Axis(names=[name for name, _, _ in groups]),
        y=Axis(label=" or ".join(sorted(names))),
        panels=[Panel(lines=lines)],
    )


def _untitled(label: str) -> str:
    """An average's label without its title, which stands below its bars."""
    metric, comma, rest = label.partition(", ")
    return metric + " [%]" * (comma != "" and rest.endswith(" [%]"))


def _map(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """Cells of two quantities, coloured by a third; a panel for each line."""
    del arrays
    found: dict[str, list[tuple[Value, Value, Value, str]]] = defaultdict(list)
    for label in of.entries(figure):
        x, y = (of.value(name, label, dataset) for name in (figure.x, figure.y[0]))
        if x is not None and y is not None:
            colour = of.value(figure.colour, label, dataset)
            state = "" if colour is not None else of.state(figure.colour, label, dataset)
            panel = of.series(figure.by or "group", label, dataset)
            found[panel].append((x, y, colour, state))
    cells = [cell for panel in found.values() for cell in panel]
    axes = {}
    for place, name in enumerate((figure.x, figure.y[0])):
        values = [cell[place] for cell in cells]
        numbers = sorted({v.value for v in values if isinstance(v, Estimated)})
        texts = [
            v for v in dict.fromkeys(map(_name, values)) if v not in {f"{n:g}" for n in numbers}
        ]
        names = [*(f"{number:g}" for number in numbers), *texts]
        if len(names) < 2:
            raise NotDrawn(f"all have the same {of.label(name, dataset)}")
        axes[place] = Axis(label=of.label(name, dataset), names=names)
    if not any(isinstance(cell[2], Estimated) for cell in cells):
        raise NotDrawn("nothing is known of it yet")
    panels = [
        Panel(
            title=title if len(found) > 1 else "",
            cells=[
                MapCell(
                    x=axes[0].names.index(_name(x)),
                    y=axes[1].names.index(_name(y)),
                    value=colour.value if isinstance(colour, Estimated) else None,
                    state=state,
                )
                for x, y, colour, state in of_panel
            ],
        )
        for title, of_panel in found.items()
    ]
    colour = of.label(figure.colour, dataset)
    return Plot(kind="map", x=axes[0], y=axes[1], colour=colour, panels=panels)


def _functions(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """Activation functions with their derivatives, a panel each."""
    del dataset, arrays
    names = figure.show
    if not names:
        found = [of.value("args.activation", e, "") for e in of.entries(figure)]
        names = [name for name in dict.fromkeys(found) if isinstance(name, str)]
    if not names:
        raise NotDrawn("no entry has an activation function as its argument")
    x = np.linspace(*_SIDES, 161)
    panels = []
    for name in names:
        function, derivative = formulas.FUNCTIONS[name]
        lines = [_smooth("f(x)", x, function), _smooth("f′(x)", x, derivative)]
        panels.append(Panel(title=name, lines=lines))
    return Plot(kind="functions", x=Axis(label="x"), panels=panels)


def _smooth(label: str, x: Floats, function: Callable[[Floats], Floats]) -> PlotLine:
    y = np.asarray(function(x), dtype=float)
    return PlotLine(label=label, x=x.round(4).tolist(), y=y.round(5).tolist())


def _positions(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """Sinusoids as a picture, and dot products of two positions by their distance."""
    del of, dataset, arrays
    length, table = figure.length, formulas.sinusoids(figure.length, figure.width // 2 * 2)
    lines = []
    for place in (0, length // 4, length // 2):
        distance = np.arange(-place, length - place)
        products = (table @ table[place]).round(4)
        label = f"from position {place}"
        lines.append(PlotLine(label=label, x=[float(d) for d in distance], y=products.tolist()))
    return Plot(
        kind="positions",
        x=Axis(label="channel k"),
        y=Axis(label="position t"),
        colour="pₜ(k)",
        panels=[
            Panel(title="Sinusoids", picture=picture("Sinusoids", table)),
            Panel(title="Dot products", lines=lines),
        ],
    )


def _heatmaps(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    """What a probe kept of each entry's first run, a picture each."""
    panels = []
    start = f"{figure.probe}/"
    for label in of.entries(figure):
        for _, record in sorted(of.samples[label, dataset].done.items()):
            kept = arrays.get(record.key, {})
            titles = sorted((t for t in kept if t.startswith(start)), key=_by_number)
            for title in titles:
                shown = title.removeprefix(start)
                panel = f"{label}, {shown}" if len(titles) > 1 else label
                panels.append(Panel(title=panel, picture=picture(panel, kept[title])))
            if titles:
                break
    if not panels:
        raise NotDrawn("no run has kept such arrays: those of before kept none")
    signed = any(panel.picture and panel.picture.low for panel in panels)
    across, down = ("from token", "to token") if signed else ("column [pixels]", "row [pixels]")
    return Plot(
        kind="heatmaps",
        x=Axis(label=across),
        y=Axis(label=down),
        colour="weight" if signed else "gradient",
        panels=panels[:_MOST_PICTURES],
    )


def _by_number(title: str) -> tuple[str, int]:
    start = title.rstrip("0123456789")
    return start, int(title[len(start) :] or 0)


def picture(title: str, values: Any) -> Picture:
    """A matrix over its largest value as bytes, made smaller where it is large.

    Of both signs it is thinned, which leaves a Toeplitz matrix one; of one sign it is averaged.
    """
    found = np.asarray(values, dtype=np.float64)
    signed = bool((found < 0).any())
    step = -(-max(found.shape) // _MOST_ROWS)
    if step > 1 and signed:
        found = found[::step, ::step]
    elif step > 1:
        rows, columns = (side // step * step for side in found.shape)
        blocks = found[:rows, :columns].reshape(rows // step, step, columns // step, step)
        found = blocks.mean((1, 3))
    # A few outliers would leave all else in the dark.
    largest = float(np.quantile(np.abs(found), 0.999)) or float(np.abs(found).max()) or 1.0
    shares = np.clip(found / largest, -1, 1)
    shares = (shares + 1) / 2 if signed else shares
    levels = np.round(_LEVELS * shares).astype(np.uint8)
    return Picture(
        title=title,
        rows=levels.shape[0],
        columns=levels.shape[1],
        low=-1 if signed else 0,
        levels=base64.b64encode(levels.tobytes()).decode(),
    )


def pixels(drawn: Picture) -> Floats:
    """The matrix of a picture, from its `low` to 1."""
    flat = np.frombuffer(base64.b64decode(drawn.levels), dtype=np.uint8)
    shares = flat.reshape(drawn.rows, drawn.columns) / _LEVELS
    return np.asarray(2 * shares - 1 if drawn.low else shares)


def _of_lines(figure: PageFigure, of: Quantities, dataset: str, arrays: Arrays) -> Plot:
    return (_curves if figure.of_curve else _lines)(figure, of, dataset, arrays)


_MAKERS: Mapping[str, Callable[[PageFigure, Quantities, str, Arrays], Plot]] = {
    "lines": _of_lines,
    "points": _lines,
    "bars": _bars,
    "map": _map,
    "functions": _functions,
    "positions": _positions,
    "heatmaps": _heatmaps,
}
