"""Which entries may be called better: paired tests of all pairs at once, one family of claims.

The family is all pairs of entries on all data sets of the report (primary metrics) and on their
mean, so the chance that a report of equal entries holds any "better than" is at most 5 %. It is
tested once, when every planned run has ended: to look again with each new run, and stop when
something shows, would be wrong far more often.

Blocks are seeds, with one sign for all data sets. Where there are too few seeds for any claim on a
single data set, the mean over the data sets is the family, and its blocks are the seeds of each
data set: which of the two it is depends on the plan alone, not on results.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightning_bench.bench.store.trial import with_fewer_trials
from lightning_bench.reports.report import Comparison, Verdict
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference, max_t
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.samples import Samples

Indices = npt.NDArray[np.intp]

# Pairs are quadratic in the entries: beyond this many the report keeps only those with a leader.
KEEP_PAIRS = 300
TEST = "step-down max-T over sign flips"


@dataclass
class Ranking:
    """What the tests allow to be said about one data set, or the mean over all."""

    seeds: int = 0
    blocks: int = 0  # of the leader's pairs: seeds, or seeds × data sets
    barred: bool = False  # the tuning budgets were not equal: no claim
    possible: bool = False
    leader: str | None = None
    tied: set[str] = field(default_factory=set)
    beaten: dict[str, float] = field(default_factory=dict)
    unranked: dict[str, str] = field(default_factory=dict)
    detectable: float | None = None


@dataclass
class Rankings:
    """All data sets' rankings, that of their mean, the pairs behind them, and the family."""

    pairs: int
    columns: dict[str, Ranking]
    mean: Ranking | None
    comparisons: list[Comparison]
    unfinished: bool  # runs are still to come: nothing is claimed yet
    contests: list[tuple["_Contest", Ranking]] = field(default_factory=list)  # and of the mean

    @property
    def possible(self) -> bool:
        """Whether any data set has seeds enough for a claim."""
        return any(ranking.possible for ranking in self.columns.values())


@dataclass
class _Contest:
    """The entries that compete on a data set or on the mean, and their pairs (a, b) as arrays."""

    title: str
    metric: str
    entries: list[str]
    scores: Floats  # entries × seeds, NaN where there is no run
    a: Indices
    b: Indices
    blocks: Floats  # the differences that are tested: pairs × blocks
    p: Floats = field(init=False)
    p_adjusted: Floats = field(init=False)
    half_widths: Floats = field(init=False)  # of the intervals that hold for all pairs at once

    @property
    def differences(self) -> Floats:
        """Of each pair by seed."""
        return self.scores[self.a] - self.scores[self.b]

    @property
    def blocks_a_seed(self) -> int:
        """One, or as many as there are data sets."""
        return self.blocks.shape[1] // max(1, self.scores.shape[1]) or 1

    @property
    def n(self) -> Indices:
        """The blocks of each pair."""
        return np.asarray(np.count_nonzero(~np.isnan(self.blocks), axis=1))

    def with_leader(self, leader: int) -> Indices:
        """The pairs that the leader is in."""
        return np.flatnonzero((self.a == leader) | (self.b == leader))


def mean_title(datasets: int) -> str:
    """What the mean over the data sets is called."""
    return f"mean of {datasets} data sets"


def rank(request: Request, samples: Samples) -> Rankings:
    """Test every pair of entries on every data set and find each contest's top tie group."""
    unequal = with_fewer_trials(request.searches)
    unfinished = _unfinished(request, samples)
    seeds = sorted({run.seed for sample in samples.values() for run in sample.runs})
    columns = {dataset: Ranking(barred=dataset in unequal) for dataset in request.metrics}
    contests = [_compete(request, samples, name, columns[name], seeds) for name in request.metrics]
    few_seeds = all((contest.n < inference.blocks_needed()).all() for contest in contests)
    mean = _compete_on_mean(request, contests, blocks_by_dataset=few_seeds)
    overall = Ranking(barred=bool(unequal)) if mean else None
    families = [[*contests, mean] if mean else contests]
    if mean and few_seeds:
        families = [[mean], contests]
    for family in families:
        _test(family)
    pairs = sum(len(contest.p) for contest in families[0])
    ranked = [*zip(contests, columns.values(), strict=True)]
    if mean and overall:
        ranked.append((mean, overall))
    for contest, ranking in ranked:
        sign = 1 if request.higher_better(contest.metric) else -1
        _conclude(ranking, contest, sign, pairs, unfinished=unfinished)
    comparisons = [
        comparison
        for contest, ranking in ranked
        for comparison in _comparisons(request, contest, ranking, pairs, unfinished=unfinished)
    ]
    return Rankings(pairs, columns, overall, comparisons, unfinished, ranked)


