"""The schema of a report: tables of still numbers, findings, figures' captions and provenance.

Types only. Importing this module costs pydantic and nothing else, so that a finished report can
be read and printed without pandas, scipy or matplotlib. What it is made from: `request`.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from lightning_bench.bench.store.record import Examples

# Raise it when a report of the same inputs comes out different: older ones are then made anew.
REPORT_VERSION = 13

State = Literal["done", "missing", "stale", "failed", "running", "pruned"]
# What became of an attempt that is not the result: `replaced` had one, a later attempt has another.
End = Literal["failed", "interrupted", "damaged", "pruned", "replaced"]
Verdict = Literal["better", "worse", "undecided"]
Source = Literal["measured", "published"]
# How a cell is printed: mean ± half the 95 % interval, mean ± SD, a whole number, a plain number.
Kind = Literal["interval", "sd", "count", "number"]


class Frozen(BaseModel):
    """Immutable, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Attempt(Frozen):
    """An attempt at a run that is not its result."""

    number: int
    end: End
    cause: Annotated[str, Field(description="in a line")]
    log: Annotated[str, Field(description="relative to the store")]
    device_h: Annotated[float | None, Field(description="None where nobody could tell")] = None


class Column(Frozen):
    """What stands in a column and how its numbers are printed: value × scale, fixed decimals."""

    id: str
    title: str
    unit: str = ""
    kind: Kind
    dataset: str | None = None
    metric: str | None = None
    higher_is_better: bool | None = None
    ranked: Annotated[bool, Field(description="a tie group was sought")] = False
    scale: float = 1.0
    decimals: int = 2
    signed: Annotated[bool, Field(description="a difference: + or − in front")] = False


class Cell(Frozen):
    """Numbers in the record's own units; `value` is None where there is nothing to show.

    An estimate has mean, SD and the 95 % t-interval over n runs; what one run can't tell is None.
    A count has low and high only when it differs between data sets.
    """

    value: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    best: Annotated[bool, Field(description="a member of the top tie group")] = False
    state: Annotated[str, Field(description="what to print in place of a number")] = ""
    printed: Annotated[str, Field(description="a published value, as it stands in print")] = ""
    notes: Annotated[list[str], Field(description="marks of the table's notes")] = []
    runs: Annotated[list[str], Field(description="keys of all its runs, done or not")] = []


class Row(Frozen):
    """An entry's cells, in the order of the columns."""

    label: str
    group: str = ""
    cells: list[Cell]
    source: Source = "measured"
    cite: str = ""


class Note(Frozen):
    """A footnote; without a mark it speaks of the whole table."""

    text: str
    mark: str = ""


class Table(Frozen):
    """A printed table, still as numbers."""

    id: str
    title: str
    caption: str
    columns: list[Column]
    rows: list[Row]
    notes: list[Note] = []

    @property
    def measured(self) -> list[Row]:
        """The rows of our own runs."""
        return [row for row in self.rows if row.source == "measured"]


class Comparison(Frozen):
    """Two entries on one data set, or the mean of several, paired over the seeds that both have.

    `difference` is a − b in the metric's units; the verdict rests on `p_adjusted` alone.
    """

    dataset: str
    metric: str
    a: str
    b: str
    n: Annotated[int, Field(description="seeds")]
    blocks: Annotated[int, Field(description="tested: seeds, or seeds on each data set")]
    difference: float
    low: Annotated[float | None, Field(description="95 % t-interval of this pair alone")]
    high: float | None
    low_of_all: Annotated[
        float | None, Field(description="95 % interval that holds for all pairs at once")
    ] = None
    high_of_all: float | None = None
    test: str
    p: Annotated[float, Field(description="of this pair alone")]
    p_adjusted: Annotated[float, Field(description="corrected over all pairs of the family")]
    verdict: Verdict
    seeds: Annotated[
        int | None,
        Field(description="that would show a true difference of this size; None beyond 1,000"),
    ] = None

    def turned(self) -> Self:
        """The same the other way round."""
        verdicts = {"undecided": "undecided", "better": "worse", "worse": "better"}
        changes = {
            "a": self.b,
            "b": self.a,
            "difference": -self.difference,
            "low": None if self.high is None else -self.high,
            "high": None if self.low is None else -self.low,
            "low_of_all": None if self.high_of_all is None else -self.high_of_all,
            "high_of_all": None if self.low_of_all is None else -self.low_of_all,
            "verdict": verdicts[self.verdict],
        }
        return self.model_copy(update=changes)


