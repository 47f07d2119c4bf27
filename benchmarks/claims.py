"""How often a report claims what is not so, and how often what is: through the real pipeline.

    python -m benchmarks.claims                    # 2,000 studies a cell, half an hour of a core
    python -m benchmarks.claims --studies 200      # a glance
    python -m benchmarks.claims --only looks       # of all-pairs, named, looks, e-values, power

Each study is made up, sorted and ranked as a report does it. A cell is entries × data sets × seeds
and a kind of noise. "False better" is the share of studies in which a pair of equal entries is
called better or worse, with its 95 % Clopper–Pearson interval; the promise is 5 % where differences
are jointly symmetric. Where they are not, the measured rate is what there is to say. Power is the
share of true differences that are claimed, beside Holm's correction of the same sign-flip tests
and of paired t-tests.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reports import record
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.study.looks import Looks, spent
from lightning_bench.bench.study.study import Entry, Study
from lightning_bench.reports.report import Comparison
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import e_values, max_t, samples
from lightning_bench.reports.statistics.ranking import rank

Floats = npt.NDArray[np.float64]
Shape = tuple[int, int, int]
ALPHA = 0.05


class Cell(NamedTuple):
    """What is simulated: entries × data sets × seeds, the noise, how many entries stand apart."""

    shape: Shape
    noise: str
    apart: int = 0
    missing: int = 0  # seeds that the first entry lacks
    group: str = "all-pairs"
    claims: tuple[str, ...] = ()  # as a page names them; "baseline" is e0's
    looks: tuple[int, ...] = ()
    grows: bool = False  # tested by e-values at every seed
    below: bool = False  # the entries apart are worse, not better

    @property
    def words(self) -> str:
        """What is special about it."""
        looks = " / ".join(map(str, self.looks))
        said = [
            self.noise,
            f"{self.apart} entries far {'below' if self.below else 'apart'}" * bool(self.apart),
            f"{self.missing} run missing" * bool(self.missing),
            ", ".join(self.claims),
            f"looks at {looks}" * bool(looks),
            "every seed" * self.grows,
        ]
        return ", ".join(filter(None, said))


def _unequal(rng: np.random.Generator, shape: Shape) -> Floats:
    return np.geomspace(1, 10, shape[0])[:, None, None] * rng.normal(size=shape)


#: Noise whose differences are jointly symmetric, and other noise of equal mean.
SYMMETRIC: dict[str, Callable[[np.random.Generator, Shape], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy-tailed (t, 2 df)": lambda rng, shape: rng.standard_t(2, size=shape),
    "skewed alike (exponential)": lambda rng, shape: -rng.exponential(size=shape),
    "counts of 100": lambda rng, shape: rng.binomial(100, 0.95, size=shape) / 1.0,
    "SDs 1 to 10": _unequal,
}
OTHERS: dict[str, Callable[[np.random.Generator, Shape], Floats]] = {
    "skewed, SDs 1 to 10": lambda rng, shape: (
        np.geomspace(1, 10, shape[0])[:, None, None] * (1 - rng.exponential(size=shape))
    ),
    "one fails 1 in 10": lambda rng, shape: (
        rng.normal(size=shape)
        - (np.arange(shape[0]) == 0)[:, None, None] * (30 * (rng.random(shape) < 0.1) - 3)
    ),
}
SHAPES: list[Shape] = [
    (2, 1, 6),
    (5, 1, 6),
    (10, 1, 8),
    (5, 1, 13),
    (5, 1, 20),
    (5, 2, 3),
    (4, 3, 7),
]


def cells() -> Iterator[Cell]:
    """All cells of false claims."""
    for shape in SHAPES:
        for noise in SYMMETRIC:
            yield Cell(shape, noise)
    for shape in SHAPES[1:4]:
        yield Cell(shape, "normal", apart=2)
        yield Cell(shape, "normal", missing=1)
        for noise in OTHERS:
            yield Cell(shape, noise)
    yield from _named_cells()
    yield from _growing_cells()


BASELINE = ("baseline: e0",)
DIRECTED = ("e1 > e0", "e2 > e0", "e3 > e0", "e4 > e0")


def _named_cells() -> Iterator[Cell]:
    """Claims named in the page: against a baseline, one-sided, of several data sets, partial."""
    for noise in SYMMETRIC:
        yield Cell((5, 1, 6), noise, group="named", claims=BASELINE)
        yield Cell((5, 1, 5), noise, group="named", claims=DIRECTED)
    for shape in [(9, 1, 8), (4, 3, 6), (5, 2, 3)]:
        yield Cell(shape, "normal", group="named", claims=BASELINE)
    for shape in [(5, 1, 8), (5, 3, 5)]:
        yield Cell(shape, "normal", group="named", claims=DIRECTED)
    mixed = ("e1 > e0", "e0, e2", "e3 > e2", "e4, e1")
    yield Cell((5, 1, 8), "normal", group="named", claims=mixed)
    yield Cell((5, 1, 8), "normal", apart=2, group="named", claims=mixed)
    yield Cell((5, 1, 8), "normal", missing=1, group="named", claims=mixed)
    # What is named the better one is far worse: no claim may come of it, nor help another.
    wrong = ("e0 > e1", "e1 > e2", "e2 > e3", "e3 > e4")
    yield Cell((5, 1, 6), "normal", apart=1, below=True, group="named", claims=wrong)


def _growing_cells() -> Iterator[Cell]:
    """Planned looks, and e-values at every seed."""
    looks = (6, 9, 12)
    for noise in SYMMETRIC:
        yield Cell((5, 1, 12), noise, group="looks", looks=looks)
    for shape in [(2, 1, 12), (9, 1, 12), (4, 2, 12)]:
        yield Cell(shape, "normal", group="looks", looks=looks)
    yield Cell((5, 1, 12), "normal", apart=2, group="looks", looks=looks)
    yield Cell((5, 1, 12), "normal", missing=1, group="looks", looks=looks)
    yield Cell((5, 1, 12), "normal", group="looks", looks=looks, claims=DIRECTED)
    yield Cell((5, 1, 12), "skewed, SDs 1 to 10", group="looks", looks=looks)
    for noise in SYMMETRIC:
        yield Cell((5, 1, 20), noise, group="e-values", grows=True)
    for shape in [(2, 1, 20), (9, 1, 20), (3, 2, 20)]:
        yield Cell(shape, "normal", group="e-values", grows=True)
    yield Cell((5, 1, 20), "normal", apart=2, group="e-values", grows=True)
    yield Cell((5, 1, 20), "normal", missing=1, group="e-values", grows=True)
    yield Cell((5, 1, 20), "normal", group="e-values", grows=True, claims=DIRECTED)
    yield Cell((5, 1, 20), "skewed, SDs 1 to 10", group="e-values", grows=True)


def _claims(cell: Cell, labels: Sequence[str]) -> list[dict[str, object]]:
    """Claims as a page has them, a baseline's spelled out, since these data sets are made up."""
    if cell.claims == BASELINE:
        return [{"pair": [label, labels[0]]} for label in labels[1:]]
    sides = [text.partition(" > ") for text in cell.claims]
    return [{"better": a, "than": b} if b else {"pair": a.split(", ")} for a, _, b in sides]


