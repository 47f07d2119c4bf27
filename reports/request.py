"""What a report is made from: a study, its planned runs with their records, and facts about them.

The study and the records are the bench's own types; what the catalogues of models and data know
beyond them is asked there by whoever makes a request, so that nothing here needs either.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightning_bench.bench.spec import Source
from lightning_bench.bench.store.look_ledger import LookTaken
from lightning_bench.bench.store.measurements import Session
from lightning_bench.bench.store.record import Environment, Examples, Record
from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study.randomness import TITLES
from lightning_bench.bench.study.study import Entry, Study
from lightning_bench.reports.report import Attempt, Frozen, State

# Fractions that everybody prints in per cent.
PERCENT = (
    "accuracy",
    "accuracy_mismatched",
    "accuracy_real",
    "masked_accuracy",
    "nsp_accuracy",
    "top1",
    "top5",
    "f1",
    "f1_mismatched",
    "macro_f1",
    "ece",
    "auroc",
    "matthews",
    "pearson",
    "spearman",
)
# Whatever is not here is better when higher.
LOWER_IS_BETTER = ("loss", "perplexity", "error", "mse", "mae", "nll", "brier", "ece")


class ReportedRun(Frozen):
    """One planned run and what became of it. A stale or failed run may carry a record too."""

    entry: Annotated[str, Field(description="label of its entry in the study")]
    group: str = ""
    dataset: str
    seed: int
    varied: Annotated[
        Source | Literal[""], Field(description="the one source that goes by the seed; else all")
    ] = ""
    key: str
    state: State
    reason: Annotated[str, Field(description="why it is in that state, in words")] = ""
    record: Record | None = None
    checksum: Annotated[str, Field(description="of the record, where it is in a store")] = ""
    folder: Annotated[str | None, Field(description="relative to the store")] = None
    earlier: Annotated[list[Attempt], Field(description="before the record's own, if any")] = []

    @property
    def title(self) -> str:
        """Its entry, and what it varies where that is not everything."""
        return f"{self.entry}, {TITLES[self.varied]} alone" if self.varied else self.entry


class ModelFacts(Frozen):
    """What the catalogue of models knows of an entry's model."""

    family: Annotated[str, Field(description="models that differ in size alone share one")] = ""
    depth: Annotated[int | None, Field(description="blocks or layers, where it is known")] = None


class ModelCounts(Frozen):
    """What a model counts, of one that nobody trains."""

    parameters: int
    flops: Annotated[int, Field(description="of one example's forward pass, two a multiply-add")]
    layers: Annotated[int | None, Field(description="equal blocks, one after the other")] = None
    tokens: Annotated[int | None, Field(description="the length S of its sequences")] = None


class PrintedValue(Frozen):
    """A value in print, in the column's printed unit (per cent; parameters as a count)."""

    text: str
    value: float | None = None
    spread: Annotated[float | None, Field(description="what stands after ±, of any kind")] = None


class PublishedRow(Frozen):
    """A printed row to stand beside ours; by the ids of the report's columns."""

    label: str
    group: str = ""
    cite: str
    cells: dict[str, PrintedValue]
    remarks: Annotated[dict[str, str], Field(description="why a value can't be right")] = {}


class Request(Frozen):
    """What is to be reported. Order matters: rows and columns come out as they stand here."""

    study: Study
    models: Annotated[dict[str, ModelFacts], Field(description="by entry")] = {}
    metrics: Annotated[
        dict[str, Annotated[list[str], Field(min_length=1)]],
        Field(min_length=1, description="by data set; the first is primary, and ranked"),
    ]
    classes: Annotated[
        dict[str, list[str]], Field(description="their labels, by data set, where it has classes")
    ] = {}
    higher_is_better: Annotated[
        dict[str, bool], Field(description="by metric; what is left out goes by its name")
    ] = {}
    percent: Annotated[list[str], Field(description="metrics printed times 100")] = [*PERCENT]
    chance: Annotated[
        dict[str, float], Field(description="by data set: what guessing gives of its first metric")
    ] = {}
    neutral: Annotated[list[str], Field(description="metrics of which more is not better")] = []
    published: Annotated[list[PublishedRow], Field(description="from `published_pages`")] = []
    counted: Annotated[
        dict[str, ModelCounts], Field(description="by entry, of a study that trains nothing")
    ] = {}
    entry_facts: Annotated[
        dict[str, dict[str, float]],
        Field(description="what figures' axes need beyond the records: by fact and entry"),
    ] = {}
    before: Annotated[
        dict[str, list[ReportedRun]], Field(description="runs that an entry starts from")
    ] = {}
    facts: Annotated[
        dict[str, str], Field(description="more for the footnotes: budget, augmentation, …")
    ] = {}
    unequal: Annotated[
        list[str], Field(description="what was not equal between entries, a sentence each")
    ] = []
    environments: Annotated[dict[str, Environment], Field(description="by digest")] = {}
    measured: Annotated[Session | None, Field(description="speeds of the entries' models")] = None
    contenders: Annotated[
        dict[str, dict[str, str]], Field(description="there: data set -> entry -> label")
    ] = {}
    searches: Annotated[
        list[Ledger], Field(description="one for each entry and data set, where these were tuned")
    ] = []
    randomness: Annotated[
        dict[str, dict[Source, list[str]]],
        Field(description="by entry: what its seeds vary, each with what it is there, in words"),
    ] = {}
    sheets: Annotated[dict[str, Examples], Field(description="by data set, if kept")] = {}
    this_look: Annotated[
        LookTaken | None, Field(description="at these results, as the ledger would have it")
    ] = None
    earlier_looks: Annotated[
        list[LookTaken], Field(description="at the study, at any scale, of other results or seeds")
    ] = []

    @model_validator(mode="after")
    def _averages_of_one_metric(self) -> Self:
        for title, datasets in self.study.averages.items():
            metrics = {self.metrics.get(name, [name])[0] for name in datasets}
            if len(metrics) != 1 or not set(datasets) <= self.metrics.keys():
                raise ValueError(
                    f"average {title!r}: needs data sets of the request with one primary metric,"
                    f" not {', '.join(datasets) or 'none'}"
                )
        return self

    @property
    def entries(self) -> dict[str, Entry]:
        """The study's entries by label, in the page's order."""
        return self.study.entries

    def grouped_entries(self) -> dict[str, Entry]:
        """The entries in the page's order, those of one group together."""
        groups = list(dict.fromkeys(entry.group for entry in self.entries.values()))
        return dict(sorted(self.entries.items(), key=lambda item: groups.index(item[1].group)))

    def facts_of(self, label: str) -> ModelFacts:
        """What is known of an entry's model."""
        return self.models.get(label, ModelFacts())

    def higher_better(self, metric: str) -> bool:
        """Whether more of this metric is better."""
        return self.higher_is_better.get(metric, metric not in LOWER_IS_BETTER)
