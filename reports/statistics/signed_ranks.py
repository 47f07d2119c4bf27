"""Ranks, and Wilcoxon's signed-rank test, of many samples at once.

scipy.stats has both, but takes longer to import than ten thousand records take to read, and
chooses between the exact and the approximate test for all samples together.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

#: Differences without ties up to which the test is exact; 2⁵⁰ patterns are whole in a float.
EXACT = 50

Floats = npt.NDArray[np.float64]


def midranks(values: Floats) -> Floats:
    """Ranks along the last axis, the smallest 1; equal values share the mean of theirs."""
    order = np.argsort(values, axis=-1, kind="stable")
    ranks = np.empty(values.shape)
    first, last = _tied(np.take_along_axis(values, order, axis=-1))
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def signed_ranks(differences: Floats) -> tuple[Floats, Floats]:
    """For each row the sum of signed ranks and the two-sided p that it lies so far from zero.

    Zeros are left out, as Wilcoxon has it. Without ties p is exact up to 50 differences; else it
    is normal, corrected for ties and continuity. A row of zeros alone has the p of no evidence.
    """
    size = np.abs(differences)
    zeros = (size == 0).sum(axis=1)
    n = differences.shape[1] - zeros
    # Zeros rank first; without them all other ranks are so many lower.
    ranks = np.where(size == 0, 0.0, midranks(size) - zeros[:, None])
    total = (np.sign(differences) * ranks).sum(axis=1)
    first, last = _tied(np.sort(size, axis=1))
    together = last - first + 1
    ties = np.where(first >= zeros[:, None], together**2 - 1, 0).sum(axis=1)
    # Σ over groups of t³ − t is Σ over their members of t² − 1.
    variance = (n * (n + 1) * (2 * n + 1) - ties / 2) / 24
    # The sum of the positive ranks, less its mean.
    away = np.maximum(np.abs(total) / 2 - 0.5, 0.0)
    p = _two_sided(np.divide(away, np.sqrt(variance), out=np.zeros(len(n)), where=variance > 0))
    for row in np.flatnonzero((ties == 0) & (n <= EXACT)):
        least = (n[row] * (n[row] + 1) / 2 - abs(total[row])) / 2
        p[row] = min(1.0, 2 * _share_below(int(n[row]), round(least)))
    return total, p


def _tied(ordered: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the group of equal values that each one belongs to begins and ends."""
    places = np.broadcast_to(np.arange(ordered.shape[-1]), ordered.shape)
    new = np.ones(ordered.shape, dtype=bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    end = np.ones(ordered.shape, dtype=bool)
    end[..., :-1] = new[..., 1:]
    last = np.where(end, places, ordered.shape[-1])[..., ::-1]
    return first, np.minimum.accumulate(last, axis=-1)[..., ::-1]


def _two_sided(z: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-z), dtype=np.float64)


@lru_cache(maxsize=EXACT)
def _patterns(n: int) -> Floats:
    """How many sign patterns of the ranks 1 to n give each sum of the positive ones, added up."""
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    return np.cumsum(counts)


def _share_below(n: int, most: int) -> float:
    """The share of patterns whose positive ranks sum to that or less."""
    return float(_patterns(n)[most]) / math.ldexp(1.0, n)