class Pipeline:
    """Ranks made-up studies of one shape; their records are made once."""

    def __init__(self, cell: Cell) -> None:
        entries, datasets, seeds = cell.shape
        self.labels = [f"e{i}" for i in range(entries)]
        self.titles = [f"d{i}" for i in range(datasets)]
        looks = Looks(looks=list(cell.looks)) if cell.looks else None
        study = Study(
            name="simulated", scale="smoke", title="t", question="q",
            data=[{"name": title} for title in self.titles],  # type: ignore[list-item]
            entries={label: Entry(model="mlp") for label in self.labels},
            seeds=list(range(seeds)),
            looks=Looks(grow=seeds) if cell.grows else looks,
            claims=_claims(cell, self.labels),  # type: ignore[misc]
        )  # fmt: skip
        self.request = Request(study=study, metrics={title: ["accuracy"] for title in self.titles})
        self._record = record("e0", "d0", 0, 0.5)

    def compare(self, values: Floats) -> list[Comparison]:
        """The pairs' verdicts; a run that is NaN was not planned."""
        runs = [
            ReportedRun(
                entry=label, dataset=title, seed=seed, key=f"{label}-{title}-{seed}", state="done",
                record=self._with(float(values[i, j, seed])),
            )
            for i, label in enumerate(self.labels)
            for j, title in enumerate(self.titles)
            for seed in range(values.shape[2])
            if not np.isnan(values[i, j, seed])
        ]  # fmt: skip
        return rank(self.request, samples.collect(self.request, runs)).comparisons

    def _with(self, accuracy: float) -> Record:
        return self._record.model_copy(update={"metrics": {"accuracy": accuracy}})


