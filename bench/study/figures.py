"""Figures that a page asks for: some kinds with named axes, without any code of a study's own.

    figures:
      - {kind: lines, x: shift, y: accuracy_shift*}              # metrics by their number
      - {kind: lines, x: tokens, y: flops, log: [x, y], fit: true}
      - {kind: points, x: pretraining_flops, y: accuracy, by: group, log: [x]}
      - {kind: lines, x: epoch, y: [train_loss, val_loss]}   # of the validation split, by epoch
      - {kind: bars, y: [average/Natural, average/Structured]}
      - {kind: map, x: recipe.lr, y: args.width, colour: accuracy, log: [x, y]}
      - {kind: functions, show: [relu, gelu]}                    # activations and their derivatives
      - {kind: positions, length: 64, width: 128}                # sinusoids, and their dot products
      - {kind: heatmaps, probe: receptive-field}                 # what a probe kept of each entry

An axis is a metric of the test (or `primary`, each data set's first), `average/TITLE`, one of
`FACTS`, or a setting: `args.NAME`, `recipe.NAME`, `data.NAME`. `NAME*` stands for the metrics
that end in a number, which is then x, whatever x is called. `by` tells what is a line, or a panel
of a map: `group`, `entry`, `model`, `dataset` or a setting. `entries` and `data` choose some.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from lightning_bench.bench.spec import DataSpec, Recipe, Settings
from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.common.messages import nearest
from lightning_bench.models.probes import PROBES
from lightning_bench.models.registry import catalogue

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study

#: What is known of an entry without its metrics, with what an axis says of it.
FACTS = {
    "parameters": "parameters",
    "flops": "FLOPs of one forward pass",
    "tokens": "tokens S",
    "depth": "depth",
    "throughput": "throughput of inference",
    "train_s": "training time [s]",
    "pretraining_examples": "examples of pre-training",
    "pretraining_flops": "FLOPs of pre-training",
    "pretraining_h": "device-hours of pre-training",
}
#: Axes of a learning curve; what stands against them is of the validation split.
CURVE_AXES = ("epoch", "step")
LOSSES = ("train_loss", "val_loss")
PRIMARY = "primary"
AVERAGE = "average/"
SERIES = ("group", "entry", "model", "dataset")
#: What each kind of figure is told, apart from its title, entries and data; the first few it needs.
_TOLD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "lines": (("x", "y"), ("by", "log", "fit")),
    "points": (("x", "y"), ("by", "log", "fit")),
    "bars": (("y",), ("by",)),
    "map": (("x", "y", "colour"), ("by", "log")),
    "functions": ((), ("show",)),
    "positions": ((), ("length", "width")),
    "heatmaps": (("probe",), ()),
}
_ALWAYS = {"kind", "title", "entries", "data"}


class PageFigure(Settings):
    """One figure of a page."""

    kind: Literal["lines", "points", "bars", "map", "functions", "positions", "heatmaps"]
    title: str = ""
    x: str = ""
    y: Annotated[list[str], Field(description="one axis; of a curve and of bars also several")] = []
    colour: Annotated[str, Field(description="of a map: the metric that colours a cell")] = ""
    by: Annotated[str, Field(description="what is a line of its own")] = ""
    log: Annotated[list[Literal["x", "y"]], Field(description="logarithmic axes")] = []
    fit: Annotated[bool, Field(description="a power law through each line, on log-log axes")] = (
        False
    )
    entries: Annotated[list[str], Field(description="their labels; all where none is named")] = []
    data: Annotated[list[str], Field(description="data sets, as tables call them; else all")] = []
    show: Annotated[list[str], Field(description="activation functions; else the entries'")] = []
    length: Annotated[int, Field(ge=8, le=512, description="positions that are drawn")] = 64
    width: Annotated[int, Field(ge=8, le=1024, description="channels of a position")] = 128
    probe: Annotated[str, Field(description="whose arrays are drawn")] = ""

    @field_validator("y", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        """`y: accuracy` is short for a list of it."""
        return [value] if isinstance(value, str) else value

    @property
    def of_curve(self) -> bool:
        """Whether it shows values by epoch or step, those of the validation split."""
        return self.kind == "lines" and self.x in CURVE_AXES

    @property
    def axes(self) -> list[str]:
        """All names of quantities in it, `by` left out."""
        return [name for name in (self.x, *self.y, self.colour) if name]


def breaches(study: "Study") -> Iterator[PageError]:
    """What can't be drawn: a key of another kind, an axis or an entry that there is not."""
    for i, figure in enumerate(study.figures):
        at = ("figures", i)
        needed, optional = _TOLD[figure.kind]
        given = figure.model_fields_set - _ALWAYS
        for name in sorted(given - {*needed, *optional}):
            yield PageError((*at, name), f"a figure of kind {figure.kind} has no {name!r}")
        for name in needed:
            if not getattr(figure, name):
                yield PageError(at, f"a figure of kind {figure.kind} needs {name!r}")
        for name in figure.entries:
            if name not in study.entries:
                hint = nearest(name, study.entries)
                yield PageError((*at, "entries"), f"no entry is called {name!r}{hint}")
        for name in figure.data:
            if name not in study.datasets:
                hint = nearest(name, study.datasets)
                yield PageError((*at, "data"), f"{name} is not in the study{hint}")
        yield from _axes(study, figure, at)
        yield from _shown(study, figure, at)


