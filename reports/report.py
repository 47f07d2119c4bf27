"""The schema of a report: tables of still numbers, findings, figures' captions and provenance.

Types only. Importing this module costs pydantic and nothing else, so that a finished report can
be read and printed without pandas, scipy or matplotlib. What it is made from: `request`.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from lightning_bench.bench.store.record import Examples
from lightning_bench.reports.plot import Plot

# Raise it when a report of the same inputs comes out different: older ones are then made anew.
REPORT_VERSION = 15

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
    p_adjusted: Annotated[
        float | None, Field(description="corrected over the family; None of pairs outside it")
    ]
    verdict: Verdict
    expected: Annotated[
        Literal["", "better", "worse"], Field(description="what the page named of A: one-sided")
    ] = ""
    decided_at: Annotated[
        int | None, Field(description="seeds of an earlier look, whose verdict this is")
    ] = None
    seeds: Annotated[
        int | None,
        Field(description="that would show a true difference of this size; None beyond 1,000"),
    ] = None
    p_welch: Annotated[
        float | None,
        Field(description="with 3 to 5 seeds: Welch's t, corrected by Holm over all such pairs"),
    ] = None
    by_welch: Annotated[
        Verdict | None,
        Field(description="an indication, no verdict: it rests on near-normal noise"),
    ] = None
    margin: Annotated[
        float | None, Field(description="of equivalence, in the printed unit, as the page has it")
    ] = None
    p_equal: Annotated[
        float | None, Field(description="two one-sided sign-flip tests, corrected over all pairs")
    ] = None
    equal: Annotated[bool, Field(description="shown to differ by less than the margin")] = False
    p_new_examples: Annotated[
        float | None,
        Field(description="of a claim: seeds' and examples' variances added, corrected by Holm"),
    ] = None
    on_new_examples: Annotated[
        bool, Field(description="whether the claim holds on test examples drawn anew, too")
    ] = False

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
            "by_welch": self.by_welch and verdicts[self.by_welch],
            "expected": {**verdicts, "": ""}[self.expected],
        }
        return self.model_copy(update=changes)

    @property
    def described(self) -> bool:
        """Whether it is outside the family of claims, and described alone."""
        return self.p_adjusted is None


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
    sd: Annotated[float | None, Field(description="of the redrawn differences")] = None
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


class Confused(Frozen):
    """Examples of a class that are taken for another."""

    target: str
    predicted: str
    count: Annotated[int, Field(description="of all seeds")]
    share: Annotated[float, Field(description="of the class's examples")]


class Errors(Frozen):
    """What the entries get wrong on a data set, all seeds pooled.

    `overlap` is of two entries the test examples that both get wrong over those that either gets
    wrong, summed over all pairs of a run of the one and a run of the other; of an entry with
    itself, over all pairs of two of its runs.
    """

    dataset: str
    seeds: dict[str, int]
    overlap: Annotated[
        dict[str, dict[str, float | None]], Field(description="None where nothing is wrong")
    ] = {}
    classes: Annotated[list[str], Field(description="of the matrices' rows and columns")] = []
    confusion: Annotated[
        dict[str, list[list[int]]],
        Field(description="entry -> true class -> predicted class -> examples"),
    ] = {}
    confused: Annotated[
        dict[str, list[Confused]], Field(description="the most frequent, of many classes")
    ] = {}


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
        "differences",
        "curves",
        "size",
        "growth",
        "profile",
        "ranks",
        "best",
        "expected",
        "front",
        "throughput",
        "reliability",
        "variance",
        "plot",
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
    bins: Annotated[
        dict[str, list[tuple[int, float, float]]],
        Field(
            description="of reliability: entry -> 15 bins, their examples of all seeds, mean"
            " confidence and share of right ones"
        ),
    ] = {}
    spreads: Annotated[
        dict[str, dict[str, tuple[float, float, float]]],
        Field(description="of variance: entry -> source -> low end of the interval, SD, high end"),
    ] = {}
    pairs: Annotated[
        list[tuple[str, str, str]],
        Field(description="of differences: data set, A and B, from the top"),
    ] = []
    groups: Annotated[
        list[list[str]], Field(description="of ranks: entries that can't be told apart")
    ] = []
    plot: Annotated[Plot | None, Field(description="of a figure that the page asks for")] = None


class SearchLines(Frozen):
    """What can be drawn of a search: scores of the validation split, in the metric's units."""

    entry: str
    dataset: str
    best: Annotated[list[float | None], Field(description="so far, by trial")]
    expected: Annotated[list[float], Field(description="best of 1, 2, … random trials")] = []
    cost: Annotated[str | None, Field(description="the second objective")] = None
    trials: Annotated[list[tuple[float, float]], Field(description="cost and score")] = []
    front: Annotated[list[tuple[float, float]], Field(description="cost and score")] = []


class Look(Frozen):
    """What was tested in this report, and what it spent of the 5 %."""

    seeds: Annotated[int, Field(description="of the plan, at this look")]
    alpha: Annotated[float, Field(description="spent by it; 0: nothing may be claimed anew")]
    planned: Annotated[list[int], Field(description="seeds of all looks, where there are several")]
    method: Literal["max-T", "e-values"]
    named: Annotated[bool, Field(description="the page names the comparisons")]
    pairs: Annotated[int, Field(description="in the family")]
    undecided: int
    possible: Annotated[bool, Field(description="something could be claimed: alpha is spent")]


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
    look: Look | None = None
    examples: Annotated[
        list[OnExamples], Field(description="of small studies; bench compare has any pair's")
    ] = []
    errors: Annotated[list[Errors], Field(description="of small studies with classes")] = []
    lost: list[Lost] = []
    searches: list[SearchLines] = []
    figures: list[Figure] = []
    facts: list[Fact] = []
    sheets: dict[str, Examples] = {}

    @property
    def complete(self) -> bool:
        """Whether every planned run is done."""
        return all(state == "done" for state, count in self.runs.items() if count)
