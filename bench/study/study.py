"""Study: a question with a name, as its page puts it, and the runs that answer it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from lightning_bench.bench.spec import DataSpec, Recipe, RunSpec, Settings, Source
from lightning_bench.bench.study import claims as named_claims
from lightning_bench.bench.study import looks as planned_looks
from lightning_bench.bench.study import randomness, ranking, stages
from lightning_bench.bench.study.claims import Claim
from lightning_bench.bench.study.cluster import Cluster
from lightning_bench.bench.study.durations import Duration
from lightning_bench.bench.study.figures import PageFigure
from lightning_bench.bench.study.inputs import dataset_at
from lightning_bench.bench.study.looks import Looks
from lightning_bench.bench.study.measure_settings import Measure
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.bench.study.resolved import ResolvedEntry, resolve
from lightning_bench.bench.study.search_cell import Cell, SearchName, space_of
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import Parameter, Values
from lightning_bench.bench.study.stages import NamedData, Stage
from lightning_bench.data.dataset import DataSet

#: More runs than anybody starts by one page; a typing mistake in `seeds:` is told at once.
MOST_RUNS = 100_000


class Entry(Settings):
    """One row of the comparison: a model, its arguments, and where its recipe departs."""

    model: str
    args: dict[str, JsonValue] = {}
    metrics: Annotated[
        dict[str, str],
        Field(description="of a LightningModule of one's own: what it logs, to the metric it is"),
    ] = {}
    recipe: dict[str, Any] = {}
    group: str = ""
    published: Annotated[str, Field(description="the printed row that it reproduces")] = ""
    stands_for: Annotated[str, Field(description="the network whose place it takes here")] = ""
    start: Annotated[str, Field(description="the stage whose weights it starts from")] = ""
    weights: Annotated[str, Field(description="published weights: timm/NAME, a repository")] = ""
    space: Annotated[
        dict[str, Parameter | None], Field(description="laid over the search's; null takes one out")
    ] = {}
    data: Annotated[
        list[NamedData], Field(description="those of the study that it meets, as it reads them")
    ] = []


class Study(Settings):
    """A study at one of its scales. Entries × data sets × seeds are its runs."""

    name: str
    scale: str
    command: str = ""
    title: str
    question: str
    data: Annotated[list[NamedData], Field(min_length=1)]
    entries: Annotated[dict[str, Entry], Field(min_length=1)]
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]],
        Field(description="none at all for a table of facts, without any training"),
    ]
    looks: Annotated[Looks | None, Field(description="as `seeds:` plans them")] = None
    claims: Annotated[list[Claim], Field(description="comparisons that are tested first")] = []
    spread: Annotated[
        float | dict[str, float],
        Field(description="guess of an entry's SD over seeds, in points, by data set or of all"),
    ] = {}
    args: Annotated[dict[str, JsonValue], Field(description="what all entries' models share")] = {}
    recipe: Recipe = Recipe()
    search: Annotated[Search | None, Field(description="tune every entry, on one budget")] = None
    variance: Annotated[
        Literal["all"] | list[Source],
        Field(description="sources of randomness, each to be varied alone by further runs"),
    ] = []
    stages: Annotated[dict[str, Stage], Field(description="what is trained first")] = {}
    measure: Annotated[Measure | None, Field(description="columns of speed and memory")] = None
    probes: Annotated[list[str], Field(description="measures of the models, an epoch")] = []
    epochs_to: Annotated[
        dict[str, float], Field(description="columns: the first epoch to reach it, by metric")
    ] = {}
    metrics: Annotated[
        ranking.Metrics,
        Field(
            description="more columns of classes: nll, ece, …; or what ranks, the first first, as "
            "F1Score(average=macro) or module:callable, as {NAME: max} where that isn't known"
        ),
    ] = []
    ranked_by: Annotated[
        str, Field(description="what is tested and ranked by, as accuracy_shift2; else the first")
    ] = ""
    predictions: Annotated[
        Literal["probabilities", "labels"],
        Field(description="what is kept of each test example, beside its label"),
    ] = "probabilities"
    callbacks: Annotated[
        list[str], Field(description="Lightning callbacks of your own, as module:callable(x=1)")
    ] = []
    averages: Annotated[
        dict[str, list[str]], Field(description="columns of means over data sets, by title")
    ] = {}
    margin: Annotated[
        float | dict[str, float],
        Field(description="printed differences below it are none in practice, by data set, metric"),
    ] = {}
    published: Annotated[
        dict[str, dict[str, str]],
        Field(description="printed tables: their columns to ours, as `digits/accuracy`"),
    ] = {}
    figures: Annotated[
        list[PageFigure], Field(description="more of them, by kind and by what is on their axes")
    ] = []
    devices: Annotated[int, Field(ge=1, description="of a run, sharing its batch")] | None = None
    threads: Annotated[int, Field(ge=1, description="CPU threads of a device")] = 1
    stall: Annotated[
        Duration | None,
        Field(description="end a run without a sign of life for so long; else by its own pace"),
    ] = None
    time_limit: Annotated[Duration | None, Field(description="of an attempt at a run")] = None
    cluster: Annotated[Cluster, Field(description="what a run asks of a cluster")] = Cluster()

    @model_validator(mode="before")
    @classmethod
    def _seeds_and_looks(cls, page: Any) -> Any:
        """`seeds: {looks: [6, 9]}` are nine seeds with two looks."""
        if isinstance(page, Mapping) and isinstance(page.get("seeds"), Mapping):
            seeds, looks = planned_looks.read(page["seeds"])
            return {**page, "seeds": seeds, "looks": looks}
        return page

    @field_validator("claims", mode="before")
    @classmethod
    def _list_of_claims(cls, value: Any) -> Any:
        """`claims: {baseline: A}` is short for a list of it."""
        return named_claims.spelled_out(value)

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        """`seeds: 5` is short for seeds 0 to 4."""
        if isinstance(value, int) and not isinstance(value, bool):
            if value < 1:
                raise ValueError("a count of seeds is at least 1 ([] trains nothing)")
            if value > MOST_RUNS:
                raise ValueError(f"at most {MOST_RUNS:,} seeds")
            return list(range(value))
        return value

    @field_validator("seeds")
    @classmethod
    def _unique(cls, value: list[int]) -> list[int]:
        if len(set(value)) < len(value):
            raise ValueError("a seed is given twice")
        return value

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        runs = len(self.entries) * len(self.data) * len(self.seeds)
        if runs > MOST_RUNS:
            raise ValueError(f"{runs:,} runs of entries, data and seeds; at most {MOST_RUNS:,}")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A changed study is resolved anew."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("datasets", "resolved"):
            copied.__dict__.pop(name, None)
        return copied

    def with_seeds(self, number: int) -> Self:
        """The same with the seeds that a planned look at so many has, and as many searches."""
        update: dict[str, Any] = {"seeds": list(range(number))}
        if self.search is not None and self.search.repeat is not None:
            update["search"] = self.search.model_copy(update={"repeat": number})
        return self.model_copy(update=update)

    @property
    def name_at_scale(self) -> str:
        """What its folders in a store are called."""
        return f"{self.name}-{self.scale}"

    @cached_property
    def datasets(self) -> dict[str, DataSet]:
        """The data sets by their titles in tables, which tell those of one name by their settings.

        What is no data set, or is given twice, is a PageError.
        """
        names = [spec.name for spec in self.data]
        titled = {}
        for i, spec in enumerate(self.data):
            given = spec.model_dump(exclude_defaults=True, exclude={"name", "sample", "title"})
            settings = ", ".join(f"{key.replace('_', ' ')} {given[key]}" for key in given)
            alone = names.count(spec.name) == 1
            plain = spec.name if alone else f"{spec.name} ({settings or 'as it is'})"
            title = spec.title or plain
            titled[title] = ranking.ranked(self.metrics, dataset_at(spec, ("data", i)))
        if len(titled) < len(self.data):
            raise PageError(("data",), "a data set is given twice, or a title")
        return titled

    @cached_property
    def resolved(self) -> dict[str, ResolvedEntry]:
        """The entries by their labels, with what their names stand for."""
        return resolve(self)

    def margin_on(self, dataset: str, metric: str) -> float | None:
        """The margin of equivalence in the printed unit; None where the page has none."""
        if isinstance(self.margin, dict):
            return self.margin.get(dataset, self.margin.get(metric))
        return self.margin

    def runs(self, chosen: Mapping[SearchName, Values] | None = None) -> list["Run"]:
        """All runs, seed by seed, so that a study stopped half-way compares like with like.

        An entry meets the data sets that its model can read, or those that it names. Where it
        starts from a stage that is `shown`, the stage's one run stands for all on its data.
        With a search, these are the final runs of the entries and data sets whose values are
        `chosen`; the others have none yet.
        """
        if self.search is not None:
            values = chosen or {}
            cells = [cell for cell in self.cells() if cell.place in values]
            return [
                Run(c.entry, c.dataset, c.spec(values[c.place], seed, tested=True))
                for seed in self.seeds
                for c in cells
                if c.final_seed in (None, seed)
            ]
        meetings = [
            (entry.label, title, entry.spec(spec), entry.shown_stage(spec))
            for entry, title, spec in self._meetings()
        ]
        runs = []
        for seed in self.seeds:
            for entry, title, spec, stage_run in meetings:
                if stage_run is None:
                    runs.append(Run(entry, title, spec.model_copy(update={"seed": seed})))
                elif seed == self.seeds[0]:
                    runs.append(Run(entry, title, stage_run))
        return [*runs, *self._varying_one_source()]

    def _varying_one_source(self) -> list["Run"]:
        """With `variance`, the runs in which one source goes by the seed, the others by the first.

        Every other source is held, even one that no argument tells of, as a user's own dropout.
        """
        runs = []
        for seed in self.seeds if self.variance else ():
            for entry, title, spec in self._meetings():
                if entry.shown_stage(spec) is not None:
                    continue
                plain = entry.spec(spec, seed)
                found = randomness.sources(plain, entry.variant, entry.data[title][1])
                for source in found:
                    if self.variance == "all" or source in self.variance:
                        held = {o: self.seeds[0] for o in randomness.TITLES if o != source}
                        one = plain.model_copy(update={"source_seeds": held})
                        runs.append(Run(entry.label, title, one, varied=source))
        return runs

    def cells(self) -> list[Cell]:
        """The searches that the page asks for.

        Of each entry on each data set one; of a repeated search one for each seed.
        """
        if self.search is None:
            return []
        repeats: list[tuple[Search, int | None, int | None]] = [(self.search, None, None)]
        if self.search.repeat is not None:
            found = zip(self.search.repeats(), self.seeds, strict=True)
            repeats = [(search, r, seed) for r, (search, seed) in enumerate(found)]
        spaces = {label: space_of(self.search, entry) for label, entry in self.resolved.items()}
        return [
            Cell(
                study=self.name_at_scale,
                entry=entry.label,
                dataset=title,
                metric=entry.data[title][1].metrics[0],
                higher=ranking.more_is_better(self.metrics, entry.data[title][1].metrics[0]),
                base=entry.spec(spec),
                space=spaces[entry.label],
                search=search,
                known=entry.variant.arguments,
                repeat=repeat,
                final_seed=seed,
            )
            for search, repeat, seed in repeats
            for entry, title, spec in self._meetings()
        ]

    def origins(self) -> dict[str, str]:
        """In words what the entries start from, by the names of stages and published weights."""
        return stages.describe(
            self.stages, {label: (e.start, e.weights) for label, e in self.entries.items()}
        )

    def first_read(self) -> dict[str, DataSet]:
        """The first data set that each entry reads."""
        return {label: next(iter(e.data.values()))[1] for label, e in self.resolved.items()}

    def before(self) -> list["Run"]:
        """What these runs start from: each run of a stage once, and before what starts from it."""
        runs: dict[str, Run] = {}
        for entry in self.resolved.values() if self.seeds else ():
            for stage_run in entry.lineage:
                run = Run(stage_run.title, stage_run.dataset.name, stage_run.spec)
                runs.setdefault(run.key, run)
        return list(runs.values())

    def _meetings(self) -> list[tuple[ResolvedEntry, str, DataSpec]]:
        """Which entry meets which data set, data set by data set."""
        return [
            (entry, title, entry.data[title][0])
            for title in self.datasets
            for entry in self.resolved.values()
            if title in entry.data
        ]


@dataclass(frozen=True)
class Run:
    """A run's place in a study: entries with equal specs share one run."""

    entry: str
    dataset: str
    spec: RunSpec
    trial: int | None = None  # its number, for a run of a search
    repeat: int | None = None  # of a trial: which search of a repeated one it is of
    varied: Source | Literal[""] = ""  # the one source of randomness that goes by its seed

    @property
    def title(self) -> str:
        """Its entry, and what it varies where that is not everything."""
        return (
            f"{self.entry}, {randomness.TITLES[self.varied]} alone" if self.varied else self.entry
        )

    @cached_property
    def key(self) -> str:
        """The spec's key, hashed once."""
        return self.spec.key
