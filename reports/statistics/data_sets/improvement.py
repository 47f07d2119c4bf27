"""Probability of improvement: how likely a run of one entry beats a run of another.

The mean over data sets of Mann and Whitney's U over the number of pairs of runs; ties are half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.ranks import midranks

_HALVINGS = 40


@dataclass(frozen=True)
class Improvement:
    """P(a run of A beats a run of B) and its 95 % interval."""

    p: float
    low: float
    high: float


def improvement(a: Sequence[Floats], b: Sequence[Floats], sign: int = 1) -> Improvement:
    """Of two entries, whose runs are given by data set; sign −1 where less is better.

    The interval is Newcombe's pseudo-score one (2006, method 5), by data set: it has room where one
    entry won every time, and needs two runs of each.
    """
    p = float(np.mean([_share(x, y, sign) for x, y in zip(a, b, strict=True)]))
    sizes = [(len(x), len(y)) for x, y in zip(a, b, strict=True)]
    return Improvement(p, _end(p, sizes, 0.0), _end(p, sizes, 1.0))


def _share(a: Floats, b: Floats, sign: int) -> float:
    above = sign * (a[:, None] - b[None])
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def _end(p: float, sizes: Sequence[tuple[int, int]], outermost: float) -> float:
    """The probability furthest from p, towards an end, at which p would not be astonishing."""
    z = inference.t_quantile(1 - inference.ALPHA / 2, 10**9)
    inside, outside = p, outermost
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if (p - middle) ** 2 <= z**2 * _variance(middle, sizes):
            inside = middle
        else:
            outside = middle
    return inside


def _variance(p: float, sizes: Sequence[tuple[int, int]]) -> float:
    """Newcombe's variance of the share, were it p on every data set: at most too large."""
    within = (1 - p) / (2 - p) + p / (1 + p)
    parts = [(1 + ((m + n) / 2 - 1) * within) / (m * n) for m, n in sizes]
    return p * (1 - p) * sum(parts) / len(sizes) ** 2


def win_rates(scores: Sequence[Sequence[Floats]], sign: int = 1) -> list[float]:
    """Probability that a run beats a run of any other entry on the same data set; ties are half.

    For one data set this is Mann and Whitney's U over the number of pairs: from the ranks of all
    runs together, less those among the entry's own.
    """
    wins = np.zeros(len(scores))
    for runs in zip(*scores, strict=True):
        sizes = np.array([len(values) for values in runs])
        ranks = midranks(sign * np.concatenate(runs))
        owner = np.repeat(np.arange(len(runs)), sizes)
        sums = np.bincount(owner, weights=ranks)
        wins += (sums - sizes * (sizes + 1) / 2) / (sizes * (sizes.sum() - sizes))
    return [float(rate) for rate in wins / len(scores[0])]
