"""Which entries may be called better: paired tests on every data set, one family of claims.

The family is all pairs of entries on all data sets of the report (primary metrics), so the chance
that the report holds any false "better than" is at most 5 %.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np

from reports import statistics
from reports.samples import Samples
from reports.table import Comparison, Request

# Pairs are quadratic in the entries: beyond this many the report keeps only those with a leader.
KEEP_PAIRS = 300


@dataclass
class Ranking:
    """What the tests allow to be said about one data set."""

    seeds: int = 0
    test: str = ""
    possible: bool = False
    leader: str | None = None
    tied: set[str] = field(default_factory=set)
    beaten: dict[str, float] = field(default_factory=dict)
    unranked: dict[str, str] = field(default_factory=dict)
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
        return statistics.seeds_needed(self.pairs)


@dataclass
class _Pair:
    dataset: str
    a: str
    b: str
    differences: Sequence[float]


def rank(request: Request, samples: Samples) -> Rankings:
    """Test every pair of entries on every data set and find each one's top tie group."""
    pairs: list[_Pair] = []
    columns: dict[str, Ranking] = {}
    values: dict[str, dict[str, dict[int, float]]] = {}
    for dataset, (metric, *_) in request.metrics.items():
        ranking = columns[dataset] = Ranking()
        values[dataset] = scores = {}
        for entry in (entry.label for entry in request.entries):
            sample = samples[entry, dataset]
            if sample.failed(metric):
                # The mean over the runs that survived flatters an entry that fails.
                ranking.unranked[entry] = "not every run gave a result"
            elif len(sample.done) > 1:
                scores[entry] = sample.values(metric)
        for a, b in combinations(scores, 2):
            seeds = sorted(scores[a].keys() & scores[b].keys())
            if len(seeds) > 1:
                found = [scores[a][seed] - scores[b][seed] for seed in seeds]
                pairs.append(_Pair(dataset, a, b, found))
    tested = _test(pairs)
    rankings = Rankings(len(pairs), columns, [])
    results: dict[str, dict[tuple[str, str], _Result]] = defaultdict(dict)
    for pair, result in tested:
        results[pair.dataset][pair.a, pair.b] = result
    for dataset, ranking in columns.items():
        sign = 1 if request.higher_better(request.metrics[dataset][0]) else -1
        _conclude(ranking, values[dataset], results[dataset], sign, len(pairs))
    rankings.comparisons = _comparisons(request, tested, columns)
    return rankings


@dataclass
class _Result:
    test: str
    p: float
    p_holm: float
    sd: float


def _test(pairs: list[_Pair]) -> list[tuple[_Pair, _Result]]:
    """One test for each pair, batched by the number of seeds, then Holm over them all."""
    batches: dict[int, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        batches[len(pair.differences)].append(index)
    p, sd = np.ones(len(pairs)), np.zeros(len(pairs))
    names = {}
    for n, members in batches.items():
        table = np.array([pairs[index].differences for index in members])
        names[n], p[members] = statistics.paired_test(table)
        sd[members] = table.std(axis=1, ddof=1)
    adjusted = statistics.holm(p)
    return [
        (pair, _Result(names[len(pair.differences)], float(raw), float(holm), float(spread)))
        for pair, raw, holm, spread in zip(pairs, p, adjusted, sd, strict=True)
    ]


def _conclude(
    ranking: Ranking,
    scores: dict[str, dict[int, float]],
    tested: dict[tuple[str, str], _Result],
    sign: int,
    pairs: int,
) -> None:
    """Find the leader, who is beaten by it, and who can't be told from it."""
    means = {entry: sign * math.fsum(x.values()) / len(x) for entry, x in scores.items() if x}
    ranking.seeds = max(map(len, scores.values()), default=0)
    ranking.test = next((result.test for result in tested.values()), "")
    needed = statistics.seeds_needed(pairs)
    ranked = [entry for entry in scores if len(scores[entry]) >= needed]
    for entry in scores.keys() - ranked:
        ranking.unranked[entry] = "too few seeds for a claim"
    ranking.possible = len(ranked) > 1
    if not ranking.possible:
        return
    ranking.leader = leader = max(ranked, key=lambda entry: means[entry])
    spread = float(np.median([result.sd for result in tested.values()]))
    ranking.detectable = spread * statistics.detectable_difference(ranking.seeds, pairs)
    for entry in ranked:
        if len(scores[entry].keys() & scores[leader].keys()) < needed:
            ranking.unranked[entry] = f"too few seeds in common with {leader}"
            continue
        result = tested.get((leader, entry)) or tested.get((entry, leader))
        if result and result.p_holm <= statistics.ALPHA:
            ranking.beaten[entry] = result.p_holm
        else:
            ranking.tied.add(entry)


def _comparisons(
    request: Request, tested: list[tuple[_Pair, _Result]], columns: dict[str, Ranking]
) -> list[Comparison]:
    if len(tested) > KEEP_PAIRS:
        tested = [
            (pair, result)
            for pair, result in tested
            if columns[pair.dataset].leader in (pair.a, pair.b)
        ]
    found = []
    for pair, result in tested:
        metric = request.metrics[pair.dataset][0]
        summary = statistics.summarise(pair.differences)
        verdict: Literal["better", "worse", "undecided"] = "undecided"
        if result.p_holm <= statistics.ALPHA:
            higher = summary.mean > 0
            verdict = "better" if higher == request.higher_better(metric) else "worse"
        found.append(
            Comparison(
                dataset=pair.dataset,
                metric=metric,
                a=pair.a,
                b=pair.b,
                n=summary.n,
                difference=summary.mean,
                low=summary.low,
                high=summary.high,
                test=result.test,
                p=result.p,
                p_holm=result.p_holm,
                verdict=verdict,
            )
        )
    return found
