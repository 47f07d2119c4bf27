"""The content of a figure that a page asks for as rows of text, for readers who don't see it."""

from lightning_bench.reports.plot import Axis, Panel, Plot, PlotLine

MOST_ROWS = 300  # a page of more would only be slow


def heads(plot: Plot) -> list[str]:
    """What stands in the columns."""
    if plot.kind == "map":
        return ["Panel", plot.x.label, plot.y.label, plot.colour]
    return ["Line", plot.x.label or "of", plot.y.label, "95 % interval or span"]


def rows(plot: Plot) -> list[list[str]]:
    """A row for each point or cell, the line or panel first; of very many the first ones."""
    made = [row for panel in plot.panels for row in _of_panel(plot, panel)]
    return made[:MOST_ROWS]


def _of_panel(plot: Plot, panel: Panel) -> list[list[str]]:
    if plot.kind == "map":
        return [
            [
                panel.title or "all",
                plot.x.names[cell.x],
                plot.y.names[cell.y],
                cell.state if cell.value is None else f"{cell.value:.4g}",
            ]
            for cell in panel.cells
        ]
    return [row for line in panel.lines for row in _of_line(plot.x, line)]


def _of_line(axis: Axis, line: PlotLine) -> list[list[str]]:
    made = []
    for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        low, high = (ends[place] if ends else None for ends in (line.low, line.high))
        named = line.names[place] if line.names else line.label
        label = line.label if named == line.label else f"{line.label}: {named}"
        between = "–" if low is None or high is None else f"{low:.4g} to {high:.4g}"
        shown = axis.names[round(x)] if axis.names else f"{x:.6g}"
        made.append([label, shown, f"{y:.6g}", between])
    return made
