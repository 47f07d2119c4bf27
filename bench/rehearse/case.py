"""Rehearsal cases: the distinct runs of studies, each with all runs that it stands for; pure.

Two runs are one case where only seeds and sizes differ that change no code path and no shape:
learning rates, epochs, fractions that are on in both. Cases that differ in the data set alone are
alike: one of them shows the model's training, the others their data and heads.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lightning_bench.bench.spec import Recipe, RunSpec, canonical_json
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.bench.study.search_cell import Cell
from lightning_bench.bench.study.search_space import Parameter, Values
from lightning_bench.bench.study.study import Study
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.registry import user_code

#: Settings of a recipe whose size changes neither a shape nor what is computed.
_SIZES = {"lr", "momentum", "beta1", "beta2", "epochs", "batch_size"}


@dataclass(frozen=True)
class Place:
    """One run of a study, all its seeds together, as a row of the table names it."""

    study: str
    scale: str
    entry: str
    dataset: str
    part: str = ""  # of a search: its own values, an end of the space, a draw

    @property
    def title(self) -> str:
        """The entry, the data set, and what of a search it is."""
        part = f" ({self.part})" if self.part else ""
        return f"{self.entry} on {self.dataset}{part}"


@dataclass
class Case:
    """A distinct run, and the places where studies ask for it."""

    key: str
    alike: str  # the same of all cases that differ in their data set alone
    spec: RunSpec
    start: str  # the key of the case whose weights this one starts from
    page_folder: str
    places: list[Place] = field(default_factory=list)
    started_from: bool = False  # by others, so that its weights are kept
    shows_training: bool = False  # of all that are alike, the one that trains even where it's slow


def cases_of(studies: Iterable[tuple[Study, str]]) -> list[Case]:
    """The cases of studies, with the folders of their pages, each behind what it starts from."""
    found: dict[str, Case] = {}
    for study, folder in studies:
        for spec, place in _runs(study):
            case = _add(found, spec, folder)
            if place not in case.places:
                case.places.append(place)
    chosen: dict[str, Case] = {}
    for case in found.values():
        chosen.setdefault(case.alike, case)
    for case in chosen.values():
        case.shows_training = True
    return list(found.values())


def _add(found: dict[str, Case], spec: RunSpec, folder: str) -> Case:
    start = _add(found, spec.start, folder) if spec.start is not None else None
    if start is not None:
        start.started_from = True
    own = folder if user_code.is_user_model(spec.model.name) else ""
    family = {"run": _family(spec), "start": start.key if start else "", "folder": own}
    dataset = dataset_of(spec.data)
    alike = {**family, "run": {**_family(spec), "data": _shape(dataset)}}
    alike["start"] = start.alike if start else ""
    key = canonical_json(family)
    case = Case(key, canonical_json(alike), spec, start.key if start else "", folder)
    return found.setdefault(key, case)


def _runs(study: Study) -> Iterator[tuple[RunSpec, Place]]:
    """The stages' runs, then the entries'; of a search its first trial, its ends, and a draw."""

    def place(entry: str, dataset: str, part: str = "") -> Place:
        return Place(study.name, study.scale, entry, dataset, part)

    for run in study.before():
        yield run.spec, place(run.entry, run.dataset)
    if study.search is None:
        for run in study.runs():
            yield run.spec, place(run.entry, run.dataset)
        return
    for cell in study.cells():
        for part, values in _values(cell):
            spec = cell.spec(values, 0, tested=part == "first trial")
            yield spec, place(cell.entry, cell.dataset, part)


def _values(cell: Cell) -> Iterator[tuple[str, Values]]:
    """The first trial, all lower ends, all upper ends (every choice in turn), and one draw."""
    space = cell.space
    yield "first trial", space.own()
    parameters = space.parameters.items()
    ends = max((len(parameter.bounds()) for _, parameter in parameters), default=0)
    generator = random.Random(cell.digest)
    names = {0: "lowest values", 1: "highest values"}
    for number in range(ends):
        values: Values = {}
        for name, parameter in parameters:
            bounds = parameter.bounds()
            if space.active(name, values):
                values[name] = bounds[number % len(bounds)]
        yield names.get(number, f"choices {number + 1}"), values
    values = {}
    for name, parameter in parameters:
        if space.active(name, values):
            values[name] = _drawn(parameter, generator)
    yield "drawn values", values


def _drawn(parameter: Parameter, generator: random.Random) -> Any:
    if (size := parameter.grid_size()) is not None:
        return parameter.grid_value(generator.randrange(size))
    share = generator.random()
    if parameter.log:
        value = parameter.low * (parameter.high / parameter.low) ** share
    else:
        value = parameter.low + share * (parameter.high - parameter.low)
    return round(value) if parameter.kind == "int" else value


def _family(spec: RunSpec) -> dict[str, Any]:
    """What decides shapes and code paths of a run."""
    plain = spec.model_dump(mode="json", exclude_defaults=True)
    args = {name: _on(value) for name, value in spec.model.args.items()}
    data = {**plain["data"], "shots": bool(spec.data.shots), "sample": False}
    return {
        "model": {"name": spec.model.name, "args": args},
        "data": data,
        "recipe": _recipe(spec.recipe),
        "tested": spec.tested,
        "weights": spec.weights,
        "probes": list(spec.probes),
    }


def _recipe(recipe: Recipe) -> dict[str, Any]:
    given = recipe.model_dump(mode="json", exclude_defaults=True)
    family = {name: _on(value) for name, value in given.items() if name not in _SIZES}
    return family | {"trained": bool(recipe.epochs), "batch": min(recipe.batch_size, 2)}


def _on(value: Any) -> Any:
    """A fraction is on or off, whatever it is; all else counts as it is."""
    return bool(value) if isinstance(value, float) else value


def _shape(dataset: DataSet) -> dict[str, Any]:
    facts = {name: value for name, value in dataset.facts().items() if name != "classes"}
    return {**facts, "task": dataset.task, "shifts": dataset.shifts}
