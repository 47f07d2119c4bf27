"""Study: a question with a name, read from its page and expanded into runs."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from lightning_bench import studies
from lightning_bench.bench.errors import UserError, nearest
from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec, Scalar, Settings
from lightning_bench.bench.study import page as pages
from lightning_bench.bench.study import stages, validate, validate_search
from lightning_bench.bench.study.cluster import Cluster
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.bench.study.measure_settings import Measure
from lightning_bench.bench.study.messages import explain
from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.search_cell import Cell
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import Parameter, Values
from lightning_bench.bench.study.stages import Stage
from lightning_bench.data.catalogue.dataset import DataSet
from lightning_bench.models.registry import catalogue as model_catalogue

SCALES = ("smoke", "small", "full")
#: What a study knows of how it was loaded; no page may say it.
_RESERVED = {"name", "scale", "command"}


class Entry(Settings):
    """One row of the comparison: a model, its arguments, and where its recipe departs."""

    model: str
    args: dict[str, Scalar] = {}
    recipe: dict[str, Scalar] = {}
    group: str = ""
    published: Annotated[str, Field(description="the printed row that it reproduces")] = ""
    start: Annotated[str, Field(description="the stage whose weights it starts from")] = ""
    weights: Annotated[str, Field(description="published weights: timm/NAME, a repository")] = ""
    space: Annotated[
        dict[str, Parameter | None], Field(description="laid over the search's; null takes one out")
    ] = {}
    data: Annotated[
        list[DataSpec], Field(description="those of the study that it meets, as it reads them")
    ] = []

    @field_validator("data", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return _named(value)


class Study(Settings):
    """A study at one of its scales. Entries × data sets × seeds are its runs."""

    name: str
    scale: str
    command: str = ""
    title: str
    question: str
    data: Annotated[list[DataSpec], Field(min_length=1)]
    entries: Annotated[dict[str, Entry], Field(min_length=1)]
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]],
        Field(description="none at all for a table of facts, without any training"),
    ]
    args: Annotated[dict[str, Scalar], Field(description="what all entries' models share")] = {}
    recipe: Recipe = Recipe()
    search: Annotated[Search | None, Field(description="tune every entry, on one budget")] = None
    stages: Annotated[dict[str, Stage], Field(description="what is trained first")] = {}
    measure: Annotated[Measure | None, Field(description="columns of speed and memory")] = None
    probes: Annotated[list[str], Field(description="measures of the models, an epoch")] = []
    epochs_to: Annotated[
        dict[str, float], Field(description="columns: the first epoch to reach it, by metric")
    ] = {}
    averages: Annotated[
        dict[str, list[str]], Field(description="columns of means over data sets, by title")
    ] = {}
    published: Annotated[
        dict[str, dict[str, str]],
        Field(description="printed tables: their columns to ours, as `digits/accuracy`"),
    ] = {}
    devices: Annotated[int, Field(ge=1, description="of a run, sharing its batch")] | None = None
    threads: Annotated[int, Field(ge=1, description="CPU threads of a device")] = 1
    cluster: Annotated[Cluster, Field(description="what a run asks of a cluster")] = Cluster()
    run_s: Annotated[float, Field(gt=0, description="a run's seconds, before any is known")] = 60.0

    @field_validator("data", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return _named(value)

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        """`seeds: 5` is short for seeds 0 to 4."""
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 1:
                raise ValueError("a count of seeds is at least 1 ([] trains nothing)")
            return list(range(value))
        return value

    @field_validator("seeds")
    @classmethod
    def _unique(cls, value: list[int]) -> list[int]:
        if len(set(value)) < len(value):
            raise ValueError("a seed is given twice")
        return value

    def recipe_of(self, label: str) -> Recipe:
        """The recipe an entry is trained with."""
        return Recipe.model_validate(
            self.recipe.model_dump(exclude_unset=True) | self.entries[label].recipe
        )

    def data_of(self, label: str, spec: DataSpec) -> DataSpec | None:
        """One of the study's data sets as an entry reads it; None where it isn't to."""
        own = self.entries[label].data or [spec]
        return next((each for each in own if each.name == spec.name), None)

    def datasets(self) -> dict[str, DataSet]:
        """The data sets by what tables call them; those of one name are told by their settings."""
        names = [spec.name for spec in self.data]
        found = {}
        for spec in self.data:
            settings = spec.model_dump(exclude_defaults=True, exclude={"name", "sample"})
            told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
            alone = names.count(spec.name) == 1
            found[spec.name if alone else f"{spec.name} ({told or 'as it is'})"] = dataset_of(spec)
        return found

    def runs(self, chosen: Mapping[tuple[str, str], Values] | None = None) -> list["Run"]:
        """All runs, seed by seed, so that a study stopped half-way compares like with like.

        An entry meets the data sets that its model can read, or those that it names. Where it
        starts from a stage that is `shown`, the stage's one run stands for all on its data.
        With a search, these are the final runs of the entries and data sets whose values are
        `chosen`; the others have none yet.
        """
        if self.search is not None:
            cells = [cell for cell in self.cells() if (cell.entry, cell.dataset) in (chosen or {})]
            frozen = dict(chosen or {})
            return [
                Run(c.entry, c.dataset, c.spec(frozen[c.entry, c.dataset], seed, tested=True))
                for seed in self.seeds
                for c in cells
            ]
        common = {label: self._common(label) for label in self.entries}
        found = []
        for seed in self.seeds:
            for label, name, spec in self._meetings():
                start = self.entries[label].start
                own = stages.shown(self.stages, start, common[label]["start"], spec)
                if own is None:
                    own = RunSpec(data=spec, seed=seed, **common[label])
                elif seed != self.seeds[0]:
                    continue
                found.append(Run(label, name, own))
        return found

    def cells(self) -> list[Cell]:
        """The searches that the page asks for, one for each entry on each data set."""
        if self.search is None:
            return []
        meetings, spaces = self._meetings(), {}
        for label, entry in self.entries.items():
            read = [dataset_of(spec) for met, _, spec in meetings if met == label]
            spaces[label] = validate_search.space_of(
                self.search, entry, self.recipe_of(label), read
            )
        return [
            Cell(
                study=f"{self.name}-{self.scale}",
                entry=label,
                dataset=name,
                metric=dataset_of(spec).metrics[0],
                base=RunSpec(data=spec, **self._common(label)),
                space=spaces[label],
                search=self.search,
                known=model_catalogue.find(self.entries[label].model).arguments,
            )
            for label, name, spec in meetings
        ]

    def origins(self) -> dict[str, str]:
        """In words what the entries start from, by the names of stages and published weights."""
        starts = {label: (entry.start, entry.weights) for label, entry in self.entries.items()}
        return stages.told(self.stages, starts)

    def first_read(self) -> dict[str, DataSet]:
        """The first data set that each entry reads."""
        found: dict[str, DataSet] = {}
        for label, _, spec in self._meetings():
            found.setdefault(label, dataset_of(spec))
        return {label: found[label] for label in self.entries}

    def before(self) -> list["Run"]:
        """What these runs start from: each run of a stage once, and before what starts from it."""
        found: dict[str, Run] = {}
        for label, entry in self.entries.items() if self.seeds else ():
            model = ModelSpec(name=entry.model, args=entry.args)
            for name, dataset, spec in stages.before(self.stages, entry.start, model, label):
                found.setdefault(spec.key, Run(name, dataset, spec))
        return list(found.values())

    def _meetings(self) -> list[tuple[str, str, DataSpec]]:
        """Which entry meets which data set, data set by data set."""
        kinds = {label: model_catalogue.find(e.model).kind for label, e in self.entries.items()}
        return [
            (label, name, own)
            for (name, dataset), spec in zip(self.datasets().items(), self.data, strict=True)
            for label in self.entries
            if kinds[label] == dataset.kind and (own := self.data_of(label, spec))
        ]

    def _common(self, label: str) -> dict[str, Any]:
        """What all runs of an entry have in common."""
        entry = self.entries[label]
        model = ModelSpec(name=entry.model, args=entry.args)
        return {
            "model": model,
            "recipe": self.recipe_of(label),
            "start": stages.spec_of(self.stages, entry.start, model),
            "weights": entry.weights,
            "probes": tuple(self.probes),
        }


@dataclass(frozen=True)
class Run:
    """A run's place in a study: entries with equal specs share one run."""

    entry: str
    dataset: str
    spec: RunSpec
    trial: int | None = None  # its number, for a run of a search

    @cached_property
    def key(self) -> str:
        """The spec's key, hashed once."""
        return self.spec.key