class OnExamples(Frozen):
    """Two entries on the same test examples, their trained models held fixed.

    `difference` is a − b, the mean over seeds; low and high bound it by redrawing the examples.
    Where an example is right or wrong, `only_a` and `only_b` count for each seed those that one of
    the two gets right, and `p` is McNemar's. None of it speaks of training again.
    """

    dataset: str
    metric: str
    a: str
    b: str
    n: Annotated[int, Field(description="test examples")]
    seeds: list[int]
    difference: float
    low: float
    high: float
    only_a: list[int] = []
    only_b: list[int] = []
    p: Annotated[list[float], Field(description="by seed, uncorrected")] = []

    def turned(self) -> Self:
        """The same the other way round."""
        changes = {
            "a": self.b,
            "b": self.a,
            "difference": -self.difference,
            "low": -self.high,
            "high": -self.low,
            "only_a": self.only_b,
            "only_b": self.only_a,
        }
        return self.model_copy(update=changes)


class Fact(Frozen):
    """A line of provenance."""

    label: str
    text: str


class Lost(Frozen):
    """An attempt that is not its run's result; its time was spent all the same."""

    dataset: str
    entry: str
    seed: int
    key: str
    attempt: Attempt


class Figure(Frozen):
    """A drawing beside the report: figures/<name>.svg and .png."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]
    kind: Literal[
        "curves", "size", "growth", "profile", "ranks", "best", "expected", "front", "throughput"
    ]
    dataset: Annotated[str | None, Field(description="None where it shows them all")] = None
    title: str
    caption: str
    alt: str
    x: Annotated[str, Field(description="of growth: depth or parameters")] = ""
    lines: Annotated[
        dict[str, dict[str, float]], Field(description="of growth: family -> entry -> x")
    ] = {}
    speeds: Annotated[
        dict[str, tuple[float, float, float]],
        Field(description="of throughput: entry -> low end of the interval, median, high end"),
    ] = {}


class SearchLines(Frozen):
    """What can be drawn of a search: scores of the validation split, in the metric's units."""

    entry: str
    dataset: str
    best: Annotated[list[float | None], Field(description="so far, by trial")]
    expected: Annotated[list[float], Field(description="best of 1, 2, … random trials")] = []
    cost: Annotated[str | None, Field(description="the second objective")] = None
    trials: Annotated[list[tuple[float, float]], Field(description="cost and score")] = []
    front: Annotated[list[tuple[float, float]], Field(description="cost and score")] = []


class Report(Frozen):
    """All that the renderers need; report.json is exactly this."""

    version: int = REPORT_VERSION
    inputs: Annotated[str, Field(description="reports.digest.inputs of what it was built from")]
    study: str
    scale: str
    title: str
    question: str
    command: str
    runs: Annotated[dict[State, int], Field(description="how many runs are in each state")]
    findings: Annotated[list[str], Field(description="what may be said, and what may not")]
    tables: list[Table]
    comparisons: list[Comparison] = []
    examples: Annotated[
        list[OnExamples], Field(description="of small studies; bench compare has any pair's")
    ] = []
    lost: list[Lost] = []
    searches: list[SearchLines] = []
    figures: list[Figure] = []
    facts: list[Fact] = []
    sheets: dict[str, Examples] = {}

    @property
    def complete(self) -> bool:
        """Whether every planned run is done."""
        return all(state == "done" for state, count in self.runs.items() if count)
