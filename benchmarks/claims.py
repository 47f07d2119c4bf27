"""How often a report claims what is not so, and how often what is: through the real pipeline.

    python -m benchmarks.claims                    # 2,000 studies a cell, about 5 minutes of a core
    python -m benchmarks.claims --studies 200      # a look
    python -m benchmarks.claims --power            # power alone

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
from lightning_bench.bench.study.study import Entry, Study
from lightning_bench.reports.report import Comparison
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import max_t, samples
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


class Pipeline:
    """Ranks made-up studies of one shape; their records are made once."""

    def __init__(self, shape: Shape) -> None:
        entries, datasets, seeds = shape
        self.labels = [f"e{i}" for i in range(entries)]
        self.titles = [f"d{i}" for i in range(datasets)]
        study = Study(
            name="simulated", scale="smoke", title="t", question="q",
            data=[{"name": title} for title in self.titles],  # type: ignore[list-item]
            entries={label: Entry(model=label) for label in self.labels},
            seeds=list(range(seeds)),
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
    rng = np.random.default_rng([*cell.shape, cell.apart, cell.missing, len(cell.noise)])
    pipeline = Pipeline(cell.shape)
    means = np.zeros(cell.shape[0])
    means[: cell.apart] = 100.0
    draw = (SYMMETRIC | OTHERS)[cell.noise]
    wrong = possible = 0
    for _ in range(studies):
        values = draw(rng, cell.shape) + means[:, None, None]
        values += rng.normal(size=(1, *cell.shape[1:]))  # of the seed, which all entries share
        if cell.missing:
            values[0, :, -cell.missing :] = np.nan
        pairs = pipeline.compare(values)
        possible += any(pair.blocks >= 6 for pair in pairs)
        wrong += any(
            pair.verdict != "undecided"
            for pair in pairs
            if means[int(pair.a[1:])] == means[int(pair.b[1:])]
        )
    return wrong, possible


def interval(count: int, studies: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % confidence interval of a share."""
    from scipy.stats import beta

    low = beta.ppf(0.025, count, studies - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, studies - count) if count < studies else 1.0
    return float(low), float(high)


def print_false_claims(studies: int) -> None:
    """A line a cell."""
    print(f"False better, % of {studies:,} studies (95 %): entries × data sets × seeds")
    for cell in cells():
        wrong, possible = false_claims(cell, studies)
        low, high = interval(wrong, studies)
        extra = f", {cell.apart} entries far apart" * bool(cell.apart)
        extra += f", {cell.missing} run missing" * bool(cell.missing)
        promised = cell.noise in SYMMETRIC
        held = ("held" if low <= ALPHA else "BROKEN") if promised else "not promised"
        print(
            f"  {' × '.join(map(str, cell.shape)):12} {cell.noise + extra:46}"
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--power", action="store_true", help="power alone")
    options = parser.parse_args()
    if not options.power:
        print_false_claims(options.studies)
    print_power(options.studies)