def false_claims(cell: Cell, studies: int) -> tuple[int, int]:
    """In how many studies an equal pair was called better, and in how many anything could be."""
    special = [cell.group, *cell.claims] if cell.group != "all-pairs" else []
    seed = [*cell.shape, cell.apart, cell.missing, len(cell.noise), *map(len, special)]
    rng = np.random.default_rng(seed)
    pipeline = Pipeline(cell)
    means = np.zeros(cell.shape[0])
    means[: cell.apart] = -100.0 if cell.below else 100.0
    draw = (SYMMETRIC | OTHERS)[cell.noise]
    wrong = possible = 0
    for _ in range(studies):
        values = draw(rng, cell.shape) + means[:, None, None]
        values += rng.normal(size=(1, *cell.shape[1:]))  # of the seed, which all entries share
        if cell.missing:
            values[0, :, -cell.missing :] = np.nan
        pairs = pipeline.compare(values)
        possible += any(pair.blocks >= (5 if cell.claims else 6) for pair in pairs)
        wrong += any(_false(pair, means) for pair in pairs)
    return wrong, possible


def _false(pair: Comparison, means: Floats) -> bool:
    """Whether a verdict contradicts the true means."""
    truth = np.sign(means[int(pair.a[1:])] - means[int(pair.b[1:])])
    return bool(truth != {"better": 1, "worse": -1, "undecided": truth}[pair.verdict])


