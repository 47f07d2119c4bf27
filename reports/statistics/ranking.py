"""Which entries may be called better: paired tests on every data set, one family of claims.

The family is all pairs of entries on all data sets of the report (primary metrics), so the chance
that the report holds any false "better than" is at most 5 %.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as default

import numpy as np
import numpy.typing as npt

from lightning_bench.bench.store.trial import with_fewer_trials
from lightning_bench.reports.report import Comparison, Verdict
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.samples import Samples

Indices = npt.NDArray[np.intp]

# Pairs are quadratic in the entries: beyond this many the report keeps only those with a leader.
KEEP_PAIRS = 300


@dataclass
class Ranking:
    """What the tests allow to be said about one data set."""

    seeds: int = 0
    test: str = ""
    barred: bool = False  # the tuning budgets were not equal: no claim
    possible: bool = False
    leader: str | None = None
    tied: set[str] = default(default_factory=set)
    beaten: dict[str, float] = default(default_factory=dict)
    unranked: dict[str, str] = default(default_factory=dict)
    detectable: float | None = None


@dataclass
class Rankings:
    """All data sets' rankings, the pairs behind them and the size of the family."""

    pairs: int
    columns: dict[str, Ranking]
    comparisons: list[Comparison]

    @property
    def possible(self) -> bool:
        """Whether any data set has seeds enough for a claim."""
        return any(ranking.possible for ranking in self.columns.values())

    @property
    def needed(self) -> int:
        """Seeds from which on a claim in this report is possible at all."""
        return inference.seeds_needed(self.pairs)


@dataclass
class _Field:
    """The entries that compete on one data set, and their pairs (a, b) as arrays."""

    dataset: str
    metric: str
    entries: list[str]
    scores: Floats  # entries × seeds, NaN where there is no run
    a: Indices
    b: Indices
    differences: Floats  # pairs × seeds
    n: Indices
    p: Floats
    p_holm: Floats
    tests: dict[int, str]

    def with_leader(self, leader: int) -> Indices:
        """The pairs that the leader is in."""
        return np.flatnonzero((self.a == leader) | (self.b == leader))


def rank(request: Request, samples: Samples) -> Rankings:
    """Test every pair of entries on every data set and find each one's top tie group."""
    unequal = with_fewer_trials(request.searches)
    columns = {dataset: Ranking(barred=dataset in unequal) for dataset in request.metrics}
    fields = [_compete(request, samples, dataset, columns[dataset]) for dataset in request.metrics]
    p = inference.holm(np.concatenate([field.p for field in fields]))
    ends = np.cumsum([len(field.p) for field in fields])
    for field, adjusted in zip(fields, np.split(p, ends[:-1]), strict=True):
        field.p_holm = adjusted
        sign = 1 if request.higher_better(field.metric) else -1
        _conclude(columns[field.dataset], field, sign, len(p))
    comparisons = [
        comparison
        for field in fields
        for comparison in _comparisons(request, field, columns[field.dataset], len(p))
    ]
    return Rankings(len(p), columns, comparisons)


def _compete(request: Request, samples: Samples, dataset: str, ranking: Ranking) -> _Field:
    """Every pair's differences and its p, before any correction."""
    metric = request.metrics[dataset][0]
    found: dict[str, Mapping[int, float]] = {}
    for entry in request.entries:
        sample = samples[entry, dataset]
        if sample.failed(metric):
            # The mean over the runs that survived flatters an entry that fails.
            ranking.unranked[entry] = "not every run gave a result"
        elif len(sample.done) > 1:
            found[entry] = sample.values(metric)
    seeds = sorted(set().union(*found.values()))
    scores = np.array(
        [[by_seed.get(seed, np.nan) for seed in seeds] for by_seed in found.values()]
    ).reshape(len(found), len(seeds))
    a, b = np.triu_indices(len(found), 1)
    differences = scores[a] - scores[b]
    n = np.count_nonzero(~np.isnan(differences), axis=1)
    a, b, differences, n = (array[n > 1] for array in (a, b, differences, n))
    p, tests = np.ones(len(n)), {}
    for count in np.unique(n).tolist():
        rows = differences[n == count]
        tests[count], p[n == count] = inference.paired_test(
            rows[~np.isnan(rows)].reshape(-1, count)
        )
    return _Field(dataset, metric, list(found), scores, a, b, differences, n, p, p, tests)


def _conclude(ranking: Ranking, field: _Field, sign: int, pairs: int) -> None:
    """Find the leader, who is beaten by it, and who can't be told from it."""
    runs = np.count_nonzero(~np.isnan(field.scores), axis=1)
    ranking.seeds = int(runs.max(initial=0))
    ranking.test = field.tests.get(int(field.n.max(initial=0)), "")
    needed = inference.seeds_needed(pairs)
    ranked = np.flatnonzero(runs >= needed)
    for place in np.flatnonzero(runs < needed):
        ranking.unranked[field.entries[place]] = "too few seeds for a claim"
    ranking.possible = len(ranked) > 1 and not ranking.barred
    if not ranking.possible:
        return
    means = [sign * _mean(field.scores[place]) for place in ranked]
    leader = int(ranked[means.index(max(means))])
    ranking.leader = field.entries[leader]
    ranking.tied.add(ranking.leader)
    spread = float(np.median(np.nanstd(field.differences, axis=1, ddof=1)))
    ranking.detectable = spread * inference.detectable_difference(ranking.seeds, pairs)
    mine = field.with_leader(leader)
    met = {int(field.a[pair] + field.b[pair]) - leader: pair for pair in mine}
    for place in ranked[ranked != leader]:
        entry, pair = field.entries[place], met.get(int(place))
        if pair is None or field.n[pair] < needed:
            ranking.unranked[entry] = f"too few seeds in common with {ranking.leader}"
        elif field.p_holm[pair] <= inference.ALPHA:
            ranking.beaten[entry] = float(field.p_holm[pair])
        else:
            ranking.tied.add(entry)


def _mean(scores: Floats) -> float:
    known = scores[~np.isnan(scores)].tolist()
    return math.fsum(known) / len(known)


def _comparisons(
    request: Request, field: _Field, ranking: Ranking, pairs: int
) -> Iterator[Comparison]:
    """The pairs to report: all, or those of the leader where there are too many."""
    wanted = np.arange(len(field.p))
    if pairs > KEEP_PAIRS:
        leader = field.entries.index(ranking.leader) if ranking.leader else -1
        wanted = field.with_leader(leader)
    for pair in wanted.tolist():
        row = field.differences[pair]
        summary = inference.summarise(row[~np.isnan(row)].tolist())
        verdict: Verdict = "undecided"
        if field.p_holm[pair] <= inference.ALPHA and not ranking.barred:
            higher = summary.mean > 0
            verdict = "better" if higher == request.higher_better(field.metric) else "worse"
        yield Comparison(
            dataset=field.dataset,
            metric=field.metric,
            a=field.entries[field.a[pair]],
            b=field.entries[field.b[pair]],
            n=summary.n,
            difference=summary.mean,
            low=summary.low,
            high=summary.high,
            test=field.tests[summary.n],
            p=float(field.p[pair]),
            p_holm=float(field.p_holm[pair]),
            verdict=verdict,
            seeds=inference.seeds_to_show(summary.mean, summary.sd or 0.0, pairs),
        )
