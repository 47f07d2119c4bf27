"""Step-down max-T over shared sign flips: p-values and intervals for a whole family of pairs.

After Westfall and Young 1993, and Romano and Wolf 2005. A family is an m × n array of differences:
a row for each pair of entries, a column for each block, which is a seed (or a seed on a data set),
NaN where a pair has no result. If two entries are alike, the differences of a block might as well
have the other sign. A block's sign is flipped for all pairs together, which keeps how the pairs
hang together; so the correction grows with what is independent in the family, not with its size,
and six blocks can carry a claim however many pairs there are.

What it assumes: the differences of all pairs that are truly equal are jointly symmetric about zero.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
AnyFloats = npt.NDArray[np.floating]

#: Blocks up to which every sign pattern is tried: 2¹³ of them, as opposite ones are equal.
ENUMERATED = 14
#: Random patterns beyond, and the observed one, which keeps the test exact; of so many pairs that
#: patterns × pairs would be more than _CELLS there are fewer, since a report is made in seconds.
DRAWN = 9_999
_CELLS = 10_000_000
_ROWS = 256  # pairs whose flipped statistics are held at a time


@lru_cache(maxsize=8)
def sign_patterns(blocks: int, drawn: int = DRAWN) -> AnyFloats:
    """Patterns × blocks of ±1, the observed one first: all of them, or random ones.

    Random ones are single precision, which halves the time of large reports.
    """
    if blocks <= ENUMERATED:
        # Opposite patterns have equal statistics, so the last sign may stay fixed.
        codes = np.arange(2 ** max(blocks - 1, 0))
        return 1.0 - 2.0 * ((codes[:, None] >> np.arange(blocks)) & 1)
    random = np.random.default_rng(0).integers(0, 2, size=(drawn, blocks)) * 2 - 1
    return np.vstack([np.ones(blocks), random]).astype(np.float32)


def _patterns_for(differences: Floats) -> AnyFloats:
    """The patterns for a family of that size."""
    pairs, blocks = differences.shape
    return sign_patterns(blocks, min(DRAWN, max(999, _CELLS // max(pairs, 1))))


def sign_flip(differences: Floats) -> Floats:
    """Two-sided p of each pair alone: the share of patterns as far from zero as the observed."""
    standard, observed = _studentised(differences)
    least = _least(observed, differences)
    p = np.ones(len(observed))
    for rows, flipped in _flipped(standard, np.arange(len(observed))):
        p[rows] = np.count_nonzero(flipped >= least[rows], axis=1) / flipped.shape[1]
    return p


def max_t(differences: Floats) -> Floats:
    """Two-sided p of each pair, corrected over all of them; a missing block is a zero difference.

    The statistic of a pair is |Σ d| / √Σ d², which ranks like |t|: without such a scale one
    restless entry would silence all others. The p of a pair is the share of patterns in which any
    pair that is no clearer than it has a statistic as large as its own (step-down: from the weakest
    pair up, and never smaller than the p of a clearer one).
    """
    standard, observed = _studentised(differences)
    least = _least(observed, differences)
    weakest_first = np.argsort(observed, kind="stable")
    p, largest = np.ones(len(observed)), None
    for rows, flipped in _flipped(standard, weakest_first):
        if largest is not None:
            flipped[0] = np.maximum(flipped[0], largest)
        np.maximum.accumulate(flipped, axis=0, out=flipped)
        p[rows] = np.count_nonzero(flipped >= least[rows], axis=1) / flipped.shape[1]
        largest = flipped[-1].copy()
    clearest_first = weakest_first[::-1]
    p[clearest_first] = np.maximum.accumulate(p[clearest_first])
    return p


def simultaneous_half_widths(differences: Floats, alpha: float) -> Floats:
    """Half of each pair's interval around its mean, all of which hold at once with 1 − alpha.

    By the same flips, of the differences less their means: with c the value that the largest
    statistic of all pairs exceeds in a share alpha of the patterns, an interval holds each shift δ
    with |Σ (d − δ)| / √Σ (d − δ)² ≤ c. Infinite where so few blocks can't bound it.
    """
    n = np.count_nonzero(~np.isnan(differences), axis=1)
    means = np.nansum(differences, axis=1) / np.maximum(n, 1)
    residuals = differences - means[:, None]
    squares = np.nansum(residuals**2, axis=1)
    signs = _patterns_for(differences)
    # The observed pattern always counts among those that may exceed it.
    exceeding = int(alpha * len(signs) + 1e-9) - 1
    if exceeding < 0:
        return np.full(len(n), np.inf)
    largest = np.zeros(len(signs), signs.dtype)
    for _, flipped in _flipped(_studentised(residuals)[0], np.arange(len(n))):
        np.maximum(largest, flipped.max(axis=0), out=largest)
    critical = float(np.sort(largest[1:])[::-1][exceeding]) ** 2
    room = n * (n - critical)
    halves = np.divide(critical * squares, room, out=np.full(len(n), np.inf), where=room > 1e-9)
    return np.asarray(np.sqrt(halves))


def _studentised(differences: Floats) -> tuple[Floats, Floats]:
    """The rows over the root of their sum of squares, and the statistic of each."""
    known = np.nan_to_num(differences)
    scale = np.sqrt((known**2).sum(axis=1))
    standard = known / np.where(scale > 0, scale, np.inf)[:, None]
    return standard, np.abs(standard.sum(axis=1))


def _least(observed: Floats, differences: Floats) -> Floats:
    """From which statistic on a pattern counts as far from zero, as a column.

    Metrics are counts over the test set: what is equal in truth differs in its last bits.
    """
    slack = 1e-9 if differences.shape[1] <= ENUMERATED else 1e-5
    return np.asarray((observed - slack)[:, None])


def _flipped(
    standard: Floats, order: npt.NDArray[np.intp]
) -> Iterator[tuple[npt.NDArray[np.intp], AnyFloats]]:
    """The statistic of every pattern, of some rows at a time: the rows, and rows × patterns."""
    signs = _patterns_for(standard)
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        flipped = standard[rows].astype(signs.dtype) @ signs.T
        yield rows, np.abs(flipped, out=flipped)
