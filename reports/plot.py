"""What a figure that a page asks for shows, as numbers: axes, lines, cells and pictures."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PlotKind = Literal["lines", "points", "bars", "map", "functions", "positions", "heatmaps"]


class PlotPart(BaseModel):
    """Immutable, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Axis(PlotPart):
    """What stands on an axis; with `names`, places are their numbers."""

    label: str = ""
    log: bool = False
    names: Annotated[list[str], Field(description="of categories, in their order")] = []
    prefixed: Annotated[bool, Field(description="large counts: 1 M instead of 1000000")] = False


class PlotLine(PlotPart):
    """Points with their intervals, joined in this order or not."""

    label: str
    x: list[float]
    y: list[float]
    low: list[float | None] = []
    high: list[float | None] = []
    names: Annotated[list[str], Field(description="of the points: entries")] = []
    power: Annotated[
        tuple[float, float, float, float] | None,
        Field(description="fitted y = c xᵏ: c, k and the ends of k's 95 % interval"),
    ] = None


class MapCell(PlotPart):
    """A place of a map: its column and row, and a value or why there is none."""

    x: int
    y: int
    value: float | None = None
    state: str = ""


class Picture(PlotPart):
    """A matrix as bytes, row by row, in base64: 0 … 254 for `low` … 1."""

    title: str
    rows: int
    columns: int
    low: Annotated[Literal[-1, 0], Field(description="-1: of both signs")] = 0
    levels: str


class Panel(PlotPart):
    """Axes of their own within a figure: lines, or a map, or a picture."""

    title: str = ""
    lines: list[PlotLine] = []
    cells: list[MapCell] = []
    picture: Picture | None = None


class Plot(PlotPart):
    """A figure's content; panels share their axes."""

    kind: PlotKind
    x: Axis = Axis()
    y: Axis = Axis()
    colour: Annotated[str, Field(description="what the colours of cells and pictures are")] = ""
    panels: list[Panel]
