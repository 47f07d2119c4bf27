"""Captions of the figures that a page asks for, and what is said of those that are not drawn."""

from collections.abc import Mapping

from lightning_bench.bench.study.figures import PageFigure
from lightning_bench.reports.figures.asked import content
from lightning_bench.reports.figures.asked.quantities import Quantities
from lightning_bench.reports.plot import Plot
from lightning_bench.reports.report import Fact, Figure, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics.samples import Samples
from lightning_bench.reports.text.numbers import joined, slug

_INTERVAL = "mean and 95 % t-interval over seeds"
_CAPTIONS: Mapping[str, str] = {
    "lines": "Each point is an entry, or one of its metrics: {interval}.",
    "points": "Each point is an entry: {interval}.",
    "bars": f"Each bar is an entry: {_INTERVAL}.",
    "map": "Each cell is an entry: the mean over seeds, or why there is none.",
    "functions": (
        "The function (solid) and the derivative by which it is trained (dashed): the step's is the"
        " straight-through estimate, as its true derivative is zero; PReLU's slope is the initial"
        " one, 0.25."
    ),
    "positions": (
        "Left: the sinusoids of each position, sin and cos in turns. Right: the dot product of two"
        " positions; from wherever it is taken, it depends on their distance alone."
    ),
    "receptive-field": (
        "The mean size of the gradient of the middle of the last map at each pixel of the image,"
        " over the largest, after training with the first seed."
    ),
    "toeplitz": (
        "Spatial matrices after training with the first seed, each over its largest weight: what"
        " the token of a row takes from that of each column. Of Mixer the product of its two."
    ),
}


def figures(
    request: Request, samples: Samples, main: Table, arrays: content.Arrays
) -> tuple[list[Figure], list[Fact]]:
    """The figures that the page asks for, and a line for each that is not drawn."""
    quantities = Quantities(request, samples, main)
    drawn: list[Figure] = []
    left_out: dict[str, None] = {}
    for number, figure in enumerate(request.study.figures, 1):
        for dataset, plot in content.plots(figure, quantities, arrays):
            title = _title(figure, quantities, dataset)
            if isinstance(plot, content.NotDrawn):
                left_out[f"{title}: {plot}"] = None
            else:
                name = "-".join(filter(None, [f"page-{number}", dataset and slug(dataset)]))
                drawn.append(_figure(figure, plot, name, title, dataset))
    if not left_out:
        return drawn, []
    return drawn, [Fact(label="Figures not drawn", text="; ".join(left_out))]


def _figure(figure: PageFigure, plot: Plot, name: str, title: str, dataset: str) -> Figure:
    return Figure(
        name=name,
        kind="plot",
        dataset=dataset or None,
        title=title,
        caption=_caption(figure, plot),
        alt=_alt(plot, title),
        plot=plot,
    )


def _title(figure: PageFigure, of: Quantities, dataset: str) -> str:
    at = f", {dataset}" if dataset else ""
    if figure.title:
        return f"{figure.title}{at if len(of.request.metrics) > 1 else ''}"
    if figure.kind in {"functions", "positions"}:
        return {
            "functions": "Activation functions and their derivatives",
            "positions": "Sinusoidal positions and their dot products",
        }[figure.kind]
    if figure.kind == "heatmaps":
        shown = {"receptive-field": "Effective receptive fields", "toeplitz": "Spatial matrices"}
        return f"{shown.get(figure.probe, figure.probe)}{at}"
    first = dataset or next(iter(of.request.metrics))
    if figure.of_curve:
        what = joined([name.replace("_", " ") for name in figure.y])
        return _capital(f"{what} against {figure.x}{at}")
    names = [_bare(of.label(name, first)) for name in figure.y]
    y = joined(list(dict.fromkeys(names)))
    if figure.kind == "bars":
        return _capital(f"{y}{at}")
    numbered = any(name.endswith("*") for name in figure.y)
    x = figure.x.replace("_", " ") if numbered else _bare(of.label(figure.x, first))
    if figure.kind == "map":
        return _capital(f"{_bare(of.label(figure.colour, first))} by {x} and {y}{at}")
    return _capital(f"{y} against {x}{at}")


def _bare(label: str) -> str:
    """An axis's label without its unit, nor the word test in front."""
    return label.partition(" [")[0].removeprefix("test ")


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _caption(figure: PageFigure, plot: Plot) -> str:
    if figure.of_curve:
        return (
            "By the validation split, but for what is named after training: the mean over seeds;"
            " the band spans all of them."
        )
    if figure.kind == "heatmaps":
        return _CAPTIONS.get(figure.probe, "What the probe kept with the first seed.")
    intervals = any(
        end is not None for panel in plot.panels for li in panel.lines for end in li.low
    )
    caption = _CAPTIONS[figure.kind].format(interval=_INTERVAL if intervals else "as counted")
    if any(line.power for panel in plot.panels for line in panel.lines):
        caption += (
            " Dashed: c xᵏ by least squares of the logarithms, with the 95 % t-interval of k; no"
            " curve is a pure power."
        )
    return caption


def _alt(plot: Plot, title: str) -> str:
    panels = [panel.title for panel in plot.panels if panel.title]
    lines = [line.label for panel in plot.panels for line in panel.lines]
    what = {
        "lines": f"Lines of {joined(lines)}",
        "points": f"Points of {joined(lines)}",
        "bars": f"Bars of {joined(lines)}",
        "map": "A grid of coloured cells",
        "functions": f"Panels of {joined(panels)}",
        "positions": "A heat map of stripes that widen with the channel, and lines that fall from a"
        " peak at distance 0",
        "heatmaps": f"Heat maps of {joined(panels)}",
    }[plot.kind]
    table = (
        ""
        if plot.kind in {"functions", "positions", "heatmaps"}
        else (" The numbers stand in a table below.")
    )
    return f"{title}. {what}.{table}"
