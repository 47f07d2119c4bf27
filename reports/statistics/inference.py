"""The statistics behind the tables: pure functions of numbers, exact where they can be.

Sums are exactly rounded (math.fsum), so the same metrics give the same bits in any order.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lightning_bench.reports.statistics.signed_ranks import signed_ranks

ALPHA = 0.05
EXACT_SEEDS = 12  # up to 2¹¹ sign patterns a pair of entries; beyond it Wilcoxon's ranks
MOST_SEEDS = 1_000  # nobody trains more

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Mean over n runs, SD and 95 % t-interval; the last three are None for a single run."""

    n: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None


def summarise(values: Sequence[float]) -> Summary:
    """Describe a sample of one or more finite values.

    sd = sqrt(Σ(x − mean)² / (n − 1)); interval = mean ± t(0.975, n − 1) · sd / √n.
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(1, mean)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(1 - ALPHA / 2, n - 1) * sd / math.sqrt(n)
    return Summary(n, mean, sd, mean - half, mean + half)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, df: int) -> float:
    """Quantile of Student's t."""
    # scipy.special answers in 0.1 s of import where scipy.stats takes 0.7.
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def sign_flip(differences: Floats) -> Floats:
    """Exact two-sided p of the paired sign-flip test, for each row of an m × n array.

    If two entries are alike, each seed's difference might as well have the other sign: p is the
    share of the 2ⁿ sign patterns whose sum is at least as far from zero as the one observed. With
    n pairs no p is below 2 / 2ⁿ.
    """
    m, n = differences.shape
    if n == 0:
        return np.ones(m)
    p = np.empty(m)
    # Patterns double with each seed; rows are taken in chunks that stay in the cache. A pattern
    # and its opposite are equally far from zero, so the first sign may stay fixed.
    rows = max(1, 2**16 >> (n - 1))
    for start in range(0, m, rows):
        chunk = differences[start : start + rows]
        sums = chunk[:, :1]
        for seed in range(1, n):
            step = chunk[:, seed : seed + 1]
            sums = np.concatenate([sums + step, sums - step], axis=1)
        # Metrics are counts over the test set: sums that are equal in truth may differ in the
        # last bits, and must count as equal.
        slack = 1e-9 * np.abs(chunk).sum(axis=1)
        observed = np.abs(chunk.sum(axis=1)) - slack
        p[start : start + rows] = (np.abs(sums) >= observed[:, None]).mean(axis=1)
    return p


def paired_test(differences: Floats) -> tuple[str, Floats]:
    """Name of the paired test for n seeds and its two-sided p for each row of differences."""
    if differences.shape[1] <= EXACT_SEEDS:
        return "exact sign-flip", sign_flip(differences)
    # Without the last bits, equal counts over the test set are the tied ranks that they are.
    rounded = np.round(differences, 12)
    total, p = signed_ranks(rounded)
    # The ranks may lean one way and the mean the other: then there is nothing to claim.
    return "Wilcoxon signed-rank", np.where(total * rounded.sum(axis=1) > 0, p, 1.0)


def holm(p: Floats) -> Floats:
    """Holm's step-down correction: adjusted p for the whole family, in the order given."""
    m = len(p)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (m - np.arange(m)))
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def least_p(n: int) -> float:
    """The smallest two-sided p that n pairs can give: 2 / 2ⁿ."""
    return min(1.0, 2.0 ** (1 - n))


def seeds_needed(pairs: int, alpha: float = ALPHA) -> int:
    """Seeds from which on a claim is possible at all after Holm over that many pairs.

    The least p must pass the first and hardest step: 2 / 2ⁿ ≤ alpha / pairs.
    """
    return max(1, math.ceil(1 + math.log2(max(pairs, 1) / alpha)))


@lru_cache(maxsize=4096)
def detectable_difference(
    n: int, pairs: int = 1, alpha: float = ALPHA, power: float = 0.8
) -> float:
    """True difference, in SDs of the paired differences, that n seeds show with that power.

    The first step of Holm decides: p ≤ alpha / pairs. Up to 12 seeds the exact test has few
    steps, and the t approximation is too hopeful; so its power is found by trying (400 normal
    samples, always the same). Infinite where no result can pass.
    """
    level = alpha / max(pairs, 1)
    if n > EXACT_SEEDS:
        return (t_quantile(1 - level / 2, n - 1) + t_quantile(power, n - 1)) / math.sqrt(n)
    if least_p(n) > level:
        return math.inf
    noise = np.random.default_rng(0).normal(size=(400, n))
    low, high = 0.0, 4.0
    while high - low > 0.01:
        middle = (low + high) / 2
        enough = float(np.mean(sign_flip(noise + middle) <= level)) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def seeds_to_show(difference: float, sd: float, pairs: int = 1) -> int | None:
    """Seeds that show a true difference of that size with 80 % power; None beyond MOST_SEEDS."""
    if difference == 0:
        return None
    effect = abs(difference) / sd if sd else math.inf
    possible = range(seeds_needed(pairs), MOST_SEEDS + 1)
    place = bisect_left(possible, -effect, key=lambda n: -detectable_difference(n, pairs))
    return possible[place] if place < len(possible) else None