def _unfinished(request: Request, samples: Samples) -> bool:
    """Whether a planned run has not ended yet, or its search has not."""
    to_come = {"missing", "running", "stale"}
    return any(not ledger.closed for ledger in request.searches) or any(
        run.state in to_come for sample in samples.values() for run in sample.runs
    )


def _compete(
    request: Request, samples: Samples, dataset: str, ranking: Ranking, seeds: Sequence[int]
) -> _Contest:
    """Every pair's differences on one data set."""
    metric = request.metrics[dataset][0]
    found: dict[str, Mapping[int, float]] = {}
    for entry in request.entries:
        sample = samples[entry, dataset]
        if sample.failed(metric):
            # The mean over the runs that survived flatters an entry that fails.
            ranking.unranked[entry] = "not every run gave a result"
        elif sample.draws_nothing:
            ranking.unranked[entry] = "every seed gives the same result"
        elif len(sample.done) > 1:
            found[entry] = sample.values(metric)
    scores = np.array(
        [[by_seed.get(seed, np.nan) for seed in seeds] for by_seed in found.values()]
    ).reshape(len(found), len(seeds))
    a, b = _pairs(scores)
    return _Contest(dataset, metric, list(found), scores, a, b, scores[a] - scores[b])


def _pairs(scores: Floats) -> tuple[Indices, Indices]:
    """All pairs of entries with two seeds or more in common."""
    a, b = np.triu_indices(len(scores), 1)
    common = np.count_nonzero(~np.isnan(scores[a] - scores[b]), axis=1) > 1
    return a[common], b[common]


def _compete_on_mean(
    request: Request, contests: Sequence[_Contest], *, blocks_by_dataset: bool
) -> _Contest | None:
    """The pairs on the mean over all data sets, of the entries that have a result on each."""
    entries = [
        name for name in request.entries if all(name in contest.entries for contest in contests)
    ]
    metrics = {contest.metric for contest in contests}
    if len(contests) < 2 or len(entries) < 2 or len(metrics) > 1:
        return None
    places = [[contest.entries.index(name) for name in entries] for contest in contests]
    scores = np.stack(
        [contest.scores[rows] for contest, rows in zip(contests, places, strict=True)]
    )
    means = scores.mean(axis=0)  # NaN where a data set lacks the seed
    a, b = _pairs(means)
    blocks = means[a] - means[b]
    if blocks_by_dataset:
        complete = np.where(np.isnan(means), np.nan, scores)
        blocks = np.concatenate(list(complete[:, a] - complete[:, b]), axis=1)
    return _Contest(mean_title(len(contests)), metrics.pop(), entries, means, a, b, blocks)


def _test(family: Sequence[_Contest]) -> None:
    """The p of each pair, alone and corrected over the family, and the intervals for all."""
    blocks = np.concatenate([contest.blocks for contest in family])
    ends = np.cumsum([len(contest.blocks) for contest in family])[:-1]
    adjusted = np.split(max_t.max_t(blocks), ends)
    halves = np.split(max_t.simultaneous_half_widths(blocks, inference.ALPHA), ends)
    for contest, p_adjusted, half_widths in zip(family, adjusted, halves, strict=True):
        contest.p, contest.p_adjusted = max_t.sign_flip(contest.blocks), p_adjusted
        contest.half_widths = half_widths