def _axes(study: "Study", figure: PageFigure, at: Location) -> Iterator[PageError]:
    numbered = any(name.endswith("*") for name in figure.y)
    if figure.kind in {"lines", "points", "map"} and len(figure.y) > 1 and not figure.of_curve:
        yield PageError((*at, "y"), "several y are of bars, or of lines over epoch or step")
    if figure.fit and {*figure.log} != {"x", "y"}:
        yield PageError((*at, "fit"), "a power law is a line where both axes are logarithmic")
    for key, names in (("x", [figure.x]), ("y", figure.y), ("colour", [figure.colour])):
        for name in filter(None, names):
            # Of numbered metrics x is the number, and its name only a label.
            free = key == "x" and (numbered or name in CURVE_AXES)
            if not free and (problem := _unknown(study, figure, name)):
                yield PageError((*at, key), problem)
    if figure.by and figure.by not in SERIES and (problem := _no_setting(study, figure.by)):
        yield PageError((*at, "by"), problem)


def _shown(study: "Study", figure: PageFigure, at: Location) -> Iterator[PageError]:
    if figure.kind == "heatmaps" and figure.probe:
        drawable = [name for name, probe in PROBES.items() if probe.arrays]
        if figure.probe not in study.probes or figure.probe not in drawable:
            hint = nearest(figure.probe, drawable)
            message = f"{figure.probe} is no probe of the page that keeps arrays{hint}"
            yield PageError((*at, "probe"), message)

    known = [str(name) for name in catalogue.find("mlp").arguments["activation"].choices or ()]
    for name in figure.show:
        if name not in known:
            message = f"there is no activation function {name!r}{nearest(name, known)}"
            yield PageError((*at, "show"), message)


def _unknown(study: "Study", figure: PageFigure, name: str) -> str:
    """Why a name is no axis of a figure; empty if it is one."""
    if name.startswith(AVERAGE):
        title = name.removeprefix(AVERAGE)
        return (
            ""
            if title in study.averages
            else f"there is no average {title!r}{nearest(title, study.averages)}"
        )
    metrics = metrics_of(study)
    if name.endswith("*"):
        prefixes = {*_numbered(metrics), *(p for q in PROBES.values() for p in q.numbered)}
        prefix = name.removesuffix("*")
        return "" if prefix in prefixes else f"no metric is called {prefix} and a number"
    if "." in name:
        return _no_setting(study, name)
    known = {PRIMARY, *FACTS, *metrics, *(LOSSES if figure.of_curve else ())}
    if name in known or figure.of_curve:  # what the validation split has, nobody lists
        return ""
    return f"{name} is no metric here, nor a fact of an entry{nearest(name, known)}"


def metrics_of(study: "Study") -> set[str]:
    """Every metric that a table of the study may have."""
    found = {name for dataset in study.datasets.values() for name in dataset.reported}
    of_probes = {
        name for probe in study.probes if probe in PROBES for name in PROBES[probe].metrics
    }
    return {*found, *study.metrics, *of_probes}


def _numbered(names: set[str]) -> set[str]:
    """The beginnings of names that end in a number."""
    return {start for name in names if (start := name.rstrip("0123456789")) != name}


def _no_setting(study: "Study", name: str) -> str:
    """Why there is no such setting of an entry; empty if there is one."""
    room, _, key = name.partition(".")
    known: set[str] = set()
    if room == "args":
        known = {a for e in study.resolved.values() for a in e.variant.arguments}
    elif room in {"recipe", "data"}:
        known = {*(Recipe if room == "recipe" else DataSpec).model_fields}
    else:
        return f"{name} is none of {', '.join(SERIES)}, args.NAME, recipe.NAME, data.NAME"
    return "" if key in known else f"there is no {room}.{key}{nearest(key, known)}"
