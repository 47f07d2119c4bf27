"""Contests: entries that compete on a data set or on the mean, and their paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightning_bench.bench.study.claims import NamedPair
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.samples import Samples

Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Decision:
    """A verdict on a pair, with its corrected p, at a number of seeds: `better` is the better."""

    better: str
    p: float
    seeds: int


@dataclass
class Contest:
    """The entries that compete on a data set or on the mean, and their pairs (a, b) as arrays."""

    title: str
    metric: str
    entries: list[str]
    scores: Floats  # entries × seeds, NaN where there is no run
    a: Indices
    b: Indices
    sides: Indices  # of each pair the sign that its difference was named to have, or 0
    tested: Booleans  # in the family of claims; the others are described
    blocks: Floats  # the differences that are tested: pairs × blocks
    unranked: Mapping[str, str] = field(default_factory=dict)  # entries, and why
    p: Floats = field(init=False)
    p_adjusted: Floats = field(init=False)
    half_widths: Floats = field(init=False)  # of the intervals that hold for all pairs at once
    decided: dict[int, Decision] = field(default_factory=dict)  # by pair

    def names(self, pair: int) -> tuple[str, str]:
        """The two entries of a pair."""
        return self.entries[self.a[pair]], self.entries[self.b[pair]]

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


def compete(
    request: Request,
    samples: Samples,
    dataset: str,
    seeds: Sequence[int],
    named: Sequence[NamedPair],
) -> Contest:
    """Every pair's differences on one data set."""
    metric = request.metrics[dataset][0]
    found: dict[str, Mapping[int, float]] = {}
    unranked: dict[str, str] = {}
    for entry in request.entries:
        sample = samples[entry, dataset]
        if sample.failed(metric):
            # The mean over the runs that survived flatters an entry that fails.
            unranked[entry] = "not every run gave a result"
        elif sample.draws_nothing:
            unranked[entry] = "every seed gives the same result"
        elif len(sample.done) > 1:
            found[entry] = sample.values(metric)
    scores = np.array(
        [[by_seed.get(seed, np.nan) for seed in seeds] for by_seed in found.values()]
    ).reshape(len(found), len(seeds))
    here = [pair for pair in named if pair.stands_for(dataset)] if named else None
    a, b, sides, tested = _pairs(scores, list(found), here, request.higher_better(metric))
    blocks = scores[a] - scores[b]
    entries = list(found)
    return Contest(dataset, metric, entries, scores, a, b, sides, tested, blocks, unranked)


def _pairs(
    scores: Floats, entries: Sequence[str], named: Sequence[NamedPair] | None, higher_better: bool
) -> tuple[Indices, Indices, Indices, Booleans]:
    """All pairs of entries with two seeds or more in common, the sides and the family of them.

    Those that are named come as they are named; where none are, all are in the family.
    """
    a, b = np.triu_indices(len(scores), 1)
    common = np.count_nonzero(~np.isnan(scores[a] - scores[b]), axis=1) > 1
    a, b = a[common], b[common]
    sides, tested = np.zeros(len(a), np.intp), np.full(len(a), named is None)
    for pair in named or ():
        if pair.a in entries and pair.b in entries:
            first, second = entries.index(pair.a), entries.index(pair.b)
            places = ((a == first) & (b == second)) | ((a == second) & (b == first))
            a[places], b[places], tested[places] = first, second, True
            sides[places] = (1 if higher_better else -1) * pair.directed
    return a, b, sides, tested


def compete_on_mean(
    request: Request,
    contests: Sequence[Contest],
    named: Sequence[NamedPair],
    *,
    blocks_by_dataset: bool,
) -> Contest | None:
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
    metric = metrics.pop()
    here = [pair for pair in named if pair.stands_for(None)] if named else None
    a, b, sides, tested = _pairs(means, entries, here, request.higher_better(metric))
    blocks = means[a] - means[b]
    if blocks_by_dataset:
        complete = np.where(np.isnan(means), np.nan, scores)
        blocks = np.concatenate(list(complete[:, a] - complete[:, b]), axis=1)
    title = mean_title(len(contests))
    return Contest(title, metric, entries, means, a, b, sides, tested, blocks)