def find(name: str) -> Path:
    """The page of a named study, or of a path to a page of one's own."""
    known = studies.pages()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        if path.is_file():
            return path
        raise UserError(f"no study page at {name}")
    raise UserError(f"unknown study {name!r}{nearest(name, known)}")


def scales(path: Path) -> list[str]:
    """The scales that a page has, smallest first."""
    declared = pages.load(path).data.get("scales")
    return [scale for scale in SCALES if scale in declared] if isinstance(declared, dict) else []


def load(
    name: str,
    scale: str | None = None,
    settings: Iterable[str] = (),
    cluster: Iterable[str] = (),
) -> Study:
    """Read, check and resolve a study; any mistake in it is a UserError of one line.

    `settings` are `key=value` texts from the command line, laid over the page: `recipe.epochs=3`;
    `cluster` are such for the part of the page that changes no result.
    """
    page = pages.load(find(name))
    declared = page.data.get("scales")
    if not isinstance(declared, dict) or not declared:
        raise UserError(f"{page.path}: `scales:` must name at least one of {', '.join(SCALES)}")
    for unknown in set(declared) - set(SCALES):
        line = page.where(("scales", unknown))
        raise UserError(f"{line}: unknown scale {unknown!r}{nearest(unknown, SCALES)}")
    scale = scale or next(s for s in SCALES if s in declared)
    if scale not in declared:
        raise UserError(f"{page.path} has no scale {scale!r}{nearest(scale, declared)}")
    merged = {key: value for key, value in page.data.items() if key != "scales"}
    changes = declared[scale] or {}
    if not isinstance(changes, Mapping):
        line = page.where(("scales", scale))
        raise UserError(f"{line}: a scale is a mapping of what it changes in the page")
    merged = _merge(merged, changes)
    settings = list(settings)
    sources: dict[Location, str] = {}
    for setting in settings:
        merged = _merge(merged, _setting(setting, sources))
    for setting in cluster:
        merged = _merge(merged, _setting(setting, sources, "--cluster", ("cluster",)))

    def where(at: Location) -> str:
        for depth in range(len(at), 0, -1):
            if at[:depth] in sources:
                return sources[at[:depth]]
        return page.where(("scales", scale, *at), at)

    for reserved in merged.keys() & _RESERVED:
        raise UserError(f"{where((reserved,))}: the page's file name is its name, not {reserved!r}")
    shown = name if not Path(name).is_absolute() else page.path.name
    given = [word for setting in settings for word in ("--set", setting)]
    command = shlex.join(["bench", "run", shown, "--scale", scale, *given])
    merged |= {"name": page.path.stem, "scale": scale, "command": command}
    try:
        study = Study.model_validate(merged)
    except ValidationError as error:
        raise UserError(explain(error, Study, where, hidden=_RESERVED)) from None
    return validate.check(study, where)


def _setting(
    text: str,
    sources: dict[Location, str],
    option: str = "--set",
    inside: tuple[str, ...] = (),
) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        example = "partition=gpu" if inside else "recipe.epochs=3"
        raise UserError(f"{option} {text}: expected key=value, for instance {example}")
    location = (*inside, *key.split("."))
    sources[location] = f"{option} {key}"
    nested: Any = pages.scalar(value)
    for part in reversed(location):
        nested = {part: nested}
    return dict(nested)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay `over` on `base`: mappings key by key, everything else replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _named(value: Any) -> Any:
    """`data: [digits]` is short for `data: [{name: digits}]`."""
    if not isinstance(value, list):
        return value
    return [{"name": item} if isinstance(item, str) else item for item in value]