def _conclude(
    ranking: Ranking, contest: _Contest, sign: int, pairs: int, *, unfinished: bool
) -> None:
    """Find the leader, who is beaten by it, and who can't be told from it."""
    runs = np.count_nonzero(~np.isnan(contest.scores), axis=1)
    blocks = runs * contest.blocks_a_seed
    needed = inference.blocks_needed()
    ranking.seeds = int(runs.max(initial=0))
    ranked = np.flatnonzero(blocks >= needed)
    for place in np.flatnonzero(blocks < needed):
        ranking.unranked[contest.entries[place]] = "too few seeds for a claim"
    ranking.possible = len(ranked) > 1 and not ranking.barred and not unfinished
    if not ranking.possible:
        return
    leader = int(ranked[_leader(sign * contest.scores[ranked])])
    ranking.leader = contest.entries[leader]
    ranking.tied.add(ranking.leader)
    mine = contest.with_leader(leader)
    ranking.blocks = int(contest.n[mine].max(initial=0))
    spread = float(np.median(np.nanstd(contest.blocks, axis=1, ddof=1)))
    ranking.detectable = spread * inference.detectable_difference(ranking.blocks, pairs)
    met = {int(contest.a[pair] + contest.b[pair]) - leader: pair for pair in mine}
    for place in ranked[ranked != leader]:
        entry, pair = contest.entries[place], met.get(int(place))
        if pair is None or contest.n[pair] < needed:
            ranking.unranked[entry] = f"too few seeds in common with {ranking.leader}"
        elif contest.p_adjusted[pair] <= inference.ALPHA and _ahead(contest, pair, leader, sign):
            ranking.beaten[entry] = float(contest.p_adjusted[pair])
        else:
            ranking.tied.add(entry)


def _leader(scores: Floats) -> int:
    """The best mean over the seeds that all have, or else over each entry's own."""
    common = scores[:, ~np.isnan(scores).any(axis=0)]
    rows = common if common.size else [row[~np.isnan(row)] for row in scores]
    means = [math.fsum(row.tolist()) / len(row) for row in rows]
    return means.index(max(means))


def _ahead(contest: _Contest, pair: int, leader: int, sign: int) -> bool:
    """Whether the leader is the better of a pair over the seeds that both have."""
    difference = sign * float(np.nansum(contest.differences[pair]))
    return difference > 0 if contest.a[pair] == leader else difference < 0


def _comparisons(
    request: Request, contest: _Contest, ranking: Ranking, pairs: int, *, unfinished: bool
) -> Iterator[Comparison]:
    """The pairs to report: all, or those of the leader where there are too many."""
    wanted = np.arange(len(contest.p))
    if pairs > KEEP_PAIRS:
        leader = contest.entries.index(ranking.leader) if ranking.leader else -1
        wanted = contest.with_leader(leader)
    differences, blocks = contest.differences, contest.n
    for pair in wanted.tolist():
        row = differences[pair]
        summary = inference.summarise(row[~np.isnan(row)].tolist())
        verdict: Verdict = "undecided"
        if contest.p_adjusted[pair] <= inference.ALPHA and not ranking.barred and not unfinished:
            higher = summary.mean > 0
            verdict = "better" if higher == request.higher_better(contest.metric) else "worse"
        low, high = _of_all(summary.mean, float(contest.half_widths[pair]), verdict)
        yield Comparison(
            dataset=contest.title,
            metric=contest.metric,
            a=contest.entries[contest.a[pair]],
            b=contest.entries[contest.b[pair]],
            n=summary.n,
            blocks=int(blocks[pair]),
            difference=summary.mean,
            low=summary.low,
            high=summary.high,
            low_of_all=low,
            high_of_all=high,
            test=TEST,
            p=float(contest.p[pair]),
            p_adjusted=float(contest.p_adjusted[pair]),
            verdict=verdict,
            seeds=_seeds_to_show(contest, pair, pairs),
        )


def _seeds_to_show(contest: _Contest, pair: int, pairs: int) -> int | None:
    """Seeds with which a difference as large as this pair's would be shown."""
    row = contest.blocks[pair][~np.isnan(contest.blocks[pair])]
    blocks = inference.seeds_to_show(float(row.mean()), float(row.std(ddof=1)), pairs)
    return None if blocks is None else math.ceil(blocks / contest.blocks_a_seed)


def _of_all(mean: float, half: float, verdict: Verdict) -> tuple[float | None, float | None]:
    """The interval that holds for all pairs at once, open where the seeds can't bound it.

    It agrees with the verdict: the step-down test claims a little more than its single step, from
    which the interval is.
    """
    if not math.isfinite(half):
        return None, None
    low, high = mean - half, mean + half
    if verdict == "undecided":
        return min(low, 0.0), max(high, 0.0)
    return (max(low, 0.0), high) if mean > 0 else (low, min(high, 0.0))
