"""Welch's t-test of pairs with too few seeds for sign flips, corrected by Holm: an indication.

Below six seeds no exact paired test can give less than 0.05. Welch's t can, because it takes the
noise for normal, which so few seeds can't show. So this is a tier of its own: never a verdict,
never bold. It takes each entry's own seeds; the paired t-test must not stand here, since on coarse
counts differences repeat, their SD is near zero, and it is wrong in 17 to 47 % of studies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lightning_bench.reports.report import Verdict
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.statistics.samples import Sample, Samples
from lightning_bench.reports.statistics.tiers.holm import holm

#: Seeds from which on it is tried: two are wrong in 6 % of studies of two entries whose SDs differ
#: tenfold, and find next to nothing (`benchmarks.tiers`).
LEAST_SEEDS = 3
_ROUNDING = 1e-12  # an SD below it is that of equal counts, which differ in their last bits


@dataclass(frozen=True)
class Tested:
    """The pairs of one data set: symmetric matrices by entry, NaN where sign flips can do it."""

    entries: list[str]
    means: Floats  # more is better
    p: Floats  # corrected over all data sets

    def above(self) -> tuple[str, dict[str, float]]:
        """The entry with the best mean, and those it stands above, with their p."""
        best = int(np.argmax(self.means))
        below = np.flatnonzero(self.p[best] <= inference.ALPHA).tolist()
        return self.entries[best], {self.entries[i]: float(self.p[best, i]) for i in below}


@dataclass(frozen=True)
class Indications:
    """What Welch's t says of all pairs of fewer than six seeds, which are one family."""

    pairs: int = 0
    seeds: int = 0  # of these entries, at the least
    tested: dict[str, Tested] = field(default_factory=dict)  # by data set

    def of_pair(self, dataset: str, a: str, b: str) -> tuple[float, Verdict] | None:
        """The corrected p and what it says of `a`; None for a pair that was not tested."""
        tested = self.tested.get(dataset)
        if tested is None or not {a, b} <= {*tested.entries}:
            return None
        i, j = tested.entries.index(a), tested.entries.index(b)
        p = float(tested.p[i, j])
        if np.isnan(p):
            return None
        if p > inference.ALPHA:
            return p, "undecided"
        return p, "better" if tested.means[i] > tested.means[j] else "worse"


def welch(means: Floats, variances: Floats, n: Floats) -> Floats:
    """Two-sided p of equal means for all pairs, whatever their variances, as a matrix.

    It is 1 where neither sample varies: two constants are no samples of any noise.
    """
    from scipy.special import stdtr

    errors = variances / n
    both = errors[:, None] + errors[None]
    degrees = errors**2 / (n - 1)
    known = np.where(both > _ROUNDING**2, both, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = both**2 / (degrees[:, None] + degrees[None])
    t = np.abs(means[:, None] - means[None]) / np.sqrt(known)
    return np.asarray(np.where(np.isinf(known), 1.0, 2 * stdtr(df, -t)))


def indications(request: Request, samples: Samples, rankings: Rankings) -> Indications:
    """The pairs that Welch's t tells apart, once every planned run has ended."""
    found: dict[str, dict[str, Mapping[int, float]]] = {}
    for dataset, (metric, *_) in request.metrics.items():
        if not rankings.unfinished and not rankings.columns[dataset].barred:
            found[dataset] = {
                entry: samples[entry, dataset].values(metric)
                for entry in request.entries
                if _fit(samples[entry, dataset], metric)
            }
    tested = {
        dataset: _tested(by_seed, request.higher_better(request.metrics[dataset][0]))
        for dataset, by_seed in found.items()
        if by_seed
    }
    upper = {dataset: np.triu(~np.isnan(one.p)) for dataset, one in tested.items()}
    if not any(pairs.any() for pairs in upper.values()):
        return Indications()
    corrected = holm(np.concatenate([one.p[upper[name]] for name, one in tested.items()]))
    ends = np.cumsum([np.count_nonzero(pairs) for pairs in upper.values()])
    for (name, one), p in zip(tested.items(), np.split(corrected, ends[:-1]), strict=True):
        one.p[upper[name]] = p
        one.p.T[upper[name]] = p
    seeds = min(len(seeds) for name in tested for seeds in found[name].values())
    return Indications(len(corrected), seeds, tested)


def _fit(sample: Sample, metric: str) -> bool:
    """Whether an entry has seeds enough, and none that failed or drew nothing."""
    enough = len(sample.values(metric)) >= LEAST_SEEDS
    return enough and not sample.failed(metric) and not sample.draws_nothing


def _tested(by_seed: Mapping[str, Mapping[int, float]], higher_is_better: bool) -> Tested:
    """The uncorrected p of the pairs of which an entry has fewer than six seeds."""
    summaries = [inference.summarise([*values.values()]) for values in by_seed.values()]
    means = np.array([summary.mean for summary in summaries])
    variances = np.array([(summary.sd or 0.0) ** 2 for summary in summaries])
    seeds = np.array([float(summary.n) for summary in summaries])
    p = welch(means, variances, seeds)
    p[np.minimum(seeds[:, None], seeds) >= inference.blocks_needed()] = np.nan
    np.fill_diagonal(p, np.nan)
    return Tested([*by_seed], means if higher_is_better else -means, p)