def interval(count: int, studies: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % confidence interval of a share."""
    from scipy.stats import beta

    low = beta.ppf(0.025, count, studies - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, studies - count) if count < studies else 1.0
    return float(low), float(high)


def print_false_claims(studies: int, group: str | None) -> None:
    """A line a cell."""
    print(f"False better, % of {studies:,} studies (95 %): entries × data sets × seeds", flush=True)
    for cell in cells():
        if group not in {None, cell.group}:
            continue
        wrong, possible = false_claims(cell, studies)
        low, high = interval(wrong, studies)
        promised = cell.noise in SYMMETRIC
        held = ("held" if low <= ALPHA else "BROKEN") if promised else "not promised"
        print(
            f"  {' × '.join(map(str, cell.shape)):12} {cell.words:60}"
            f" {100 * wrong / studies:5.1f} ({100 * low:.1f} to {100 * high:.1f}): {held}"
            + ("" if possible else " (no claim is possible)"),
            flush=True,
        )


def holm(p: Floats) -> Floats:
    """Holm's step-down correction, for comparison."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return adjusted


def print_power(studies: int, gaps: Sequence[float] = (1.0, 2.0)) -> None:
    """The share of true differences that are claimed, entries a gap of so many SDs apart."""
    from scipy.stats import ttest_1samp

    print(f"Power, % of all pairs claimed in {studies:,} studies: max-T / Holm / paired t + Holm")
    for gap in gaps:
        for entries, seeds in [(5, 6), (5, 8), (5, 10), (9, 6), (9, 10), (5, 13)]:
            rng = np.random.default_rng([entries, seeds])
            a, b = np.triu_indices(entries, 1)
            found = np.zeros(3)
            for _ in range(studies):
                scores = rng.normal(size=(entries, seeds)) + gap * np.arange(entries)[:, None]
                differences = scores[a] - scores[b]
                tests = (
                    max_t.max_t(differences),
                    holm(max_t.sign_flip(differences)),
                    holm(np.asarray(ttest_1samp(differences, 0, axis=1).pvalue)),
                )
                found += [float((p <= ALPHA).mean()) for p in tests]
            shares = " / ".join(f"{100 * share:.0f}" for share in found / studies)
            print(f"  {entries} entries, {seeds} seeds, gaps of {gap:g} SD: {shares}", flush=True)


def print_power_of_claims(studies: int) -> None:
    """The same differences from a baseline: named, named one-sided, among all pairs, Holm, t."""
    from scipy.stats import ttest_1samp

    print("Power, % of the differences from a baseline: named / one-sided / all pairs / Holm / t")
    for gap in (1.0, 2.0):
        for entries, seeds in [(5, 5), (5, 6), (5, 8), (5, 10), (9, 6), (9, 10)]:
            rng = np.random.default_rng([entries, seeds])
            a, b = np.triu_indices(entries, 1)
            found = np.zeros(5)
            for _ in range(studies):
                scores = rng.normal(size=(entries, seeds)) + gap * np.arange(entries)[:, None]
                every, named = scores[b] - scores[a], scores[1:] - scores[:1]
                tests = (
                    max_t.max_t(named),
                    max_t.max_t(named, np.ones(len(named), np.intp)),
                    max_t.max_t(every)[a == 0],
                    holm(max_t.sign_flip(named)),
                    holm(np.asarray(ttest_1samp(named, 0, axis=1).pvalue)),
                )
                found += [float((p <= ALPHA).mean()) for p in tests]
            shares = " / ".join(f"{100 * share:.0f}" for share in found / studies)
            print(f"  {entries} entries, {seeds} seeds, steps of {gap:g} SD: {shares}", flush=True)


def print_power_of_growth(studies: int) -> None:
    """Pairs claimed and seeds used by looks, by e-values, and with as many seeds from the start."""
    print("Power, % of all pairs claimed (mean seeds): looks 6, 9, 12 / e-values to 12 / 12 seeds")
    for entries, gap in [(2, 1.0), (2, 2.0), (5, 1.0), (5, 2.0), (9, 2.0)]:
        rng = np.random.default_rng([entries, int(gap)])
        a, b = np.triu_indices(entries, 1)
        claimed, used = np.zeros(3), np.zeros(3)
        plan = spent([2.0 ** (1 - n) for n in (6, 9, 12)])
        for _ in range(studies):
            scores = rng.normal(size=(entries, 12)) + gap * np.arange(entries)[:, None]
            differences = scores[a] - scores[b]
            e = e_values.e_values(differences)
            ways: list[list[tuple[int, npt.NDArray[np.bool_]]]] = [
                [(n, max_t.max_t(differences[:, :n]) <= alpha)
                 for n, alpha in zip((6, 9, 12), plan, strict=True)],
                [(n, e_values.closed_by_averages(e[:, n - 1]) >= 20) for n in range(6, 13)],
                [(12, max_t.max_t(differences) <= ALPHA)],
            ]  # fmt: skip
            for way, steps in enumerate(ways):
                decided, seeds = np.zeros(len(a), bool), 0
                for seeds, shown in steps:  # noqa: B007 - where it stopped
                    decided |= shown
                    if decided.all():
                        break
                claimed[way] += decided.mean()
                used[way] += seeds
        shares = " / ".join(
            f"{100 * share:.0f} ({seeds:.1f})"
            for share, seeds in zip(claimed / studies, used / studies, strict=True)
        )
        print(f"  {entries} entries, steps of {gap:g} SD: {shares}", flush=True)


GROUPS = ("all-pairs", "named", "looks", "e-values", "power")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--only", choices=GROUPS, help="a part of it")
    options = parser.parse_args()
    if options.only != "power":
        print_false_claims(options.studies, options.only)
    if options.only in {None, "power"}:
        print_power(options.studies)
        print_power_of_claims(options.studies)
        print_power_of_growth(options.studies)
